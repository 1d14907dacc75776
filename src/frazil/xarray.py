"""Xarray objects written to Icechunk stores.

Variables in memory are written as they come; those backed by Dask are left for last and written
together through a fork, so that the tasks may run in other processes.
"""

from collections.abc import Hashable, Mapping, MutableMapping
from typing import Any, Literal

import zarr
from xarray import DataArray, Dataset
from xarray.backends.zarr import ZarrStore
from xarray.namedarray.parallelcompat import get_chunked_array_type
from zarr.storage import StorePath

from frazil.api import ForkSession, Session
from frazil.lazy import load

try:
    from xarray.backends.writers import dump_to_store
except ImportError:  # before 2025.9
    from xarray.backends.api import (  # type: ignore[attr-defined,no-redef]  # where it was then
        dump_to_store,
    )

__all__ = ["to_icechunk"]

type WriteMode = Literal["w", "w-", "a", "a-", "r+", "r"]
type Region = Mapping[str, slice | Literal["auto"]] | Literal["auto"]


def to_icechunk(
    obj: DataArray | Dataset,
    session: Session,
    *,
    group: str | None = None,
    mode: WriteMode | None = None,
    safe_chunks: bool = True,
    align_chunks: bool = False,
    append_dim: Hashable | None = None,
    region: Region | None = None,
    encoding: Mapping[Any, Any] | None = None,
    chunkmanager_store_kwargs: MutableMapping[Any, Any] | None = None,
    split_every: int | None = None,
) -> None:
    """Writes the object to a group of the session, as `Dataset.to_zarr` would.

    All is written when this returns, and nothing committed. `mode` is by default "a" when
    appending, "r+" for a region, and "w-" otherwise. Parallel writes need chunks of Dask that
    fall on chunks of Zarr, which `safe_chunks` checks and `align_chunks` arranges; should two
    tasks write to one chunk after all, SessionStateError[merge-failed] says so.
    `chunkmanager_store_kwargs` go to the `store` of xarray's chunk manager; `split_every` is how
    many sessions one task merges.
    """
    dataset = _as_dataset(obj)
    target = ZarrStore.open_group(
        store=session.store,
        mode=mode or _default_mode(append_dim, region),
        group=group,
        consolidated=False,
        consolidate_on_close=False,
        append_dim=append_dim,
        write_region=region,
        safe_chunks=safe_chunks,
        align_chunks=align_chunks,
        zarr_format=3,
    )
    # Two checks that xarray has no public names for; its own `to_zarr` makes them here.
    dataset = target._validate_and_autodetect_region(dataset)  # noqa: SLF001 -- see above
    target._validate_encoding(encoding or {})  # noqa: SLF001 -- see above
    writer = _Writer()
    dump_to_store(  # type: ignore[no-untyped-call]  # not annotated by xarray
        dataset, target, writer, encoding=encoding or {}
    )
    writer.write_lazy(session, split_every, dict(chunkmanager_store_kwargs or {}))


class _Writer:
    """Target for the data of xarray's variables; writes at once what needs no Dask."""

    def __init__(self) -> None:
        self._sources: list[Any] = []
        self._targets: list[zarr.Array[Any]] = []
        self._regions: list[Any] = []

    def add(self, source: Any, target: "zarr.Array[Any]", region: Any = None) -> None:
        if hasattr(source, "__dask_graph__"):
            self._sources.append(source)
            self._targets.append(target)
            self._regions.append(region)
        else:
            target[region or ...] = source

    def write_lazy(
        self, session: Session, split_every: int | None, store_kwargs: dict[Any, Any]
    ) -> None:
        if not self._sources:
            return
        fork = session.fork()
        # Through xarray: dask collections need not be those of `dask.array`.
        manager: Any = get_chunked_array_type(*self._sources)
        stored = manager.store(
            self._sources,
            [_in_fork(target, fork) for target in self._targets],
            regions=self._regions,
            compute=False,
            return_stored=True,
            load_stored=False,
            lock=False,
            **store_kwargs,
        )
        arrays = list(stored) if isinstance(stored, tuple | list) else [stored]
        # Loaded here because it needs Dask, which xarray does not install.
        reduce = load("frazil.dask", "session_merge_reduction")
        session.merge(reduce(arrays, split_every=split_every, **store_kwargs))


def _in_fork(array: "zarr.Array[Any]", fork: ForkSession) -> "zarr.Array[Any]":
    """The same array by way of another session."""
    place = StorePath(fork.store, array.path)
    config = array.config
    return zarr.Array(zarr.AsyncArray(metadata=array.metadata, store_path=place, config=config))


def _as_dataset(obj: DataArray | Dataset) -> Dataset:
    """A data array becomes a variable of a dataset, the way xarray writes them to files."""
    match obj:
        case Dataset():
            dataset = obj
        case DataArray(name=None):
            dataset = obj.to_dataset(name="__xarray_dataarray_variable__")
        case DataArray(name=name) if name in obj.coords or name in obj.dims:
            # No variable can bear the name of a coordinate; xarray finds the name again.
            dataset = obj.to_dataset(name="__xarray_dataarray_variable__")
            dataset.attrs["__xarray_dataarray_name__"] = name
        case DataArray():
            dataset = obj.to_dataset()
        case _:
            raise TypeError(f"a DataArray or a Dataset is needed, got {type(obj)}")
    for name in dataset.variables:
        if not isinstance(name, str) or not name:
            raise TypeError(f"variables must have a name that is text, got {name!r}")
    # Lazy arrays without elements have no tasks to write them.
    empty = [name for name, variable in dataset.variables.items() if variable.size == 0]
    return dataset.assign({name: dataset[name].load() for name in empty}) if empty else dataset


def _default_mode(append_dim: Hashable | None, region: Region | None) -> WriteMode:
    if append_dim is not None:
        return "a"
    return "w-" if region is None else "r+"
