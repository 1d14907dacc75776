"""Copies objects from one store to another, many at a time, and checks what arrived.

Tasks read from the store of the executor's files, the source.
"""

import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import (
    CHUNKS,
    CONFIG_YAML,
    MANIFESTS,
    OVERWRITTEN,
    REFS,
    SNAPSHOTS,
    TRANSACTIONS,
)
from frazil.engine.files.reuse import ReusedObject, refresh_objects
from frazil.errors import InvalidInputError, ObjectNotFoundError, StorageError
from frazil.maintenance.executor import Executor, split_rows
from frazil.maintenance.inventory import Listing, keys_of
from frazil.objectstore.local import LocalStore
from frazil.objectstore.protocol import ObjectInfo, ObjectStore

_AT_ONCE = 1024  # objects
_IN_FLIGHT_BYTES = 128 << 20  # of the objects that a task holds in memory, or one object
_FOLDERS = (SNAPSHOTS, MANIFESTS, TRANSACTIONS, CHUNKS, OVERWRITTEN, REFS)


def transfer(
    executor: Executor,
    target: ObjectStore,
    listings: Sequence[Listing],
    others: Sequence[ObjectInfo] = (),
) -> None:
    """Copies listings in this order; what is referred to is durable before what refers to it.

    Raises StorageError if an object is not as long as it is listed, ObjectNotFoundError if it is
    gone.
    """
    for listing in listings:
        _run(executor, CopyListed(target, listing), f"copying {listing.kind.value[:-1]}")
    keys, sizes = [one.key for one in others], [one.size_bytes for one in others]
    copy, spans = CopyObjects(target, keys, sizes), split_rows(len(others), _AT_ONCE)
    deque(executor.run(copy, len(others), "copying backups", spans=spans, sizes=sizes), maxlen=0)


def refresh_listed(
    executor: Executor, target: ObjectStore, listings: Sequence[Listing]
) -> list[Listing]:
    """Makes files that are there as young as new ones; returns those that are gone."""
    lost = []
    for listing in listings:
        refresh, spans = RefreshListed(target, listing), split_rows(len(listing), _AT_ONCE)
        rows = list(executor.run(refresh, len(listing), "refreshing", spans=spans))
        lost += [listing.take(some) for some in rows if len(some)]
    return lost


def compare_contents(executor: Executor, target: ObjectStore, listings: Sequence[Listing]) -> None:
    """Reads both sides. Raises StorageError at the first object that differs."""
    for listing in listings:
        _run(executor, CompareListed(target, listing), "comparing")


@dataclass(frozen=True, slots=True, eq=False)
class CopyListed:
    """Copies rows of a listing."""

    target: ObjectStore
    listing: Listing

    def __call__(self, files: Files, rows: range) -> None:
        copy_listed(files, self.target, self.listing.take(slice(rows.start, rows.stop)))


@dataclass(frozen=True, slots=True)
class CopyObjects:
    """Copies objects whose names are not ids."""

    target: ObjectStore
    keys: list[str]
    sizes: list[int]

    def __call__(self, files: Files, rows: range) -> None:
        some = slice(rows.start, rows.stop)
        copy_objects(files, self.target, self.keys[some], self.sizes[some])


@dataclass(frozen=True, slots=True, eq=False)
class RefreshListed:
    """Returns the rows of files that are gone."""

    target: ObjectStore
    listing: Listing

    def __call__(self, files: Files, rows: range) -> npt.NDArray[np.int64]:
        some = self.listing.take(slice(rows.start, rows.stop))
        return rows.start + _refresh(files, self.target, some)


@dataclass(frozen=True, slots=True, eq=False)
class CompareListed:
    """Reads files at the source and at the target."""

    target: ObjectStore
    listing: Listing

    def __call__(self, files: Files, rows: range) -> None:
        ids = self.listing.ids[rows.start : rows.stop]
        require_equal_contents(files, self.target, keys_of(self.listing.kind, ids))


def copy_listed(files: Files, target: ObjectStore, some: Listing) -> None:
    """Copies files of the source; they are durable afterwards."""
    copy_objects(files, target, keys_of(some.kind, some.ids), some.size_bytes.tolist())


def refresh_here(files: Files, target: ObjectStore, some: Listing) -> Listing:
    """Makes files of the target as young as new ones; returns those that are gone."""
    return some.take(_refresh(files, target, some))


def require_equal_contents(files: Files, target: ObjectStore, keys: Sequence[str]) -> None:
    """Raises StorageError at the first object that differs at the source and at the target."""
    files.pool.map(lambda key: _require_equal(files.store, target, key), keys)


def _refresh(files: Files, target: ObjectStore, some: Listing) -> npt.NDArray[np.int64]:
    """Rows of files that are gone."""
    sizes = zip(keys_of(some.kind, some.ids), some.size_bytes.tolist(), strict=True)
    objects = [ReusedObject(key, size) for key, size in sizes]
    gone = {one.key for one in refresh_objects(target, objects, files.pool)}
    return np.flatnonzero([one.key in gone for one in objects]).astype(np.int64)


def copy_objects(
    files: Files, target: ObjectStore, keys: Sequence[str], sizes: Sequence[int]
) -> None:
    """Copies objects of the source; they are durable afterwards."""
    if not keys:
        return
    at_most = max(1, _IN_FLIGHT_BYTES // max(1, *sizes))
    objects = list(zip(keys, sizes, strict=True))
    files.pool.map(lambda one: _copy_object(files.store, target, *one), objects, at_most=at_most)
    target.sync()


def _copy_object(source: ObjectStore, target: ObjectStore, key: str, size_bytes: int) -> None:
    data = source.get(key).data
    if len(data) != size_bytes:
        raise StorageError(f"{key!r} should have {size_bytes} bytes, but {len(data)} were read")
    target.put(key, data)


def _require_equal(source: ObjectStore, target: ObjectStore, key: str) -> None:
    try:
        expected = source.get(key).data
    except ObjectNotFoundError:  # the target had it before: an increment does not hold it
        return
    if bytes(target.get(key).data) != bytes(expected):
        raise StorageError(f"{key!r} at the target is not what it is at the source")


def _run(executor: Executor, task: CopyListed | CompareListed, doing: str) -> None:
    listing, spans = task.listing, split_rows(len(task.listing), _AT_ONCE)
    results = executor.run(task, len(listing), doing, spans=spans, sizes=listing.size_bytes)
    deque(results, maxlen=0)


def require_elsewhere(source: ObjectStore, target: ObjectStore) -> None:
    """Raises InvalidInputError for a copy inside of its source, or around it."""
    if target is source:
        raise InvalidInputError("the target is the repository itself")
    if isinstance(source, LocalStore) and isinstance(target, LocalStore):
        one, other = (os.path.realpath(store.root).rstrip("/") + "/" for store in (source, target))
        if one.startswith(other) or other.startswith(one):
            raise InvalidInputError(f"the target {other} is in the place of the source, {one}")


def require_no_strangers(target: ObjectStore) -> None:
    """Raises InvalidInputError if there is anything but what an interrupted copy left."""
    for info in target.list():
        if not info.key.startswith(_FOLDERS) and info.key != CONFIG_YAML:
            raise InvalidInputError(
                f"there is {info.key!r} at the target, which is no part of a repository",
                kind="parent-directory-not-clean",
            )
