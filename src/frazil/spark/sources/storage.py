"""How any kind of source stores its variables, and where their chunks are."""

from dataclasses import replace
from typing import assert_never

import numpy as np

from frazil.spark.sources.description import SourceDescription
from frazil.spark.sources.find import Source, SourceKind
from frazil.spark.sources.hdf5_chunks import hdf5_chunks, hdf5_storage
from frazil.spark.sources.netcdf3 import netcdf3_chunks, netcdf3_storage
from frazil.spark.sources.stored import ChunkTable, Storage
from frazil.spark.sources.zarr_chunks import zarr_chunks, zarr_storage


def source_storage(
    source: Source, description: SourceDescription, *, group: str | None
) -> dict[str, Storage]:
    """By variable."""
    names = list(description.variables)
    found = _storage(source, names, group)
    return {name: _as_described(found[name], description.variables[name].shape) for name in names}


def source_chunks(
    source: Source, name: str, chunks: tuple[int, ...], *, group: str | None, stacked: bool
) -> ChunkTable:
    """Of a variable, which the source has one step of if it is `stacked`."""
    own = chunks[1:] if stacked else chunks
    match source.kind:
        case SourceKind.NETCDF:
            found = hdf5_chunks(source.path, name, own, group=group)
        case SourceKind.NETCDF3:
            found = netcdf3_chunks(source.path, name, own)
        case SourceKind.ZARR:
            found = zarr_chunks(source.path, name, own, group=group)
        case SourceKind.GRIB | SourceKind.TIFF:
            raise NotImplementedError(source.kind)  # `_storage` says that there are none
        case _:
            assert_never(source.kind)
    if not stacked:
        return found
    return replace(found, index=np.pad(found.index, ((0, 0), (1, 0))))


def _storage(source: Source, names: list[str], group: str | None) -> dict[str, Storage]:
    match source.kind:
        case SourceKind.NETCDF:
            return hdf5_storage(source.path, names, group=group)
        case SourceKind.NETCDF3:
            return netcdf3_storage(source.path, names)
        case SourceKind.ZARR:
            return zarr_storage(source.path, names, group=group)
        case SourceKind.GRIB | SourceKind.TIFF:
            return dict.fromkeys(names, f"a source of kind {source.kind}")
        case _:
            assert_never(source.kind)


def _as_described(storage: Storage, shape: tuple[int, ...]) -> Storage:
    """With a first axis of one step, if the source does not have that axis."""
    if isinstance(storage, str) or len(storage.chunks) == len(shape):
        return storage
    if len(storage.chunks) == len(shape) + 1:
        return "characters"  # which make texts
    return replace(storage, chunks=(1, *storage.chunks), is_row=False, stacked=True)
