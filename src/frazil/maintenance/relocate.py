"""A commit after which chunks are in other objects, and nothing else has changed.

Manifests are rewritten one by one: they keep their extents, and those in which nothing moved are
kept. The transaction log is empty, so that others rebase over the commit without a conflict. If
another writer commits first, the new places are applied to what it left: a chunk that it wrote is
in another object, which did not move, and stays as it is.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.engine.changes.attached_manifests import AttachedManifest
from frazil.engine.changes.change_set import ChangeSet
from frazil.engine.files.files import Files
from frazil.engine.merge.rebase import Rebasing, commit_rebasing
from frazil.engine.merge.solver import Policy
from frazil.engine.refs.commit_metadata import UPON, with_notes
from frazil.engine.refs.waiting import waiting_for
from frazil.engine.repository import Repository
from frazil.errors import NodeNotFoundError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_index import ChunkSet
from frazil.format.chunk_refs import ChunkRefs, RefKind
from frazil.format.manifest import Manifest
from frazil.format.nodes import ArrayData, ManifestRef, Node
from frazil.format.snapshot import ManifestFile, Snapshot
from frazil.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.maintenance.executor import Executor, wave_spans, waves
from frazil.maintenance.id_sets import id_halves
from frazil.paths import ROOT, NodePath

# Parts of chunk objects as columns: an object, where the part begins in it, how long it is.
#
# Two references to one part are always to the same bytes: objects never change. So a part can be
# stored in another object, and every reference to it be changed.

type Ids = npt.NDArray[np.uint8]  # (n, 12)
type Ints = npt.NDArray[np.int64]
type Numbers = npt.NDArray[np.uint64]
type Column = npt.NDArray[np.unsignedinteger[Any]]

# Odd, and with bits all over: what differs in one column then differs in the sum, nearly always.
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)


def id_keys(ids: Ids) -> npt.NDArray[Any]:
    """Ids as byte strings that can be compared."""
    return np.ascontiguousarray(ids).view(f"S{ids.shape[1]}").reshape(-1)


def group_rows(columns: Sequence[Column]) -> tuple[Ints, Ints]:
    """The first row of each group of equal rows, and the group of each row."""
    numbers = _hash_rows(columns)
    order = np.argsort(numbers, kind="stable").astype(np.int64)
    ordered = numbers[order]
    again = np.flatnonzero(ordered[1:] == ordered[:-1])
    one, two = order[again], order[again + 1]
    if any((column[one] != column[two]).any() for column in columns):
        order = np.lexsort(columns).astype(np.int64)  # rows that differ have one number
        new = np.zeros(len(order), dtype=np.bool_)
        for column in columns:
            new[1:] |= column[order[1:]] != column[order[:-1]]
    else:
        new = np.ones(len(order), dtype=np.bool_)
        new[again + 1] = False
    new[:1] = True
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(new) - 1
    return order[new], group


def _hash_rows(columns: Sequence[Column]) -> Numbers:
    """One number for each row: equal for equal rows, and hardly ever for others."""
    numbers = np.zeros(len(columns[0]), dtype=np.uint64)
    for column, factor in zip(columns, _FACTORS, strict=False):
        numbers ^= numbers >> np.uint64(29)
        numbers += column.astype(np.uint64, copy=False) * np.uint64(factor)
    return numbers


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Row i of each column is one part."""

    chunk_id: Ids
    offset: npt.NDArray[np.uint64]
    length: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.length)

    @property
    def bytes(self) -> int:
        return int(self.length.sum())

    @property
    def columns(self) -> tuple[Column, ...]:
        """Numbers that make a part what it is; the first two those of the object."""
        return (*id_halves(self.chunk_id), self.offset, self.length)

    def distinct(self) -> "Parts":
        """Each once, by object and place in it."""
        rows, _ = group_rows(self.columns)
        found = self.take(rows)
        high, low, offset, length = found.columns
        return found.take(np.lexsort((length, offset, low, high)).astype(np.int64))

    def take(self, rows: Ints | slice) -> "Parts":
        return Parts(self.chunk_id[rows], self.offset[rows], self.length[rows])

    @classmethod
    def concat(cls, parts: list["Parts"]) -> "Parts":
        return cls(
            np.concatenate([np.zeros((0, 12), dtype=np.uint8), *(p.chunk_id for p in parts)]),
            np.concatenate([np.zeros(0, dtype=np.uint64), *(p.offset for p in parts)]),
            np.concatenate([np.zeros(0, dtype=np.uint64), *(p.length for p in parts)]),
        )

    @classmethod
    def native(cls, refs: ChunkRefs) -> "Parts":
        """Parts that native references name, in their order."""
        rows = np.flatnonzero(refs.kind == RefKind.NATIVE)
        return cls(refs.chunk_id[rows], refs.offset[rows], refs.length[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Relocation:
    """New places of parts; their lengths stay."""

    numbers: Numbers  # of the parts, ascending
    old: Parts
    chunk_id: Ids
    offset: Numbers

    @classmethod
    def of(cls, old: Parts, chunk_id: Ids, offset: Numbers) -> "Relocation":
        """Row i of the old parts, which are distinct, is at row i of the new places."""
        numbers = _hash_rows(old.columns)
        order = np.argsort(numbers, kind="stable").astype(np.int64)
        return cls(numbers[order], old.take(order), chunk_id[order], offset[order])

    @classmethod
    def concat(cls, parts: Iterable["Relocation"]) -> "Relocation":
        """Relocations of parts that may be in several of them."""
        every = list(parts)
        old = Parts.concat([each.old for each in every])
        rows, _ = group_rows(old.columns)
        nothing = np.zeros((0, 12), np.uint8)
        chunk_id = np.concatenate([nothing, *(each.chunk_id for each in every)])
        offset = np.concatenate([np.zeros(0, np.uint64), *(each.offset for each in every)])
        return cls.of(old.take(rows), chunk_id[rows], offset[rows])

    def __len__(self) -> int:
        return len(self.numbers)

    def only(self, parts: Parts) -> "Relocation":
        """The new places of these parts, as far as they have any."""
        found = np.unique(self.rows_of(parts))
        rows = found[found >= 0]
        return Relocation(
            self.numbers[rows], self.old.take(rows), self.chunk_id[rows], self.offset[rows]
        )

    def rows_of(self, parts: Parts) -> Ints:
        """Row of each, -1 where it stays where it is."""
        found = np.full(len(parts), -1, dtype=np.int64)
        if not len(self):
            return found
        columns, mine = parts.columns, self.old.columns
        numbers = _hash_rows(columns)
        rows = np.searchsorted(self.numbers, numbers).astype(np.int64)
        left = np.arange(len(parts), dtype=np.int64)
        while True:  # once, but for parts that differ and have one number
            inside = rows < len(self)
            left, rows = left[inside], rows[inside]
            alike = self.numbers[rows] == numbers[left]
            left, rows = left[alike], rows[alike]
            if not len(left):
                return found
            same = np.ones(len(left), dtype=np.bool_)
            for column, own in zip(columns, mine, strict=True):
                same &= column[left] == own[rows]
            found[left[same]] = rows[same]
            left, rows = left[~same], rows[~same] + 1

    def apply(self, refs: ChunkRefs) -> ChunkRefs | None:
        """The same chunks by references to where they are now; None if none of them moved."""
        native = np.flatnonzero(refs.kind == RefKind.NATIVE)
        found = self.rows_of(Parts.native(refs))
        moved, rows = native[found >= 0], found[found >= 0]
        if not len(moved):
            return None
        chunk_id, offset = refs.chunk_id.copy(), refs.offset.copy()
        chunk_id[moved], offset[moved] = self.chunk_id[rows], self.offset[rows]
        return replace(refs, chunk_id=chunk_id, offset=offset)

    def apply_to(self, manifest: Manifest) -> Manifest | None:
        """A new manifest, of all its arrays; None if nothing in it moved."""
        changed = {
            node: new
            for node, refs in manifest.arrays.items()
            if (new := self.apply(refs)) is not None
        }
        if not changed:
            return None
        return Manifest(id=ManifestId.random(), arrays={**manifest.arrays, **changed})


def random_ids(count: int) -> Ids:
    """Names for so many new objects."""
    raw = secrets.token_bytes(count * ChunkId.size)
    return np.frombuffer(raw, dtype=np.uint8).reshape(count, ChunkId.size)


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


def select_arrays(
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


type WriteManifests = Callable[[Snapshot, Sequence[ManifestId]], NewManifests]
"""Rewrites manifests of a snapshot in which something moved, with references to the new places."""


def relocate(
    repository: Repository,
    request: RelocationRequest,
    write: WriteManifests,
    untouched: Iterable[ManifestId],
) -> Relocated | None:
    """Commits, as often as it takes; None if nothing that moved is there any more.

    `untouched` are manifests that refer to nothing that moved.
    """
    done: dict[ManifestId, ManifestFile | None] = dict.fromkeys(untouched)

    def attempt(number: int) -> Relocated | None:
        del number
        session = repository.writable_session(request.branch)
        arrays = list(_existing_arrays(session.base, request.paths))
        wanted = dict.fromkeys(ref.id for _, array in arrays for ref in array.manifests)
        new = [each for each in wanted if each not in done]
        done.update(write(session.base, new))
        used = {each for each in wanted if done[each] is not None}
        if not used:
            return None
        session.revise(lambda changes: _with_manifests(changes, arrays, done))
        metadata = with_notes(request.metadata, {UPON: str(session.snapshot_id)})
        return Relocated(session.commit(request.message, metadata), len(used))

    waiting = waiting_for(repository.files)
    return commit_rebasing(attempt, lambda _: None, Rebasing(Policy()), waiting)


def write_moved(
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


def _existing_arrays(
    snapshot: Snapshot, paths: Sequence[NodePath]
) -> Iterator[tuple[Node, ArrayData]]:
    """Chosen arrays, without paths that were deleted since."""
    left = [path for path in paths if path == ROOT or snapshot.nodes.under(path)]
    return select_arrays(snapshot, left)


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


# Scans the parts of chunk objects that arrays of a snapshot refer to, in the order of arrays.
#
# Within an array the order is that of its manifests, and in these that of the chunks' indices:
# neighbours in the grid are neighbours in the scan.


@dataclass(frozen=True, slots=True, eq=False)
class PartScan:
    """One row for each native reference."""

    parts: Parts
    array: Ints  # its number in the scan
    manifest: Ints  # row of `manifests`
    manifests: tuple[ManifestId, ...]  # that were read, each once

    def take(self, rows: Ints) -> "PartScan":
        return PartScan(
            self.parts.take(rows), self.array[rows], self.manifest[rows], self.manifests
        )

    def manifests_with(self, rows: npt.NDArray[np.bool_]) -> set[ManifestId]:
        """Manifests that have one of the rows."""
        return {self.manifests[at] for at in np.unique(self.manifest[rows]).tolist()}

    def by_manifest(self) -> Iterator[tuple[ManifestId, Parts]]:
        """Parts that each manifest refers to."""
        order = np.argsort(self.manifest, kind="stable").astype(np.int64)
        edges = np.searchsorted(self.manifest[order], np.arange(len(self.manifests) + 1)).tolist()
        for at, manifest in enumerate(self.manifests):
            yield manifest, self.parts.take(order[edges[at] : edges[at + 1]])


def scan_parts(
    executor: Executor,
    snapshot: Snapshot,
    paths: Sequence[NodePath],
    *,
    longest: int | None = None,
) -> PartScan:
    """Reads manifests. With `longest`, whole objects that are longer are left out."""
    refs: list[ArrayManifest] = [
        (number, node.id, ref.id)
        for number, (node, array) in enumerate(select_arrays(snapshot, paths))
        for ref in array.manifests
    ]
    manifests = tuple(dict.fromkeys(manifest for _, _, manifest in refs))
    row_of = {manifest: row for row, manifest in enumerate(manifests)}
    num_refs = {file.id: file.num_refs for file in snapshot.manifest_files}
    counts = np.array([num_refs.get(each, 0) for _, _, each in refs], dtype=np.int64)
    scan, spans = ScanManifests(tuple(refs), counts, longest), wave_spans(counts, REFS_AT_ONCE)
    results = list(executor.run(scan, len(refs), "reading manifests", spans=spans))
    place = np.concatenate([np.zeros(0, dtype=np.int64), *(each.place for each in results)])
    array = np.array([number for number, _, _ in refs], dtype=np.int64)
    manifest = np.array([row_of[each] for _, _, each in refs], dtype=np.int64)
    parts = Parts.concat([each.parts for each in results])
    return PartScan(parts, array[place], manifest[place], manifests)


type ArrayManifest = tuple[int, NodeId, ManifestId]
"""A manifest of an array, with the number of the array in the scan."""


@dataclass(frozen=True, slots=True, eq=False)
class ScannedParts:
    parts: Parts
    place: Ints  # row of the manifest that refers to each


@dataclass(frozen=True, slots=True, eq=False)
class ScanManifests:
    """Parts that manifests of arrays refer to; as many are in memory as may be."""

    refs: tuple[ArrayManifest, ...]
    num_refs: Ints
    longest: int | None

    def __call__(self, files: Files, rows: range) -> ScannedParts:
        parts, places = list[Parts](), [np.zeros(0, dtype=np.int64)]
        for wave in waves(self.num_refs[rows.start : rows.stop], REFS_AT_ONCE):
            chosen = self.refs[rows.start + wave.start : rows.start + wave.stop]
            some = list(dict.fromkeys(manifest for _, _, manifest in chosen))
            loaded = dict(zip(some, files.pool.map(files.fetch_manifest, some), strict=True))
            for at, (_, node_id, manifest) in enumerate(chosen, rows.start + wave.start):
                refs = loaded[manifest].arrays.get(node_id)
                if refs is not None:
                    parts.append(self._select(Parts.native(refs)))
                    places.append(np.full(len(parts[-1]), at, dtype=np.int64))
        return ScannedParts(Parts.concat(parts), np.concatenate(places))

    def _select(self, parts: Parts) -> Parts:
        if self.longest is None:
            return parts
        return parts.take(np.flatnonzero((parts.length <= self.longest) | (parts.offset > 0)))
