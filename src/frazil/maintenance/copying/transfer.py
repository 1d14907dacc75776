"""Objects from one store to another, many at a time, checked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from frazil.assets.pool import Pool
from frazil.assets.reuse import ReusedObject, refresh_objects
from frazil.errors import ObjectNotFoundError, StorageError
from frazil.maintenance.inventory import Listing, keys_of
from frazil.maintenance.progress import Progress
from frazil.objectstore.protocol import ObjectInfo, ObjectStore

_BATCH = 1024  # objects between two reports; in memory is one for each thread


@dataclass(frozen=True, slots=True)
class Transferred:
    objects: int = 0
    bytes: int = 0

    def __add__(self, other: "Transferred") -> "Transferred":
        return Transferred(self.objects + other.objects, self.bytes + other.bytes)


def transfer(
    source: ObjectStore,
    target: ObjectStore,
    listings: Sequence[Listing],
    others: Sequence[ObjectInfo] = (),
    *,
    pool: Pool,
    progress: Progress | None = None,
) -> Transferred:
    """Copies them in this order; what is referred to is durable before what refers to it.

    Raises StorageError if an object is not as long as it is listed, ObjectNotFoundError if it is
    gone.
    """
    total = sum(map(len, listings)) + len(others)
    done = Transferred()

    def copy_batch(batch: list[tuple[str, int]]) -> Transferred:
        sizes = pool.map(lambda one: copy_object(source, target, *one), batch)
        return Transferred(len(sizes), sum(sizes))

    for listing in listings:
        for start in range(0, len(listing), _BATCH):
            some = listing.take(slice(start, start + _BATCH))
            batch = list(zip(keys_of(some.kind, some.ids), some.size_bytes.tolist(), strict=True))
            done += copy_batch(batch)
            _tell(progress, done.objects, total)
        target.sync()
    for start in range(0, len(others), _BATCH):
        chosen = others[start : start + _BATCH]
        done += copy_batch([(one.key, one.size_bytes) for one in chosen])
        _tell(progress, done.objects, total)
    target.sync()
    return done


def refresh_listed(
    target: ObjectStore,
    listings: Sequence[Listing],
    *,
    pool: Pool,
    progress: Progress | None = None,
) -> list[Listing]:
    """Makes files that are there as young as new ones; those that are gone are returned."""
    total, done = sum(map(len, listings)), 0
    lost: list[Listing] = []
    for listing in listings:
        for start in range(0, len(listing), _BATCH):
            some = listing.take(slice(start, start + _BATCH))
            sizes = zip(keys_of(some.kind, some.ids), some.size_bytes.tolist(), strict=True)
            objects = [ReusedObject(key, size) for key, size in sizes]
            gone = {one.key for one in refresh_objects(target, objects, pool)}
            if gone:
                lost.append(some.take(np.array([one.key in gone for one in objects])))
            done += len(some)
            _tell(progress, done, total, doing="refreshing")
    return lost


def copy_object(source: ObjectStore, target: ObjectStore, key: str, size_bytes: int) -> int:
    data = source.get(key).data
    if len(data) != size_bytes:
        raise StorageError(f"{key!r} should have {size_bytes} bytes, but {len(data)} were read")
    target.put(key, data)
    return size_bytes


def compare_contents(
    source: ObjectStore,
    target: ObjectStore,
    listings: Sequence[Listing],
    *,
    pool: Pool,
    progress: Progress | None = None,
) -> None:
    """Reads both. Raises StorageError at the first object that differs."""
    total, done = sum(map(len, listings)), 0
    check: Callable[[str], None] = lambda key: _require_equal(source, target, key)  # noqa: E731 -- a closure
    for listing in listings:
        for start in range(0, len(listing), _BATCH):
            some = listing.take(slice(start, start + _BATCH))
            pool.map(check, keys_of(some.kind, some.ids))
            done += len(some)
            _tell(progress, done, total, doing="comparing")


def _require_equal(source: ObjectStore, target: ObjectStore, key: str) -> None:
    try:
        expected = source.get(key).data
    except ObjectNotFoundError:  # the target had it before: an increment does not hold it
        return
    if bytes(target.get(key).data) != bytes(expected):
        raise StorageError(f"{key!r} at the target is not what it is at the source")


def _tell(progress: Progress | None, done: int, total: int, *, doing: str = "copying") -> None:
    if progress is not None:
        progress(doing, done, total)
