"""A commit after which chunks are somewhere else, and nothing else has changed.

Manifests are written anew one by one: they keep their extents, and those that nothing moved in are
kept. The transaction log is empty, so that others rebase over the commit without a conflict. If
somebody else commits first, the new places are applied to what they left: a chunk that they wrote
is in another object, which did not move, and stays as they wrote it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from frazil.assets.files import Files
from frazil.errors import NodeNotFoundError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_index import ChunkSet
from frazil.format.nodes import ArrayData, ManifestRef, Node
from frazil.format.snapshot import ManifestFile, Snapshot
from frazil.ids import ManifestId, SnapshotId
from frazil.maintenance.chunk_parts import Relocation
from frazil.maintenance.quiet_files import quietened
from frazil.maintenance.waves import waves
from frazil.paths import ROOT, NodePath
from frazil.repo.attached_manifests import AttachedManifest
from frazil.repo.changes import ChangeSet
from frazil.repo.commit_metadata import UPON, with_notes
from frazil.repo.rebase import Rebasing, commit_rebasing
from frazil.repo.repository import Repository
from frazil.repo.solver import Policy

REFS_AT_ONCE = 300_000  # in memory

type NewManifests = Mapping[ManifestId, ManifestFile | None]
"""By old manifest the one in its place; None if nothing moved in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelocationRequest:
    branch: str
    paths: tuple[NodePath, ...]  # of the arrays, or of groups above them
    message: str
    metadata: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Relocated:
    snapshot: SnapshotId
    manifests: int  # written anew


def chosen_arrays(
    snapshot: Snapshot, paths: Sequence[NodePath]
) -> Iterator[tuple[Node, ArrayData]]:
    """Arrays with manifests at or below the paths, each once, by path.

    Raises NodeNotFoundError for a path that nothing is at or below.
    """
    rows = set[int]()
    for path in paths:
        found = snapshot.nodes.under(path)
        if not found and path != ROOT:
            raise NodeNotFoundError(f"node not found at `{path}`")
        rows.update(found)
    for row in sorted(rows):
        node = snapshot.nodes.node(row)
        if node.array is not None and node.array.manifests:
            yield node, node.array


def relocate(
    repository: Repository,
    request: RelocationRequest,
    moved: Relocation,
    known: NewManifests,
) -> Relocated | None:
    """Commits, as often as it takes; None if nothing that moved is there any more.

    `known` are manifests that were looked at before, or written by others.
    """
    done = dict(known)
    files = quietened(repository.files)
    found: list[Relocated] = []

    def attempt(number: int) -> SnapshotId:
        del number
        session = repository.writable_session(request.branch)
        arrays = list(_still_there(session.base, request.paths))
        wanted = dict.fromkeys(ref.id for _, array in arrays for ref in array.manifests)
        done.update(
            write_manifests(
                files, moved, session.base, [each for each in wanted if each not in done]
            )
        )
        used = {each for each in wanted if done[each] is not None}
        if not used:
            return session.snapshot_id
        session.revise(lambda changes: _with_manifests(changes, arrays, done))
        metadata = with_notes(request.metadata, {UPON: str(session.snapshot_id)})
        snapshot = session.commit(request.message, metadata)
        found.append(Relocated(snapshot, len(used)))
        return snapshot

    commit_rebasing(attempt, lambda _: None, Rebasing(Policy()))
    return found[0] if found else None


def write_manifests(
    files: Files, moved: Relocation, snapshot: Snapshot, wanted: Sequence[ManifestId]
) -> dict[ManifestId, ManifestFile | None]:
    """Those in which something moved, with references to the new places."""
    num_refs = {file.id: file.num_refs for file in snapshot.manifest_files}

    def store(old: ManifestId) -> ManifestFile | None:
        new = moved.apply_to(files.fetch_manifest(old))
        return None if new is None else files.put_manifest(new)

    done: dict[ManifestId, ManifestFile | None] = {}
    for rows in waves([num_refs.get(each, 0) for each in wanted], REFS_AT_ONCE):
        wave = wanted[rows]
        done.update(zip(wave, files.pool.map(store, wave), strict=True))
    return done


def _still_there(snapshot: Snapshot, paths: Sequence[NodePath]) -> Iterator[tuple[Node, ArrayData]]:
    """As `chosen_arrays`; what somebody deleted meanwhile is not missed."""
    left = [path for path in paths if path == ROOT or snapshot.nodes.under(path)]
    return chosen_arrays(snapshot, left)


def _with_manifests(
    changes: ChangeSet, arrays: Sequence[tuple[Node, ArrayData]], done: NewManifests
) -> ChangeSet:
    for node, array in arrays:
        refs, attached = list[ManifestRef](), list[AttachedManifest]()
        nothing = ChunkSet.of(np.zeros((0, len(array.shape)), dtype=np.uint32))
        for ref in array.manifests:
            file = done[ref.id]
            refs.append(ref if file is None else replace(ref, id=file.id))
            if file is not None:
                attached.append(AttachedManifest(file, ref.extents, nothing))
        if attached:
            new = replace(node, array=replace(array, manifests=tuple(refs)))
            changes.edited[node.path.text] = new
            changes.attached[node.id] = tuple(attached)
    return changes
