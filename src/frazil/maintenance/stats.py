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

import numpy as np

from frazil.assets.files import Files
from frazil.assets.pool import Pool
from frazil.errors import ObjectNotFoundError
from frazil.format.chunk_refs import RefKind
from frazil.format.nodes import raw_ids
from frazil.format.projections import ManifestFiles, StorageRefs, decode_storage_refs
from frazil.format.repo_info import RepoInfo
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.maintenance.executor import Executor, split_rows
from frazil.maintenance.id_sets import DistinctSum, Ids
from frazil.maintenance.progress import Progress
from frazil.maintenance.reachable import (
    Budget,
    decoder_pool,
    ids_of_rows,
    manifests_by_snapshot,
    manifests_of,
    prefetch_spans,
    reachable_rows,
    read_together,
    root_rows,
    united,
)
from frazil.maintenance.summaries import ChunkStorageStats, OwnerStats, StorageStats
from frazil.maintenance.tally import (
    Codes,
    OwnerSets,
    Pieces,
    Tally,
    bytes_by_owner,
    id_keys,
    pieces_of,
)
from frazil.repo.repository import Repository

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
            manifests = united([manifests, *some])
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
        manifests = united([manifests, listed])
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
