"""Storage statistics: bytes by kind, and by branch, tag and array.

native     bytes of chunk objects that references cover; a byte covered by many counts once
virtual    the same in objects outside the repository
inline     bytes of chunks inside manifests, once for each manifest
exclusive  bytes that would be freed, or no longer needed, if one ref, or one array, were gone

Snapshots are read first, for the manifests of each ref (`plan_stats`), then manifests. Both are
tasks of an executor, which return keys and sizes of what was counted, each once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from frazil.engine.files.files import Files
from frazil.engine.repository import Repository
from frazil.errors import ObjectNotFoundError
from frazil.format.chunk_refs import RefKind
from frazil.format.nodes import raw_ids
from frazil.format.projections import StorageRefs, decode_storage_refs
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import ManifestFiles
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.maintenance.executor import Executor, Progress, split_rows
from frazil.maintenance.id_sets import DistinctSum, Ids, Keys, id_halves
from frazil.maintenance.reachable import (
    Budget,
    decoder_pool,
    ids_of_rows,
    manifests_by_snapshot,
    manifests_of,
    merge_manifest_files,
    prefetch_spans,
    reachable_rows,
    read_together,
    root_rows,
)
from frazil.maintenance.summaries import ChunkStorageStats, OwnerStats, StorageStats
from frazil.objectstore.pool import Pool

# Bytes counted once, however many references cover them, and their owners.
#
# Each row is a piece of storage: a key, its size, and its owners: two sets, of refs and of arrays.
# Few different sets occur, so a row holds the number of its set. Keys have 64 bits:
#
# native    the object and the offset in it: many references into a pack are many pieces
# virtual   location, offset and length
# inline    the manifest and the array in it

type Codes = npt.NDArray[np.int32]
type Sizes = npt.NDArray[np.uint64]

_PENDING = 1 << 18


class OwnerSets:
    """Sets of numbers, numbered."""

    def __init__(self, sets: Iterable[frozenset[int]] = ()) -> None:
        self.sets: list[frozenset[int]] = []
        self._codes: dict[frozenset[int], int] = {}
        for each in sets:
            self.code(each)

    def code(self, owners: frozenset[int]) -> int:
        found = self._codes.setdefault(owners, len(self.sets))
        if found == len(self.sets):
            self.sets.append(owners)
        return found

    def union(self, left: Codes, right: Codes) -> Codes:
        """The set that each pair of sets has together."""
        pairs, place = np.unique(
            left.astype(np.int64) << 32 | right.astype(np.int64), return_inverse=True
        )
        codes = [
            self.code(self.sets[pair >> 32] | self.sets[pair & 0xFFFFFFFF])
            for pair in pairs.tolist()
        ]
        return np.array(codes, np.int32)[place]

    def recode(self, sets: Sequence[frozenset[int]]) -> Codes:
        """The number that each set has here."""
        return np.array([self.code(each) for each in sets], np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Pieces of storage, as columns."""

    keys: Keys  # (n,)
    size_bytes: Sizes  # (n,)
    refs: Codes  # (n,)
    arrays: Codes  # (n,)

    @classmethod
    def of(cls, keys: Keys, size_bytes: Sizes, *, refs: int = 0, arrays: int = 0) -> "Pieces":
        """All of the same owners."""
        count = len(keys)
        return cls(
            keys,
            size_bytes.astype(np.uint64, copy=False),
            np.broadcast_to(np.int32(refs), (count,)),
            np.broadcast_to(np.int32(arrays), (count,)),
        )

    @classmethod
    def empty(cls) -> "Pieces":
        return cls.of(np.zeros(0, np.uint64), np.zeros(0, np.uint64))

    @classmethod
    def concat(cls, parts: Sequence["Pieces"]) -> "Pieces":
        return cls(
            np.concatenate([part.keys for part in parts]),
            np.concatenate([part.size_bytes for part in parts]),
            np.concatenate([part.refs for part in parts]),
            np.concatenate([part.arrays for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: npt.NDArray[np.int64]) -> "Pieces":
        return Pieces(self.keys[rows], self.size_bytes[rows], self.refs[rows], self.arrays[rows])

    @property
    def nbytes(self) -> int:
        return 24 * len(self)


class Tally:
    """Pieces that are added batch by batch; of equal keys one stays, with all their owners."""

    def __init__(self, refs: OwnerSets, arrays: OwnerSets) -> None:
        self.refs = refs
        self.arrays = arrays
        self.peak_bytes = 0
        self._settled: list[Pieces] = []
        self._pending: list[Pieces] = []
        self._waiting = 0

    def add(self, pieces: Pieces) -> None:
        self._pending.append(pieces)
        self._waiting += len(pieces)
        if self._waiting >= _PENDING:
            self._settle()

    def done(self) -> Pieces:
        """All pieces, in ascending order of keys."""
        self._settle()
        if not self._settled:
            return Pieces.empty()
        if len(self._settled) > 1:
            self._settled = [self._distinct(Pieces.concat(self._settled))]
        return self._settled[0]

    def _settle(self) -> None:
        if not self._pending:
            return
        pending, self._pending, self._waiting = self._pending, [], 0
        new = self._distinct(Pieces.concat(pending))
        while self._settled and len(self._settled[-1]) <= 2 * len(new):
            new = self._distinct(Pieces.concat([self._settled.pop(), new]))
        self._settled.append(new)
        self.peak_bytes = max(self.peak_bytes, 2 * sum(each.nbytes for each in self._settled))

    def _distinct(self, pieces: Pieces) -> Pieces:
        pieces = pieces.take(np.argsort(pieces.keys).astype(np.int64, copy=False))
        is_new = np.ones(len(pieces), np.bool_)
        np.not_equal(pieces.keys[1:], pieces.keys[:-1], out=is_new[1:])
        if bool(is_new.all()):
            return pieces
        starts = np.flatnonzero(is_new)
        kept = pieces.take(starts)
        refs, arrays = self._owners(pieces, is_new, kept)
        return Pieces(kept.keys, np.maximum.reduceat(pieces.size_bytes, starts), refs, arrays)

    def _owners(
        self, pieces: Pieces, is_new: npt.NDArray[np.bool_], kept: Pieces
    ) -> tuple[Codes, Codes]:
        """The owners of each piece to be kept: those of all pieces that are the same."""
        refs, arrays = kept.refs, kept.arrays
        group = np.cumsum(is_new) - 1
        rows = np.flatnonzero((pieces.refs != refs[group]) | (pieces.arrays != arrays[group]))
        if not len(rows):
            return refs, arrays
        refs, arrays = refs.copy(), arrays.copy()
        # The owners that one piece has besides: each only once, then one of them a round.
        place, other = group[rows], pieces.take(rows)
        order = np.lexsort((other.arrays, other.refs, place))
        place, other = place[order], other.take(order)
        differs = np.ones(len(place), np.bool_)
        differs[1:] = place[1:] != place[:-1]
        differs[1:] |= other.refs[1:] != other.refs[:-1]
        differs[1:] |= other.arrays[1:] != other.arrays[:-1]
        place, other = place[differs], other.take(np.flatnonzero(differs))
        while len(place):
            first = np.ones(len(place), np.bool_)
            first[1:] = place[1:] != place[:-1]
            at, now = place[first], np.flatnonzero(first)
            refs[at] = self.refs.union(refs[at], other.refs[now])
            arrays[at] = self.arrays.union(arrays[at], other.arrays[now])
            place, other = place[~first], other.take(np.flatnonzero(~first))
        return refs, arrays


def bytes_by_owner(
    codes: Codes, size_bytes: Sizes, owners: OwnerSets, count: int
) -> tuple[list[int], list[int]]:
    """Bytes of each of `count` owners: all, and those that no other owner has."""
    by_set = np.zeros(len(owners.sets), np.uint64)
    np.add.at(by_set, codes, size_bytes)
    total, alone = [0] * count, [0] * count
    for each, size in zip(owners.sets, by_set.tolist(), strict=True):
        for owner in each:
            total[owner] += size
            if len(each) == 1:
                alone[owner] += size
    return total, alone


_ODD = np.uint64(0x9E3779B97F4A7C15)
_ODD_TOO = np.uint64(0xC2B2AE3D27D4EB4F)

type Numbers = npt.NDArray[np.int64]
type Rows = slice | Numbers
type Found = tuple[RefKind, Numbers, Keys, Sizes]
"""A kind, and for each piece of it: the number of the array, the key, the size."""


def pieces_of(refs: StorageRefs) -> Iterator[Found]:
    """All pieces of each kind that occurs."""
    array = np.repeat(np.arange(len(refs.nodes), dtype=np.int64), np.diff(refs.splits))
    for kind in RefKind:
        of_kind = refs.kind == kind
        if not of_kind.any():
            continue
        rows = slice(None) if of_kind.all() else np.flatnonzero(of_kind)
        match kind:
            case RefKind.NATIVE:
                yield kind, array[rows], *_native(refs, rows)
            case RefKind.VIRTUAL:
                yield kind, array[rows], *_virtual(refs, rows)
            case RefKind.INLINE:
                yield kind, *_inline(refs, array[rows], refs.length[rows])


def id_keys(ids: Ids) -> Keys:
    """Keys of whole ids."""
    high, low = id_halves(ids)
    return high ^ (low.astype(np.uint64) * _ODD)


def _native(refs: StorageRefs, rows: Rows) -> tuple[Keys, Sizes]:
    return _mix_keys(id_keys(refs.chunk_id[rows]), refs.offset[rows]), refs.length[rows]


def _virtual(refs: StorageRefs, rows: Rows) -> tuple[Keys, Sizes]:
    sizes = refs.length[rows]
    return _mix_keys(_mix_keys(_locations(refs, rows), refs.offset[rows]), sizes), sizes


def _inline(refs: StorageRefs, array: Numbers, sizes: Sizes) -> tuple[Numbers, Keys, Sizes]:
    """One piece for each array, of which these are the rows, in order."""
    starts = np.flatnonzero(np.diff(array, prepend=-1))
    arrays = array[starts]
    nodes = np.frombuffer(b"".join(refs.nodes[at].raw for at in arrays.tolist()), np.uint64)
    keys = _mix_keys(id_keys(refs.ids[refs.manifest[arrays]]), nodes)
    return arrays, keys, np.add.reduceat(sizes, starts, dtype=np.uint64)


def _locations(refs: StorageRefs, rows: Rows) -> Keys:
    texts = refs.location.strings.to_list()
    digests = [blake2b(each, digest_size=8).digest() for each in texts]
    return np.frombuffer(b"".join(digests), np.uint64)[refs.location.codes[rows]]


def _mix_keys(keys: Keys, numbers: npt.NDArray[np.uint64]) -> Keys:
    """Other keys for other numbers; the same ones for 0."""
    if not numbers.any():
        return keys
    scattered = numbers * _ODD
    scattered ^= scattered >> np.uint64(29)
    scattered *= _ODD_TOO
    scattered ^= scattered >> np.uint64(32)
    mixed = (keys ^ scattered) * _ODD
    mixed ^= mixed >> np.uint64(31)
    return np.where(numbers == 0, keys, mixed)


KINDS = (RefKind.NATIVE, RefKind.VIRTUAL, RefKind.INLINE)

type Sets = tuple[frozenset[int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class StatsPlan:
    """Manifests to read, and the refs that each belongs to."""

    names: tuple[tuple[str, str], ...]  # kind and name of each ref
    sets: OwnerSets  # of refs
    manifests: ManifestFiles
    refs: Codes  # (n,) of each manifest
    snapshots: Ids


@dataclass(frozen=True, slots=True, eq=False)
class OwnedManifests:
    """Manifests of some snapshots, each once, and the set of refs of each."""

    manifests: ManifestFiles
    refs: Codes
    sets: Sets


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Pieces of storage in some manifests, each once, with numbers of this part's own."""

    pieces: tuple[tuple[RefKind, Pieces], ...]
    ref_sets: Sets
    array_sets: Sets
    nodes: tuple[NodeId, ...]
    references: int


class Counting:
    """Pieces of each kind, of the manifests given so far."""

    def __init__(self, refs: OwnerSets) -> None:
        self.refs = refs
        self.arrays = OwnerSets()
        self.nodes: dict[NodeId, int] = {}
        self.references = 0
        self._tallies = {kind: Tally(refs, self.arrays) for kind in KINDS}

    def add(self, found: StorageRefs, refs: Codes) -> None:
        """Counts references; `refs` has the set of each of the manifests."""
        self.references += len(found)
        numbers = [self.nodes.setdefault(node, len(self.nodes)) for node in found.nodes]
        arrays = self.arrays.recode([frozenset([number]) for number in numbers])
        owners = refs[found.manifest]
        for kind, array, keys, sizes in pieces_of(found):
            self.tally(kind).add(Pieces(keys, sizes, owners[array], arrays[array]))

    def merge(self, part: Counted) -> None:
        """Adds what was counted apart, with other numbers."""
        self.references += part.references
        numbers = [self.nodes.setdefault(node, len(self.nodes)) for node in part.nodes]
        refs = self.refs.recode(part.ref_sets)
        arrays = self.arrays.recode(
            [frozenset(numbers[each] for each in owners) for owners in part.array_sets]
        )
        for kind, some in part.pieces:
            if len(some):
                recoded = Pieces(some.keys, some.size_bytes, refs[some.refs], arrays[some.arrays])
                self.tally(kind).add(recoded)

    def done(self) -> Counted:
        return Counted(
            tuple((kind, self.tally(kind).done()) for kind in KINDS),
            tuple(self.refs.sets),
            tuple(self.arrays.sets),
            tuple(sorted(self.nodes, key=self.nodes.__getitem__)),
            self.references,
        )

    def tally(self, kind: RefKind) -> Tally:
        return self._tallies[kind]

    @property
    def peak_bytes(self) -> int:
        return sum(tally.peak_bytes for tally in self._tallies.values())


@dataclass(frozen=True, slots=True, eq=False)
class ReadSnapshots:
    """Task: manifests of snapshots, whose sets of refs are given."""

    snapshots: Ids
    refs: Codes
    sets: Sets
    budget: Budget

    def __call__(self, files: Files, rows: range) -> OwnedManifests:
        sets, at = OwnerSets(self.sets), rows.start
        tally, manifests = Tally(sets, OwnerSets([frozenset()])), ManifestFiles.none()
        chosen = self.snapshots[rows.start : rows.stop]
        for some in manifests_by_snapshot(files, chosen, budget=self.budget):
            for each in some:
                tally.add(Pieces.of(id_keys(each.ids), each.size_bytes, refs=int(self.refs[at])))
                at += 1
            manifests = merge_manifest_files([manifests, *some])
        return OwnedManifests(manifests, _refs_of(tally, manifests), tuple(sets.sets))


@dataclass(frozen=True, slots=True, eq=False)
class CountManifests:
    """Task: pieces of storage that manifests refer to."""

    manifests: ManifestFiles
    refs: Codes
    sets: Sets
    budget: Budget
    decoders: Pool = field(default_factory=decoder_pool)

    def __call__(self, files: Files, rows: range) -> Counted:
        counting = Counting(OwnerSets(self.sets))
        chosen = slice(rows.start, rows.stop)
        refs, manifests = self.refs[chosen], self.manifests.take(chosen)
        for some, found in read_storage_refs(files, manifests, self.budget, None, self.decoders):
            counting.add(found, refs[some])
        return counting.done()


def plan_stats(
    repository: Repository, executor: Executor, *, budget: Budget | None = None
) -> StatsPlan:
    budget = budget or Budget()
    info = repository.maintained_info()
    names, sets, masks = _ref_sets(info)
    rows = reachable_rows(info, root_rows(info))
    codes = np.array([masks[int(row)] for row in rows], np.int32)
    snapshots = ids_of_rows(info, rows)
    task = ReadSnapshots(snapshots, codes, tuple(sets.sets), budget)
    tally, manifests = Tally(sets, OwnerSets([frozenset()])), ManifestFiles.none()
    spans = split_rows(len(snapshots), budget.snapshots)
    for part in executor.run(task, len(snapshots), "reading snapshots", spans=spans):
        refs, listed = sets.recode(part.sets)[part.refs], part.manifests
        none = np.zeros(len(listed), np.int32)
        tally.add(Pieces(id_keys(listed.ids), listed.size_bytes, refs, none))
        manifests = merge_manifest_files([manifests, listed])
    return StatsPlan(names, sets, manifests, _refs_of(tally, manifests), snapshots)


def storage_stats(
    repository: Repository,
    plan: StatsPlan,
    executor: Executor,
    *,
    budget: Budget | None = None,
) -> StorageStats:
    budget, counting = budget or Budget(), Counting(plan.sets)
    task = CountManifests(plan.manifests, plan.refs, tuple(plan.sets.sets), budget)
    spans, prefetch = prefetch_spans(plan.manifests, budget)
    for part in executor.run(
        task, len(plan.manifests), "reading manifests", spans=spans, prefetch=prefetch
    ):
        counting.merge(part)
    return _sum_up(repository, plan, counting)


def chunk_totals(
    repository: Repository,
    *,
    files: Files | None = None,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> ChunkStorageStats:
    """Bytes of each kind, not by owner: eight bytes of memory for each piece."""
    info, files = repository.maintained_info(), files or repository.files
    snapshots = ids_of_rows(info, reachable_rows(info, root_rows(info)))
    manifests = manifests_of(files, snapshots, budget=budget, progress=progress)
    sums = {kind: DistinctSum() for kind in KINDS}
    for _, found in read_storage_refs(files, manifests, budget, progress):
        for kind, _, keys, sizes in pieces_of(found):
            sums[kind].add(keys, sizes)
    return _bytes(sums[kind].done() for kind in KINDS)


def read_storage_refs(
    files: Files,
    manifests: ManifestFiles,
    budget: Budget | None,
    progress: Progress | None,
    decoders: Pool | None = None,
) -> Iterator[tuple[slice, StorageRefs]]:
    """Rows of some manifests, and their references."""
    if not files.has_current_encoding:
        for row, raw in enumerate(manifests.ids):
            yield (
                slice(row, row + 1),
                StorageRefs.of(files.fetch_manifest(ManifestId(raw.tobytes()))),
            )
        return
    yield from read_together(
        files, manifests, decode_storage_refs, budget=budget, progress=progress, decoders=decoders
    )


def _refs_of(tally: Tally, manifests: ManifestFiles) -> Codes:
    """The set of refs of each manifest."""
    owned = tally.done()
    return owned.refs[np.searchsorted(owned.keys, id_keys(manifests.ids))]


def _sum_up(repository: Repository, plan: StatsPlan, counting: Counting) -> StorageStats:
    pieces = {kind: counting.tally(kind).done() for kind in KINDS}
    nodes = sorted(counting.nodes, key=counting.nodes.__getitem__)
    named = [("array", path) for path in _paths(repository, plan, nodes)]
    arrays = _owners(named, pieces, counting.arrays, lambda some: some.arrays)
    return StorageStats(
        total=_bytes(int(pieces[kind].size_bytes.sum()) for kind in KINDS),
        refs=_owners(plan.names, pieces, counting.refs, lambda some: some.refs),
        arrays=sorted(arrays, key=lambda owner: owner.name),
        snapshots=len(plan.snapshots),
        manifests=len(plan.manifests),
        manifest_bytes=int(plan.manifests.size_bytes.sum()),
        references=counting.references,
        peak_memory_bytes=counting.peak_bytes,
    )


def _ref_sets(
    info: RepoInfo,
) -> tuple[tuple[tuple[str, str], ...], OwnerSets, dict[int, int]]:
    """Refs, sets of them, and the set of each snapshot that is reachable from refs."""
    refs = [("branch", name, info.branches[name]) for name in sorted(info.branches)]
    refs += [("tag", name, info.tags[name]) for name in sorted(info.tags)]
    owners: dict[int, frozenset[int]] = {}
    depths = dict[int, int]()
    for number, (_, _, tip) in enumerate(refs):
        owners[tip] = owners.get(tip, frozenset()) | {number}
    for row in {row for _, _, row in refs}:
        _set_depths(info, row, depths)
    sets, codes = OwnerSets(), dict[int, int]()
    for row in sorted(depths, key=depths.__getitem__, reverse=True):
        codes[row] = sets.code(owners[row])
        parent = info.snapshots.parent(row)
        if parent >= 0:
            held = owners.get(parent)
            owners[parent] = owners[row] if held is None else held | owners[row]
    return tuple((kind, name) for kind, name, _ in refs), sets, codes


def _set_depths(info: RepoInfo, row: int, depths: dict[int, int]) -> None:
    path = []
    for each in info.snapshots.ancestors(row):
        if each in depths:
            path.append(each)
            break
        path.append(each)
    start = depths.get(path[-1], 0)
    depths.update((each, depth) for depth, each in enumerate(reversed(path), start))


def _paths(repository: Repository, plan: StatsPlan, nodes: Sequence[NodeId]) -> list[str]:
    """The path of each array in the newest snapshot that has it; its id if none does."""
    info = repository.repo_info()
    tips = ids_of_rows(info, root_rows(info))
    rest = plan.snapshots[::-1]
    found: dict[bytes, str] = {}
    wanted = {node.raw for node in nodes}
    for raw in [*tips, *rest]:
        if wanted <= found.keys():
            break
        try:
            names = repository.files.fetch_node_names(SnapshotId(raw.tobytes()))
        except ObjectNotFoundError:  # deleted since
            continue
        for node, path in zip(raw_ids(names.ids), names.paths.to_texts(), strict=True):
            if node in wanted:
                found.setdefault(node, path or "")
    return [found.get(node.raw, str(node)) for node in nodes]


def _owners(
    names: Sequence[tuple[str, str]],
    pieces: dict[RefKind, Pieces],
    sets: OwnerSets,
    codes: Callable[[Pieces], Codes],
) -> list[OwnerStats]:
    counted = [
        bytes_by_owner(codes(pieces[kind]), pieces[kind].size_bytes, sets, len(names))
        for kind in KINDS
    ]
    return [
        OwnerStats.of(
            kind,
            name,
            _bytes(total[at] for total, _ in counted),
            _bytes(alone[at] for _, alone in counted),
        )
        for at, (kind, name) in enumerate(names)
    ]


def _bytes(sizes: Iterable[int]) -> ChunkStorageStats:
    native, virtual, inline = sizes
    return ChunkStorageStats(native, virtual, inline)
