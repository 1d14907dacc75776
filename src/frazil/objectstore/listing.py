"""Listings in ranges of keys, which are listed concurrently.

Together the ranges cover all possible keys, so that no unusual name is overlooked. A store that
has to go through all its keys for any range has a single one.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice, pairwise

from frazil.objectstore.protocol import ObjectInfo, ObjectStore


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys from `start`, up to but without `stop`; None: to the end."""

    start: str
    stop: str | None

    def __contains__(self, key: str) -> bool:
        return self.start <= key and (self.stop is None or key < self.stop)


EVERYTHING = KeyRange("", None)


def key_ranges(store: ObjectStore, edges: Sequence[str]) -> tuple[KeyRange, ...]:
    """All keys, cut at `edges` if the store lists a range faster than everything."""
    if not store.capabilities.lists_in_order:
        return (EVERYTHING,)
    cuts = ["", *sorted(set(edges)), None]
    return tuple(KeyRange(start or "", stop) for start, stop in pairwise(cuts))


def list_range(store: ObjectStore, keys: KeyRange) -> Iterator[ObjectInfo]:
    """All objects with keys in the range, in any order."""
    return store.list() if keys == EVERYTHING else store.list_range(keys.start, keys.stop)


def gather_listed[T](
    store: ObjectStore,
    prefix: str,
    ranges: Sequence[KeyRange],
    gather: Callable[[Iterable[ObjectInfo]], T],
    *,
    concurrent: int,
    first: int,
) -> Iterator[T]:
    """Results of `gather` for successive groups of the objects below the prefix, each object once.

    The `first` objects come from one plain listing: for a few objects nothing is faster. If there
    are more objects and more than one range, threads list and gather `concurrent` ranges at a
    time; the results of so many of them are in memory.
    """
    infos = store.list(prefix)
    beginning = list(islice(infos, first))
    yield gather(beginning)
    if len(beginning) < first:
        return
    if len(ranges) == 1 or concurrent == 1:
        yield gather(infos)
        return
    last = beginning[-1].key  # the listing is ordered, or there would be only one range
    remaining = [keys for keys in ranges if keys.stop is None or keys.stop > last]

    def work(part: KeyRange) -> T:
        return gather(info for info in list_range(store, part) if info.key > last)

    with ThreadPoolExecutor(concurrent, thread_name_prefix="frazil-list") as threads:
        running: deque[Future[T]] = deque()
        for part in remaining:
            running.append(threads.submit(work, part))
            if len(running) == concurrent:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
