"""The columns that say what a row of a stream is: named as by those who know Delta and Iceberg."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from frazil.errors import InvalidInputError
from frazil.spark.streaming.commits import Commit
from frazil.spark.tables.columns import repeated, time_column

CHANGE, SNAPSHOT, TIME = "_change_type", "_commit_snapshot_id", "_commit_timestamp"
NAMES = (CHANGE, SNAPSHOT, TIME)
INSERT, UPDATE, DELETE, NOTHING = range(4)
_KINDS = pa.array(["insert", "update", "delete"], pa.string())


def change_codes(
    was: npt.NDArray[np.bool_], is_there: npt.NDArray[np.bool_]
) -> npt.NDArray[np.uint8]:
    """NOTHING where there was nothing and is nothing."""
    after = np.where(is_there, INSERT, NOTHING)
    return np.where(was, np.where(is_there, UPDATE, DELETE), after).astype(np.uint8)


def with_change_columns(schema: StructType | str) -> StructType | str:
    if isinstance(schema, str):
        return f"{schema}, {CHANGE} STRING, {SNAPSHOT} STRING, {TIME} TIMESTAMP"
    doubled = [name for name in schema.names if name.casefold() in NAMES]
    if doubled:
        raise InvalidInputError(f"the table has a column {doubled[0]!r} of its own: leave it out")
    types = (StringType(), StringType(), TimestampType())
    return StructType(
        [*schema.fields, *(StructField(n, t) for n, t in zip(NAMES, types, strict=True))]
    )


def completed(
    batch: pa.RecordBatch, commit: Commit, codes: npt.NDArray[np.uint8], schema: pa.Schema
) -> pa.RecordBatch:
    """The columns of the schema: those of the batch, what changed, and NULL for the rest."""
    count = batch.num_rows
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns[CHANGE] = _KINDS.take(pa.array(codes))
    columns[SNAPSHOT] = repeated(str(commit.snapshot), count)
    columns[TIME] = time_column(np.full(count, commit.committed_us))
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, names=schema.names).cast(schema)
