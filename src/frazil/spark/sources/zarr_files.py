"""Zarr stores in a directory or a bucket, format 2 or 3, through xarray; each chunk is a file."""

import json
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from frazil.errors import IcechunkError, ObjectNotFoundError
from frazil.references.columns import Grid, grid_of, parse_chunk_keys
from frazil.references.zarr_v2 import array_document
from frazil.spark.sources.source_errors import source_errors
from frazil.spark.sources.source_files import Folder
from frazil.spark.sources.source_types import (
    ChunkTable,
    Source,
    SourceFormat,
    Storage,
    StoredAs,
)
from frazil.zarrstore.bucket import BucketStore

if TYPE_CHECKING:
    import xarray as xr

MARKERS = ("zarr.json", ".zgroup", ".zmetadata")
_METADATA = {"zarr.json", ".zarray", ".zattrs", ".zgroup"}


def is_zarr(directory: Path) -> bool:
    return any((directory / marker).is_file() for marker in MARKERS)


def open_zarr(source: Source, group: str | None) -> "xr.Dataset":
    """Opens it undecoded and lazy."""
    import xarray as xr  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    with source_errors(source.path):
        store: Any = source.path
        if source.remote is None:
            Path(source.path).stat()
        else:
            store = BucketStore(source.remote.store, source.remote.key)
        # Consolidated metadata may be stale, so that of each node is read.
        return xr.open_dataset(
            store,
            engine="zarr",
            group=group,
            decode_cf=False,
            chunks=None,
            cache=False,
            consolidated=False,
        )


def zarr_storage(source: Source, names: list[str], group: str | None) -> dict[str, Storage]:
    with source_errors(source.path):
        folder = Folder.of(source).below(group or "")
        return {name: _storage(folder.below(name)) for name in names}


def zarr_chunks(
    source: Source, name: str, _chunks: tuple[int, ...], group: str | None
) -> ChunkTable:
    """Finds the files of chunks; chunks without one were never written."""
    folder = Folder.of(source).below(group or "", name)
    with source_errors(source.path):
        grid = _grid(folder)
        files = [file for file in folder.entries() if file.key.split("/")[-1] not in _METADATA]
        files.sort(key=lambda file: file.path)
        index = parse_chunk_keys(source.path, name, [file.key for file in files], grid)
    sizes = np.array([file.size_bytes for file in files], dtype=np.uint64)
    modified = ceil(max((file.modified_at_us for file in files), default=0) / 1_000_000)
    locations = tuple(file.path for file in files) or (source.path,)
    return ChunkTable(index, np.zeros(len(files), np.uint64), sizes, locations, modified)


def _storage(folder: Folder) -> Storage:
    try:
        document = _document(folder)
    except IcechunkError as error:
        return str(error)
    data_type, grid = document["data_type"], document["chunk_grid"]
    if not isinstance(data_type, str) or data_type == "string":
        return f"type {data_type}"
    if grid.get("name") != "regular":
        return f"a chunk grid {grid.get('name')!r}"
    return StoredAs(
        chunks=tuple(grid["configuration"]["chunk_shape"]),
        data_type=data_type,
        codecs=json.dumps(document["codecs"]),
        fill=json.dumps(document["fill_value"]),
    )


def _document(folder: Folder) -> dict[str, Any]:
    name, document = _metadata(folder)
    return document if name == "zarr.json" else array_document(document, {})


def _grid(folder: Folder) -> Grid:
    name, document = _metadata(folder)
    return grid_of(folder.path, name, document)


def _metadata(folder: Folder) -> tuple[str, dict[str, Any]]:
    """Name and content of the array's metadata document."""
    for name in ("zarr.json", ".zarray"):
        data = folder.find(name)
        if data is not None:
            document: dict[str, Any] = json.loads(data)
            return name, document
    raise ObjectNotFoundError(f"{folder.path}/zarr.json")


ZARR = SourceFormat(
    name="zarr", open=open_zarr, storage=zarr_storage, chunks=zarr_chunks, is_folder=True
)
