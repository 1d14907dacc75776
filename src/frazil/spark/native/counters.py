"""Counters of what a task has read, sent to the JVM with its rows.

A Python reader can only return rows. So that Spark's UI can show what it counted, the Java side
asks for one more column of booleans (java/frazil/spark/Counters.java): NULL for every row, at a
quarter of a byte. The rows of some batches are no rows: their booleans are the bits of counters,
64 of each, the lowest first. One such batch comes before the first rows, as a query with a limit
may never ask for the last, and one after them if more was counted since.
"""

from collections.abc import Iterator
from dataclasses import astuple

import numpy as np
import pyarrow as pa

from frazil.engine.files.read_meter import ReadCounts, read_meter


def with_counters(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Adds the last column of `schema` to `batches`, and the batches that it is for.

    Counts what the process reads from now on: a worker of Spark has one task at a time.
    """
    sent = read_meter.counts()
    nothing = pa.nulls(0, pa.bool_())
    for number, batch in enumerate(batches):
        if number == 0:
            counted = read_meter.counts()
            yield encode_counts(counted.since(sent), schema)
            sent = counted
        if len(nothing) < batch.num_rows:
            nothing = pa.nulls(batch.num_rows, pa.bool_())
        columns = [*batch.columns, nothing[: batch.num_rows]]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
    rest = read_meter.counts().since(sent)
    if rest != ReadCounts():
        yield encode_counts(rest, schema)


def encode_counts(counts: ReadCounts, schema: pa.Schema) -> pa.RecordBatch:
    """The batch that carries counts, in the order of their fields."""
    values = np.array(astuple(counts), "<i8")
    bits = np.unpackbits(values.view(np.uint8), bitorder="little").astype(np.bool_)
    others = [pa.nulls(len(bits), field.type) for field in list(schema)[:-1]]
    return pa.RecordBatch.from_arrays([*others, pa.array(bits)], schema=schema)
