"""Rows shuffled so that each task makes whole chunks: three maps over a DataFrame.

distinct    rows                   ->  coordinates of a partition, one row
locate      rows                   ->  block, cell, variables
            shuffle by block, sort within partitions
store       rows of whole blocks   ->  references of chunks (runtime/stored_refs.py)
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from frazil.spark.runtime.progress import Counter
from frazil.spark.runtime.stored_refs import Gather, Written
from frazil.spark.runtime.workers import carrying_errors, limit_gc
from frazil.spark.writing.columns import Column, StoredColumn
from frazil.spark.writing.layout import Layout
from frazil.spark.writing.session import (
    Assembly,
    BlockCells,
    column_of,
    distinct_values,
    encode_rows,
    place_rows,
    require_coordinates,
)

BLOCK, CELL = "__frazil_block", "__frazil_cell"

DISTINCT = pa.schema([("dimension", pa.string()), ("values", pa.binary())])


@dataclass(frozen=True, slots=True, eq=False)
class FindDistinct:
    """Stored coordinates of the rows of a partition, each once."""

    columns: Mapping[str, StoredColumn]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        limit_gc()
        with carrying_errors():
            found: dict[str, list[Column]] = {name: [] for name in self.columns}
            for batch in batches:
                require_coordinates(batch, tuple(self.columns))
                for name, values in distinct_values(self.columns, batch).items():
                    found[name].append(values)
            rows = [
                {"dimension": name, "values": encode_values(np.unique(np.concatenate(parts)))}
                for name, parts in found.items()
                if parts
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=DISTINCT)


@dataclass(frozen=True, slots=True, eq=False)
class LocateRows:
    """Locates each row, in place of its coordinates."""

    layout: Layout

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        limit_gc()
        with carrying_errors():
            for batch in batches:
                blocks, cells = place_rows(self.layout, batch)
                columns = {
                    BLOCK: pa.array(blocks),
                    CELL: pa.array(cells),
                    **{a.name: column_of(batch, a.name) for a in self.layout.arrays},
                }
                yield pa.RecordBatch.from_pydict(columns)


@dataclass(frozen=True, slots=True, eq=False)
class StoreBlocks:
    """Chunks of the blocks of a partition, whose rows come block by block."""

    assembly: Assembly
    counter: Counter
    gather: Gather

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        limit_gc()
        with carrying_errors():
            yield from self.gather(self._store(batches))

    def _store(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Written]:
        for table in _by_block(batches):
            block = int(table[BLOCK][0].as_py())
            cells = column_of(table, CELL).to_numpy(zero_copy_only=False)
            columns = encode_rows(self.assembly.layout, table)
            for made in self.assembly.store(block, [BlockCells(cells, columns)]):
                yield Written(made.array, made.refs, made.emptied, made.rows)
            self.counter.add(sum(values.nbytes for values in columns.values()))
        self.assembly.writer.sync()


def encode_values(values: Column) -> bytes:
    """Stored coordinates, text included."""
    if values.dtype.kind in "mM":
        values = values.view(np.int64)
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_pydict({"values": pa.array(values)})
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def decode_values(data: bytes, column: StoredColumn) -> Column:
    values = pa.ipc.open_stream(data).read_all()["values"].to_numpy()
    if column.work_dtype.kind in "mM":
        return np.asarray(values, dtype=np.int64).view(column.work_dtype)
    return np.asarray(values, dtype=column.work_dtype)


def _by_block(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows of one block after the other; they are sorted by block."""
    kept: list[pa.RecordBatch] = []
    for batch in batches:
        blocks = batch.column(BLOCK).to_numpy()
        edges = [0, *(np.flatnonzero(blocks[1:] != blocks[:-1]) + 1).tolist(), len(blocks)]
        for start, stop in pairwise(edges):
            if start == stop:
                continue
            if kept and kept[0].column(BLOCK)[0].as_py() != int(blocks[start]):
                yield pa.Table.from_batches(kept)
                kept = []
            kept.append(batch.slice(start, stop - start))
    if kept:
        yield pa.Table.from_batches(kept)
