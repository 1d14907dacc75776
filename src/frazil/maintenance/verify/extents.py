"""Extents: the part of an array's chunk grid that each manifest covers."""

import numpy as np
import numpy.typing as npt

type Extents = npt.NDArray[np.int64]  # (k, ndim, 2): from and to, `to` exclusive

_BLOCK = 512  # rows compared with all others at a time, to bound memory


def decode_extents(values: npt.NDArray[np.uint8], ndim: int) -> Extents:
    """Structs of (from, to), of several refs that have `ndim` each."""
    pairs = np.ascontiguousarray(values).view("<u4").astype(np.int64)
    return pairs.reshape(-1, ndim, 2) if ndim else np.zeros((0, 0, 2), dtype=np.int64)


def find_overlap(extents: Extents) -> tuple[int, int] | None:
    """Two rows that share a cell of the grid, if there are any. Empty extents share none."""
    count, ndim, _ = extents.shape
    if count < 2:
        return None
    if not ndim:
        return 0, 1  # an array without dimensions has one chunk
    order = np.argsort(extents[:, 0, 0], kind="stable")
    start, stop = extents[order, :, 0], extents[order, :, 1]
    filled = (start < stop).all(axis=1)
    order, start, stop = order[filled], start[filled], stop[filled]
    for first in range(0, len(order), _BLOCK):
        block = slice(first, first + _BLOCK)
        # Sorted by where they begin: what begins after the block ends cannot overlap it.
        last = int(np.searchsorted(start[:, 0], stop[block, 0].max()))
        others = slice(first, max(last, first + 1))
        both = np.ones((len(start[block]), len(start[others])), dtype=np.bool_)
        for axis in range(ndim):
            both &= start[block, None, axis] < stop[None, others, axis]
            both &= start[None, others, axis] < stop[block, None, axis]
        np.fill_diagonal(both, val=False)
        if both.any():
            here, there = np.argwhere(both)[0].tolist()
            pair = sorted((int(order[first + here]), int(order[first + there])))
            return pair[0], pair[1]
    return None


def covered(index: npt.NDArray[np.uint32], extents: Extents) -> npt.NDArray[np.bool_]:
    """True for the rows of `index`, (n, ndim), that are inside one of the extents."""
    inside = np.zeros(len(index), dtype=np.bool_)
    for box in extents:
        mine = np.ones(len(index), dtype=np.bool_)
        for axis, (start, stop) in enumerate(box.tolist()):
            mine &= (index[:, axis] >= start) & (index[:, axis] < stop)
        inside |= mine
    return inside
