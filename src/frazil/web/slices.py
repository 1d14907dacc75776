"""The part of an array that a picture needs: every n-th row and column, within a budget.

Plans are pure; frazil.web.previews acts on them. A chunk is read as a whole even if one of its
elements is wanted, so the step is doubled until few enough chunks and bytes are touched: steps
longer than a chunk leave chunks out. Rows and columns have one step, so that a picture keeps its
proportions, unless one of them would be left with less than LEAST positions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError

type Ints = npt.NDArray[np.int64]

LEAST = 16  # positions along the shorter side of a thinned picture
_MAX_EDGES = 10_000_000  # sizes of chunks of a grid that is not regular


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Resource limits of one image."""

    pixels: int = 1024  # each way
    points: int = 4096  # of a curve
    chunks: int = 4096
    stored_bytes: int = 64 * 2**20
    decoded_bytes: int = 256 * 2**20
    exact_bytes: int = 64 * 2**20  # decoded size of a slice that is read whole for its statistics


@dataclass(frozen=True, slots=True)
class Grid:
    """Boundaries of chunks along each dimension: a regular size, or the end of every chunk."""

    shape: tuple[int, ...]
    ends: tuple[int | Ints, ...]
    inner: tuple[int, ...] = field(default=())  # of what is read at once, in shards

    def chunk_of(self, axis: int, positions: Ints) -> Ints:
        ends = self.ends[axis]
        if isinstance(ends, int):
            return positions // ends
        return np.searchsorted(ends, positions, side="right").astype(np.int64)

    def unit_of(self, axis: int, positions: Ints) -> Ints:
        """The same for what is read at once."""
        return positions // self.inner[axis] if self.inner else self.chunk_of(axis, positions)

    def chunk_size(self, axis: int) -> int:
        """Greatest chunk size."""
        ends = self.ends[axis]
        return ends if isinstance(ends, int) else int(np.diff(ends, prepend=0).max(initial=1))

    @property
    def unit_items(self) -> int:
        return prod(self.inner) if self.inner else self.chunk_items

    @property
    def chunk_items(self) -> int:
        return prod(self.chunk_size(axis) for axis in range(len(self.shape)))


@dataclass(frozen=True, slots=True, eq=False)
class SlicePlan:
    """`positions` along each dimension that are read."""

    steps: tuple[int, int]
    axes: tuple[int, ...]  # of rows and columns; fewer for arrays of less dimensions
    spans: tuple[tuple[int, int], ...]  # start and end along these
    positions: tuple[Ints, ...]

    @property
    def selection(self) -> tuple[slice, ...]:
        return selection_of(self.positions)


def selection_of(positions: Sequence[Ints]) -> tuple[slice, ...]:
    """Slices that select evenly spaced positions."""
    return tuple(
        slice(int(p[0]), int(p[-1]) + 1, int(p[1] - p[0]) if len(p) > 1 else 1)
        if len(p)
        else slice(0, 0)
        for p in positions
    )


type StoredBytes = Callable[[npt.NDArray[np.uint32]], int]
"""How long the chunks at these indices, (m, ndim), are in all."""


def parse_grid(document: Mapping[str, Any], shape: tuple[int, ...]) -> Grid:
    """Parses the chunk grid of an array's metadata, which the engine has checked."""
    match document.get("chunk_grid"):
        case {"name": "regular", "configuration": {"chunk_shape": sizes}}:
            ends: tuple[int | Ints, ...] = tuple(int(size) for size in sizes)
        case {"name": "rectilinear", "configuration": {"chunk_shapes": edges}}:
            ends = tuple(_ends(each, n) for each, n in zip(edges, shape, strict=True))
        case _:
            raise InvalidInputError("the chunk grid is of a kind that the explorer does not know")
    match document.get("codecs"):
        case [{"name": "sharding_indexed", "configuration": {"chunk_shape": inner}}]:
            return Grid(shape, ends, tuple(int(size) for size in inner))
        case _:
            return Grid(shape, ends)


def _ends(edges: Any, length: int) -> int | Ints:
    if isinstance(edges, int):
        return edges
    pairs = [(edge, 1) if isinstance(edge, int) else (edge[0], edge[1]) for edge in edges]
    if sum(count for _, count in pairs) > _MAX_EDGES:
        raise InvalidInputError("the chunk grid has too many sizes for a picture")
    sizes, counts = np.array(pairs, np.int64).reshape(-1, 2).T
    return np.minimum(np.cumsum(np.repeat(sizes, counts)), max(length, 1))


def plan_slice(
    grid: Grid,
    *,
    axes: tuple[int, ...],
    at: Sequence[int | None],
    item_bytes: int,
    stored_bytes: StoredBytes,
    budget: Budget,
    region: Sequence[tuple[int, int]] | None = None,
) -> SlicePlan:
    """Plans a slice of the dimensions `axes`, or the `region` of it: start and end along each.

    Raises InvalidInputError if even one row and one column would be too much.
    """
    spans = [(0, grid.shape[axis]) for axis in axes] if region is None else list(region)
    lengths = [stop - start for start, stop in spans]
    most = budget.pixels if len(axes) > 1 else budget.points
    step = max([1, *(-(-length // most) for length in lengths)])
    while True:
        steps = _steps(step, lengths)
        positions = _positions(grid.shape, axes, at, spans, steps)
        if is_affordable(grid, positions, item_bytes, stored_bytes, budget):
            both = (*steps, 1, 1)
            return SlicePlan((both[0], both[1]), axes, tuple(spans), positions)
        if all(each >= length for each, length in zip(steps, lengths, strict=True)):
            raise InvalidInputError(
                f"a chunk of this array is too large for a picture: {grid.unit_items} elements"
                f" of {item_bytes} bytes",
                kind="preview-too-large",
            )
        step *= 2


def _steps(step: int, lengths: Sequence[int]) -> list[int]:
    """Step of each axis: the same, unless a long axis would leave too little of a short one."""
    counts = [-(-length // step) for length in lengths]
    if max(counts, default=0) <= LEAST:
        return [step] * len(lengths)
    own = [min(step, max(1, length // LEAST)) for length in lengths]
    return [each if count < LEAST else step for each, count in zip(own, counts, strict=True)]


def whole_positions(grid: Grid, plan: SlicePlan) -> tuple[Ints, ...]:
    """Positions of the slice without thinning."""
    found = list(plan.positions)
    for axis, (start, stop) in zip(plan.axes, plan.spans, strict=True):
        found[axis] = np.arange(start, min(stop, grid.shape[axis]), dtype=np.int64)
    return tuple(found)


def _positions(
    shape: Sequence[int],
    axes: Sequence[int],
    at: Sequence[int | None],
    spans: Sequence[tuple[int, int]],
    steps: Sequence[int],
) -> tuple[Ints, ...]:
    found = []
    for axis, length in enumerate(shape):
        if axis in axes:
            which = axes.index(axis)
            (start, stop), step = spans[which], steps[which]
            # From the middle if one is left: a step of a whole chunk is not always its corner.
            first = start + (min(step // 2, stop - start - 1) if step >= stop - start > 0 else 0)
            found.append(np.arange(first, stop, step, dtype=np.int64))
        else:
            place = min(at[axis] or 0, max(length - 1, 0))
            found.append(np.arange(place, min(place + 1, length), dtype=np.int64))
    return tuple(found)


def touched_chunks(grid: Grid, positions: Sequence[Ints]) -> npt.NDArray[np.uint32]:
    """Index of every stored chunk that holds any of the positions, (m, ndim)."""
    places = [np.unique(grid.chunk_of(axis, each)) for axis, each in enumerate(positions)]
    if not places:
        return np.zeros((1, 0), np.uint32)
    index = np.stack(np.meshgrid(*places, indexing="ij"), axis=-1)
    return index.reshape(-1, len(places)).astype(np.uint32)


def is_affordable(
    grid: Grid,
    positions: Sequence[Ints],
    item_bytes: int,
    stored_bytes: StoredBytes,
    budget: Budget,
) -> bool:
    units = prod(len(np.unique(grid.unit_of(axis, p))) for axis, p in enumerate(positions))
    chunks = prod(len(np.unique(grid.chunk_of(axis, p))) for axis, p in enumerate(positions))
    if units > budget.chunks or units * grid.unit_items * item_bytes > budget.decoded_bytes:
        return False
    if not chunks:
        return True
    stored = stored_bytes(touched_chunks(grid, positions))
    in_all = chunks * max(1, grid.chunk_items // max(grid.unit_items, 1))
    return stored * units // max(in_all, 1) <= budget.stored_bytes
