"""Where the values of a chunk go."""

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.zarrstore.pipeline.batch import Item
from frazil.zarrstore.pipeline.coding import Layout
from frazil.zarrstore.pipeline.unpacking import Bytes

_BASIC = frozenset({slice, int})
_KEPT_BYTES = 32 << 20  # of scratch memory, for each thread


def writable(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same memory, as something that others may write to: times do not let them."""
    dtype = values.dtype
    if dtype.kind in "mM":
        return values.view(np.int64)
    return values.view(f"V{dtype.itemsize}") if dtype.names else values  # a field may be a time


def run_of(item: Item, values: npt.NDArray[Any], layout: Layout) -> memoryview | None:
    """The place of an item's values among writable ones, if they lie there end to end.

    None if they do not, or are not all the values there are of `layout`: that of the chunk, or of
    the part of it that they are in. It is the caller who knows that they are stored just so.
    """
    selection, target = item[2], item[3]
    if not (is_basic(target) and is_basic(selection)):
        return None  # values would be copied, or may be in another order
    place = memoryview(values[(*target, ...)])  # an array even if it is a single value
    return place if place.nbytes == layout.size_bytes and place.c_contiguous else None


def put(
    target: Any, values: npt.NDArray[Any], chosen: npt.NDArray[Any], drop_axes: tuple[int, ...]
) -> None:
    """What was chosen of a chunk; `drop_axes` are those of it that the values do not have."""
    values[target] = chosen.squeeze(axis=drop_axes) if drop_axes else chosen


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


def is_basic(selection: Any) -> bool:
    """Whether it is made of slices and integers only: then numpy gives views."""
    return type(selection) is tuple and _BASIC.issuperset(map(type, selection))
