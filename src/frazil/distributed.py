"""Sessions that took part in a computation, brought together again.

For frameworks of distributed arrays: a task writes to a zarr Array of a forked session and hands
on the array or its session; at the end all of them are one.
"""

from collections.abc import Iterator
from typing import Any

import zarr

from frazil.api import ForkSession, IcechunkStore, Session

__all__ = ["extract_session", "merge_sessions"]


def extract_session(
    zarray: "zarr.Array[Any]",
    axis: Any = None,  # noqa: ARG001 -- reductions of distributed arrays pass it
    keepdims: Any = None,  # noqa: ARG001 -- same
) -> Session:
    """The session that the array is stored in, with what was written to it."""
    store = zarray.store
    if not isinstance(store, IcechunkStore):
        raise TypeError(f"the array is in a {type(store).__name__}, not in an IcechunkStore")
    return store.session


def merge_sessions(
    *sessions: ForkSession | list[ForkSession] | list[list[ForkSession]],
) -> ForkSession:
    """The first of the forks, with the changes of all others merged into it."""
    forks = list(_forks(sessions))
    if not forks:
        raise ValueError("there are no sessions to merge")
    first, *others = forks
    first.merge(*others)
    return first


def _forks(found: object) -> Iterator[ForkSession]:
    match found:
        case ForkSession():
            yield found
        case list() | tuple():
            for each in found:
                yield from _forks(each)
        case _:
            raise TypeError(
                "merge_sessions only accepts ForkSession objects."
                f" Received {type(found).__name__!r}: merge into a session with its method `merge`"
            )
