"""Staged rows into chunks: boxes of the grid, each made of the batches that have rows for it.

    pieces, layout   ->   spans: the blocks that each batch may have rows for
    spans            ->   boxes of blocks, each of about so many bytes of rows     one per task
    a box            ->   its batches, their rows in the box, chunks               on executors

Boxes are disjoint and hold every row. Where a coordinate is in no order, a batch may have rows
anywhere along it.

Batches that have rows for many boxes, such as maps for chunks that are time series, would be read
for each of them. Then pieces are cut first, once, so that a batch has rows for few boxes:

    a piece, boxes   ->   a piece whose batches end where boxes do                 on executors
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.objectstore.protocol import ObjectStore
from frazil.spark.writing.blocks import BlockGrid, Coordinate, Indices, group_rows, locate, place
from frazil.spark.writing.columns import Column, encode_coordinate
from frazil.spark.writing.layout import Layout
from frazil.spark.writing.session import (
    Assembly,
    BlockCells,
    StoredChunks,
    column_of,
    encode_rows,
    positions_of,
)
from frazil.spark.writing.stage import (
    OPERATION,
    load_batches,
    load_coordinates,
    rows_schema,
    stage_batches,
    stage_grid,
)

BOX_BYTES = 64 << 20  # of rows, about
MOST_READS = 4  # of a row: pieces are cut before there are more
_BOXES_JUDGED = 64
_MOST_PARTS = 1 << 12  # that a piece is cut into

type Box = tuple[tuple[int, int], ...]
"""Blocks along each dimension, from the first up to, not including, the last."""


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Blocks that the batches of all pieces span, and their bytes."""

    piece: Indices  # (n,)
    batch: Indices  # (n,) number in the piece
    low: Indices  # (n, dimensions) first block
    high: Indices  # (n, dimensions) last block
    size: npt.NDArray[np.float64]  # (n,)

    def overlapping(self, box: Box) -> npt.NDArray[np.bool_]:
        start, stop = (np.array(ends) for ends in zip(*box, strict=True))
        inside: npt.NDArray[np.bool_] = ((self.low < stop) & (self.high >= start)).all(axis=1)
        return inside

    def weigh(self, box: Box) -> float:
        """Bytes in the box, if rows are spread evenly over what their batch spans."""
        start, stop = (np.array(ends) for ends in zip(*box, strict=True))
        within = np.minimum(self.high + 1, stop) - np.maximum(self.low, start)
        part = np.maximum(within, 0) / (self.high + 1 - self.low)
        return float((part.prod(axis=1) * self.size).sum())


def find_spans(layout: Layout, pieces: pa.Table) -> Spans:
    counts = pc.list_value_length(pieces["batch_rows"]).to_numpy()
    rows = pc.list_flatten(pieces["batch_rows"]).to_numpy().astype(np.float64)
    per_row = pieces["bytes"].to_numpy() / np.maximum(pieces["rows"].to_numpy(), 1)
    ends = np.cumsum(counts)
    low, high = [], []
    for coordinate, step in zip(layout.coordinates, layout.grid.block, strict=True):
        first, last = _span(coordinate, pieces)
        low.append(first // step)
        high.append(last // step)
    return Spans(
        piece=np.repeat(np.arange(len(counts)), counts),
        batch=np.arange(int(ends[-1])) - np.repeat(ends - counts, counts),
        low=np.stack(low, axis=1),
        high=np.stack(high, axis=1),
        size=rows * np.repeat(per_row, counts),
    )


def _span(coordinate: Coordinate, pieces: pa.Table) -> tuple[Indices, Indices]:
    """First and last position of each batch along a dimension."""
    ends = [
        locate(
            coordinate,
            encode_coordinate(
                coordinate.column,
                pc.list_flatten(pieces[f"{end} {coordinate.name}"]).combine_chunks(),
            ),
        )
        for end in ("low", "high")
    ]
    values = coordinate.values
    if values is None or (values[1:] > values[:-1]).all():
        return ends[0], ends[1]
    if (values[1:] < values[:-1]).all():
        return ends[1], ends[0]
    return np.zeros_like(ends[0]), np.full_like(ends[0], coordinate.size - 1)


def plan_boxes(spans: Spans, most_bytes: int | None = None) -> list[Box]:
    """Halves what there is, along its longest side, until a box has few bytes or is one block."""
    most_bytes = most_bytes or BOX_BYTES
    low, high = spans.low.min(axis=0), spans.high.max(axis=0) + 1
    waiting: list[Box] = [tuple((int(a), int(b)) for a, b in zip(low, high, strict=True))]
    found = list[Box]()
    while waiting:
        box = waiting.pop()
        weight = spans.weigh(box)
        sides = [stop - start for start, stop in box]
        axis = int(np.argmax(sides))
        if not weight:
            continue
        if weight <= most_bytes or sides[axis] == 1:
            found.append(box)
            continue
        start, stop = box[axis]
        middle = (start + stop) // 2
        waiting.append((*box[:axis], (middle, stop), *box[axis + 1 :]))
        waiting.append((*box[:axis], (start, middle), *box[axis + 1 :]))
    return found


# Cutting pieces


def reads_of(spans: Spans, boxes: Sequence[Box]) -> float:
    """Reads of a row for all boxes, on average; judged by some of them."""
    some = boxes[:: -(-len(boxes) // _BOXES_JUDGED)]
    read = sum(float(spans.size[spans.overlapping(box)].sum()) for box in some)
    return read / max(sum(map(spans.weigh, some)), 1.0)


def plan_cuts(boxes: Sequence[Box]) -> list[Indices]:
    """Along each dimension, the blocks that boxes begin at; fewer if there are very many boxes."""
    cuts = [np.unique([box[axis][0] for box in boxes]) for axis in range(len(boxes[0]))]
    while prod(map(len, cuts)) > _MOST_PARTS:
        longest = max(range(len(cuts)), key=lambda axis: len(cuts[axis]))
        cuts[longest] = cuts[longest][::2]
    return cuts


def cut_piece(
    store: ObjectStore, pieces: pa.Table, number: int, assembly: Assembly, cuts: Sequence[Indices]
) -> pa.Table:
    """Stages a piece again, in batches that end at the cuts. Call `writer.sync` after it."""
    layout, schema = assembly.layout, rows_schema(pieces)
    piece: dict[str, Any] = pieces.slice(number, 1).to_pylist()[0]
    every = range(len(piece["start"]))
    if piece["edges"] is not None:
        grid = Grid.load(store, piece, schema)
        batches = load_batches(store, piece, grid.stored_schema, every).to_batches()
        return grid.cut(assembly, batches, cuts)
    rows = load_batches(store, piece, schema, every).combine_chunks()
    parts = np.zeros(len(rows), np.int64)
    for coordinate, step, each in zip(layout.coordinates, layout.grid.block, cuts, strict=True):
        along = positions_of(coordinate, column_of(rows, coordinate.name)) // step
        parts = parts * len(each) + _part_of(along, each)
    order = np.argsort(parts, kind="stable")
    rows, parts = rows.take(pa.array(order)), parts[order]
    edges = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(rows)]
    some = [rows.slice(at, to - at).combine_chunks() for at, to in pairwise(edges)]
    return stage_batches(assembly.writer, some, [c.name for c in layout.coordinates])


def _part_of(blocks: Indices, cuts: Indices) -> Indices:
    return np.maximum(np.searchsorted(cuts, blocks, side="right") - 1, 0)


# Making chunks


def assemble(
    store: ObjectStore, pieces: pa.Table, spans: Spans, assembly: Assembly, box: Box
) -> Iterator[StoredChunks]:
    """The chunks of a box, each made once of all its rows."""
    layout, rows = assembly.layout, list[RowsPart]()
    cells: dict[int, list[BlockCells]] = {}
    for part in _parts_in(store, pieces, spans, layout, box):
        if isinstance(part, RowsPart):
            rows.append(part)
        else:
            for block, some in part.cells(layout.grid):
                cells.setdefault(block, []).append(some)
    if rows:
        table = pa.concat_tables([part.table for part in rows]).combine_chunks()
        blocks = np.concatenate([part.blocks for part in rows])
        places = np.concatenate([part.cells for part in rows])
        if OPERATION in table.column_names:
            yield from _change(assembly, table, blocks, places)
            return
        columns = encode_rows(layout, table)
        for block, chosen in group_rows(blocks):
            values = {name: column[chosen] for name, column in columns.items()}
            cells.setdefault(block, []).append(BlockCells(places[chosen], values))
    for block in sorted(cells):
        yield from assembly.store(block, cells.pop(block))


def _change(
    assembly: Assembly, table: pa.Table, blocks: Indices, cells: Indices
) -> Iterator[StoredChunks]:
    deleted = table[OPERATION].to_numpy() == 1
    for block, chosen in group_rows(blocks):
        gone = deleted[chosen]
        written = chosen[~gone]
        yield from assembly.change(
            block, cells[written], table.take(pa.array(written)), cells[chosen[gone]]
        )


@dataclass(frozen=True, slots=True, eq=False)
class RowsPart:
    """Rows in any order, with their block and cell."""

    table: pa.Table
    blocks: Indices
    cells: Indices


@dataclass(frozen=True, slots=True, eq=False)
class GridPart:
    """Rows that are a whole grid: where they go along each dimension, and their stored values."""

    positions: Sequence[Indices]  # none is there twice
    values: Mapping[str, Column]  # with as many dimensions

    def cells(self, grid: BlockGrid) -> Iterator[tuple[int, BlockCells]]:
        """Cells of each block."""
        along = [
            list(_runs(positions, step))
            for positions, step in zip(self.positions, grid.block, strict=True)
        ]
        for chosen in product(*along):
            blocks, sources, targets = zip(*chosen, strict=True)
            here = _indexers(sources)
            values = {name: column[here] for name, column in self.values.items()}
            number = int(np.ravel_multi_index(blocks, grid.counts))
            yield number, BlockCells(_indexers(targets), values)


type Indexer = slice | Indices


def _runs(positions: Indices, step: int) -> Iterator[tuple[int, Indexer, Indexer]]:
    """Each block along a dimension, which positions are in it, and where in it they are."""
    for block, chosen in group_rows(positions // step):
        inside = positions[chosen] - block * step
        yield block, _indexer(chosen), _indexer(inside)


def _indexer(numbers: Indices) -> Indexer:
    if (np.diff(numbers) == 1).all():
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers


def _indexers(parts: Sequence[Indexer]) -> tuple[Any, ...]:
    """An index of their product: slices if all are."""
    if all(isinstance(part, slice) for part in parts):
        return tuple(parts)
    return np.ix_(*(np.arange(p.start, p.stop) if isinstance(p, slice) else p for p in parts))


def _parts_in(
    store: ObjectStore, pieces: pa.Table, spans: Spans, layout: Layout, box: Box
) -> Iterator[RowsPart | GridPart]:
    """Rows of the box."""
    schema, wanted = rows_schema(pieces), spans.overlapping(box)
    for number in np.unique(spans.piece[wanted]).tolist():
        piece: dict[str, Any] = pieces.slice(number, 1).to_pylist()[0]
        chosen = spans.batch[wanted & (spans.piece == number)].tolist()
        if piece["edges"] is None:
            yield from _rows_in(layout, load_batches(store, piece, schema, chosen), box)
        else:
            grid = Grid.load(store, piece, schema)
            batches = load_batches(store, piece, grid.stored_schema, chosen).to_batches()
            yield from grid.parts(layout, box, dict(zip(chosen, batches, strict=True)))


def _rows_in(layout: Layout, table: pa.Table, box: Box) -> Iterator[RowsPart]:
    positions = [positions_of(c, column_of(table, c.name)) for c in layout.coordinates]
    inside = np.ones(len(table), dtype=bool)
    for along, step, (start, stop) in zip(positions, layout.grid.block, box, strict=True):
        inside &= (along >= start * step) & (along < stop * step)
    if inside.any():
        rows = table.filter(pa.array(inside))
        yield RowsPart(rows, *place(layout.grid, [along[inside] for along in positions]))


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """A piece that is a grid, cut into batches along its dimensions."""

    axes: Mapping[str, pa.Array]
    edges: Sequence[Indices]
    schema: pa.Schema  # of the rows, with their coordinates

    @classmethod
    def load(cls, store: ObjectStore, piece: Mapping[str, Any], schema: pa.Schema) -> "Grid":
        return cls(load_coordinates(store, piece), [np.array(e) for e in piece["edges"]], schema)

    @property
    def stored_schema(self) -> pa.Schema:
        return pa.schema([field for field in self.schema if field.name not in self.axes])

    def parts(
        self, layout: Layout, box: Box, batches: Mapping[int, pa.RecordBatch]
    ) -> Iterator[RowsPart | GridPart]:
        """Rows of these batches that are in the box."""
        positions = self._positions(layout)
        distinct = all(len(np.unique(each)) == len(each) for each in positions)
        spans = self.spans
        for number, batch in batches.items():
            if distinct:
                here = [each[span] for each, span in zip(positions, spans[number], strict=True)]
                yield from _grid_in(layout, here, batch, box)
            else:
                yield from _rows_in(layout, self._with_axes(batch, spans[number]), box)

    def cut(
        self, assembly: Assembly, batches: Sequence[pa.RecordBatch], cuts: Sequence[Indices]
    ) -> pa.Table:
        """Stages the grid again; positions along its dimensions are sorted by the cuts first."""
        layout = assembly.layout
        orders, edges = list[Indices](), list[Indices]()
        along = zip(self._positions(layout), layout.grid.block, cuts, strict=True)
        for positions, step, cut in along:
            numbers = _part_of(positions // step, cut)
            order = np.argsort(numbers, kind="stable")
            ends = np.flatnonzero(np.diff(numbers[order])) + 1
            orders.append(order)
            edges.append(np.concatenate([[0], ends, [len(order)]]))
        axes = zip(self.axes.items(), orders, strict=True)
        ordered = {name: axis.take(pa.array(order)) for (name, axis), order in axes}
        parts = Grid(ordered, edges, self.schema).spans
        numbers = self._numbers()[np.ix_(*orders)]
        stored = pa.Table.from_batches(batches)
        made = [stored.take(pa.array(numbers[part].reshape(-1))).combine_chunks() for part in parts]
        return stage_grid(assembly.writer, made, ordered, edges, self.schema)

    def _positions(self, layout: Layout) -> list[Indices]:
        return [positions_of(c, self.axes[c.name]) for c in layout.coordinates]

    @property
    def spans(self) -> list[tuple[slice, ...]]:
        """Place of each batch, along the dimensions."""
        return list(product(*([slice(*each) for each in pairwise(e.tolist())] for e in self.edges)))

    def _numbers(self) -> Indices:
        """The row of each cell, if all batches follow one another."""
        numbers = np.zeros([int(each[-1]) for each in self.edges], np.int64)
        start = 0
        for span in self.spans:
            part = numbers[span]
            part[...] = np.arange(start, start + part.size).reshape(part.shape)
            start += part.size
        return numbers

    def _with_axes(self, batch: pa.RecordBatch, spans: Sequence[slice]) -> pa.Table:
        """Rows of a batch, with their coordinates."""
        shape = [span.stop - span.start for span in spans]
        places = np.unravel_index(np.arange(len(batch)), shape)
        columns = {name: batch.column(name) for name in batch.schema.names}
        for (name, axis), span, chosen in zip(self.axes.items(), spans, places, strict=True):
            columns[name] = axis.take(pa.array(span.start + chosen))
        return pa.table(columns).select(self.schema.names)


def _grid_in(
    layout: Layout, positions: Sequence[Indices], batch: pa.RecordBatch, box: Box
) -> Iterator[GridPart]:
    """Cells of a grid that are in the box, if any are."""
    inside = [
        np.flatnonzero((along >= start * step) & (along < stop * step))
        for along, step, (start, stop) in zip(positions, layout.grid.block, box, strict=True)
    ]
    if all(map(len, inside)):
        here = _indexers([_indexer(each) for each in inside])
        shape = [len(along) for along in positions]
        columns = encode_rows(layout, batch)
        values = {name: column.reshape(shape)[here] for name, column in columns.items()}
        kept = [along[chosen] for along, chosen in zip(positions, inside, strict=True)]
        yield GridPart(kept, values)
