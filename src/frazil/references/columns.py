"""A set of references independent of its file format: documents, and columns of chunks."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.engine.changes.zarr_metadata import ArrayMetadata, parse_node_metadata
from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.columns import StringColumn

# Metadata of Zarr version 2 and 3, by the last part of the key
ARRAY_2, GROUP_2, ATTRIBUTES_2, NODE_3 = ".zarray", ".zgroup", ".zattrs", "zarr.json"
CONSOLIDATED_2 = ".zmetadata"
DOCUMENTS = frozenset({ARRAY_2, GROUP_2, ATTRIBUTES_2, NODE_3})


@dataclass(frozen=True, slots=True, eq=False)
class ChunkColumns:
    """The chunks of one array; row i of each column is one chunk. In any order, none twice.

    A chunk is inline where `inline` has a row, and else a part of the file at `location`: the whole
    of it where `whole` is true.
    """

    index: npt.NDArray[np.int64]  # (n, ndim)
    location: StringColumn  # (n,) as written: paths and URLs
    offset: npt.NDArray[np.uint64]  # (n,)
    length: npt.NDArray[np.uint64]  # (n,) of inline chunks too
    whole: npt.NDArray[np.bool_]  # (n,)
    inline: StringColumn  # (n,)

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceSet:
    """A hierarchy of Zarr version 2 or 3 whose chunks are parts of files.

    Keys of both mappings have no leading slash; the empty one is the root.
    """

    where: str  # for messages
    documents: Mapping[str, Mapping[str, Any]]  # by key, as in `a/b/.zarray`
    chunks: Mapping[str, ChunkColumns]  # by path of the array


def split_document_key(key: str) -> tuple[str, str]:
    """Path of the node, and the kind of document."""
    path, _, name = key.rpartition("/")
    return path, name


def array_paths(documents: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for key, document in documents.items():
        path, name = split_document_key(key)
        if name == ARRAY_2 or (name == NODE_3 and document.get("node_type") == "array"):
            yield path


def reference_error(where: str, key: str, problem: str) -> FormatError:
    return FormatError(f"reference {key!r}: {problem}", where=where)


# Chunk grids as their metadata describes them, and keys of chunks as places in them.
#
# Zarr version 2              "0.1.2", or "0/1/2"; "0" for the only chunk of a scalar
# Zarr version 3, default     "c/0/1/2", or "c.0.1.2"; "c" for the only chunk of a scalar
# Zarr version 3, v2          as in version 2


@dataclass(frozen=True, slots=True)
class Grid:
    shape: tuple[int, ...]  # chunks along each dimension
    separator: str
    prefix: str  # before the first index

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def scalar_key(self) -> str:
        return self.prefix.rstrip("./") or "0"


def grid_of(where: str, key: str, document: Mapping[str, Any]) -> Grid:
    """The grid of an array, from its `.zarray` or `zarr.json`."""
    if key.endswith("zarr.json"):
        return _grid_3(where, key, document)
    shape: Any = document.get("shape")
    chunks: Any = document.get("chunks")
    if not _are_lengths(shape) or not _are_lengths(chunks) or len(shape) != len(chunks):
        raise reference_error(
            where, key, f"shape is {shape!r} and chunks is {chunks!r}, expected lists of lengths"
        )
    separator = document.get("dimension_separator") or "."
    if separator not in {".", "/"}:
        raise reference_error(
            where, key, f"dimension_separator is {separator!r}, expected '.' or '/'"
        )
    # Some writers give an empty dimension chunks of length 0.
    counts = tuple(-(-length // max(chunk, 1)) for length, chunk in zip(shape, chunks, strict=True))
    return Grid(counts, separator, "")


def _grid_3(where: str, key: str, document: Mapping[str, Any]) -> Grid:
    try:
        metadata = parse_node_metadata(json.dumps(document).encode())
    except InvalidInputError as error:
        raise reference_error(where, key, error.message) from error
    encoding = document.get("chunk_key_encoding") or {"name": "default"}
    match encoding if isinstance(encoding, dict) else {"name": encoding}:
        case {"name": "default", "configuration": {"separator": "." | "/" as separator}}:
            prefix = f"c{separator}"
        case {"name": "v2", "configuration": {"separator": "." | "/" as separator}}:
            prefix = ""
        case {"name": "default"}:
            separator, prefix = "/", "c/"
        case {"name": "v2"}:
            separator, prefix = ".", ""
        case _:
            raise reference_error(
                where, key, f"chunk_key_encoding is {encoding!r}, expected default or v2"
            )
    shape = metadata.num_chunks if isinstance(metadata, ArrayMetadata) else ()
    return Grid(shape, separator, prefix)


def parse_chunk_keys(
    where: str, array: str, keys: Sequence[str], grid: Grid
) -> npt.NDArray[np.int64]:
    """The index of each chunk, (n, ndim); `keys` as they follow the path of the array."""
    if grid.ndim == 0:
        for key in keys:
            if key != grid.scalar_key():
                raise reference_error(where, f"{array}/{key}", "not the chunk of a scalar array")
        return np.zeros((len(keys), 0), np.int64)
    if not keys:
        return np.zeros((0, grid.ndim), np.int64)
    # All keys in one text: one match and one conversion in C.
    text = "\n".join(keys)
    number = rf"[0-9]{{1,10}}(?:{re.escape(grid.separator)}[0-9]{{1,10}}){{{grid.ndim - 1}}}"
    one = re.escape(grid.prefix) + number
    whole = rf"(?:{one}(?:\n(?!\Z)|\Z))*+"
    if text.count("\n") != len(keys) - 1 or not re.fullmatch(whole, text):
        bad = next((key for key in keys if not re.fullmatch(one, key)), keys[0])
        raise reference_error(
            where,
            f"{array}/{bad}".lstrip("/"),
            f"not a chunk of an array of {grid.ndim} dimensions",
        )
    if grid.prefix:
        text = re.sub(f"(?m)^{re.escape(grid.prefix)}", "", text)
    numbers = text.replace("\n", grid.separator).split(grid.separator)
    index = np.array(numbers, dtype=np.int64).reshape(len(keys), grid.ndim)
    return require_inside(where, array, index, grid)


def require_inside(
    where: str, array: str, index: npt.NDArray[np.int64], grid: Grid
) -> npt.NDArray[np.int64]:
    outside = (index >= np.array(grid.shape, dtype=np.int64)).any(axis=1)
    if outside.any():
        first = index[int(np.argmax(outside))].tolist()
        raise reference_error(
            where,
            f"{array}/{grid.prefix}{grid.separator.join(map(str, first))}".lstrip("/"),
            f"outside the grid of the array, which is {list(grid.shape)} chunks",
        )
    return index


def _are_lengths(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, int) and not isinstance(each, bool) and 0 <= each < 2**63 for each in value
    )
