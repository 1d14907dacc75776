"""Neighbours of a block: what is read around it, and what stands for what is beyond the array.

boundary     beyond the ends of the array
clip         nothing: blocks at the edges have a smaller halo
nearest      the value at the edge
reflect      the values before the edge, in reverse order, without the edge itself
wrap         the values from the other end, as along longitudes
a number     that number
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.spark.pipelines.boxes import Region

BOUNDARIES = ("clip", "nearest", "reflect", "wrap")

type Boundary = str | float
type ReadRegion = Callable[[Region], npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class AxisRead:
    """Segments to read one after the other, what to take of them, and how much to add.

    `before` is how many positions of the result come before the block itself, `after` after it.
    """

    segments: tuple[slice, ...]
    take: npt.NDArray[np.int64] | None
    pad: tuple[int, int]
    before: int
    after: int


def check_boundary(boundary: Boundary) -> Boundary:
    if isinstance(boundary, str) and boundary not in BOUNDARIES:
        raise InvalidInputError(
            f"boundary is {boundary!r}, expected a number or one of {', '.join(BOUNDARIES)}"
        )
    return boundary


def plan_axis(block: slice, size: int, halo: tuple[int, int], boundary: Boundary) -> AxisRead:
    """What to read along one axis, for a block that is not empty."""
    start, stop = block.start - halo[0], block.stop + halo[1]
    inside = slice(max(0, start), min(size, stop))
    if inside == slice(start, stop):
        return AxisRead((inside,), None, (0, 0), *halo)
    if boundary == "clip":
        before, after = block.start - inside.start, inside.stop - block.stop
        return AxisRead((inside,), None, (0, 0), before, after)
    if not isinstance(boundary, str):
        return AxisRead((inside,), None, (inside.start - start, stop - inside.stop), *halo)
    wanted = _mapped(np.arange(start, stop), size, boundary)
    found = np.unique(wanted)
    edges = np.flatnonzero(np.diff(found) > 1) + 1
    segments = tuple(slice(int(run[0]), int(run[-1]) + 1) for run in np.split(found, edges))
    return AxisRead(segments, np.searchsorted(found, wanted), (0, 0), *halo)


def read_block(
    read: ReadRegion, axes: Sequence[AxisRead], boundary: Sequence[Boundary]
) -> npt.NDArray[Any]:
    """The block with its halo."""
    values = _assemble(read, [axis.segments for axis in axes])
    for k, axis in enumerate(axes):
        if axis.take is not None:
            values = values.take(axis.take, axis=k)
    for k, axis in enumerate(axes):
        if any(axis.pad):
            width = [axis.pad if k == other else (0, 0) for other in range(values.ndim)]
            values = np.pad(values, width, constant_values=boundary[k])
    return values


def _mapped(positions: npt.NDArray[np.int64], size: int, boundary: str) -> npt.NDArray[np.int64]:
    if boundary == "nearest" or size == 1:
        return np.clip(positions, 0, size - 1)
    if boundary == "wrap":
        return positions % size
    last = size - 1
    return last - np.abs(positions % (2 * last) - last)


def _assemble(read: ReadRegion, segments: Sequence[tuple[slice, ...]]) -> npt.NDArray[Any]:
    if all(len(along) == 1 for along in segments):
        return read(tuple(along[0] for along in segments))
    ends = [np.cumsum([part.stop - part.start for part in along]) for along in segments]
    made: npt.NDArray[Any] | None = None
    for chosen in product(*(range(len(along)) for along in segments)):
        region = tuple(along[k] for along, k in zip(segments, chosen, strict=True))
        values = read(region)
        if made is None:
            made = np.empty([int(end[-1]) for end in ends], dtype=values.dtype)
        stops = [int(end[k]) for end, k in zip(ends, chosen, strict=True)]
        made[tuple(slice(e - n, e) for e, n in zip(stops, values.shape, strict=True))] = values
    return read(()) if made is None else made
