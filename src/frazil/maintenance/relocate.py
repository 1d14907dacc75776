"""A commit after which chunks are in other objects, and nothing else has changed.

Manifests are rewritten one by one: they keep their extents, and those in which nothing moved are
kept. The transaction log is empty, so that others rebase over the commit without a conflict. If
another writer commits first, the new places are applied to what it left: a chunk that it wrote is
in another object, which did not move, and stays as it is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from frazil.assets.files import Files
from frazil.errors import NodeNotFoundError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_index import ChunkSet
from frazil.format.nodes import ArrayData, ManifestRef, Node
from frazil.format.snapshot import ManifestFile, Snapshot
from frazil.ids import ManifestId, SnapshotId
from frazil.maintenance.chunk_parts import Relocation
from frazil.maintenance.executor import Executor
from frazil.maintenance.waves import wave_spans, waves
from frazil.paths import ROOT, NodePath
from frazil.repo.attached_manifests import AttachedManifest
from frazil.repo.changes import ChangeSet
from frazil.repo.commit_metadata import UPON, with_notes
from frazil.repo.rebase import Rebasing, commit_rebasing
from frazil.repo.repository import Repository
from frazil.repo.solver import Policy

REFS_AT_ONCE = 300_000  # in memory

type NewManifests = Mapping[ManifestId, ManifestFile | None]
"""New manifests by old ones; None if nothing moved in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelocationRequest:
    branch: str
    paths: tuple[NodePath, ...]  # of the arrays, or of groups above them
    message: str
    metadata: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Relocated:
    snapshot: SnapshotId
    manifests: int  # rewritten


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
    untouched: Iterable[ManifestId],
    executor: Executor,
) -> Relocated | None:
    """Commits, as often as it takes; None if nothing that moved is there any more.

    `untouched` are manifests that refer to nothing that moved.
    """
    done: dict[ManifestId, ManifestFile | None] = dict.fromkeys(untouched)
    found: list[Relocated] = []

    def attempt(number: int) -> SnapshotId:
        del number
        session = repository.writable_session(request.branch)
        arrays = list(_still_there(session.base, request.paths))
        wanted = dict.fromkeys(ref.id for _, array in arrays for ref in array.manifests)
        new = [each for each in wanted if each not in done]
        done.update(_write_manifests(executor, moved, session.base, new))
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


def _write_manifests(
    executor: Executor, moved: Relocation, snapshot: Snapshot, wanted: Sequence[ManifestId]
) -> NewManifests:
    """Rewrites manifests in which something moved, with references to the new places."""
    num_refs = {file.id: file.num_refs for file in snapshot.manifest_files}
    counts = np.array([num_refs.get(each, 0) for each in wanted], dtype=np.int64)
    write, spans = WriteMoved(tuple(wanted), counts, moved), wave_spans(counts, REFS_AT_ONCE)
    results = executor.run(write, len(wanted), "writing manifests", spans=spans)
    return dict(zip(wanted, (file for some in results for file in some), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class WriteMoved:
    """Writes manifests with references to the new places; None where nothing moved."""

    manifests: tuple[ManifestId, ...]
    num_refs: npt.NDArray[np.int64]
    moved: Relocation

    def __call__(self, files: Files, rows: range) -> list[ManifestFile | None]:
        def store(old: ManifestId) -> ManifestFile | None:
            new = self.moved.apply_to(files.fetch_manifest(old))
            return None if new is None else files.put_manifest(new)

        some, written = self.manifests[rows.start : rows.stop], list[ManifestFile | None]()
        for wave in waves(self.num_refs[rows.start : rows.stop], REFS_AT_ONCE):
            written += files.pool.map(store, some[wave])
        files.store.sync()
        return written


def _still_there(snapshot: Snapshot, paths: Sequence[NodePath]) -> Iterator[tuple[Node, ArrayData]]:
    """Chosen arrays, without paths that were deleted since."""
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
