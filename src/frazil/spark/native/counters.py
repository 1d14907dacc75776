"""Numbers sent to the JVM beside the rows of a task: what it has read, and which cells it returns.

A Python reader can only return rows. So that Spark's UI can show what it counted, the Java side
asks for one more column of booleans (java/frazil/spark/Counters.java): NULL for every row, at a
quarter of a byte. The rows of some batches are no rows: their booleans are the bits of numbers,
64 of each, the lowest first. A message is the number of numbers that follow, the counters, and,
where the Java side makes the coordinates itself, the box of cells that the rows are of. One comes
before the first rows, as a query with a limit may never ask for the last, and one after them if
more was counted since.
"""

from collections.abc import Iterator, Sequence
from dataclasses import astuple

import numpy as np
import pyarrow as pa

from frazil.engine.files.read_meter import ReadCounts, read_meter
from frazil.spark.table.schema import from_numbers


def with_counters(
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    box: Sequence[Sequence[int]] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Adds the last column of `schema` to `batches`, and the batches that it is for.

    Counts what the process reads from now on: a worker of Spark has one task at a time. `box` has,
    for each dimension, the edges of the ranges of positions that the rows are at.
    """
    sent = read_meter.counts()
    place = [number for edges in box or () for number in (len(edges), *edges)]
    nothing = pa.nulls(0, pa.bool_())
    for number, batch in enumerate(batches):
        if number == 0:
            counted = read_meter.counts()
            yield encode_message([*astuple(counted.since(sent)), *place], schema)
            sent = counted
        if len(nothing) < batch.num_rows:
            nothing = pa.nulls(batch.num_rows, pa.bool_())
        columns = [*batch.columns, nothing[: batch.num_rows]]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
    rest = read_meter.counts().since(sent)
    if rest != ReadCounts():
        yield encode_message(astuple(rest), schema)


def encode_message(numbers: Sequence[int], schema: pa.Schema) -> pa.RecordBatch:
    """The batch that carries a message."""
    values = np.array([len(numbers), *numbers], "<i8")
    bits = np.unpackbits(values.view(np.uint8), bitorder="little").astype(np.bool_)
    others = [pa.nulls(len(bits), field.type) for field in list(schema)[:-1]]
    return pa.RecordBatch.from_arrays([*others, from_numbers(bits)], schema=schema)
