"""Chunk objects of a copy on a cluster: compared and copied by the workers that own their ids.

    scatter   ids that manifests refer to, and listings of the source and the target, by share
    gather    share by share: which are needed, and which of them the target does not have in full

What was scattered is the plan: each step compares again, with a newer listing of the target where
that matters. Counts come to the caller, and no id.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from frazil.engine.files.files import Files
from frazil.errors import StorageError
from frazil.format.snapshot import ManifestFiles
from frazil.ids import ALPHABET
from frazil.maintenance.copying.needed_files import compare_kind, with_fallback
from frazil.maintenance.copying.transfer import (
    copy_listed,
    refresh_here,
    require_equal_contents,
)
from frazil.maintenance.executor import Block, Cluster, Scattered, split_shares
from frazil.maintenance.id_sets import IdSet
from frazil.maintenance.inventory import FileKind, Listing, iter_listings, keys_of
from frazil.maintenance.reachable import chunks_of
from frazil.objectstore.protocol import ObjectStore

_AT_ONCE = 1024  # objects that a worker copies together, at least if there are as many


class Side(IntEnum):
    SOURCE = 0
    TARGET = 1


class Role(IntEnum):
    """Snapshots by which manifests are part of a copy."""

    SETTLED = 0  # that the target refers to
    NEW = 1
    BASIS = 2  # that the receiver has: their chunks are left out


type References = Sequence[tuple[Role, ManifestFiles]]


@dataclass(frozen=True, slots=True, eq=False)
class Referenced:
    role: Role
    ids: IdSet


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    side: Side
    listing: Listing


@dataclass(frozen=True, slots=True, eq=False)
class ScatterSource:
    """Chunk objects that manifests refer to, and those that the source has, by share.

    Rows are manifests, then first letters of names.
    """

    manifests: ManifestFiles
    roles: npt.NDArray[np.uint8]  # of each manifest
    target: ObjectStore  # where manifests are read that the source does not have

    @classmethod
    def of(cls, references: References, target: ObjectStore) -> "ScatterSource":
        every = [ManifestFiles.none(), *(manifests for _, manifests in references)]
        manifests = ManifestFiles(
            np.concatenate([each.ids for each in every]),
            np.concatenate([each.size_bytes for each in every]),
            np.concatenate([each.num_refs for each in every]),
        )
        counts = [len(each) for _, each in references]
        roles = np.repeat(np.array([role for role, _ in references], np.uint8), counts)
        return cls(manifests, roles, target)

    @property
    def rows(self) -> int:
        return len(self.manifests) + len(ALPHABET)

    def __call__(self, files: Files, rows: range) -> Iterator[Block]:
        count = len(self.manifests)
        read = slice(rows.start, min(rows.stop, count))
        manifests, roles = self.manifests.take(read), self.roles[read]
        for role in np.unique(roles).tolist():
            ids = chunks_of(with_fallback(files, self.target), manifests.take(roles == role))
            every = ids.ids()
            for share, some in split_shares(every):
                yield share, Referenced(Role(role), IdSet(ids.high[some], ids.low[some]))
        for letter in range(max(rows.start - count, 0), rows.stop - count):
            yield from _list(files.store, Side.SOURCE, letter)


@dataclass(frozen=True, slots=True)
class ScatterTarget:
    """Chunk objects that the target has, by share; a row is a first letter of names."""

    target: ObjectStore

    def __call__(self, files: Files, rows: range) -> Iterator[Block]:
        del files
        for letter in rows:
            yield from _list(self.target, Side.TARGET, letter)


def _list(store: ObjectStore, side: Side, letter: int) -> Iterator[Block]:
    for piece in iter_listings(store.list(FileKind.CHUNK.value + ALPHABET[letter]), FileKind.CHUNK):
        for share, some in split_shares(piece.ids):
            yield share, Stored(side, piece.take(some))


@dataclass(frozen=True, slots=True)
class ChunkCounts:
    """Chunk objects of a copy: those it needs, and of these those that it lacks and reuses."""

    needed: int = 0
    missing: int = 0
    missing_bytes: int = 0
    reused: int = 0
    lost: str | None = None  # key of one that is missing

    def __add__(self, other: "ChunkCounts") -> "ChunkCounts":
        return ChunkCounts(
            self.needed + other.needed,
            self.missing + other.missing,
            self.missing_bytes + other.missing_bytes,
            self.reused + other.reused,
            self.lost or other.lost,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Compared:
    needed: IdSet
    missing: Listing
    reused: Listing


type Act = Callable[[Files, ObjectStore, Sequence[_Compared]], None]


@dataclass(frozen=True, slots=True)
class GatherChunks:
    """Compares the shares of ids; `act` is called with what was found, some shares at a time."""

    target: ObjectStore
    finds_reused: bool
    act: Act | None = None

    def __call__(
        self, files: Files, shares: Iterator[Sequence[Referenced | Stored]]
    ) -> Iterator[ChunkCounts]:
        total, waiting = ChunkCounts(), list[_Compared]()
        for blocks in shares:
            found = self._compare(blocks)
            lost = keys_of(FileKind.CHUNK, found.missing.ids[:1])
            total += ChunkCounts(
                len(found.needed),
                len(found.missing),
                found.missing.total_bytes,
                len(found.reused),
                lost[0] if lost else None,
            )
            waiting.append(found)
            if sum(len(each.needed) for each in waiting) >= _AT_ONCE:
                self._act(files, waiting)
                waiting = []
        self._act(files, waiting)
        yield total

    def _act(self, files: Files, waiting: Sequence[_Compared]) -> None:
        if self.act is not None and waiting:
            self.act(files, self.target, waiting)

    def _compare(self, blocks: Sequence[Referenced | Stored]) -> _Compared:
        def ids(*roles: Role) -> IdSet:
            refs = [each for each in blocks if isinstance(each, Referenced)]
            return IdSet.union(each.ids for each in refs if each.role in roles)

        def stored(side: Side) -> Listing:
            listed = [each for each in blocks if isinstance(each, Stored) and each.side == side]
            every = Listing.concat(FileKind.CHUNK, (each.listing for each in listed))
            return every.take(needed.contains(every.ids))

        settled, basis = ids(Role.SETTLED), ids(Role.BASIS)
        needed = ids(Role.SETTLED, Role.NEW).without(basis)
        unsettled = ids(Role.NEW).without(settled) if self.finds_reused else IdSet.empty()
        there, wanted = stored(Side.TARGET), stored(Side.SOURCE)
        found = compare_kind(FileKind.CHUNK, needed, unsettled, there, wanted)
        return _Compared(needed, found.missing, found.reused)


def _copy(files: Files, target: ObjectStore, found: Sequence[_Compared]) -> None:
    """Copies what is missing, and refreshes what is reused."""
    missing = [each.missing for each in found]
    reused = Listing.concat(FileKind.CHUNK, (each.reused for each in found))
    lost = refresh_here(files, target, reused)
    copy_listed(files, target, Listing.concat(FileKind.CHUNK, [*missing, lost]))


def _compare_contents(files: Files, target: ObjectStore, found: Sequence[_Compared]) -> None:
    for each in found:
        require_equal_contents(files, target, keys_of(FileKind.CHUNK, each.needed.ids()))


@dataclass(frozen=True, slots=True, eq=False)
class ClusterCopy:
    """Chunk objects of a copy, as they were when it was planned."""

    cluster: Cluster
    source: Scattered
    there: Scattered
    finds_reused: bool
    counts: ChunkCounts

    def copy(self, target: ObjectStore) -> None:
        scattered = [self.source, self.there]
        _gather(self.cluster, scattered, GatherChunks(target, self.finds_reused, _copy))

    def require_arrived(self, target: ObjectStore, tries: int) -> None:
        """Lists the target again, and copies once more what is not there.

        Raises StorageError if that does not help.
        """
        if not self.counts.missing and not self.counts.reused:
            return
        for attempt in range(tries):
            there = _scatter_target(self.cluster, target)
            act = _copy if attempt < tries - 1 else None
            task = GatherChunks(target, finds_reused=False, act=act)
            found = _gather(self.cluster, [self.source, there], task)
            if not found.missing:
                return
        raise StorageError(f"{found.lost!r} did not arrive at the target in full")

    def compare_contents(self, target: ObjectStore) -> None:
        """Reads both sides. Raises StorageError at the first object that differs."""
        task = GatherChunks(target, self.finds_reused, _compare_contents)
        _gather(self.cluster, [self.source, self.there], task)


def _gather(cluster: Cluster, scattered: Sequence[Scattered], task: GatherChunks) -> ChunkCounts:
    doing = "comparing chunks" if task.act is None else "copying chunks"
    return sum(cluster.gather(scattered, task, doing), ChunkCounts())


def plan_cluster_copy(
    cluster: Cluster, target: ObjectStore, references: References, *, finds_reused: bool
) -> ClusterCopy:
    """Raises ObjectNotFoundError if a chunk object is neither at the source nor at the target."""
    scatter = ScatterSource.of(references, target)
    source = cluster.scatter(scatter, scatter.rows, "reading manifests, listing chunks")
    there = _scatter_target(cluster, target)
    counts = _gather(cluster, [source, there], GatherChunks(target, finds_reused))
    return ClusterCopy(cluster, source, there, finds_reused, counts)


def _scatter_target(cluster: Cluster, target: ObjectStore) -> Scattered:
    return cluster.scatter(ScatterTarget(target), len(ALPHABET), "listing chunks")
