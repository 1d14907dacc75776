"""Boxes of elements: what changed, what is stored, what a task reads. Columns, not objects.

Chunks of several arrays need not have the same shape. A row has changed if it is in a changed
chunk of any of them, so tasks are made of cells that hold whole chunks where that is possible, and
rows of a cell are masked where it is not.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from frazil.spark.description import ArrayDescription
from frazil.spark.plan import Axis, Box

type Boxes = npt.NDArray[np.int64]  # (n, 2, ndim): first element, and behind the last
type Cells = npt.NDArray[np.int64]  # (n, ndim)


def no_boxes(ndim: int) -> Boxes:
    return np.zeros((0, 2, ndim), dtype=np.int64)


def chunk_boxes(
    array: ArrayDescription, index: npt.NDArray[np.uint32], dims: Sequence[str]
) -> Boxes:
    """Of the chunks at `index` in the order of `dims`, cut off at the end of the array."""
    shape = np.array(array.shape, dtype=np.int64)
    first = index.astype(np.int64) * np.array(array.chunks, dtype=np.int64)
    first = first[(first < shape).all(axis=1)]
    stop = np.minimum(first + np.array(array.chunks, dtype=np.int64), shape)
    order = [array.dims.index(dim) for dim in dims]
    return np.stack([first, stop], axis=1)[:, :, order]


def slabs(axis: int, positions: npt.NDArray[np.int64], shape: Sequence[int]) -> Boxes:
    """All elements at some positions of one axis; neighbours make one box."""
    breaks = np.flatnonzero(np.diff(positions) > 1) + 1
    runs = [run for run in np.split(positions, breaks) if len(run)]
    boxes = np.zeros((len(runs), 2, len(shape)), dtype=np.int64)
    boxes[:, 1] = shape
    boxes[:, 0, axis] = [run[0] for run in runs]
    boxes[:, 1, axis] = [run[-1] + 1 for run in runs]
    return boxes


def cells_touched(boxes: Boxes, axes: Sequence[Axis], sizes: Sequence[int]) -> Cells:
    """Cells of `sizes` with an element of a box and a wanted position along every axis."""
    cells = _cells(boxes, np.array(sizes, dtype=np.int64))
    keep = np.ones(len(cells), dtype=np.bool_)
    for k, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        wanted = np.unique(np.asarray(axis.positions, dtype=np.int64) // size)
        keep &= np.isin(cells[:, k], wanted)
    return cells[keep]


def _cells(boxes: Boxes, sizes: npt.NDArray[np.int64]) -> Cells:
    """Every cell that a box touches, once, in ascending order."""
    boxes = boxes[(boxes[:, 0] < boxes[:, 1]).all(axis=1)]
    first, last = boxes[:, 0] // sizes, (boxes[:, 1] - 1) // sizes
    along = last - first + 1
    counts = along.prod(axis=1)
    owner = np.repeat(np.arange(len(boxes)), counts)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    cells = np.zeros((len(owner), len(sizes)), dtype=np.int64)
    for k in reversed(range(len(sizes))):
        cells[:, k] = first[owner, k] + number % along[owner, k]
        number //= along[owner, k]
    return np.unique(cells, axis=0) if len(sizes) else cells[:1]


def cell_box(cell: Sequence[int], axes: Sequence[Axis], sizes: Sequence[int]) -> Box:
    """Offsets into the positions of the axes."""
    return tuple(
        _span(axis, number * size, (number + 1) * size)
        for number, axis, size in zip(cell, axes, sizes, strict=True)
    )


def _span(axis: Axis, first: int, stop: int) -> tuple[int, int]:
    wanted = axis.positions
    if isinstance(wanted, range):
        return tuple(min(max(at - wanted.start, 0), len(wanted)) for at in (first, stop))  # type: ignore[return-value]  # two of two
    lo, hi = np.searchsorted(wanted, [first, stop]).tolist()
    return lo, hi


def within(boxes: Boxes, cells: Cells, sizes: Sequence[int]) -> Boxes:
    """Those that may touch one of the cells: it is their bounding box that is compared."""
    if not len(cells) or not len(sizes):
        return boxes
    scale = np.array(sizes, dtype=np.int64)
    low, high = cells.min(axis=0) * scale, (cells.max(axis=0) + 1) * scale
    return boxes[((boxes[:, 0] < high) & (boxes[:, 1] > low)).all(axis=1)]


def painted(places: Sequence[npt.NDArray[np.int64]], boxes: Boxes) -> npt.NDArray[np.bool_]:
    """Which combinations of positions are in a box; `places` ascend."""
    mask = np.zeros([len(along) for along in places], dtype=np.bool_)
    for first, stop in boxes:
        spans = [np.searchsorted(along, [first[k], stop[k]]) for k, along in enumerate(places)]
        mask[tuple(slice(lo, hi) for lo, hi in spans)] = True
    return mask
