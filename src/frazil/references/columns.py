"""What a set of references says, whatever it was written in: documents, and columns of chunks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError
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


def wrong(where: str, key: str, problem: str) -> FormatError:
    return FormatError(f"reference {key!r}: {problem}", where=where)
