"""Open, describe and read any kind of source."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, assert_never

import numpy as np
import numpy.typing as npt

from frazil.spark.sources.dataset import describe_dataset, read_slab, stacked
from frazil.spark.sources.description import SourceDescription
from frazil.spark.sources.errors import source_errors_as_ours
from frazil.spark.sources.files import nearby
from frazil.spark.sources.grib import COORDINATES, open_grib
from frazil.spark.sources.marks import source_mark
from frazil.spark.sources.netcdf import NetcdfReader, open_netcdf
from frazil.spark.sources.netcdf3 import open_netcdf3
from frazil.spark.sources.source import Source, SourceKind
from frazil.spark.sources.storage import source_storage
from frazil.spark.sources.tiff import open_tiff
from frazil.spark.sources.zarr import open_zarr

if TYPE_CHECKING:
    import xarray as xr

type Dims = tuple[str, ...]
"""Along which sources follow one another: one that a source does not have, it is one step of."""


def open_source(source: Source, *, group: str | None = None, dims: Dims = ()) -> "xr.Dataset":
    found = _open(source, group=group)
    with source_errors_as_ours(source.path):
        fixed = COORDINATES if source.kind is SourceKind.GRIB else ()
        made = stacked(found, dims, always=source.kind is SourceKind.TIFF, fixed=fixed)
        if made is not found:
            made.set_close(found.close)
        return made


def _open(source: Source, *, group: str | None) -> "xr.Dataset":
    match source.kind:
        case SourceKind.NETCDF:
            return open_netcdf(source, group=group)
        case SourceKind.NETCDF3:
            return open_netcdf3(source)
        case SourceKind.ZARR:
            return open_zarr(source, group=group)
        case SourceKind.GRIB:
            return open_grib(source)
        case SourceKind.TIFF:
            return open_tiff(source)
        case _:
            assert_never(source.kind)


def describe_source(
    source: Source,
    *,
    concat_dim: str | Dims | None,
    only: Iterable[str] | None = None,
    group: str | None = None,
    storage: bool = False,
    mark: bool = False,
) -> SourceDescription:
    """With `storage`, also how the variables are stored; with `mark`, which version it is of."""
    if mark:  # before it is read: what changes meanwhile is another version
        version = source_mark(source)
        found = describe_source(
            source, concat_dim=concat_dim, only=only, group=group, storage=storage
        )
        return replace(found, mark=version)
    dims = _dims(concat_dim)
    with nearby(source) as at_hand:
        with (
            open_source(at_hand, group=group, dims=dims) as dataset,
            source_errors_as_ours(source.path),
        ):
            found = describe_dataset(dataset, source.path, concat_dims=dims, only=only)
        if not storage:
            return found
        stored = source_storage(at_hand, found, group=group)
    return replace(
        found,
        variables={
            name: replace(variable, storage=stored[name])
            for name, variable in found.variables.items()
        },
    )


class Reader(Protocol):
    """Slabs of one source: raw values in native byte order; text as objects."""

    def read(self, name: str, selection: tuple[slice, ...]) -> npt.NDArray[np.generic]: ...
    def close(self) -> None: ...


class DatasetReader:
    """Slabs of a dataset."""

    def __init__(self, path: str, dataset: "xr.Dataset") -> None:
        self._path = path
        self._dataset = dataset

    def read(self, name: str, selection: tuple[slice, ...]) -> npt.NDArray[np.generic]:
        with source_errors_as_ours(self._path):
            return read_slab(self._dataset, name, selection)

    def close(self) -> None:
        self._dataset.close()


def open_reader(source: Source, *, group: str | None = None, dims: Dims = ()) -> Reader:
    again = partial(open_source, source, group=group, dims=dims)
    if source.kind is SourceKind.NETCDF:
        return NetcdfReader(source, group=group, otherwise=again)
    return DatasetReader(source.path, again())


class Opened:
    """Sources opened on first use and closed together, the oldest first when there are many."""

    def __init__(self, *, group: str | None, dims: Dims, limit: int) -> None:
        self._group = group
        self._dims = dims
        self._limit = limit
        self._readers: dict[Source, Reader] = {}

    def read(
        self, source: Source, name: str, selection: tuple[slice, ...]
    ) -> npt.NDArray[np.generic]:
        reader = self._readers.get(source)
        if reader is None:
            if len(self._readers) >= self._limit:
                self._readers.pop(next(iter(self._readers))).close()
            reader = open_reader(source, group=self._group, dims=self._dims)
            self._readers[source] = reader
        return reader.read(name, selection)

    def close(self) -> None:
        while self._readers:
            self._readers.popitem()[1].close()


@contextmanager
def opened(*, group: str | None = None, dims: Dims = (), limit: int = 16) -> Iterator[Opened]:
    files = Opened(group=group, dims=dims, limit=limit)
    try:
        yield files
    finally:
        files.close()


def _dims(given: str | Dims | None) -> Dims:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else given
