"""Where the chunks of arrays in Zarr stores are: files of their own."""

import json
from math import ceil
from typing import Any

import numpy as np

from frazil.errors import IcechunkError, ObjectNotFoundError
from frazil.references.columns import Grid, grid_of, parse_chunk_keys
from frazil.references.zarr_v2 import array_document
from frazil.spark.sources.errors import source_errors_as_ours
from frazil.spark.sources.folders import Folder
from frazil.spark.sources.source import Source
from frazil.spark.sources.stored import ChunkTable, Storage, StoredAs

_METADATA = {"zarr.json", ".zarray", ".zattrs", ".zgroup"}


def zarr_storage(source: Source, names: list[str], *, group: str | None) -> dict[str, Storage]:
    with source_errors_as_ours(source.path):
        folder = Folder.of(source).below(group or "")
        return {name: _storage(folder.below(name)) for name in names}


def zarr_chunks(
    source: Source, name: str, chunks: tuple[int, ...], *, group: str | None
) -> ChunkTable:
    """Of the files that are there; others were never written."""
    folder = Folder.of(source).below(group or "", name)
    with source_errors_as_ours(source.path):
        grid = _grid(folder)
        files = [each for each in folder.entries() if each.key.split("/")[-1] not in _METADATA]
        files.sort(key=lambda each: each.path)
        index = parse_chunk_keys(source.path, name, [each.key for each in files], grid)
    sizes = np.array([each.size_bytes for each in files], dtype=np.uint64)
    modified = ceil(max((each.modified_at_us for each in files), default=0) / 1_000_000)
    locations = tuple(each.path for each in files) or (source.path,)
    del chunks  # what the metadata says, when the variable was described
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
    name, found = _metadata(folder)
    return found if name == "zarr.json" else array_document(found, {})


def _grid(folder: Folder) -> Grid:
    name, found = _metadata(folder)
    return grid_of(folder.path, name, found)


def _metadata(folder: Folder) -> tuple[str, dict[str, Any]]:
    """Its name, and what it says."""
    for name in ("zarr.json", ".zarray"):
        found = folder.find(name)
        if found is not None:
            document: dict[str, Any] = json.loads(found)
            return name, document
    raise ObjectNotFoundError(f"{folder.path}/zarr.json")
