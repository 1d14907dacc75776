"""Where the chunks of arrays in Zarr stores are: files of their own."""

import json
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from frazil.errors import IcechunkError
from frazil.references.grids import Grid, grid_of, parse_chunk_keys
from frazil.references.zarr_v2 import array_document
from frazil.spark.sources.errors import source_errors_as_ours
from frazil.spark.sources.stored import ChunkTable, Storage, StoredAs

_METADATA = {"zarr.json", ".zarray", ".zattrs", ".zgroup"}


def zarr_storage(path: str, names: list[str], *, group: str | None) -> dict[str, Storage]:
    with source_errors_as_ours(path):
        return {name: _storage(Path(path, group or "", name)) for name in names}


def zarr_chunks(path: str, name: str, chunks: tuple[int, ...], *, group: str | None) -> ChunkTable:
    """Of the files that are there; others were never written."""
    folder = Path(path, group or "", name)
    with source_errors_as_ours(path):
        grid = _grid(folder)
        files = sorted(
            entry for entry in folder.rglob("*") if entry.is_file() and entry.name not in _METADATA
        )
        keys = [entry.relative_to(folder).as_posix() for entry in files]
        index = parse_chunk_keys(path, name, keys, grid)
        stats = [entry.stat() for entry in files]
    sizes = np.array([each.st_size for each in stats], dtype=np.uint64)
    modified = ceil(max((each.st_mtime for each in stats), default=0))
    locations = tuple(str(entry) for entry in files) or (path,)
    del chunks  # what the metadata says, when the variable was described
    return ChunkTable(index, np.zeros(len(files), np.uint64), sizes, locations, modified)


def _storage(folder: Path) -> Storage:
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


def _document(folder: Path) -> dict[str, Any]:
    if (folder / "zarr.json").is_file():
        found: dict[str, Any] = json.loads((folder / "zarr.json").read_bytes())
        return found
    return array_document(json.loads((folder / ".zarray").read_bytes()), {})


def _grid(folder: Path) -> Grid:
    name = "zarr.json" if (folder / "zarr.json").is_file() else ".zarray"
    return grid_of(str(folder), name, json.loads((folder / name).read_bytes()))
