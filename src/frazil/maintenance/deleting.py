"""Deleting many objects: in batches, several at a time, as fast as the store lets us.

One request is in flight at first, twice as many after each round without trouble, half as many
when the store asks to slow down, and then the batch is tried again after a pause.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from frazil.errors import ConflictError, StorageError
from frazil.maintenance.inventory import FileKind, Listing, keys_of
from frazil.objectstore.protocol import ObjectStore

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
