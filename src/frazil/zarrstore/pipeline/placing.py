"""Where the values of a chunk go."""

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.zarrstore.pipeline.batch import Item
from frazil.zarrstore.pipeline.coding import Layout
from frazil.zarrstore.pipeline.unpacking import Bytes
from frazil.zarrstore.pipeline.zarr_parts import fill_value_or_default

_BASIC = frozenset({slice, int})
_KEPT_BYTES = 32 << 20  # of scratch memory, for each thread


def run_of(item: Item, values: npt.NDArray[Any], layout: Layout) -> npt.NDArray[Any] | None:
    """The place of an item's values if they lie there end to end, just as they are stored.

    None if they do not, or are not all the values there are of `layout`: that of the chunk, or of
    the part of it that they are in.
    """
    selection, target = item[2], item[3]
    if layout.back is not None or layout.dtype != values.dtype:
        return None
    if not (_is_basic(target) and _is_basic(selection)):
        return None  # values would be copied, or are in another order
    place: npt.NDArray[Any] = values[(*target, ...)]  # an array even if it is a single value
    if place.nbytes != layout.size_bytes or not place.flags.c_contiguous:
        return None
    return place


def bytes_of(place: npt.NDArray[Any]) -> Bytes:
    """The memory of an array whose values lie end to end."""
    return place.reshape(-1).view(np.uint8)


def put(
    target: Any, values: npt.NDArray[Any], chosen: npt.NDArray[Any], drop_axes: tuple[int, ...]
) -> None:
    """What was chosen of a chunk; `drop_axes` are those of it that the values do not have."""
    values[target] = chosen.squeeze(axis=drop_axes) if drop_axes else chosen


def put_fill_value(item: Item, values: npt.NDArray[Any]) -> None:
    values[item[3]] = fill_value_or_default(item[1])


def arranged(flat: Bytes, layout: Layout) -> npt.NDArray[Any]:
    """The values of a chunk, in the shape of the chunk."""
    stored = flat.view(layout.dtype).reshape(layout.shape)
    return stored if layout.back is None else stored.transpose(layout.back)


class _Scratch(threading.local):
    """Memory that a thread uses for one chunk after another: new memory costs more than a copy."""

    def __init__(self) -> None:
        self._held = np.empty(0, np.uint8)

    def __call__(self, size_bytes: int) -> Bytes:
        if size_bytes > _KEPT_BYTES:
            return np.empty(size_bytes, np.uint8)
        if len(self._held) < size_bytes:
            self._held = np.empty(size_bytes, np.uint8)
        return self._held[:size_bytes]


scratch = _Scratch()


def _is_basic(selection: Any) -> bool:
    return isinstance(selection, tuple) and _BASIC.issuperset(map(type, selection))
