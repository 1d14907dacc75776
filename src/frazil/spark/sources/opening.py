"""Open, describe and read any kind of source."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, assert_never

import numpy as np
import numpy.typing as npt

from frazil.spark.sources.dataset import describe_dataset
from frazil.spark.sources.description import SourceDescription
from frazil.spark.sources.errors import source_errors_as_ours
from frazil.spark.sources.find import Source, SourceKind
from frazil.spark.sources.netcdf import NetcdfReader, open_netcdf
from frazil.spark.sources.zarr import ZarrReader, open_zarr

if TYPE_CHECKING:
    import xarray as xr


def open_source(source: Source, *, group: str | None = None) -> "xr.Dataset":
    match source.kind:
        case SourceKind.NETCDF:
            return open_netcdf(source.path, group=group)
        case SourceKind.ZARR:
            return open_zarr(source.path, group=group)
        case _:
            assert_never(source.kind)


def describe_source(
    source: Source,
    *,
    concat_dim: str | None,
    only: Iterable[str] | None = None,
    group: str | None = None,
) -> SourceDescription:
    with (
        open_source(source, group=group) as dataset,
        source_errors_as_ours(source.path),
    ):
        return describe_dataset(dataset, source.path, concat_dim=concat_dim, only=only)


class Reader(Protocol):
    """Slabs of one source: raw values in native byte order; text as objects."""

    def read(self, name: str, selection: tuple[slice, ...]) -> npt.NDArray[np.generic]: ...
    def close(self) -> None: ...


def open_reader(source: Source, *, group: str | None = None) -> Reader:
    match source.kind:
        case SourceKind.NETCDF:
            return NetcdfReader(source.path, group=group)
        case SourceKind.ZARR:
            return ZarrReader(source.path, group=group)
        case _:
            assert_never(source.kind)


class Opened:
    """Sources opened on first use and closed together, the oldest first when there are many."""

    def __init__(self, *, group: str | None, limit: int) -> None:
        self._group = group
        self._limit = limit
        self._readers: dict[Source, Reader] = {}

    def read(
        self, source: Source, name: str, selection: tuple[slice, ...]
    ) -> npt.NDArray[np.generic]:
        reader = self._readers.get(source)
        if reader is None:
            if len(self._readers) >= self._limit:
                self._readers.pop(next(iter(self._readers))).close()
            reader = self._readers[source] = open_reader(source, group=self._group)
        return reader.read(name, selection)

    def close(self) -> None:
        while self._readers:
            self._readers.popitem()[1].close()


@contextmanager
def opened(*, group: str | None = None, limit: int = 16) -> Iterator[Opened]:
    files = Opened(group=group, limit=limit)
    try:
        yield files
    finally:
        files.close()
