"""Inventories: the files in a repository's storage, as columns, piece by piece.

Files with ids for names, of four kinds, are rows: id, size, time. The few files with other names
are listed one by one. Times are those of the storage, not of the writer.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import batched
from typing import Protocol

import numpy as np
import numpy.typing as npt

from frazil.assets.layout import CHUNKS, MANIFESTS, SNAPSHOTS, TRANSACTIONS
from frazil.ids import ALPHABET, ObjectId, format_ids, parse_ids
from frazil.objectstore.key_ranges import KeyRange, gather_listed, key_ranges
from frazil.objectstore.protocol import ObjectInfo, ObjectStore

PIECE = 1 << 15  # rows
CONCURRENT_LISTINGS = 16  # requests; as many as there are letters are of use
_SECOND_US = 1_000_000


class FileKind(StrEnum):
    """Files named by ids; the value is the folder they are in."""

    SNAPSHOT = SNAPSHOTS
    TRANSACTION = TRANSACTIONS
    MANIFEST = MANIFESTS
    CHUNK = CHUNKS


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """Files of one kind, in any order."""

    kind: FileKind
    ids: npt.NDArray[np.uint8]  # (n, 12)
    size_bytes: npt.NDArray[np.uint64]  # (n,)
    created_at_us: npt.NDArray[np.int64]  # (n,), not earlier than they were

    @classmethod
    def none(cls, kind: FileKind) -> "Listing":
        return cls(kind, np.zeros((0, 12), np.uint8), np.zeros(0, np.uint64), np.zeros(0, np.int64))

    @classmethod
    def concat(cls, kind: FileKind, parts: Iterable["Listing"]) -> "Listing":
        every = [cls.none(kind), *parts]
        return cls(
            kind,
            np.concatenate([part.ids for part in every]),
            np.concatenate([part.size_bytes for part in every]),
            np.concatenate([part.created_at_us for part in every]),
        )

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice) -> "Listing":
        return Listing(self.kind, self.ids[rows], self.size_bytes[rows], self.created_at_us[rows])

    @property
    def total_bytes(self) -> int:
        return int(self.size_bytes.sum())

    def keys(self) -> list[str]:
        return keys_of(self.kind, self.ids)


class Inventory(Protocol):
    """A listing of the storage, made now or earlier."""

    def pieces(self, kind: FileKind) -> Iterator[Listing]:
        """All files of a kind, some at a time."""
        ...

    def others(self, prefix: str) -> Iterator[ObjectInfo]:
        """Objects below `prefix` that are no files of the four kinds, if only by their names."""
        ...


@dataclass(frozen=True, slots=True)
class StoredInventory:
    """A store, listed on demand; parts of a folder at the same time, where that is faster."""

    store: ObjectStore
    concurrent: int = CONCURRENT_LISTINGS

    def pieces(self, kind: FileKind) -> Iterator[Listing]:
        for some in gather_listed(
            self.store,
            kind.value,
            folder_ranges(self.store, kind.value),
            lambda infos: list(listed(infos, kind)),
            concurrent=self.concurrent,
            first=PIECE,
        ):
            yield from some

    def others(self, prefix: str) -> Iterator[ObjectInfo]:
        return (info for info in self.store.list(prefix) if kind_of(info.key) is None)


def folder_ranges(store: ObjectStore, folder: str) -> list[KeyRange]:
    """Ranges of the keys in a folder, by the first letters of names."""
    edges = [folder, *(folder + letter for letter in ALPHABET[1:]), folder[:-1] + "0"]
    parts = key_ranges(store, edges)
    return list(parts) if len(parts) == 1 else [each for each in parts if each.start in edges[:-1]]


def listed(infos: Iterable[ObjectInfo], kind: FileKind) -> Iterator[Listing]:
    """Objects as rows; those of other kinds, or with names that are no ids, are passed over."""
    for some in batched(infos, PIECE):
        found = listing_of(
            kind,
            [info.key for info in some],
            np.fromiter((info.size_bytes for info in some), np.uint64, len(some)),
            np.fromiter((info.modified_at_us for info in some), np.int64, len(some)),
        )
        if len(found):
            yield found


def listing_of(
    kind: FileKind,
    keys: list[str],
    size_bytes: npt.NDArray[np.uint64],
    created_at_us: npt.NDArray[np.int64],
) -> Listing:
    created_at_us = latest_us(created_at_us)
    start = len(kind.value)
    ids, good = parse_ids([key[start:] if key.startswith(kind.value) else "" for key in keys])
    if good.all():
        return Listing(kind, ids, size_bytes, created_at_us)
    return Listing(kind, ids[good], size_bytes[good], created_at_us[good])


def latest_us(reported_us: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The latest times that files may have: some stores report whole seconds, cut off."""
    return reported_us + np.where(reported_us % _SECOND_US == 0, _SECOND_US - 1, 0)


def list_files(inventory: Inventory, kind: FileKind) -> Listing:
    """All files of a kind at once: for the kinds that are not so many."""
    return Listing.concat(kind, inventory.pieces(kind))


def kind_of(key: str) -> FileKind | None:
    """None if it is not the name of a file of one of the four kinds."""
    folder, _, name = key.rpartition("/")
    try:
        kind = FileKind(folder + "/")
    except ValueError:
        return None
    return kind if bool(parse_ids([name])[1][0]) else None


def keys_of(kind: FileKind, ids: npt.NDArray[np.uint8]) -> list[str]:
    return [kind.value + text for text in format_ids(ids.reshape(-1, ObjectId.size))]
