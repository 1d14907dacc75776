"""Chunks that a scan reads, and the division of its rows into tasks.

A scan is a product: along each axis some positions are wanted, and every combination is a row.
Per variable, the chunks it touches are the product of those touched along each axis, so counting
and listing them needs no search. Tasks are boxes in this product, cut only between chunks:

    axis 0 positions   0 1 2 | 3 4 5 | 6         chunks of 3 along axis 0, of 2 along axis 1
    axis 1 positions   4 5 | 8 9                 6 and 7 are not wanted: chunk 3 is not read
    box ((0, 3), (0, 4))                         offsets into the lists of positions, not positions
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import lcm, prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.spark.table.cf import Decoding, Values, decode
from frazil.spark.table.description import ArrayDescription
from frazil.spark.table.schema import from_numbers, to_arrow
from frazil.spark.table.selection import Positions
from frazil.spark.table.value_condition import ValueCondition

type Box = tuple[tuple[int, int], ...]  # per axis: offsets into its positions, stop excluded

_MAX_CELL_CHUNKS = 4  # grids that meet only every so many chunks are not brought together


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    name: str
    positions: Positions

    def __len__(self) -> int:
        return len(self.positions)


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring positions: read `start` to `stop`, keep `taken` of it, put it at `offset`."""

    start: int
    stop: int
    offset: int
    taken: npt.NDArray[np.int64] | None  # relative to start; None for all

    @property
    def count(self) -> int:
        return self.stop - self.start if self.taken is None else len(self.taken)


def touched_chunks(axis: Axis, chunk: int) -> npt.NDArray[np.int64]:
    """Indices along `axis` of the chunks that hold a wanted position, ascending."""
    wanted = axis.positions
    if isinstance(wanted, range):
        return np.arange(wanted[0] // chunk, wanted[-1] // chunk + 1) if wanted else _NONE
    return np.unique(wanted // chunk)


_NONE: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)


def count_chunks(axes: Sequence[Axis], variable: ArrayDescription) -> int:
    """Number of chunks of `variable` that the scan reads."""
    return prod(len(touched_chunks(axis, variable.chunk_of(axis.name))) for axis in axes)


def count_grid(variable: ArrayDescription) -> int:
    """Number of chunks in the grid of `variable`, written or not."""
    return prod(-(-n // max(1, c)) for n, c in zip(variable.shape, variable.chunks, strict=True))


def list_chunks(axes: Sequence[Axis], variable: ArrayDescription) -> list[tuple[int, ...]]:
    """Index of every chunk of `variable` that the scan reads."""
    by_name = {axis.name: axis for axis in axes}
    along = [touched_chunks(by_name[d], variable.chunk_of(d)).tolist() for d in variable.dims]
    return list(product(*along))


def plan_boxes(
    axes: Sequence[Axis],
    grids: Sequence[ArrayDescription],
    *,
    read: Sequence[ArrayDescription],
    row_bytes: int,
    target_bytes: int,
) -> list[Box]:
    """Boxes of about `target_bytes`, aligned to the chunks of `grids`; one chunk is never cut.

    A box weighs what is decoded for it (whole chunks of the variables to `read`) or what its rows
    weigh, whichever is more.
    """
    if any(len(axis) == 0 for axis in axes):
        return []
    edges = [_cell_edges(axis, [g.chunk_of(axis.name) for g in grids]) for axis in axes]
    cells = [len(e) - 1 for e in edges]
    weight = max(
        sum(_touched_bytes(axes, edges, variable) for variable in read),
        row_bytes * prod(int(np.diff(e).max()) for e in edges),
        1,
    )
    merged = [1] * len(axes)
    for k in reversed(range(len(axes))):
        fit = max(1, target_bytes // weight)
        groups = -(-cells[k] // min(fit, cells[k]))
        merged[k] = -(-cells[k] // groups)  # even groups rather than a small last one
        weight *= merged[k]
        if merged[k] < cells[k]:
            break
    spans = [_spans(e, m) for e, m in zip(edges, merged, strict=True)]
    return list(product(*spans))


def cut_boxes(axes: Sequence[Axis], cuts: Sequence[Sequence[int]]) -> list[Box]:
    """Boxes between given positions: per axis, where a box begins, and the end."""
    spans = [
        [
            (lo, hi)
            for lo, hi in pairwise(np.searchsorted(axis.positions, edges).tolist())
            if lo < hi
        ]
        for axis, edges in zip(axes, cuts, strict=True)
    ]
    return list(product(*spans))


def _spans(edges: npt.NDArray[np.int64], merged: int) -> list[tuple[int, int]]:
    cut = [*edges[:-1:merged].tolist(), int(edges[-1])]
    return list(pairwise(cut))


def _cell_edges(axis: Axis, chunks: Sequence[int]) -> npt.NDArray[np.int64]:
    """Offsets where a new cell begins, and the end. A cell is the least that whole chunks allow."""
    cell = cell_size(chunks)
    cells = np.asarray(axis.positions, dtype=np.int64) // cell
    begins = np.flatnonzero(np.diff(cells)) + 1
    return np.concatenate([[0], begins, [len(cells)]]).astype(np.int64)


def cell_size(chunks: Sequence[int]) -> int:
    """Along one axis: what holds whole chunks of all grids, unless that is much."""
    largest = max(chunks, default=1)
    together = lcm(*chunks)
    return together if together <= _MAX_CELL_CHUNKS * largest else largest


def _touched_bytes(
    axes: Sequence[Axis], edges: Sequence[npt.NDArray[np.int64]], variable: ArrayDescription
) -> int:
    """Decoded size of the chunks of `variable` in the largest cell."""
    counts = []
    for axis, edge in zip(axes, edges, strict=True):
        positions = np.asarray(axis.positions, dtype=np.int64)
        chunk = variable.chunk_of(axis.name)
        spans = positions[edge[1:] - 1] // chunk - positions[edge[:-1]] // chunk + 1
        counts.append(int(spans.max()))
    return prod(counts) * variable.chunk_bytes


def runs(axis: Axis, span: tuple[int, int], chunk: int) -> list[Run]:
    """Yields the runs to read along `axis` for the offsets in `span`; no chunk between two runs is
    read.
    """
    positions = axis.positions[span[0] : span[1]]
    if isinstance(positions, range):
        return [Run(positions.start, positions.stop, 0, None)] if positions else []
    breaks = np.flatnonzero(np.diff(positions // chunk) > 1) + 1
    parts = np.split(positions, breaks)
    offsets = np.concatenate([[0], breaks]).tolist()
    return [_run(part, offset) for part, offset in zip(parts, offsets, strict=True) if len(part)]


def _run(positions: npt.NDArray[np.int64], offset: int) -> Run:
    start, stop = int(positions[0]), int(positions[-1]) + 1
    full = stop - start == len(positions)
    return Run(start, stop, int(offset), None if full else positions - start)


def cut(axes: Sequence[Axis], box: Box) -> tuple[Axis, ...]:
    """Returns the axes of one box alone."""
    return tuple(
        Axis(axis.name, axis.positions[start:stop])
        for axis, (start, stop) in zip(axes, box, strict=True)
    )


def box_rows(box: Box) -> int:
    return prod(hi - lo for lo, hi in box)


def iterate_rows(rows: int, batch_rows: int) -> Iterator[tuple[int, int]]:
    """Cuts of `rows` into batches."""
    for start in range(0, rows, batch_rows):
        yield start, min(start + batch_rows, rows)


# Batches of rows, in Arrow, from blocks of arrays.
#
# The last dimension varies fastest. A coordinate column repeats a few values many times, so it is
# taken from a short Arrow array by row number; nothing is done per row in Python.


@dataclass(frozen=True, slots=True, eq=False)
class CoordinateColumn:
    """Values along one axis of the block."""

    axis: int
    values: pa.Array


@dataclass(frozen=True, slots=True, eq=False)
class VariableColumn:
    """Stored values of a block, row by row."""

    flat: npt.NDArray[Any]
    decoding: Decoding
    nan_is_null: bool

    def at(self, rows: "Rows") -> Values:
        return decode(self.decoding, self.flat[rows], nan_is_null=self.nan_is_null)


type BlockColumn = CoordinateColumn | VariableColumn


type Rows = slice | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Where:
    """A condition on rows, and the variables that it is about."""

    condition: ValueCondition
    variables: Mapping[str, VariableColumn]
    numbered: bool  # whether a last column has the numbers of rows in the block

    def choose(self, rows: slice) -> Rows:
        """The rows for which the condition holds; as they are, if it does for all."""
        values = {name: each.at(rows) for name, each in self.variables.items()}
        chosen = rows.start + np.flatnonzero(self.condition.holds(values))
        return chosen if len(chosen) < rows.stop - rows.start else rows


def batches(
    shape: Sequence[int],
    columns: Sequence[BlockColumn],
    schema: pa.Schema,
    where: Where | None = None,
    *,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Rows of a block of `shape`, at most `batch_rows` at a time, exactly of `schema`."""
    for start, stop in iterate_rows(prod(shape), batch_rows):
        rows = slice(start, stop) if where is None else where.choose(slice(start, stop))
        if not isinstance(rows, slice) and not len(rows):
            continue
        arrays = [_column_at(shape, each, rows) for each in columns]
        if where is not None and where.numbered:
            numbers = _numbers(rows).astype(schema.types[-1].to_pandas_dtype())
            arrays.append(from_numbers(numbers))
        yield _batch(arrays, schema)


def _numbers(rows: Rows) -> npt.NDArray[np.int64]:
    return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows


def _column_at(shape: Sequence[int], column: BlockColumn, rows: Rows) -> pa.Array:
    if isinstance(column, VariableColumn):
        return to_arrow(column.at(rows))
    inner, count = prod(shape[column.axis + 1 :]), shape[column.axis]
    return column.values.take(from_numbers(_numbers(rows) // inner % count))


def _batch(arrays: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            each if each.type == field.type else each.cast(field.type)
            for each, field in zip(arrays, schema, strict=True)
        ],
        schema=schema,
    )


# A sample of rows. Each row has a number between 0 and 1, made from the seed and from the place of
# its cell in the array, so that a row is in every scan of the same sample or in none.


@dataclass(frozen=True, slots=True)
class Sample:
    """The rows whose number is at least `lower` and below `upper`."""

    lower: float
    upper: float
    seed: int


def take_sample(
    batches: Iterable[pa.RecordBatch], axes: Sequence[Axis], sizes: Sequence[int], sample: Sample
) -> Iterator[pa.RecordBatch]:
    """The sampled rows of batches that follow each other. `sizes` are those of the whole array."""
    positions = [np.asarray(axis.positions, dtype=np.int64) for axis in axes]
    shape = [len(each) for each in positions]
    start = 0
    for batch in batches:
        rows = np.arange(start, start + batch.num_rows)
        start += batch.num_rows
        cell = np.zeros(len(rows), dtype=np.int64)
        for k, along in enumerate(positions):
            place = rows // prod(shape[k + 1 :]) % shape[k]
            cell = cell * sizes[k] + along[place]
        number = _random_numbers(cell, sample.seed)
        yield batch.filter(from_numbers((number >= sample.lower) & (number < sample.upper)))


def _random_numbers(cells: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.float64]:
    """Numbers from 0 to 1 by SplitMix64, https://prng.di.unimi.it/splitmix64.c."""
    key = np.uint64(seed % 2**64)
    z = (cells.view(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + key
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53
