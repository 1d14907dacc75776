"""Fragments of many tasks into whole chunks: on the driver, a part of the grid at a time."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from frazil.objectstore.protocol import ObjectStore
from frazil.spark.writing.assembly import Assembly, StoredChunks
from frazil.spark.writing.blocks import Indices, group_rows
from frazil.spark.writing.columns import Column, StoredColumn, encode_coordinate
from frazil.spark.writing.coordinates import locate
from frazil.spark.writing.layout import Layout
from frazil.spark.writing.rows import encode_rows, place_rows
from frazil.spark.writing.staging import Fragment, load

PASS_BYTES = 256 << 20  # of staged rows that are in memory at once, about


def find_coordinates(
    store: ObjectStore, fragments: Sequence[Fragment], columns: Mapping[str, StoredColumn]
) -> dict[str, Column]:
    """Stored coordinates of all rows, each once, by dimension."""
    tables = [load(store, fragment.coordinates) for fragment in fragments]
    return {
        name: np.unique(
            np.concatenate(
                [
                    np.zeros(0, dtype=column.work_dtype),
                    *(encode_coordinate(column, t[name].chunk(0).values) for t in tables),
                ]
            )
        )
        for name, column in columns.items()
    }


def merge_fragments(
    store: ObjectStore,
    fragments: Sequence[Fragment],
    assembly: Assembly,
    *,
    pass_bytes: int = PASS_BYTES,
) -> Iterator[StoredChunks]:
    """The chunks of all rows, each made once of all its fragments.

    Rows are gathered for a range of the first dimension at a time, so that no more of them need be
    in memory than about `pass_bytes`, if they do not all belong to one row of blocks.
    """
    spans = [_first_blocks(assembly.layout, store, fragment) for fragment in fragments]
    total = sum(fragment.size_bytes for fragment in fragments)
    for start, stop in _passes(assembly.layout.grid.counts[0], total, pass_bytes):
        chosen = [
            fragment
            for fragment, (low, high) in zip(fragments, spans, strict=True)
            if low < stop and start <= high
        ]
        yield from _merge_range(store, chosen, assembly, start, stop)


def _merge_range(
    store: ObjectStore, fragments: Sequence[Fragment], assembly: Assembly, start: int, stop: int
) -> Iterator[StoredChunks]:
    layout = assembly.layout
    inner = int(np.prod(layout.grid.counts[1:], dtype=np.int64))
    blocks: list[Indices] = []
    cells: list[Indices] = []
    columns: dict[str, list[Column]] = {array.name: [] for array in layout.arrays}
    for fragment in fragments:
        table = load(store, fragment.table)
        block, cell = place_rows(layout, table)
        inside = (block >= start * inner) & (block < stop * inner)
        blocks.append(block[inside])
        cells.append(cell[inside])
        for name, values in encode_rows(layout, table).items():
            columns[name].append(values[inside])
    if not blocks:
        return
    all_cells = np.concatenate(cells)
    merged = {name: np.concatenate(parts) for name, parts in columns.items()}
    for block_id, rows in group_rows(np.concatenate(blocks)):
        yield from assembly.store(
            block_id, all_cells[rows], {name: values[rows] for name, values in merged.items()}
        )


def _first_blocks(layout: Layout, store: ObjectStore, fragment: Fragment) -> tuple[int, int]:
    """First and last block, along the first dimension, that a fragment has rows for."""
    first = layout.coordinates[0]
    table = load(store, fragment.coordinates)
    values = encode_coordinate(first.column, table[first.name].chunk(0).values)
    found = locate(first, values) // layout.grid.block[0]
    return int(found.min()), int(found.max())


def _passes(count: int, total: int, pass_bytes: int) -> Iterator[tuple[int, int]]:
    """Ranges of blocks along the first dimension."""
    number = max(1, min(count, -(-total // pass_bytes)))
    bounds = np.linspace(0, count, number + 1).round().astype(int).tolist()
    yield from pairwise(bounds)
