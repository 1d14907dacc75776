"""Unpacks chunks: each gets an object of its own again.

For stores and tools that want one object a chunk. The packs stay until no snapshot needs them any
more and garbage is collected. An object is a pack if references have an offset in it.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from frazil.assets.files import Files
from frazil.assets.layout import chunk_key
from frazil.ids import ChunkId, ManifestId, SnapshotId
from frazil.maintenance.chunk_parts import Ids, Parts, Relocation, random_ids
from frazil.maintenance.executor import Executor, ThreadExecutor
from frazil.maintenance.id_sets import IdSet
from frazil.maintenance.pack import BYTES_AT_ONCE, PackResult
from frazil.maintenance.part_scan import scan_parts
from frazil.maintenance.quiet_files import quiet_files, require_current
from frazil.maintenance.relocate import Relocated, RelocationRequest, relocate
from frazil.maintenance.waves import wave_spans, waves
from frazil.paths import ROOT, NodePath
from frazil.repo.commit_metadata import require_json, with_notes
from frazil.repo.repository import Repository


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnpackPlan:
    branch: str
    snapshot: SnapshotId
    paths: tuple[NodePath, ...]
    chunks: Parts  # by pack, and place in it
    names: Ids  # of the new objects; drawn here, so that tasks may run twice
    packs: int
    references: int
    untouched: frozenset[ManifestId]  # manifests that refer to none of them

    @property
    def bytes(self) -> int:
        return self.chunks.bytes

    def relocation(self) -> Relocation:
        """Places of the chunks, each at the beginning of an object of its own."""
        starts = np.zeros(len(self.names), dtype=np.uint64)
        return Relocation.of(self.chunks, self.names, starts)

    def result(self, done: Relocated | None = None) -> PackResult:
        return PackResult(
            snapshot=None if done is None else str(done.snapshot),
            chunks=len(self.chunks),
            packs=self.packs,
            bytes=self.bytes,
            references=self.references,
            manifests=0 if done is None else done.manifests,
        )


def plan_unpack(
    repository: Repository,
    branch: str,
    paths: Sequence[NodePath] = (ROOT,),
    executor: Executor | None = None,
) -> UnpackPlan:
    """Reads the manifests of the arrays chosen."""
    require_current(repository)
    session = repository.writable_session(branch)  # raises if nothing may be written
    executor = executor or ThreadExecutor(quiet_files(repository))
    scan = scan_parts(executor, session.base, paths)
    packs = IdSet.of(scan.parts.chunk_id[scan.parts.offset > 0])
    chosen = packs.contains(scan.parts.chunk_id) & (scan.parts.length > 0)
    parts = scan.parts.take(np.flatnonzero(chosen))
    chunks = parts.distinct()
    return UnpackPlan(
        branch=branch,
        snapshot=session.snapshot_id,
        paths=tuple(paths),
        chunks=chunks,
        names=random_ids(len(chunks)),
        packs=len(packs),
        references=len(parts),
        untouched=frozenset(scan.manifests) - scan.manifests_with(chosen),
    )


def unpack(
    repository: Repository,
    plan: UnpackPlan,
    message: str | None = None,
    executor: Executor | None = None,
    *,
    metadata: Mapping[str, Any] | None = None,
) -> PackResult:
    """Commits on top of the branch's tip at that time; nothing if there are no packs."""
    if not len(plan.chunks):
        return plan.result()
    executor = executor or ThreadExecutor(quiet_files(repository))
    write, sizes = WriteChunks(plan.chunks, plan.names), plan.chunks.length
    spans = wave_spans(sizes, BYTES_AT_ONCE)
    results = executor.run(write, len(sizes), "unpacking chunks", spans=spans, sizes=sizes)
    deque(results, maxlen=0)
    request = RelocationRequest(
        branch=plan.branch,
        paths=plan.paths,
        message=message or f"Unpack {len(plan.chunks)} chunks of {plan.packs} objects",
        metadata=with_notes(require_json(metadata or {}), {"unpacked": len(plan.chunks)}),
    )
    return plan.result(relocate(repository, request, plan.relocation(), plan.untouched, executor))


@dataclass(frozen=True, slots=True, eq=False)
class WriteChunks:
    """Reads packs and writes chunks, as many at a time as fit into memory."""

    chunks: Parts
    names: Ids

    def __call__(self, files: Files, rows: range) -> None:
        chunks = self.chunks.take(slice(rows.start, rows.stop))
        names = self.names[rows.start : rows.stop]
        for wave in waves(chunks.length, BYTES_AT_ONCE):
            _write_chunks(files, chunks.take(wave), names[wave])
        files.store.sync()


def _write_chunks(files: Files, chunks: Parts, names: Ids) -> None:
    data = files.chunks.fetch_many(chunks.chunk_id, chunks.offset, chunks.length)

    def put(row: int) -> None:
        files.store.put(chunk_key(ChunkId(names[row].tobytes())), data[row])

    files.pool.map(put, range(len(names)))
