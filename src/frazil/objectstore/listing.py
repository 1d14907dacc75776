"""Listings in parts: ranges of keys that are listed each for itself, at the same time.

Together the ranges are all keys there can be, so that nothing is overlooked that has an odd name.
A store that goes through everything for any part of it has one range.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Protocol, runtime_checkable

from frazil.objectstore.protocol import ObjectInfo, ObjectStore
from frazil.objectstore.wrappers import Counting, ReadOnly


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys from `start`, up to but without `stop`; None: to the end."""

    start: str
    stop: str | None

    def __contains__(self, key: str) -> bool:
        return self.start <= key and (self.stop is None or key < self.stop)


EVERYTHING = KeyRange("", None)


@runtime_checkable
class ListsRanges(Protocol):
    @property
    def lists_ranges(self) -> bool:
        """Whether objects are listed in order, and a range costs no more than what is in it."""
        ...

    def list_range(self, start: str, stop: str | None) -> Iterator[ObjectInfo]: ...


def key_ranges(store: ObjectStore, edges: Sequence[str]) -> tuple[KeyRange, ...]:
    """All keys, cut at these, as far as the store gains by it."""
    source = _source(store)
    if source is None or not source.lists_ranges:
        return (EVERYTHING,)
    cuts = ["", *sorted(set(edges)), None]
    return tuple(KeyRange(start or "", stop) for start, stop in pairwise(cuts))


def list_range(store: ObjectStore, keys: KeyRange) -> Iterator[ObjectInfo]:
    """In any order."""
    if keys == EVERYTHING:
        return store.list()
    source = _source(store)
    if source is None:
        return (info for info in store.list() if info.key in keys)
    return source.list_range(keys.start, keys.stop)


def gather_listed[T](
    store: ObjectStore,
    prefix: str,
    ranges: Sequence[KeyRange],
    gather: Callable[[Iterable[ObjectInfo]], T],
    *,
    concurrent: int,
    first: int,
) -> Iterator[T]:
    """What `gather` makes of objects below the prefix, some at a time, each object once.

    The first so many are listed as ever: for few objects there is no quicker way. If there are
    more, and more ranges than one, `concurrent` ranges are listed and gathered at a time, by
    threads of their own; what is gathered of so many of them is in memory.
    """
    infos = store.list(prefix)
    some = list(islice(infos, first))
    yield gather(some)
    if len(some) < first:
        return
    if len(ranges) == 1 or concurrent == 1:
        yield gather(infos)
        return
    last = some[-1].key  # in order: that is what having ranges means
    left = [each for each in ranges if each.stop is None or each.stop > last]

    def work(part: KeyRange) -> T:
        return gather(info for info in list_range(store, part) if info.key > last)

    with ThreadPoolExecutor(concurrent, thread_name_prefix="frazil-list") as threads:
        running: deque[Future[T]] = deque()
        for part in left:
            running.append(threads.submit(work, part))
            if len(running) == concurrent:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


def _source(store: ObjectStore) -> ListsRanges | None:
    match store:
        case ListsRanges():
            return store
        case Counting() | ReadOnly():
            return _source(store.inner)
        case _:
            return None
