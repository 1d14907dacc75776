"""Reading what comes next while the caller is busy with what has come."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor


def ahead[T, R](work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """`work` of each item, in order; that of the next one is begun before one is handed out.

    On a thread of its own, so that the work may use a pool: a thread of the pool must not wait for
    another. Two results are in memory at a time.
    """
    coming: Future[R] | None = None
    with ThreadPoolExecutor(1, thread_name_prefix="frazil-ahead") as thread:
        for item in items:
            found, coming = coming, thread.submit(work, item)
            if found is not None:
                yield found.result()
        if coming is not None:
            yield coming.result()
