"""The chunks of one selection, as zarr asks for them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from zarr.core.array_spec import ArraySpec

from frazil.errors import InvalidInputError
from frazil.paths import NodePath
from frazil.zarrstore.keys import ChunkKey, parse_key
from frazil.zarrstore.store import SessionStore

# Where a chunk is stored, how it is made, the part of it that is selected, the place of that part
# among the values, and whether it is the whole chunk.
type Item = tuple[Any, ArraySpec, Any, Any, bool]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Chunks of one array. `drop_axes` are those of a chunk that the values do not have."""

    store: SessionStore
    path: NodePath
    index: npt.NDArray[np.uint32]  # (n, ndim)
    items: list[Item]
    drop_axes: tuple[int, ...]

    @classmethod
    def of(cls, items: list[Item], drop_axes: tuple[int, ...]) -> "Batch":
        """`items` are of one array, and at least one."""
        first = items[0][0]
        key = parse_key(first.path)
        if not isinstance(key, ChunkKey):
            raise InvalidInputError(f"invalid zarr key format `{first.path}`")
        return cls(first.store, key.path, _indices(items, key), items, drop_axes)

    def part(self, start: int, stop: int) -> "Batch":
        items, index = self.items[start:stop], self.index[start:stop]
        return Batch(self.store, self.path, index, items, self.drop_axes)


def _indices(items: list[Item], first: ChunkKey) -> npt.NDArray[np.uint32]:
    """Index of each chunk, from its key: the keys of one array differ in their last segments."""
    ndim = len(first.index)
    if ndim == 0 or len(items) == 1:
        return np.array([first.index] * len(items), np.uint32).reshape(len(items), ndim)
    text: str = items[0][0].path
    start = len(text) - len("/".join(map(str, first.index)))
    numbers = "/".join([item[0].path[start:] for item in items])
    return np.fromstring(numbers, np.int64, sep="/").astype(np.uint32).reshape(-1, ndim)
