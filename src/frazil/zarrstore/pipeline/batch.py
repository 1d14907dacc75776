"""The chunks of one selection, as zarr asks for them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from zarr.core.array_spec import ArraySpec

from frazil.errors import InvalidInputError
from frazil.paths import NodePath
from frazil.repo.session import Session
from frazil.zarrstore.keys import ChunkKey, parse_key

# Where a chunk is stored, how it is made, the part of it that is selected, the place of that part
# among the values, and whether it is the whole chunk.
type Item = tuple[Any, ArraySpec, Any, Any, bool]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Chunks of one array. `drop_axes` are those of a chunk that the values do not have."""

    engine: Session
    is_read_only: bool  # as a whole, or through the store that is used
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
        store, index = first.store, _indices(items, key)
        return cls(store.engine, store.read_only, key.path, index, items, drop_axes)

    def part(self, start: int, stop: int) -> "Batch":
        return replace(self, items=self.items[start:stop], index=self.index[start:stop])


def _indices(items: list[Item], first: ChunkKey) -> npt.NDArray[np.uint32]:
    """Index of each chunk, from its key: the keys of one array differ in their last segments."""
    ndim = len(first.index)
    if ndim == 0 or len(items) == 1:
        return np.array([first.index] * len(items), np.uint32).reshape(len(items), ndim)
    text: str = items[0][0].path
    start = len(text) - len("/".join(map(str, first.index)))
    numbers = "/".join([item[0].path[start:] for item in items])
    return np.fromstring(numbers, np.int64, sep="/").astype(np.uint32).reshape(-1, ndim)
