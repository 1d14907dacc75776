"""Chunks taken out of packs again, each into an object of its own.

For stores and tools that want one object a chunk. The packs stay until no snapshot needs them any
more and garbage is collected. What is a pack shows in the references: some lead into its middle.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from frazil.assets.files import Files
from frazil.assets.layout import chunk_key
from frazil.ids import ChunkId, ManifestId, SnapshotId
from frazil.maintenance.chunk_parts import Ids, Parts, Relocation, random_ids
from frazil.maintenance.id_sets import IdSet
from frazil.maintenance.pack import BYTES_AT_ONCE
from frazil.maintenance.part_scan import scan_parts
from frazil.maintenance.progress import Progress
from frazil.maintenance.quiet_files import quiet_files, require_current
from frazil.maintenance.relocate import NewManifests, RelocationRequest, relocate
from frazil.maintenance.waves import waves
from frazil.paths import ROOT, NodePath
from frazil.repo.commit_metadata import require_json, with_notes
from frazil.repo.repository import Repository


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnpackPlan:
    branch: str
    snapshot: SnapshotId
    paths: tuple[NodePath, ...]
    chunks: Parts  # by pack, and where they are in it
    packs: int
    references: int
    untouched: frozenset[ManifestId]  # manifests that refer to none of them
    manifests: tuple[ManifestId, ...]  # those that do

    @property
    def bytes(self) -> int:
        return self.chunks.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackResult:
    """`snapshot` is None if there was nothing to do."""

    snapshot: SnapshotId | None
    chunks: int
    packs: int
    bytes: int
    references: int
    manifests: int


def plan_unpack(
    repository: Repository, branch: str, paths: Sequence[NodePath] = (ROOT,)
) -> UnpackPlan:
    """Reads the manifests of the arrays chosen."""
    require_current(repository)
    session = repository.writable_session(branch)  # raises if nothing may be written
    scan = scan_parts(quiet_files(repository), session.base, paths)
    packs = IdSet.of(scan.parts.chunk_id[scan.parts.offset > 0])
    chosen = packs.contains(scan.parts.chunk_id) & (scan.parts.length > 0)
    parts = scan.parts.take(np.flatnonzero(chosen))
    touched = scan.manifests_with(chosen)
    return UnpackPlan(
        branch=branch,
        snapshot=session.snapshot_id,
        paths=tuple(paths),
        chunks=parts.distinct(),
        packs=len(packs),
        references=len(parts),
        untouched=frozenset(scan.manifests) - touched,
        manifests=tuple(each for each in scan.manifests if each in touched),
    )


def unpack(
    repository: Repository,
    plan: UnpackPlan,
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    *,
    progress: Progress | None = None,
) -> UnpackResult:
    """Commits on top of whatever the branch's tip is by then."""
    files = quiet_files(repository)
    names = random_ids(len(plan.chunks))
    for rows in waves(plan.chunks.length, BYTES_AT_ONCE):
        write_chunks(files, plan.chunks.take(rows), names[rows])
        if progress is not None:
            progress("unpacking chunks", rows.stop, len(plan.chunks))
    repository.store.sync()
    return commit_unpacked(repository, plan, names, message, metadata)


def write_chunks(files: Files, chunks: Parts, names: Ids) -> None:
    """All of them at once, under these names; on an executor call the store's `sync` then."""
    data = files.chunks.fetch_many(chunks.chunk_id, chunks.offset, chunks.length)

    def put(row: int) -> None:
        files.store.put(chunk_key(ChunkId(names[row].tobytes())), data[row])

    files.pool.map(put, range(len(names)))


def commit_unpacked(
    repository: Repository,
    plan: UnpackPlan,
    names: Ids,
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    *,
    written: NewManifests | None = None,
) -> UnpackResult:
    """One snapshot with references to objects of these names; nothing if there are none.

    `written` are manifests of the plan that others have written with `alone`.
    """
    done = None
    if len(plan.chunks):
        request = RelocationRequest(
            branch=plan.branch,
            paths=plan.paths,
            message=message or f"Unpack {len(plan.chunks)} chunks of {plan.packs} objects",
            metadata=with_notes(require_json(metadata or {}), {"unpacked": len(plan.chunks)}),
        )
        known = dict.fromkeys(plan.untouched) | dict(written or {})
        done = relocate(repository, request, alone(plan, names), known)
    return UnpackResult(
        snapshot=None if done is None else done.snapshot,
        chunks=len(plan.chunks),
        packs=plan.packs,
        bytes=plan.bytes,
        references=plan.references,
        manifests=0 if done is None else done.manifests,
    )


def alone(plan: UnpackPlan, names: Ids) -> Relocation:
    """Where the chunks are, each at the beginning of an object of its own."""
    return Relocation.of(plan.chunks, names, np.zeros(len(names), dtype=np.uint64))
