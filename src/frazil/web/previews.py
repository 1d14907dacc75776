"""Pictures of slices, and of the difference of two versions, with the numbers that are in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.ids import SnapshotId
from frazil.paths import NodePath
from frazil.spark.table.cf import Decoding, Time, count_decoding, decode, plan_decoding
from frazil.web.axes import Axis, Coordinates, axes_of, coordinates, format_times, read_values
from frazil.web.explored import ChunkColumns, Explored
from frazil.web.http import Asked, finite_or_none, readable_document
from frazil.web.images import (
    DIVERGING,
    NO_PICTURE,
    SCALES,
    encode_png,
    hex_of,
    paint,
    require_axes,
    scale,
)
from frazil.web.slices import (
    Budget,
    Grid,
    Ints,
    SlicePlan,
    is_affordable,
    parse_grid,
    plan_slice,
    selection_of,
    touched_chunks,
    whole_positions,
)
from frazil.web.trees import path_before
from frazil.zarrstore.arrays import open_array

BUDGET = Budget()
THUMBNAIL = Budget(
    pixels=192, chunks=64, stored_bytes=4 * 2**20, decoded_bytes=64 * 2**20, exact_bytes=2**20
)
_MAX_TEXTS = 200  # values that are shown as such
_MAX_LETTERS = 200  # of each
_FLIPS = {
    "none": (False, False),
    "rows": (True, False),
    "columns": (False, True),
    "both": (True, True),
}
_SIGNED = 0.1  # least share of the other sign in data that has its colours around zero
_PLANES = ({"latitude", "longitude"}, {"x", "y"})
type Floats = npt.NDArray[np.float64]
type Bools = npt.NDArray[np.bool_]


type Place = tuple[str | None, float | None]
"""A coordinate as text, with its units, and as a number."""


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Numbers of a slice, without missing values; `is_exact` if every value of it was read."""

    valid: int
    missing: int
    low: float | None
    high: float | None
    mean: float | None
    is_exact: bool
    changed: int | None  # values that differ, of a difference

    def facts(self) -> dict[str, object]:
        return {
            "valid": self.valid,
            "missing": self.missing,
            "min": self.low,
            "max": self.high,
            "mean": self.mean,
            "is_exact": self.is_exact,
            "changed": self.changed,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """`values` as numbers, (height, width); None if they are not, and `texts` then.

    Rows and columns are in the order of the array; pictures are turned as `flips` tells.
    """

    plan: SlicePlan
    shape: tuple[int, ...]
    axes: tuple[Axis, ...]
    dtype: str
    attributes: dict[str, Any]
    values: Floats | None
    is_valid: Bools
    texts: list[str]
    is_time: bool  # by its CF units: then `texts` are decoded, and `values` are the numbers
    is_difference: bool
    statistics: Statistics
    places: list[Place]  # of the slice, along the dimensions that are not shown
    along: list[Coordinates | None]  # coordinates along those that are
    chunks_read: int
    bytes_read: int

    def flips(self, asked: Asked) -> tuple[bool, bool]:
        """Returns if the first row is at the bottom, and if the first column is on the right."""
        wanted = asked.values.get("flip") or None
        if wanted is not None and wanted not in _FLIPS:
            raise InvalidInputError(f"flip is one of {', '.join(_FLIPS)}, not {wanted!r}")
        if wanted is not None:
            return _FLIPS[wanted]
        if len(self.plan.axes) < 2:
            return False, False
        rows, columns = (self.axes[axis] for axis in self.plan.axes)
        return rows.is_reversed(on_rows=True), columns.is_reversed(on_rows=False)

    def turned[T: np.generic](self, values: npt.NDArray[T], asked: Asked) -> npt.NDArray[T]:
        """The rows and columns of a picture, from its upper left corner."""
        up, left = self.flips(asked)
        return values[:: -1 if up else 1, :: -1 if left else 1]

    def scale(self, asked: Asked) -> tuple[str, float, float]:
        """Returns the name of the colours, and the values at their ends."""
        low, high = self.statistics.low, self.statistics.high
        low, high = (0.0, 1.0) if low is None or high is None else (low, high)
        is_signed = low < 0 < high and min(-low, high) >= _SIGNED * max(-low, high)
        name = asked.values.get("scale") or (
            DIVERGING if is_signed or self.is_difference else SCALES[0]
        )
        if name == DIVERGING and (low < 0 < high or self.is_difference):
            most = max(abs(low), abs(high))
            low, high = 0.0 - most, most
        wanted = asked.decimal("low"), asked.decimal("high")
        return (
            name,
            low if wanted[0] is None else wanted[0],
            (high if wanted[1] is None else wanted[1]),
        )

    def facts(self, asked: Asked) -> dict[str, object]:
        name, low, high = self.scale(asked)
        flips = self.flips(asked)
        units, title = (_short_text(self.attributes, key) for key in ("units", "long_name"))
        return {
            "axes": self.plan.axes,
            "at": [int(p[0]) if len(p) else 0 for p in self.plan.positions],
            "steps": self.plan.steps[: len(self.plan.axes)],
            "region": self.plan.spans,
            "flip": flips,
            "aspect": self._aspect(),
            "shape": self.shape,
            "data_type": self.dtype,
            "is_number": self.values is not None,
            "height": self.is_valid.shape[0],
            "width": self.is_valid.shape[1],
            "long_name": title,
            "units": units,
            "scale": name,
            "low": finite_or_none(low),
            "high": finite_or_none(high),
            "scales": SCALES,
            "colours": [hex_of(colour) for colour in scale(name, 33)],
            "texts": self.texts,
            "is_time": self.is_time,
            "is_difference": self.is_difference,
            "value_type": self.value_type,
            "chunks_read": self.chunks_read,
            "bytes_read": self.bytes_read,
            **self.statistics.facts(),
            "line": self._line(),
            "dimensions": [
                {
                    "name": each.name,
                    "label": each.label,
                    "units": each.units,
                    "kind": each.kind,
                    "calendar": each.calendar,
                    "place": text,
                    "number": number,
                }
                for each, (text, number) in zip(self.axes, self.places, strict=True)
            ],
            "along": [
                _listed(each, reverse=flip)
                for each, flip in zip(self.along, _of_axes(flips, self.plan.axes), strict=True)
            ],
        }  # fmt: skip

    def _aspect(self) -> float:
        """Height of the picture for a width of 1."""
        if len(self.plan.axes) < 2:
            return 0.4
        rows, columns = (stop - start for start, stop in self.plan.spans)
        kinds = {self.axes[axis].kind for axis in self.plan.axes}
        if kinds in _PLANES:
            cells = [_spacing(each, step) for each, step in zip(self.along, self.plan.steps,
                                                                strict=True)]  # fmt: skip
            down, across = cells if all(cells) else (1.0, 1.0)
            return float(np.clip(rows * down / max(columns * across, 1e-300), 1 / 6, 3))
        if kinds == {""}:
            return float(np.clip(rows / max(columns, 1), 1 / 6, 3))
        return float(np.clip(rows / max(columns, 1), 0.4, 0.75))  # lengths that do not compare

    def _line(self) -> list[float | None] | None:
        """The values of a slice of one dimension, for a curve."""
        if self.values is None or len(self.plan.axes) != 1:
            return None
        return numbers_or_none(np.where(self.is_valid[0], self.values[0], np.nan))

    def png(self, asked: Asked) -> bytes:
        if self.values is None:
            raise InvalidInputError(f"values of type {self.dtype} have no picture")
        if not self.values.size:
            return NO_PICTURE
        name, low, high = self.scale(asked)
        values, is_valid = self.turned(self.values, asked), self.turned(self.is_valid, asked)
        return encode_png(paint(values, is_valid, low=low, high=high, name=name))

    @property
    def value_type(self) -> str:
        """Type of the numbers in `binary`: four bytes if these hold all of them."""
        is_short = self.dtype in {"bool", "int8", "uint8", "int16", "uint16", "float16", "float32"}
        is_packed = {"scale_factor", "add_offset"} & self.attributes.keys()
        return "f4" if is_short and not is_packed and not self.is_difference else "f8"

    def binary(self, asked: Asked) -> bytes:
        """The numbers of the picture row by row, little-endian; NaN where there is none."""
        if self.values is None:
            raise InvalidInputError(f"values of type {self.dtype} are not numbers")
        values = np.where(self.is_valid, self.values, np.nan)
        return self.turned(values, asked).astype(f"<{self.value_type}").tobytes()


def numbers_or_none(values: Floats) -> list[float | None]:
    finite = np.isfinite(values).tolist()
    return [each if is_finite else None for each, is_finite in zip(values.tolist(), finite,
                                                                    strict=True)]  # fmt: skip


def _of_axes(flips: tuple[bool, bool], axes: tuple[int, ...]) -> tuple[bool, ...]:
    return flips if len(axes) > 1 else (False,) * len(axes)


def _listed(found: Coordinates | None, *, reverse: bool) -> dict[str, object] | None:
    if found is None:
        return None
    order = -1 if reverse else 1
    texts = None if found.texts is None else found.texts[::order]
    return {"numbers": numbers_or_none(found.numbers[::order]), "texts": texts}


def _spacing(found: Coordinates | None, step: int) -> float:
    """Distance of neighbours along a coordinate; 0 if it has none."""
    if found is None or len(found.numbers) < 2 or not np.isfinite(found.numbers).all():
        return 0.0
    return abs(float(found.numbers[-1] - found.numbers[0])) / (len(found.numbers) - 1) / step


def _short_text(attributes: dict[str, Any], key: str) -> str:
    value = attributes.get(key)
    return value[:_MAX_LETTERS] if isinstance(value, str) else ""


def preview(explored: Explored, snapshot: SnapshotId, path: NodePath, asked: Asked) -> Preview:
    """Kept for a while: the picture and its numbers are asked for one after the other.

    With the parameter `from`, the difference to that version.
    """
    start = asked.values.get("from") or None
    before = None if start is None else explored.snapshot(start)
    wishes = tuple(asked.values.get(name, "") for name in ("axes", "slice_at", "region", "size"))
    make = partial(_make, explored, snapshot, path, asked, before)
    return explored.recall_picture(("preview", snapshot, path, before, wishes), make)


@dataclass(frozen=True, slots=True)
class _Array:
    """An array at a snapshot, with its chunk grid."""

    explored: Explored
    snapshot: SnapshotId
    path: NodePath
    grid: Grid
    chunks: ChunkColumns
    dtype: np.dtype[Any]
    attributes: dict[str, Any]
    decoding: Decoding

    @classmethod
    def open(cls, explored: Explored, snapshot: SnapshotId, path: NodePath) -> "_Array":
        session = explored.session(snapshot)
        chunks = explored.chunks(snapshot, path)
        node = session.node(path)
        document = readable_document(node.user_data) or {}
        grid = parse_grid(document, node.array.shape if node.array is not None else ())
        array = open_array(session, path)
        attributes = document.get("attributes") or {}
        return cls(
            explored, snapshot, path, grid, chunks, array.dtype, attributes, plan_decoding(array)
        )

    def is_affordable(self, positions: Sequence[Ints], budget: Budget) -> bool:
        item, stored = max(self.dtype.itemsize, 1), partial(_stored_bytes, self.chunks)
        return is_affordable(self.grid, positions, item, stored, budget)

    def read(self, plan: SlicePlan, positions: tuple[Ints, ...]) -> "_Slice":
        stored = read_values(
            self.explored.session(self.snapshot), self.path, selection_of(positions)
        )
        ndim = len(self.grid.shape)
        flat = _as_picture(stored, plan, positions, ndim)
        decoded, is_missing = _decode(self.decoding, flat)
        # of a time the number that is counted, as its units say: microseconds say less
        numbers = _numbers(_decode(count_decoding(self.decoding), flat)[0])
        present = _present_mask(self.grid, positions, self.chunks)
        is_value = ~is_missing if numbers is None else ~is_missing & ~np.isnan(numbers)
        is_valid = _as_picture(present, plan, positions, ndim) & is_value
        return _Slice(decoded, numbers, is_valid, is_value)


@dataclass(frozen=True, slots=True, eq=False)
class _Slice:
    decoded: npt.NDArray[Any]
    numbers: Floats | None
    is_valid: Bools
    is_value: Bools  # also where no chunk was written and the fill value is an ordinary one
    changed: int | None = None

    def minus(self, other: "_Slice") -> "_Slice":
        if self.numbers is None or other.numbers is None:
            raise InvalidInputError("the difference of values that are not numbers has no picture")
        # A chunk of zeros may not have been written: in only one of the versions it counts.
        both = self.is_value & other.is_value & (self.is_valid | other.is_valid)
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.where(both, self.numbers - other.numbers, np.nan)
        apart[both & (self.numbers == other.numbers)] = 0  # two infinities
        changed = (both & (apart != 0)) | (self.is_value != other.is_value)
        is_valid = both & ~np.isnan(apart)
        return _Slice(apart, apart, is_valid, is_valid, int(changed.sum()))

    def thinned(self, places: tuple[Ints, Ints]) -> "_Slice":
        chosen = np.ix_(*places)
        numbers = None if self.numbers is None else self.numbers[chosen]
        is_valid = self.is_valid[chosen]
        return _Slice(self.decoded[chosen], numbers, is_valid, is_valid, self.changed)

    def statistics(self, *, is_exact: bool) -> Statistics:
        valid = int(self.is_valid.sum())
        missing = self.is_valid.size - valid
        if self.numbers is None or not valid:
            return Statistics(valid, missing, None, None, None, is_exact, self.changed)
        numbers = self.numbers[self.is_valid]
        with np.errstate(all="ignore"):
            low, high, mean = map(finite_or_none, (numbers.min(), numbers.max(), numbers.mean()))
        return Statistics(valid, missing, low, high, mean, is_exact, self.changed)


def _make(
    explored: Explored,
    snapshot: SnapshotId,
    path: NodePath,
    asked: Asked,
    before: SnapshotId | None,
) -> Preview:
    array = _Array.open(explored, snapshot, path)
    other = None
    if before is not None:
        other = _Array.open(explored, before, path_before(explored, before, snapshot, path))
    axes = axes_of(explored, snapshot, path)
    shape = array.grid.shape if other is None else _common_shape(array, other)
    budget = THUMBNAIL if asked.values.get("size") == "small" else BUDGET
    plan = _plan(asked, array, axes, shape, budget)
    shown, statistics = _read_slice(array, other, plan, budget)
    touched = touched_chunks(array.grid, plan.positions)
    return Preview(
        plan=plan,
        shape=shape,
        axes=axes,
        dtype=str(array.dtype),
        attributes=array.attributes,
        values=shown.numbers,
        is_valid=shown.is_valid,
        texts=[] if other is not None else _texts(shown.decoded, shown.is_valid),
        is_time=isinstance(array.decoding, Time),
        is_difference=other is not None,
        statistics=statistics,
        places=_places(explored, snapshot, axes, plan),
        along=[_along(explored, snapshot, axes[axis], plan.positions[axis]) for axis in plan.axes],
        chunks_read=int((array.chunks.refs.lookup(touched) >= 0).sum()),
        bytes_read=_stored_bytes(array.chunks, touched),
    )


def _common_shape(array: _Array, other: _Array) -> tuple[int, ...]:
    """The part that both versions have."""
    if len(array.grid.shape) != len(other.grid.shape):
        raise InvalidInputError("the two versions have different numbers of dimensions")
    pairs = zip(array.grid.shape, other.grid.shape, strict=True)
    return tuple(min(pair) for pair in pairs)


def _read_slice(
    array: _Array, other: _Array | None, plan: SlicePlan, budget: Budget
) -> tuple[_Slice, Statistics]:
    """Reads the whole slice for its statistics if that is cheap, and what is shown of it."""
    whole = whole_positions(array.grid, plan)
    items = int(np.prod([len(each) for each in whole], dtype=np.float64))
    is_thinned = max(plan.steps) > 1
    is_exact = not is_thinned or (
        items * max(array.dtype.itemsize, 8) <= budget.exact_bytes
        and all(each.is_affordable(whole, budget) for each in (array, other) if each is not None)
    )
    positions = whole if is_exact else plan.positions
    found = array.read(plan, positions)
    if other is not None:
        found = found.minus(other.read(plan, positions))
    statistics = found.statistics(is_exact=is_exact)
    if is_exact and is_thinned:
        places = [plan.positions[axis] - whole[axis][0] for axis in plan.axes]
        one = np.zeros(1, np.int64)
        found = found.thinned((one, places[0]) if len(places) == 1 else (places[0], places[1]))
    return found, statistics


def _places(
    explored: Explored, snapshot: SnapshotId, axes: tuple[Axis, ...], plan: SlicePlan
) -> list[Place]:
    found: list[Place] = []
    for number, axis in enumerate(axes):
        at = None
        if number not in plan.axes:
            at = _along(explored, snapshot, axis, plan.positions[number])
        if at is None:
            found.append((None, None))
            continue
        value = finite_or_none(at.numbers[0])
        text = at.texts[0] if at.texts is not None else f"{at.numbers[0]:.7g} {axis.units}".strip()
        found.append((text, value))
    return found


def _along(
    explored: Explored, snapshot: SnapshotId, axis: Axis, positions: Ints
) -> Coordinates | None:
    return None if axis.path is None else coordinates(explored, snapshot, axis.path, positions)


def _plan(
    asked: Asked, array: _Array, axes: tuple[Axis, ...], shape: tuple[int, ...], budget: Budget
) -> SlicePlan:
    ndim = len(shape)
    given = asked.numbers("axes")
    if given is not None and len(given) == 1 and given[0] < ndim:
        chosen: tuple[int, ...] = given
    else:
        chosen = require_axes(given, ndim) if given else default_axes(axes)
    at = asked.places("slice_at", ndim) or (0,) * ndim
    return plan_slice(
        array.grid,
        axes=chosen,
        at=[None if n is None else min(n, max(k - 1, 0)) for n, k in zip(at, shape, strict=True)],
        item_bytes=max(array.dtype.itemsize, 1),
        stored_bytes=partial(_stored_bytes, array.chunks),
        budget=budget,
        region=_region(asked, [shape[axis] for axis in chosen]),
    )


def default_axes(axes: tuple[Axis, ...]) -> tuple[int, ...]:
    """Rows and columns: a map if there are axes for one, else the last two dimensions."""
    kinds = [axis.kind for axis in axes]
    for down, across in (("latitude", "longitude"), ("y", "x")):
        if down in kinds and across in kinds:
            return kinds.index(down), kinds.index(across)
    chosen = tuple(range(len(axes)))[-2:]
    if len(chosen) == 2 and kinds[chosen[1]] == "vertical" and kinds[chosen[0]] != "vertical":
        return chosen[1], chosen[0]
    return chosen


def _region(asked: Asked, lengths: list[int]) -> list[tuple[int, int]]:
    """Start and end along each axis that is shown; never empty unless the array is."""
    given = asked.numbers("region") or None
    if given is None:
        return [(0, length) for length in lengths]
    if len(given) != 2 * len(lengths):
        raise InvalidInputError(f"a region has {2 * len(lengths)} numbers, got {len(given)}")
    found = []
    for start, stop, length in zip(given[::2], given[1::2], lengths, strict=True):
        first = min(start, max(length - 1, 0))
        found.append((first, min(max(stop, first + 1), length)))
    return found


def _stored_bytes(chunks: ChunkColumns, index: npt.NDArray[np.uint32]) -> int:
    rows = chunks.refs.lookup(index)
    return int(chunks.refs.length[rows[rows >= 0]].sum(dtype=np.uint64))


def _present_mask(grid: Grid, positions: tuple[Ints, ...], chunks: ChunkColumns) -> Bools:
    """True where the chunk of a value was ever written, in the shape of the selection."""
    places = [grid.chunk_of(axis, each) for axis, each in enumerate(positions)]
    distinct, back = [], []
    for each in places:
        values, inverse = np.unique(each, return_inverse=True)
        distinct.append(values)
        back.append(inverse)
    found = chunks.refs.lookup(touched_chunks(grid, positions)) >= 0
    by_chunk = found.reshape([len(each) for each in distinct])
    present: Bools = by_chunk[np.ix_(*back)] if back else found.reshape(())
    return present


def _as_picture(
    values: npt.NDArray[Any], plan: SlicePlan, positions: tuple[Ints, ...], ndim: int
) -> npt.NDArray[Any]:
    """(height, width): the dimensions that were chosen, in that order; the others have one."""
    order = [axis for axis in range(ndim) if axis not in plan.axes] + list(plan.axes)
    turned = np.transpose(values, order)
    lengths = [len(positions[axis]) for axis in plan.axes]
    height, width = [1, 1, *lengths][-2:]
    if turned.size == 0:
        return np.zeros((height, width), values.dtype)
    return turned.reshape(height, width)


def _numbers(values: npt.NDArray[Any]) -> Floats | None:
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


def _decode(decoding: Decoding, stored: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Bools]:
    """Values as tables have them, and where one is missing."""
    column = decode(decoding, stored.reshape(-1))
    null = np.zeros(stored.size, np.bool_) if column.null is None else column.null
    return column.values.reshape(stored.shape), null.reshape(stored.shape)


def _texts(values: npt.NDArray[Any], is_valid: Bools) -> list[str]:
    """The first values as they would be printed, if these say more than a picture."""
    if values.dtype.kind in "biufc" and values.size > _MAX_TEXTS:
        return []
    first = values.reshape(-1)[:_MAX_TEXTS]
    texts = (
        format_times(first)
        if first.dtype == "M8[us]"
        else [str(each)[:_MAX_LETTERS] for each in first]
    )
    flags = is_valid.reshape(-1)[:_MAX_TEXTS].tolist()
    return [text if valid else "missing" for text, valid in zip(texts, flags, strict=True)]
