"""Open, describe and read any kind of source."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import assert_never

import numpy as np
import numpy.typing as npt
import xarray as xr

from frazil.spark.sources.dataset import describe_dataset, read_slab
from frazil.spark.sources.description import SourceDescription
from frazil.spark.sources.errors import source_errors_as_ours
from frazil.spark.sources.find import Source, SourceKind
from frazil.spark.sources.netcdf import open_netcdf
from frazil.spark.sources.zarr import open_zarr


def open_source(source: Source, *, group: str | None = None) -> xr.Dataset:
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


class Opened:
    """Sources opened on first use and closed together, the oldest first when there are many."""

    def __init__(self, *, group: str | None, limit: int) -> None:
        self._group = group
        self._limit = limit
        self._datasets: dict[Source, xr.Dataset] = {}

    def read(
        self, source: Source, name: str, selection: tuple[slice, ...]
    ) -> npt.NDArray[np.generic]:
        dataset = self._datasets.get(source)
        if dataset is None:
            if len(self._datasets) >= self._limit:
                self._datasets.pop(next(iter(self._datasets))).close()
            dataset = self._datasets[source] = open_source(source, group=self._group)
        with source_errors_as_ours(source.path):
            return read_slab(dataset, name, selection)

    def close(self) -> None:
        while self._datasets:
            self._datasets.popitem()[1].close()


@contextmanager
def opened(*, group: str | None = None, limit: int = 16) -> Iterator[Opened]:
    files = Opened(group=group, limit=limit)
    try:
        yield files
    finally:
        files.close()
