"""Dask arrays written to Icechunk stores, with any of Dask's schedulers.

Every task writes its part through a copy of a forked session, in any process, and
returns that copy. They are merged by a tree of further tasks, so that no single one has to take
them all.
"""

import sys
from collections.abc import Callable
from functools import wraps
from importlib.metadata import version
from typing import Any, cast

import dask.array
import numpy as np
import zarr
from dask.base import compute

from frazil.api import ForkSession
from frazil.distributed import extract_session, merge_sessions

__all__ = ["computing_meta", "session_merge_reduction", "store_dask"]

_OLDEST = (2025, 2)  # where `store` returns arrays of what was stored


def computing_meta[**P, R](function: Callable[P, R]) -> Callable[..., Any]:
    """The function, not called where Dask only wants to know what sort of array to expect."""

    @wraps(function)
    def wrapper(*args: Any, computing_meta: bool = False, **kwargs: Any) -> Any:
        if computing_meta:
            return np.empty((0,), dtype=object)
        return function(*args, **kwargs)

    return wrapper


def store_dask(
    *,
    sources: list[dask.array.Array],
    targets: "list[zarr.Array[Any]]",
    regions: list[tuple[slice, ...]] | None = None,
    split_every: int | None = None,
    **store_kwargs: Any,
) -> ForkSession:
    """Writes each source to its target and returns a fork that has all the changes.

    Targets are arrays of a ForkSession; merge what is returned into the session it was made of.
    Writes are done when this returns. `split_every` is how many sessions one task merges;
    `store_kwargs` go to `dask.array.store` and to the computation.
    """
    _require_dask()
    stored = dask.array.store(
        sources=sources,
        targets=targets,  # type: ignore[arg-type]  # dask knows of zarr, its annotation does not
        regions=regions,
        compute=False,
        return_stored=True,
        load_stored=False,
        lock=False,
        **store_kwargs,
    )
    arrays = list(stored) if isinstance(stored, tuple | list) else [stored]
    return session_merge_reduction(arrays, split_every=split_every, **store_kwargs)


def session_merge_reduction(
    arrays: dask.array.Array | list[dask.array.Array],
    *,
    split_every: int | None,
    **store_kwargs: Any,
) -> ForkSession:
    """All sessions behind arrays whose blocks are zarr Arrays, as one. Computes the arrays."""
    listed = arrays if isinstance(arrays, list | tuple) else [arrays]
    reduced = [
        _find_reduction(array)(
            array,
            name="icechunk-sessions",
            chunk=_extract_each,
            aggregate=_merge_some,
            split_every=split_every,
            concatenate=False,
            dtype=object,
        )
        for array in listed
    ]
    found = compute(*reduced, **store_kwargs)  # type: ignore[no-untyped-call]  # same
    return merge_sessions(*found)


def _find_reduction(array: Any) -> Callable[..., Any]:
    """`reduction` of the library that the array is from, which need not be `dask.array`.

    Others have dask collections of their own, which `dask.array` would take for opaque objects.
    """
    library: Any = dask.array
    if not isinstance(array, library.Array):
        library = sys.modules.get(type(array).__module__.partition(".")[0])
    kind, reduction = (getattr(library, name, None) for name in ("Array", "reduction"))
    if not isinstance(kind, type) or not isinstance(array, kind) or not callable(reduction):
        raise TypeError(f"Expected a dask array, received {type(array)!r}")
    return cast("Callable[..., Any]", reduction)


# Functions of a module, so that they are pickled by name: one that is made by another function
# would travel with its code in every task.


def _extract_each(*args: Any, **kwargs: Any) -> Any:
    return computing_meta(extract_session)(*args, **kwargs)


def _merge_some(*args: Any, **kwargs: Any) -> Any:
    return computing_meta(_merge)(*args, **kwargs)


def _merge(
    sessions: Any,
    axis: Any = None,  # noqa: ARG001 -- what Dask calls a reduction with
    keepdims: Any = None,  # noqa: ARG001 -- same
) -> ForkSession:
    return merge_sessions(sessions)


def _require_dask() -> None:
    found = version("dask")
    if tuple(int(part) for part in found.split(".")[:2]) < _OLDEST:
        raise ValueError(f"dask 2025.2.0 or later is needed, found {found}")
