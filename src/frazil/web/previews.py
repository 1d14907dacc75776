"""Pictures of slices, with the numbers that are in them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError, StorageError
from frazil.ids import SnapshotId
from frazil.paths import NodePath
from frazil.spark.table.cf import Decoding, Time, count_decoding, decode, plan_decoding
from frazil.web.explored import ChunkColumns, Explored
from frazil.web.http import Asked, finite_or_none, readable_document
from frazil.web.images import SCALES, encode_png, paint, require_axes
from frazil.zarrstore.arrays import open_array, read_region

# The part of an array that a picture needs: every n-th row and column, within the budget.
#
# Plans are pure; frazil.web.previews acts. A chunk is read as a whole even if one of its elements
# is wanted, so the steps are doubled until few enough chunks and bytes are touched: steps longer
# than a chunk leave chunks out.

type Ints = npt.NDArray[np.int64]

_MAX_EDGES = 10_000_000  # sizes of chunks of a grid that is not regular


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Resource limits of one image."""

    pixels: int = 512  # each way
    chunks: int = 4096
    stored_bytes: int = 64 * 2**20
    decoded_bytes: int = 256 * 2**20


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
    positions: tuple[Ints, ...]

    @property
    def selection(self) -> tuple[slice, ...]:
        return tuple(
            slice(int(p[0]), int(p[-1]) + 1, int(p[1] - p[0]) if len(p) > 1 else 1)
            if len(p)
            else slice(0, 0)
            for p in self.positions
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
) -> SlicePlan:
    """Raises InvalidInputError if even one row and one column would be too much."""
    lengths = [grid.shape[axis] for axis in axes]
    steps = [max(1, -(-length // budget.pixels)) for length in lengths]
    while True:
        positions = _positions(grid.shape, axes, at, steps)
        if _is_affordable(grid, positions, item_bytes, stored_bytes, budget):
            both = (*steps, 1, 1)
            return SlicePlan((both[0], both[1]), axes, positions)
        if all(step >= length for step, length in zip(steps, lengths, strict=True)):
            raise InvalidInputError(
                f"a chunk of this array is too large for a picture: {grid.unit_items} elements"
                f" of {item_bytes} bytes",
                kind="preview-too-large",
            )
        # The direction in which more chunks are touched, if one of them has more.
        touched = [len(np.unique(grid.unit_of(axis, positions[axis]))) for axis in axes]
        for which, count in enumerate(touched):
            if count == max(touched) or steps[which] * 4 < max(steps):
                steps[which] *= 2


def _positions(
    shape: Sequence[int], axes: Sequence[int], at: Sequence[int | None], steps: Sequence[int]
) -> tuple[Ints, ...]:
    found = []
    for axis, length in enumerate(shape):
        if axis in axes:
            # From the middle of the first step: a step of a whole chunk is not always its corner.
            step = steps[axes.index(axis)]
            first = min(step // 2, max(length - 1, 0)) if step >= length else 0
            found.append(np.arange(first, length, step, dtype=np.int64))
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


def _is_affordable(
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


BUDGET = Budget()
UNREADABLE = "unreadable-slice"
_MAX_TEXTS = 200  # values that are shown as such
_MAX_LETTERS = 200  # of each


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """`values` as numbers, (height, width); None if they are not, and `texts` then."""

    plan: SlicePlan
    shape: tuple[int, ...]
    dtype: str
    values: npt.NDArray[np.float64] | None
    is_valid: npt.NDArray[np.bool_]
    texts: list[str]
    is_time: bool  # by its CF units: then `texts` are decoded, and `values` are the numbers
    chunks_read: int
    bytes_read: int

    def limits(self) -> tuple[float, float]:
        """The least and the greatest value; 0 and 1 if there is none."""
        if self.values is None or not self.is_valid.any():
            return 0.0, 1.0
        valid = self.values[self.is_valid]
        return float(valid.min()), float(valid.max())

    def facts(self, asked: Asked) -> dict[str, object]:
        low, high = _requested_limits(asked, self)
        return {
            "axes": self.plan.axes,
            "at": [int(p[0]) if len(p) else 0 for p in self.plan.positions],
            "steps": self.plan.steps[: len(self.plan.axes)],
            "shape": self.shape,
            "data_type": self.dtype,
            "is_number": self.values is not None,
            "height": self.is_valid.shape[0],
            "width": self.is_valid.shape[1],
            "low": finite_or_none(low),
            "high": finite_or_none(high),
            "scales": SCALES,
            "texts": self.texts,
            "is_time": self.is_time,
            "chunks_read": self.chunks_read,
            "bytes_read": self.bytes_read,
            **self._statistics(),
            "line": self._line(),
        }

    def _statistics(self) -> dict[str, object]:
        """Statistics of the values that are shown, without missing values."""
        counts = {"valid": int(self.is_valid.sum()), "missing": int((~self.is_valid).sum())}
        if self.values is None or not counts["valid"]:
            return {**counts, "min": None, "max": None, "mean": None}
        valid = self.values[self.is_valid]
        with np.errstate(all="ignore"):
            mean = float(valid.mean())
        return {
            **counts,
            "min": finite_or_none(valid.min()),
            "max": finite_or_none(valid.max()),
            "mean": finite_or_none(mean),
        }

    def _line(self) -> list[float | None] | None:
        """The values of an array of one dimension, for a curve."""
        if self.values is None or len(self.plan.axes) != 1:
            return None
        pairs = zip(self.values[0].tolist(), self.is_valid[0].tolist(), strict=True)
        return [finite_or_none(value) if valid else None for value, valid in pairs]

    def png(self, asked: Asked) -> bytes:
        if self.values is None:
            raise InvalidInputError(f"values of type {self.dtype} have no picture")
        if not self.values.size:
            return encode_png(np.zeros((1, 1, 4), np.uint8))
        low, high = _requested_limits(asked, self)
        name = asked.text("scale", SCALES[0])
        return encode_png(paint(self.values, self.is_valid, low=low, high=high, name=name))


def _requested_limits(asked: Asked, preview: Preview) -> tuple[float, float]:
    low, high = preview.limits()
    wanted_low, wanted_high = asked.decimal("low"), asked.decimal("high")
    return (
        low if wanted_low is None else wanted_low,
        high if wanted_high is None else wanted_high,
    )


def preview(explored: Explored, snapshot: SnapshotId, path: NodePath, asked: Asked) -> Preview:
    """Kept for a while: the picture and its numbers are asked for one after the other."""
    wishes = (asked.values.get("axes", ""), asked.values.get("slice_at", ""))
    make = partial(_make, explored, snapshot, path, asked)
    return explored.recall(("preview", snapshot, path, wishes), make)


def _make(explored: Explored, snapshot: SnapshotId, path: NodePath, asked: Asked) -> Preview:
    session = explored.session(snapshot)
    node = session.node(path)
    chunks = explored.chunks(snapshot, path)
    document = readable_document(node.user_data) or {}
    grid = parse_grid(document, node.array.shape if node.array is not None else ())
    array = open_array(session, path)
    plan = _plan(asked, grid, chunks, max(array.dtype.itemsize, 1))
    touched = touched_chunks(grid, plan.positions)
    values = _read(session, path, plan)
    flat = _as_picture(values, plan, len(grid.shape))
    decoding = plan_decoding(array)
    decoded, is_missing = _decode(decoding, flat)
    # of a time the number that is counted, as its units say: a picture of microseconds says less
    numbers = _numbers(_decode(count_decoding(decoding), flat)[0])
    is_valid = _as_picture(_present_mask(grid, plan, chunks), plan, len(grid.shape)) & ~is_missing
    if numbers is not None:
        is_valid &= ~np.isnan(numbers)
    return Preview(
        plan=plan,
        shape=grid.shape,
        dtype=str(values.dtype),
        values=numbers,
        is_valid=is_valid,
        texts=_texts(decoded, is_valid),
        is_time=isinstance(decoding, Time),
        chunks_read=int((chunks.refs.lookup(touched) >= 0).sum()),
        bytes_read=_stored_bytes(chunks, touched),
    )


def _read(session: Session, path: NodePath, plan: SlicePlan) -> npt.NDArray[Any]:
    try:
        return np.asarray(read_region(session, path, plan.selection))
    except Exception as error:  # codecs and stores of others raise what they like
        raise StorageError(f"cannot read this slice: {error}", kind=UNREADABLE) from error


def _plan(asked: Asked, grid: Grid, chunks: ChunkColumns, item_bytes: int) -> SlicePlan:
    ndim = len(grid.shape)
    given = asked.numbers("axes")
    axes = require_axes(given, ndim) if given else tuple(range(ndim))[-2:]
    at = asked.places("slice_at", ndim) or (0,) * ndim
    return plan_slice(
        grid,
        axes=axes,
        at=at,
        item_bytes=item_bytes,
        stored_bytes=partial(_stored_bytes, chunks),
        budget=BUDGET,
    )


def _stored_bytes(chunks: ChunkColumns, index: npt.NDArray[np.uint32]) -> int:
    rows = chunks.refs.lookup(index)
    return int(chunks.refs.length[rows[rows >= 0]].sum(dtype=np.uint64))


def _present_mask(grid: Grid, plan: SlicePlan, chunks: ChunkColumns) -> npt.NDArray[np.bool_]:
    """True where the chunk of a value was ever written, in the shape of the selection."""
    places = [grid.chunk_of(axis, each) for axis, each in enumerate(plan.positions)]
    distinct, back = [], []
    for each in places:
        values, inverse = np.unique(each, return_inverse=True)
        distinct.append(values)
        back.append(inverse)
    found = chunks.refs.lookup(touched_chunks(grid, plan.positions)) >= 0
    by_chunk = found.reshape([len(each) for each in distinct])
    present: npt.NDArray[np.bool_] = by_chunk[np.ix_(*back)] if back else found.reshape(())
    return present


def _as_picture(values: npt.NDArray[Any], plan: SlicePlan, ndim: int) -> npt.NDArray[Any]:
    """(height, width): the dimensions that were chosen, in that order; the others have one."""
    order = [axis for axis in range(ndim) if axis not in plan.axes] + list(plan.axes)
    turned = np.transpose(values, order)
    lengths = [len(plan.positions[axis]) for axis in plan.axes]
    height, width = [1, 1, *lengths][-2:]
    if turned.size == 0:
        return np.zeros((height, width), values.dtype)
    return turned.reshape(height, width)


def _numbers(values: npt.NDArray[Any]) -> npt.NDArray[np.float64] | None:
    match values.dtype.kind:
        case "b" | "i" | "u" | "f":
            return values.astype(np.float64)
        case "c":
            return np.abs(values).astype(np.float64)
        case "m" | "M":
            whole = values.view(np.int64).astype(np.float64)
            return np.where(np.isnat(values), np.nan, whole)
        case _:
            return None


def _decode(
    decoding: Decoding, stored: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Values as tables have them, and where one is missing."""
    column = decode(decoding, stored.reshape(-1))
    null = np.zeros(stored.size, np.bool_) if column.null is None else column.null
    return column.values.reshape(stored.shape), null.reshape(stored.shape)


def _texts(values: npt.NDArray[Any], is_valid: npt.NDArray[np.bool_]) -> list[str]:
    """The first values as they would be printed, if these say more than a picture."""
    if values.dtype.kind in "biufc" and values.size > _MAX_TEXTS:
        return []
    if values.dtype == "M8[us]":  # a fraction of zero says nothing
        whole = values.astype("M8[s]")
        values = whole if bool(((whole == values) | np.isnat(values)).all()) else values
    pairs = zip(values.flat, is_valid.flat, strict=True)
    return [
        _text(value) if valid else "missing"
        for (value, valid), _ in zip(pairs, range(_MAX_TEXTS), strict=False)
    ]


def _text(value: Any) -> str:
    return str(value)[:_MAX_LETTERS]
