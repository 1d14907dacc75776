"""How much is stored, of which kind, and for whom.

native     bytes of chunk objects that references reach; a byte that many reach counts once
virtual    the same in objects of others
inline     bytes of chunks inside manifests, once for each manifest
exclusive  what would be freed, or no longer needed, if one ref, or one array, were gone
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.assets.files import Files
from frazil.errors import ObjectNotFoundError
from frazil.format.chunk_refs import RefKind
from frazil.format.nodes import raw_ids
from frazil.format.projections import ManifestFiles, StorageRefs, decode_storage_refs
from frazil.format.repo_info import RepoInfo
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.maintenance.id_sets import Ids
from frazil.maintenance.key_sets import DistinctSum
from frazil.maintenance.progress import Progress
from frazil.maintenance.reachable import (
    Budget,
    ids_of_rows,
    manifests_by_snapshot,
    manifests_of,
    reachable_rows,
    read_together,
    root_rows,
    united,
)
from frazil.maintenance.storage_keys import id_keys, pieces_of
from frazil.maintenance.tally import OwnerSets, Pieces, Tally, bytes_by_owner
from frazil.repo.repository import Repository

KINDS = (RefKind.NATIVE, RefKind.VIRTUAL, RefKind.INLINE)


@dataclass(frozen=True, slots=True)
class Bytes:
    native: int = 0
    virtual: int = 0
    inline: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A branch, a tag or an array. `shared` are the bytes that another one has too."""

    name: str
    kind: str  # branch, tag or array
    total: Bytes
    exclusive: Bytes

    @property
    def shared(self) -> Bytes:
        total, own = self.total, self.exclusive
        return Bytes(
            total.native - own.native, total.virtual - own.virtual, total.inline - own.inline
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageStats:
    total: Bytes
    refs: tuple[Owner, ...]
    arrays: tuple[Owner, ...]
    snapshots: int  # that refs lead to
    manifests: int
    manifest_bytes: int
    references: int  # in all of those manifests
    memory_bytes: int  # that counting took, about


@dataclass(frozen=True, slots=True, eq=False)
class Ownership:
    """Who has which manifest."""

    names: tuple[tuple[str, str], ...]  # kind and name of each ref
    sets: OwnerSets  # of refs
    manifests: ManifestFiles
    refs: npt.NDArray[np.int32]  # (n,) of each manifest
    snapshots: Ids


class Counting:
    """Pieces of each kind, of the manifests given so far."""

    def __init__(self, refs: OwnerSets) -> None:
        self.refs = refs
        self.arrays = OwnerSets()
        self.nodes: dict[NodeId, int] = {}
        self.references = 0
        self._tallies = {kind: Tally(refs, self.arrays) for kind in KINDS}

    def add(self, found: StorageRefs, refs: npt.NDArray[np.int32]) -> None:
        """`refs` has a number for each of the manifests."""
        self.references += len(found)
        numbers = [self.nodes.setdefault(node, len(self.nodes)) for node in found.nodes]
        arrays = self.arrays.recode([frozenset([number]) for number in numbers])
        owners = refs[found.manifest]
        for kind, array, keys, sizes in pieces_of(found):
            self.tally(kind).add(Pieces(keys, sizes, owners[array], arrays[array]))

    def tally(self, kind: RefKind) -> Tally:
        return self._tallies[kind]

    @property
    def peak_bytes(self) -> int:
        return sum(tally.peak_bytes for tally in self._tallies.values())

    def merge(
        self,
        pieces: Iterable[tuple[RefKind, Pieces]],
        *,
        ref_sets: Sequence[frozenset[int]],
        array_sets: Sequence[frozenset[int]],
        nodes: Sequence[NodeId],
    ) -> None:
        """What somebody else has counted, with numbers of their own."""
        numbers = [self.nodes.setdefault(node, len(self.nodes)) for node in nodes]
        refs = self.refs.recode(ref_sets)
        arrays = self.arrays.recode(
            [frozenset(numbers[each] for each in owners) for owners in array_sets]
        )
        for kind, some in pieces:
            if len(some):
                recoded = Pieces(some.keys, some.size_bytes, refs[some.refs], arrays[some.arrays])
                self.tally(kind).add(recoded)


def plan_stats(
    repository: Repository, *, budget: Budget | None = None, progress: Progress | None = None
) -> Ownership:
    """Which manifests there are to look at, and who has them."""
    info = repository.maintained_info()
    names, sets, masks = _ref_sets(info)
    rows = reachable_rows(info, root_rows(info))
    codes = [masks[int(row)] for row in rows]
    snapshots = ids_of_rows(info, rows)
    tally, found, at = Tally(sets, OwnerSets([frozenset()])), ManifestFiles.none(), 0
    for some in manifests_by_snapshot(
        repository.files, snapshots, budget=budget, progress=progress
    ):
        for each in some:
            tally.add(Pieces.of(id_keys(each.ids), each.size_bytes, refs=codes[at]))
            at += 1
        found = united([found, *some])
    owned = tally.done()
    refs = owned.refs[np.searchsorted(owned.keys, id_keys(found.ids))]
    return Ownership(names, sets, found, refs, snapshots)


def count(
    repository: Repository,
    owned: Ownership,
    *,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Counting:
    counting = Counting(owned.sets)
    for rows, found in read_storage_refs(repository.files, owned.manifests, budget, progress):
        counting.add(found, owned.refs[rows])
    return counting


def read_storage_refs(
    files: Files, manifests: ManifestFiles, budget: Budget | None, progress: Progress | None
) -> Iterator[tuple[slice, StorageRefs]]:
    if not files.has_current_encoding:
        for row, raw in enumerate(manifests.ids):
            yield (
                slice(row, row + 1),
                StorageRefs.of(files.fetch_manifest(ManifestId(raw.tobytes()))),
            )
        return
    yield from read_together(
        files, manifests, decode_storage_refs, budget=budget, progress=progress
    )


def summed(repository: Repository, owned: Ownership, counting: Counting) -> StorageStats:
    pieces = {kind: counting.tally(kind).done() for kind in KINDS}
    nodes = sorted(counting.nodes, key=counting.nodes.__getitem__)
    named = [("array", path) for path in _paths(repository, owned, nodes)]
    arrays = _owners(named, pieces, counting.arrays, lambda some: some.arrays)
    return StorageStats(
        total=_bytes(int(pieces[kind].size_bytes.sum()) for kind in KINDS),
        refs=_owners(owned.names, pieces, counting.refs, lambda some: some.refs),
        arrays=tuple(sorted(arrays, key=lambda owner: owner.name)),
        snapshots=len(owned.snapshots),
        manifests=len(owned.manifests),
        manifest_bytes=int(owned.manifests.size_bytes.sum()),
        references=counting.references,
        memory_bytes=counting.peak_bytes,
    )


def storage_stats(
    repository: Repository, *, budget: Budget | None = None, progress: Progress | None = None
) -> StorageStats:
    owned = plan_stats(repository, budget=budget, progress=progress)
    counting = count(repository, owned, budget=budget, progress=progress)
    return summed(repository, owned, counting)


def chunk_totals(
    repository: Repository,
    *,
    files: Files | None = None,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Bytes:
    """Bytes of each kind, without asking whose they are: eight bytes of memory for each piece."""
    info, files = repository.maintained_info(), files or repository.files
    snapshots = ids_of_rows(info, reachable_rows(info, root_rows(info)))
    manifests = manifests_of(files, snapshots, budget=budget, progress=progress)
    sums = {kind: DistinctSum() for kind in KINDS}
    for _, found in read_storage_refs(files, manifests, budget, progress):
        for kind, _, keys, sizes in pieces_of(found):
            sums[kind].add(keys, sizes)
    return _bytes(sums[kind].done() for kind in KINDS)


def _ref_sets(
    info: RepoInfo,
) -> tuple[tuple[tuple[str, str], ...], OwnerSets, dict[int, int]]:
    """Refs, sets of them, and the set of each snapshot that refs lead to."""
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


def _paths(repository: Repository, owned: Ownership, nodes: Sequence[NodeId]) -> list[str]:
    """Where each array is in the newest snapshot that has it; its id if none does."""
    info = repository.repo_info()
    tips = ids_of_rows(info, root_rows(info))
    rest = owned.snapshots[::-1]
    found: dict[bytes, str] = {}
    wanted = {node.raw for node in nodes}
    for raw in [*tips, *rest]:
        if wanted <= found.keys():
            break
        try:
            names = repository.files.fetch_node_names(SnapshotId(raw.tobytes()))
        except ObjectNotFoundError:  # it has gone since
            continue
        for node, path in zip(raw_ids(names.ids), names.paths.to_texts(), strict=True):
            if node in wanted:
                found.setdefault(node, path or "")
    return [found.get(node.raw, str(node)) for node in nodes]


def _owners(
    names: Sequence[tuple[str, str]],
    pieces: dict[RefKind, Pieces],
    sets: OwnerSets,
    codes: Callable[[Pieces], npt.NDArray[np.int32]],
) -> tuple[Owner, ...]:
    counted = [
        bytes_by_owner(codes(pieces[kind]), pieces[kind].size_bytes, sets, len(names))
        for kind in KINDS
    ]
    return tuple(
        Owner(
            name=name,
            kind=kind,
            total=_bytes(total[at] for total, _ in counted),
            exclusive=_bytes(alone[at] for _, alone in counted),
        )
        for at, (kind, name) in enumerate(names)
    )


def _bytes(sizes: Iterable[int]) -> Bytes:
    native, virtual, inline = sizes
    return Bytes(native, virtual, inline)
