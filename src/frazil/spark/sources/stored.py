"""How a source stores a variable, for those who refer to its chunks instead of copying them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAs:
    """Chunks that a Zarr array can have, if it is made so: equal ones fit into one array.

    `is_row` means that the values lie in one piece, in row-major order and as they are: there may
    be any number of chunks along the first axis, as long as all are full. The first `stacked` axes
    are not the source's: it is one step of them.
    """

    chunks: tuple[int, ...]
    data_type: str
    codecs: str  # JSON, as in zarr.json
    fill: str | None  # JSON; None where the source does not say
    is_row: bool = False
    stacked: int = 0

    def cut(self, length: int) -> "StoredAs":
        """The same in chunks of so many along the source's first axis."""
        before, after = self.chunks[: self.stacked], self.chunks[self.stacked + 1 :]
        return replace(self, chunks=(*before, length, *after))

    def fits(self, other: "StoredAs") -> bool:
        """Whether both can be in one array, in some chunks."""
        if self.is_row and other.is_row and self.chunks and other.chunks:
            other = other.cut(self.chunks[self.stacked])
        return replace(self, codecs="") == replace(other, codecs="") and self.decodes(other)

    def decodes(self, other: "StoredAs") -> bool:
        """Whether what is stored so can be decoded by the codecs of the other."""
        return _decoding(self.codecs) == _decoding(other.codecs)


def _decoding(codecs: str) -> list[tuple[str, dict[str, Any]]]:
    """What matters to decoders: not how hard somebody tried to compress."""
    found = []
    for codec in json.loads(codecs):
        options = codec.get("configuration", {})
        kept = {key: value for key, value in options.items() if key not in {"level", "clevel"}}
        found.append((codec["name"], kept))
    return found


type Storage = StoredAs | str
"""Or why there can be no references to the variable's chunks."""


@dataclass(frozen=True, slots=True, eq=False)
class ChunkTable:
    """The chunks of a variable in one source; row i of each column is one of them."""

    index: npt.NDArray[np.int64]  # (n, ndim), of the variable's own grid
    offset: npt.NDArray[np.uint64]  # (n,)
    length: npt.NDArray[np.uint64]  # (n,)
    paths: tuple[str, ...]  # one for all of them, or one for each
    modified_s: int  # no file was changed after that second
    padded: Mapping[int, bytes] = field(default_factory=dict)
    """By row: chunks that the source has in a form that no Zarr array can have, in another."""

    def __len__(self) -> int:
        return len(self.index)


def row_chunks(
    shape: tuple[int, ...], chunks: tuple[int, ...], itemsize: int
) -> tuple[npt.NDArray[np.int64], int]:
    """Index of each chunk of values in one piece, and the bytes of each.

    Raises ValueError if such chunks are not in one piece, or do not fill the shape.
    """
    if shape[1:] != chunks[1:] or (shape and shape[0] % chunks[0]):
        raise ValueError(f"values of shape {shape} in one piece are not chunks of {chunks}")
    count = shape[0] // chunks[0] if shape else 1
    index = np.zeros((count, len(shape)), dtype=np.int64)
    if shape:
        index[:, 0] = np.arange(count)
    return index, int(np.prod(chunks, dtype=np.int64)) * itemsize
