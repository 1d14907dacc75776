"""Staged rows into chunks: boxes of the grid, each made of the batches that have rows for it.

    pieces, layout   ->   spans: the blocks that each batch may have rows for
    spans            ->   boxes of blocks, each of about so many bytes of rows     one per task
    a box            ->   its batches, their rows in the box, chunks               on executors

Boxes are disjoint and hold every row. Where a coordinate is in no order, a batch may have rows
anywhere along it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.objectstore.protocol import ObjectStore
from frazil.spark.writing.blocks import Coordinate, Indices, group_rows, locate, place
from frazil.spark.writing.columns import encode_coordinate
from frazil.spark.writing.layout import Layout
from frazil.spark.writing.session import Assembly, StoredChunks, encode_rows, positions_of
from frazil.spark.writing.stage import load_batches, rows_schema

OPERATION = "frazilOperation"  # the column that says what is done with a row: 0 write, 1 delete
BOX_BYTES = 64 << 20  # of rows, about

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


def plan_boxes(spans: Spans, most_bytes: int = BOX_BYTES) -> list[Box]:
    """Halves what there is, along its longest side, until a box has few bytes or is one block."""
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


def assemble(
    store: ObjectStore, pieces: pa.Table, spans: Spans, assembly: Assembly, box: Box
) -> Iterator[StoredChunks]:
    """The chunks of a box, each made once of all its rows."""
    rows = _rows_in(store, pieces, spans, assembly.layout, box)
    if rows is None:
        return
    table, blocks, cells = rows
    if OPERATION in table.column_names:
        yield from _change(assembly, table, blocks, cells)
        return
    columns = encode_rows(assembly.layout, table)
    for block, chosen in group_rows(blocks):
        values = {name: column[chosen] for name, column in columns.items()}
        yield from assembly.store(block, cells[chosen], values)


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


def _rows_in(
    store: ObjectStore, pieces: pa.Table, spans: Spans, layout: Layout, box: Box
) -> tuple[pa.Table, Indices, Indices] | None:
    """Rows of the box, with their block and cell; None if there are none."""
    schema, wanted = rows_schema(pieces), spans.overlapping(box)
    tables, blocks, cells = list[pa.Table](), list[Indices](), list[Indices]()
    for number in np.unique(spans.piece[wanted]).tolist():
        piece: dict[str, Any] = pieces.slice(number, 1).to_pylist()[0]
        chosen = spans.batch[wanted & (spans.piece == number)].tolist()
        table = load_batches(store, piece, schema, chosen)
        positions = [positions_of(coordinate, table) for coordinate in layout.coordinates]
        inside = np.ones(len(table), dtype=bool)
        for along, step, (start, stop) in zip(positions, layout.grid.block, box, strict=True):
            inside &= (along >= start * step) & (along < stop * step)
        if inside.any():
            tables.append(table.filter(pa.array(inside)))
            block, cell = place(layout.grid, [along[inside] for along in positions])
            blocks.append(block)
            cells.append(cell)
    if not tables:
        return None
    rows = pa.concat_tables(tables).combine_chunks()
    return rows, np.concatenate(blocks), np.concatenate(cells)
