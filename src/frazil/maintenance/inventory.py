"""Inventories: the files in a repository's storage, as columns, piece by piece.

Files with ids for names, of four kinds, are rows: id, size, time. The few files with other names
are listed one by one. Times are those of the storage, not of the writer.

A listing of a bucket by another tool, as CSV or Parquet, can be used in place of the storage.
Columns are found by name: `key`; `size` or `size_bytes`; `last_modified`, `last_modified_date`,
`created_at` or `modified_at`, as times, ISO text, or microseconds since 1970. S3 Inventory, whose
CSV has no header, is read if the columns are named by the caller.
"""

import csv
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import batched
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from frazil.clock import from_datetime
from frazil.engine.files.object_keys import CHUNKS, MANIFESTS, SNAPSHOTS, TRANSACTIONS
from frazil.engine.repository import Repository
from frazil.errors import ConflictError, InvalidInputError, StorageError
from frazil.ids import ALPHABET, ObjectId, format_ids, parse_ids
from frazil.objectstore.listing import KeyRange, gather_listed, key_ranges
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
            lambda infos: list(iter_listings(infos, kind)),
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


def iter_listings(infos: Iterable[ObjectInfo], kind: FileKind) -> Iterator[Listing]:
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


type GivenInventory = str | Path | Iterable[str | Path] | Inventory

_NAMES = {
    "key": ("key", "object_key", "name", "path"),
    "size": ("size", "size_bytes", "bytes"),
    "time": ("last_modified", "last_modified_date", "created_at", "modified_at", "time_created"),
}


@dataclass(frozen=True, slots=True)
class FileInventory:
    """Objects listed in files. Keys begin with `prefix`, which is where the repository is.

    Objects that were deleted since may be listed, and new ones may be missing: neither does harm.
    """

    paths: tuple[str, ...]
    prefix: str = ""
    columns: tuple[str, ...] | None = None  # of CSV files without a header

    @classmethod
    def of(
        cls,
        paths: str | Path | Iterable[str | Path],
        *,
        prefix: str = "",
        columns: Sequence[str] | None = None,
    ) -> "FileInventory":
        """Files, or directories of them. Raises InvalidInputError if nothing of use is listed."""
        given = [paths] if isinstance(paths, str | Path) else list(paths)
        found = tuple(str(each) for path in given for each in _files_in(Path(path)))
        start = prefix.strip("/") + "/" if prefix.strip("/") else ""
        made = cls(found, start, None if columns is None else tuple(columns))
        if not any(kind_of(info.key) for info in made._objects()):
            raise InvalidInputError(
                f"no file of a repository is listed in {', '.join(found) or 'no file at all'}"
                f" below {start!r}: give the prefix under which the repository is, as listed"
            )
        return made

    def pieces(self, kind: FileKind) -> Iterator[Listing]:
        return iter_listings(
            (info for info in self._objects() if info.key.startswith(kind.value)), kind
        )

    def others(self, prefix: str) -> Iterator[ObjectInfo]:
        found = (info for info in self._objects() if info.key.startswith(prefix))
        return (info for info in found if kind_of(info.key) is None)

    def _objects(self) -> Iterator[ObjectInfo]:
        for path in self.paths:
            rows = _parquet(path) if path.endswith(".parquet") else _csv(path, self.columns)
            for key, size, modified in rows:
                if key.startswith(self.prefix):
                    yield ObjectInfo(key[len(self.prefix) :], _size(size), _time_us(modified))


def inventory_of(
    repository: Repository,
    given: GivenInventory | None,
    *,
    concurrent_listings: int = CONCURRENT_LISTINGS,
) -> Inventory:
    """The storage itself, unless the caller gives a listing."""
    if given is None:
        return StoredInventory(repository.store, concurrent_listings)
    if isinstance(given, str | Path):
        return FileInventory.of(given)
    return FileInventory.of(given) if isinstance(given, Iterable) else given


def _files_in(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.rglob("*") if each.suffix in {".csv", ".parquet"})


def _csv(path: str, columns: Sequence[str] | None) -> Iterator[tuple[str, Any, Any]]:
    with _annotate_errors(path), Path(path).open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        header = next(rows, []) if columns is None else columns
        key, size, time = _places(path, header)
        yield from ((row[key], row[size], row[time]) for row in rows if row)


@contextmanager
def _annotate_errors(path: str) -> Iterator[None]:
    """Raises errors in the bytes of a listing as errors that name the file."""
    try:
        yield
    except (UnicodeDecodeError, csv.Error, IndexError) as error:
        raise InvalidInputError(f"{path} is not such a listing: {error}") from error


def _parquet(path: str) -> Iterator[tuple[str, Any, Any]]:
    try:
        from pyarrow import parquet  # noqa: PLC0415 - heavy, and only needed here
    except ImportError as error:
        raise InvalidInputError(
            f"{path}: listings in Parquet are read by pyarrow, which is not installed"
            " (pip install pyarrow)"
        ) from error
    file = parquet.ParquetFile(path)
    names = file.schema_arrow.names
    places = _places(path, names)
    for batch in file.iter_batches(batch_size=PIECE, columns=[names[at] for at in places]):
        wanted = [batch.column(names[at]).to_pylist() for at in places]
        yield from zip(*wanted, strict=True)


def _places(path: str, header: Sequence[str]) -> tuple[int, int, int]:
    """Columns of the key, the size and the time."""
    at: Mapping[str, int] = {name.strip().lower(): place for place, name in enumerate(header)}
    found = {
        what: next((at[name] for name in names if name in at), None)
        for what, names in _NAMES.items()
    }
    missing = [what for what, place in found.items() if place is None]
    if missing:
        raise InvalidInputError(
            f"{path}: no column for {' and '.join(missing)} among {', '.join(header)};"
            " name the columns if the file has no header"
        )
    return found["key"] or 0, found["size"] or 0, found["time"] or 0


def _size(value: Any) -> int:
    try:
        size = int(value or 0)
    except (ValueError, TypeError):
        size = -1
    if not 0 <= size < 2**63:
        raise InvalidInputError(f"not a size in an inventory: {str(value)[:40]!r}")
    return size


def _time_us(value: Any) -> int:
    if isinstance(value, datetime):
        return from_datetime(value if value.tzinfo else value.replace(tzinfo=UTC))
    text = str(value).strip()
    if text.isdecimal() and len(text) < 19:
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(f"not a time in an inventory: {text[:40]!r}") from None
    return from_datetime(when if when.tzinfo else when.replace(tzinfo=UTC))


# Deleting many objects: in batches, several at a time, as fast as the store lets us.
#
# One request is in flight at first, twice as many after each round without trouble, half as many
# when the store asks to slow down, and then the batch is tried again after a pause.

BATCH = 1000
_ERRORS_KEPT = 20
_MAX_PAUSE_S = 8.0
_THROTTLED_TRIES = 8

type Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteLimits:
    concurrent: int = 10  # requests
    consecutive_failures: int = 50  # after so many in a row there is no point in going on
    older_than_us: int | None = None  # objects rewritten since then stay


@dataclass(slots=True)
class Deleted:
    """Counts of deleted objects."""

    objects: int = 0
    size_bytes: int = 0
    failed: int = 0
    throttled: int = 0
    errors: list[str] = field(default_factory=list)
    failed_in_a_row: int = 0  # requests

    def add(self, other: "Deleted") -> None:
        self.objects += other.objects
        self.size_bytes += other.size_bytes
        self.failed += other.failed
        self.throttled += other.throttled
        self.errors = [*self.errors, *other.errors][:_ERRORS_KEPT]


def delete_files(
    store: ObjectStore,
    listing: Listing,
    limits: DeleteLimits,
    *,
    progress: Callable[[int], None] | None = None,
    sleep: Sleep = time.sleep,
) -> Deleted:
    """Raises ConflictError once too many requests have failed one after another."""
    total, width, start = Deleted(), 1, 0
    # What was written together lies together on a disk, and is soonest removed together.
    order = np.argsort(listing.created_at_us, kind="stable").astype(np.int64, copy=False)
    with ThreadPoolExecutor(limits.concurrent, thread_name_prefix="frazil-delete") as threads:
        while start < len(listing):
            stop = min(start + width * BATCH, len(listing))
            some = [order[at : min(at + BATCH, stop)] for at in range(start, stop, BATCH)]
            done = list(
                threads.map(
                    lambda rows: _delete_batch(store, listing.take(rows), limits, sleep), some
                )
            )
            for each in done:
                _count(total, each, limits, listing.kind)
            slowed = any(each.throttled for each in done)
            width = max(1, width // 2) if slowed else min(limits.concurrent, width * 2)
            start = stop
            if progress is not None:
                progress(start)
    return total


def delete_keys(store: ObjectStore, keys: Sequence[str], *, sleep: Sleep = time.sleep) -> Deleted:
    """Objects of other names, of which there are few."""
    total = Deleted()
    for start in range(0, len(keys), BATCH):
        total.add(_try(store, dict.fromkeys(keys[start : start + BATCH], 0), None, sleep))
    return total


def _delete_batch(
    store: ObjectStore, batch: Listing, limits: DeleteLimits, sleep: Sleep
) -> Deleted:
    sizes = dict(zip(keys_of(batch.kind, batch.ids), batch.size_bytes.tolist(), strict=True))
    return _try(store, sizes, limits.older_than_us, sleep)


def _try(
    store: ObjectStore, sizes: Mapping[str, int], older_than_us: int | None, sleep: Sleep
) -> Deleted:
    """Deletes the objects of these sizes by key."""
    throttled, keys = 0, tuple(sizes)
    while True:
        try:
            spared: tuple[str, ...] = ()
            if older_than_us is None:
                store.delete(keys)
            else:
                spared = store.delete_older(keys, older_than_us)
        except StorageError as error:
            if error.kind == "throttled" and throttled < _THROTTLED_TRIES:
                throttled += 1
                jitter = random.uniform(0.5, 1.0)  # noqa: S311 -- so that clients fall out of step
                sleep(jitter * min(_MAX_PAUSE_S, 0.1 * 2**throttled))
                continue
            return Deleted(failed=len(keys), throttled=throttled, errors=[error.message])
        size_bytes = sum(sizes.values()) - sum(sizes[key] for key in spared)
        return Deleted(len(keys) - len(spared), size_bytes, throttled=throttled)


def _count(total: Deleted, new: Deleted, limits: DeleteLimits, kind: FileKind) -> None:
    total.add(new)
    total.failed_in_a_row = total.failed_in_a_row + 1 if new.failed else 0
    if total.failed_in_a_row >= limits.consecutive_failures:
        raise ConflictError(
            message=f"too many consecutive delete failures under {kind.value}: {new.errors[0]}",
            kind="gc-deletes-failing",
        )
