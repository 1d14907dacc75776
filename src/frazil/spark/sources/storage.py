"""How any kind of source stores its variables, and where their chunks are."""

from dataclasses import replace
from typing import assert_never

import numpy as np

from frazil.spark.sources.description import SourceDescription
from frazil.spark.sources.grib_chunks import grib_chunks, grib_storage
from frazil.spark.sources.hdf5_chunks import hdf5_chunks, hdf5_storage
from frazil.spark.sources.netcdf3 import netcdf3_chunks, netcdf3_storage
from frazil.spark.sources.source import Source, SourceKind
from frazil.spark.sources.stored import ChunkTable, Storage
from frazil.spark.sources.tiff_chunks import tiff_chunks, tiff_storage
from frazil.spark.sources.zarr_chunks import zarr_chunks, zarr_storage


def source_storage(
    source: Source, description: SourceDescription, *, group: str | None
) -> dict[str, Storage]:
    """By variable."""
    names = list(description.variables)
    found = _storage(source, names, group)
    return {name: _as_described(found[name], description.variables[name].shape) for name in names}


def source_chunks(
    source: Source, name: str, chunks: tuple[int, ...], *, group: str | None, stacked: int
) -> ChunkTable:
    """Of a variable; the first `stacked` axes are not the source's, which is one step of them."""
    own = chunks[stacked:]
    match source.kind:
        case SourceKind.NETCDF:
            found = hdf5_chunks(source, name, own, group=group)
        case SourceKind.NETCDF3:
            found = netcdf3_chunks(source, name, own)
        case SourceKind.ZARR:
            found = zarr_chunks(source, name, own, group=group)
        case SourceKind.GRIB:
            found = grib_chunks(source, name, own)
        case SourceKind.TIFF:
            found = tiff_chunks(source, name, own)
        case _:
            assert_never(source.kind)
    return replace(found, index=np.pad(found.index, ((0, 0), (stacked, 0))))


def _storage(source: Source, names: list[str], group: str | None) -> dict[str, Storage]:
    match source.kind:
        case SourceKind.NETCDF:
            return hdf5_storage(source, names, group=group)
        case SourceKind.NETCDF3:
            return netcdf3_storage(source, names)
        case SourceKind.ZARR:
            return zarr_storage(source, names, group=group)
        case SourceKind.GRIB:
            return grib_storage(source, names)
        case SourceKind.TIFF:
            return tiff_storage(source, names)
        case _:
            assert_never(source.kind)


def _as_described(storage: Storage, shape: tuple[int, ...]) -> Storage:
    """With first axes of one step, if the source does not have them."""
    if isinstance(storage, str):
        return storage
    missing = len(shape) - len(storage.chunks)
    if missing < 0:
        return "characters"  # which make texts
    if missing == 0:
        return storage
    chunks = (*(1,) * missing, *storage.chunks)
    is_row = storage.is_row and bool(storage.chunks)
    return replace(storage, chunks=chunks, is_row=is_row, stacked=missing)
