"""The listing of the storage, in one pass: files by id as columns, the others by name."""

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import batched
from typing import Self

import numpy as np
import numpy.typing as npt

from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import (
    CHUNKS,
    CONFIG_YAML,
    MANIFESTS,
    OVERWRITTEN,
    REFS,
    REPO_INFO,
    SNAPSHOTS,
    TRANSACTIONS,
    ref_of_key,
)
from frazil.ids import ALPHABET, format_ids, parse_ids
from frazil.maintenance.executor import HERE, SHARES, Block, Executor, Scattered, find_cluster
from frazil.maintenance.id_sets import IdSet, id_halves, sort_order
from frazil.maintenance.inventory import CONCURRENT_LISTINGS
from frazil.maintenance.verify.problems import Problem, problem
from frazil.objectstore.listing import KeyRange, gather_listed, key_ranges, list_range
from frazil.objectstore.protocol import ObjectInfo, ObjectStore

type Ids = npt.NDArray[np.uint8]  # (n, 12)


@dataclass(frozen=True, slots=True, eq=False)
class Objects:
    """Objects by ascending id: its first eight bytes, its last four, and the object's size."""

    high: npt.NDArray[np.uint64]  # (n,)
    low: npt.NDArray[np.uint32]  # (n,)
    sizes: npt.NDArray[np.int64]  # (n,)

    @classmethod
    def of(cls, ids: Ids, sizes: npt.NDArray[np.int64]) -> "Objects":
        """Objects given in any order."""
        high, low = id_halves(ids)
        order = sort_order(high, low)
        return cls(high[order], low[order], sizes[order])

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def ids(self) -> IdSet:
        return IdSet(self.high, self.low)

    def sizes_of(self, ids: Ids) -> npt.NDArray[np.int64]:
        """(m,) bytes of each, -1 where there is none."""
        found = np.full(len(ids), -1, dtype=np.int64)
        if not len(self) or not len(ids):
            return found
        high, low = id_halves(ids)
        order = np.argsort(high, kind="stable")  # neighbours are found in neighbouring places
        at = np.empty(len(ids), dtype=np.int64)
        at[order] = np.searchsorted(self.high, high[order])
        open_rows = np.arange(len(ids))
        while len(open_rows):  # once, unless ids begin alike
            place = at[open_rows]
            inside = place < len(self)
            open_rows, place = open_rows[inside], place[inside]
            alike = self.high[place] == high[open_rows]
            open_rows, place = open_rows[alike], place[alike]
            hit = self.low[place] == low[open_rows]
            found[open_rows[hit]] = self.sizes[place[hit]]
            open_rows = open_rows[~hit]
            at[open_rows] += 1
        return found

    def split(self) -> Iterator[tuple[int, "Objects"]]:
        """The objects by share of their ids; none that is empty."""
        edges = np.searchsorted(self.high >> np.uint64(56), np.arange(SHARES + 1)).tolist()
        for share in range(SHARES):
            some = slice(edges[share], edges[share + 1])
            if some.start < some.stop:
                yield share, Objects(self.high[some], self.low[some], self.sizes[some])

    @classmethod
    def concat(cls, parts: Iterable["Objects"]) -> "Objects":
        """Objects of several sets: one that is in more than one of them counts once.

        It has the largest of its sizes: a name is never given twice, so they differ only in what
        is known of it.
        """
        every = [cls(np.zeros(0, np.uint64), np.zeros(0, np.uint32), np.zeros(0, np.int64)), *parts]
        high = np.concatenate([each.high for each in every])
        low = np.concatenate([each.low for each in every])
        sizes = np.concatenate([each.sizes for each in every])
        order = np.lexsort((sizes, low, high))
        high, low, sizes = high[order], low[order], sizes[order]
        last = np.ones(len(high), np.bool_)
        last[:-1] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
        return cls(high[last], low[last], sizes[last])

    def bytes_outside(self, used: IdSet) -> tuple[int, int]:
        """Number and bytes of the objects that are not among these."""
        outside = ~used.contains(self.ids.ids())
        return int(np.count_nonzero(outside)), int(self.sizes[outside].sum())


@dataclass(frozen=True, slots=True, eq=False)
class LackingObjects(Objects):
    """Objects that are too small, or with -1 for the size missing; all others are sufficient."""

    def sizes_of(self, ids: Ids) -> npt.NDArray[np.int64]:
        known = Objects.sizes_of(self, ids)
        known[~self.ids.contains(ids)] = np.iinfo(np.int64).max
        return known


type Sizes = npt.NDArray[np.int64]

FOLDERS = (SNAPSHOTS, MANIFESTS, TRANSACTIONS, CHUNKS)
DAMAGED = f"{OVERWRITTEN}damaged."  # what repairs replaced
_BACKUP = re.compile(r"(?:repo|config\.yaml)\.\d{14}\.[0-9A-HJKMNP-TV-Z]{20}")
_PIECE = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    folders: dict[str, Objects]
    sizes: dict[str, int]  # of all files but chunks, by key
    overwritten: frozenset[str]  # names below that folder
    refs: tuple[str, ...]  # keys, of version 1
    total_files: int
    total_bytes: int
    scattered: Scattered | None = None  # objects of chunks by share, which are not in `folders`

    @property
    def chunks(self) -> Objects:
        return self.folders[CHUNKS]

    def names(self, folder: str) -> list[str]:
        """Names of the files of a folder, ascending."""
        return format_ids(self.folders[folder].ids.ids())


@dataclass(slots=True)
class Listed:
    """A part of the listing; parts are added up in any order. Picklable."""

    ids: dict[str, list[Ids]] = field(default_factory=lambda: {each: [] for each in FOLDERS})
    bytes: dict[str, list[Sizes]] = field(default_factory=lambda: {each: [] for each in FOLDERS})
    sizes: dict[str, int] = field(default_factory=dict)
    odd: list[str] = field(default_factory=list)  # keys in folders of ids that are no ids
    unknown: list[str] = field(default_factory=list)  # keys
    expected: frozenset[str] = frozenset()  # keys that no layout has, and that belong there
    total_files: int = 0
    total_bytes: int = 0
    chunks: Scattered | None = None  # objects by share, if they are with the workers of a cluster

    @classmethod
    def of(cls, infos: Iterable[ObjectInfo]) -> "Listed":
        part = cls()
        for some in batched(infos, _PIECE):
            part._take(some)
        return part

    def add(self, other: "Listed") -> None:
        for folder in FOLDERS:
            self.ids[folder] += other.ids[folder]
            self.bytes[folder] += other.bytes[folder]
        self.sizes |= other.sizes
        self.odd += other.odd
        self.unknown += other.unknown
        self.total_files += other.total_files
        self.total_bytes += other.total_bytes

    def without(self, keys: AbstractSet[str]) -> Self:
        """The same, where the names of these files are expected."""
        odd = [key for key in self.odd if key not in keys]
        unknown = [key for key in self.unknown if key not in keys]
        return replace(self, odd=odd, unknown=unknown, expected=frozenset(keys))

    def _take(self, some: Sequence[ObjectInfo]) -> None:
        self.total_files += len(some)
        self.total_bytes += sum(info.size_bytes for info in some)
        by_folder: dict[str, list[ObjectInfo]] = {}
        for info in some:
            folder, slash, _ = info.key.partition("/")
            by_folder.setdefault(folder + slash, []).append(info)
        for folder, infos in by_folder.items():
            if folder in FOLDERS:
                self._gather(folder, infos)
            if folder != CHUNKS:
                self.sizes.update((info.key, info.size_bytes) for info in infos)
            if folder not in {*FOLDERS, OVERWRITTEN, REFS, REPO_INFO, CONFIG_YAML}:
                self.unknown += [info.key for info in infos]

    def _gather(self, folder: str, infos: list[ObjectInfo]) -> None:
        ids, good = parse_ids([info.key[len(folder) :] for info in infos])
        sizes = np.fromiter((info.size_bytes for info in infos), np.int64, len(infos))
        self.ids[folder].append(ids[good])
        self.bytes[folder].append(sizes[good])
        self.odd += [infos[row].key for row in np.flatnonzero(~good).tolist()]


def listing_ranges(store: ObjectStore) -> tuple[KeyRange, ...]:
    """All keys, in parts that can be listed at the same time."""
    return key_ranges(store, [folder + letter for folder in FOLDERS for letter in ALPHABET])


def list_everything(store: ObjectStore, problems: list[Problem]) -> Listing:
    return listing_of(list_storage(store), problems)


def list_storage(store: ObjectStore, executor: Executor | None = None) -> Listed:
    """Lists everything: in parts by a cluster, which keeps chunk objects, or by threads."""
    listed, ranges = Listed(), listing_ranges(store)
    cluster = None if executor is None else find_cluster(executor)
    parts: Iterable[Listed]
    if cluster is not None:
        listed.chunks = cluster.scatter(ListRanges(ranges), len(ranges), "listing")
        parts = listed.chunks.results
    else:
        parts = gather_listed(
            store, "", ranges, Listed.of, concurrent=CONCURRENT_LISTINGS, first=_PIECE
        )
    for part in parts:
        listed.add(part)
    return listed


@dataclass(frozen=True, slots=True)
class ListRanges:
    """Task: lists ranges of keys. Chunk objects go to the owners of their shares."""

    ranges: tuple[KeyRange, ...]

    def __call__(self, files: Files, rows: range) -> Iterator[Block]:
        for keys in self.ranges[rows.start : rows.stop]:
            for some in batched(list_range(files.raw_store, keys), _PIECE):
                part = Listed.of(some)
                objects = _objects(part.ids[CHUNKS], part.bytes[CHUNKS])
                part.ids[CHUNKS], part.bytes[CHUNKS] = [], []
                yield HERE, part
                yield from objects.split()


def listing_of(listed: Listed, problems: list[Problem]) -> Listing:
    """All parts together, and what is wrong with names."""
    text = "expected 20 characters of base 32"
    problems += [problem("file-name", key, text) for key in listed.odd]
    problems += [_unknown_file(key) for key in listed.unknown]
    refs = sorted(key for key in listed.sizes if key.startswith(REFS))
    problems += [
        _unknown_file(key) for key in refs if ref_of_key(key) is None and key not in listed.expected
    ]
    start = len(OVERWRITTEN)
    overwritten = {key[start:] for key in listed.sizes if key.startswith(OVERWRITTEN)}
    problems += _check_backups(overwritten)
    return Listing(
        folders={each: _objects(listed.ids[each], listed.bytes[each]) for each in FOLDERS},
        sizes=listed.sizes,
        overwritten=frozenset(overwritten),
        refs=tuple(refs),
        total_files=listed.total_files,
        total_bytes=listed.total_bytes,
        scattered=listed.chunks,
    )


def _objects(ids: list[Ids], sizes: list[Sizes]) -> Objects:
    none = np.zeros((0, 12), np.uint8)
    return Objects.of(np.concatenate([none, *ids]), np.concatenate([np.zeros(0, np.int64), *sizes]))


def _check_backups(names: Iterable[str]) -> list[Problem]:
    text = "expected repo, 14 digits and 20 characters of base 32"
    return [
        problem("backup-name", OVERWRITTEN + name, text)
        for name in sorted(names)
        if not _BACKUP.fullmatch(name) and not (OVERWRITTEN + name).startswith(DAMAGED)
    ]


def _unknown_file(key: str) -> Problem:
    return problem("file-unknown", key, "not part of a repository")
