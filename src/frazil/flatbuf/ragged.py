"""Many short runs of one long array, without a loop over the runs.

A run is `length[i]` elements from `start[i]`. `splits` is the cumulative form of the lengths of
runs that lie end to end: run i is `values[splits[i]:splits[i + 1]]`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

type Array = npt.NDArray[Any]
type Bools = npt.NDArray[np.bool_]
type Bytes1 = npt.NDArray[np.uint8]
type Ints = npt.NDArray[np.int64]
type Packed = Array | tuple[Array, int]

# Index arrays of a gather are made in pieces of about this many elements, to bound memory.
PIECE = 1 << 16
# Up to so many numbers are faster to compare one by one than by a call of numpy.
FEW = 8
# Bytes of a run from which it is faster to copy it alone than to mark it in a mask.
LONG = 128


def as_readonly(array: Array) -> Array:
    """The same elements, not writable through the result."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def make_unchecked[C](kind: type[C], *parts: object) -> C:
    """A frozen record of parts taken from records of its kind: known to fit, not checked again.

    Checks cost more than the work itself where tables have few rows. Arrays become read-only;
    they must be the caller's own, or read-only already.
    """
    made = object.__new__(kind)
    for name, part in zip(kind.__slots__, parts, strict=True):  # type: ignore[attr-defined]  # all have them
        if type(part) is np.ndarray:
            part.flags.writeable = False
        object.__setattr__(made, name, part)
    return made


def constant(value: float, dtype: npt.DTypeLike, count: int) -> Array:
    """An array of `count` equal numbers that stores one."""
    kind = np.dtype(dtype)  # not by np.broadcast_to, which takes ten times as long
    return np.ndarray((count,), kind, np.array(value, kind).tobytes(), 0, (0,))


def is_constant(array: Array) -> bool:
    """True if all rows are one row, stored once."""
    return len(array) > 0 and not array.strides[0]


def repeat_row(row: Array, count: int) -> Array:
    """An array of one row, that row as many times in the room of one."""
    shape, strides = (count, *row.shape[1:]), (0, *row.strides[1:])
    return np.ndarray(shape, row.dtype, row.tobytes(), 0, strides)


def stack_rows(arrays: Sequence[Array]) -> Array:
    """Rows of all arrays; if all of these are one and the same, in the room of one."""
    first = arrays[0]
    if all(map(is_constant, arrays)):
        row = np.ascontiguousarray(first[:1])
        if all(np.array_equal(row, other[:1]) for other in arrays[1:]):
            return repeat_row(row, sum(map(len, arrays)))
    return np.concatenate(arrays)


def without_repeats(array: Array) -> Packed:
    """Packs an array for a pickle: its only distinct row and a count, or else the whole array."""
    if len(array) > 1 and (is_constant(array) or bool((array == array[0]).all())):
        return np.ascontiguousarray(array[:1]), len(array)
    return array


def with_repeats(packed: Packed) -> Array:
    return repeat_row(*packed) if isinstance(packed, tuple) else as_readonly(packed)


def splits_of(lengths: Array) -> Ints:
    splits = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=splits[1:])
    return splits


def all_within(numbers: Array, low: int, high: int) -> bool:
    """True if every integer is at least `low` and less than `high`."""
    if len(numbers) <= FEW:
        return all(low <= number < high for number in numbers.tolist())
    return int(numbers.min()) >= low and int(numbers.max()) < high


def even_length(splits: Ints) -> int | None:
    """The length of every run if all are equally long (0 for no runs), else None."""
    runs = len(splits) - 1
    if runs == 0:
        return 0
    length, rest = divmod(int(splits[-1] - splits[0]), runs)
    if rest or (runs > 1 and int(splits[1] - splits[0]) != length):
        return None
    return length if even_step(splits) == length else None


def even_step(positions: Ints) -> int | None:
    """The distance between neighbours if it is always the same (0 for less than two), else None."""
    count = len(positions)
    if count < 2:
        return 0
    step = int(positions[1] - positions[0])
    if int(positions[-1] - positions[0]) != step * (count - 1):
        return None
    for row in range(0, count - 1, PIECE):  # in pieces, to bound memory
        piece = positions[row : row + PIECE + 1]
        if not bool((piece[1:] - piece[:-1] == step).all()):
            return None
    return step


def run_index(start: Ints, length: Ints) -> Ints:
    """The position of every element of every run, run after run."""
    splits = splits_of(length)
    index = np.repeat(start - splits[:-1], length)
    index += np.arange(len(index), dtype=np.int64)
    return index


def run_mask(start: Ints, length: Ints, size: int) -> Bools:
    """True at the elements of the runs, which must be in ascending order and not overlap."""
    edges = np.empty(2 * len(start) + 2, np.int64)
    edges[0], edges[-1] = 0, size
    edges[1:-1:2] = start
    edges[2:-1:2] = start + length
    inside = np.zeros(2 * len(start) + 1, np.bool_)
    inside[1::2] = True
    return np.repeat(inside, np.diff(edges))


def gather(source: Array, start: Ints, length: Ints) -> Array:
    """The runs of `source` end to end; a view where they already are. The caller checks bounds."""
    if len(start) == 0:
        return source[:0]
    first = int(length[0])
    if bool((length == first).all()):
        return _gather_even(source, start, first)
    if bool((start[1:] == start[:-1] + length[:-1]).all()):
        return source[int(start[0]) : int(start[-1] + length[-1])]
    if source.dtype == np.uint8 and source.ndim == 1 and are_long(length):
        return _gather_long(np.ascontiguousarray(source), start, length)
    low, high = int(start[0]), int(start[-1] + length[-1])
    ascending = bool((start[1:] >= start[:-1] + length[:-1]).all())
    if ascending and high - low <= 4 * int(length.sum()):
        return source[low:high][run_mask(start - low, length, high - low)]
    return _gather_in_pieces(source, start, length)


def are_long(length: Ints) -> bool:
    """True if a loop over the runs costs less than a mask over their bytes."""
    return int(length.sum()) >= LONG * len(length)


def _gather_long(source: Bytes1, start: Ints, length: Ints) -> Bytes1:
    data, stop = memoryview(source), (start + length).tolist()
    pieces = [data[first:last] for first, last in zip(start.tolist(), stop, strict=True)]
    return np.frombuffer(b"".join(pieces), np.uint8)


def _gather_even(source: Array, start: Ints, length: int) -> Array:
    count = len(start)
    if length == 0:
        return source[:0]
    step = even_step(start)
    first = int(start[0])
    if step == length or count == 1:
        return source[first : first + count * length]
    item = source.shape[1:]
    if step is not None:
        stride = source.strides[0]
        runs = np.lib.stride_tricks.as_strided(
            source[first:],
            (count, length, *item),
            (step * stride, stride, *source.strides[1:]),
            writeable=False,
        )
        return runs.reshape(count * length, *item)
    # A run becomes one element of a type as large as it is, and one begins at every place.
    solid = np.ascontiguousarray(source)
    unit = solid.nbytes // len(solid)
    shape, kind = (len(solid) - length + 1,), np.dtype((np.void, length * unit))
    runs = np.ndarray(shape, kind, solid, 0, (unit,))[start]
    return runs.view(source.dtype).reshape(count * length, *item)


def _gather_in_pieces(source: Array, start: Ints, length: Ints) -> Array:
    splits = splits_of(length)
    out = np.empty((int(splits[-1]), *source.shape[1:]), source.dtype)
    row = 0
    while row < len(start):
        stop = int(np.searchsorted(splits, splits[row] + PIECE, side="right")) - 1
        stop = max(stop, row + 1)
        piece = run_index(start[row:stop], length[row:stop])
        np.take(source, piece, axis=0, out=out[splits[row] : splits[stop]], mode="clip")
        row = stop
    return out


def factorize(positions: Ints, unit: int) -> tuple[Ints, Ints]:
    """Codes and the distinct positions they number, for positions that are multiples of `unit`.

    Costs O(n) without a sort unless the positions are far apart: a table over their span, of which
    only the used pages are touched. Positions without repeats, in either direction (the reference
    writes backwards), skip even that.
    """
    count = len(positions)
    if count < 2 or _strictly_monotonic(positions):
        return np.arange(count, dtype=np.int64), positions
    places = positions - positions.min()
    places //= unit
    span = int(places.max()) + 1
    if span > 64 * count:
        found, codes = np.unique(positions, return_inverse=True)
        return codes.astype(np.int64), found
    table = np.empty(span, np.int32)
    rows = np.arange(count, dtype=np.int32)
    table[places] = rows
    chosen = table[places]  # one row for each position: whichever was written last
    kept = np.flatnonzero(chosen == rows)
    table[places[kept]] = np.arange(len(kept), dtype=np.int32)
    return table[places].astype(np.int64), positions[kept]


def _strictly_monotonic(positions: Ints) -> bool:
    before, after = positions[:-1], positions[1:]
    if positions[0] < positions[1]:
        return bool((before < after).all())
    return bool((before > after).all())


def concat_arrays(parts: Sequence[Array]) -> Array:
    """End to end; a single one as it is."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
