"""Streams read in the test's own process: every step with a copy, as Spark does it."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from frazil.spark.io.data_source import IcechunkSource
from frazil.spark.io.stream_reader import LimitedCommitStream

type Row = dict[str, Any]

CHUNK_ROWS = StructType(
    [
        StructField("array", StringType()),
        *(StructField(name, ArrayType(LongType())) for name in ("chunk", "offset", "shape")),
        *(StructField(name, StringType()) for name in ("dtype", "kind")),
        StructField("data", BinaryType()),
        *(StructField(name, StringType()) for name in ("_change_type", "_commit_version")),
        StructField("_commit_timestamp", TimestampType()),
    ]
)


def stream_here(path: Path | str, **options: str) -> LimitedCommitStream:
    """The reader of a stream with the columns of change."""
    source = IcechunkSource({"path": str(path), "changes": "true", **options})
    schema = source.schema()
    copied = pickle.loads(pickle.dumps(source))
    # Spark reads the text of a schema, which it does in Java
    made = copied.streamReader(schema if isinstance(schema, StructType) else CHUNK_ROWS)
    assert isinstance(made, LimitedCommitStream)
    return made


def batch_here(
    stream: LimitedCommitStream, start: dict[str, str], end: dict[str, str]
) -> list[Row]:
    rows: list[Row] = []
    for part in pickle.loads(pickle.dumps(stream.partitions(start, end))):
        for batch in pickle.loads(pickle.dumps(stream)).read(part):
            rows += batch.to_pylist()
    return rows


def changes_here(path: Path | str, **options: str) -> list[Row]:
    """All that a new stream reads."""
    stream = stream_here(path, **options)
    start = stream.initialOffset()
    return batch_here(stream, start, stream.latestOffset(start, stream.getDefaultReadLimit()))


def by_commit(rows: list[Row]) -> dict[str, list[Row]]:
    """In the order of the commits."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["_commit_version"], []).append(row)
    return found


def kinds(rows: list[Row]) -> Mapping[str, int]:
    counted: dict[str, int] = {}
    for row in rows:
        counted[row["_change_type"]] = counted.get(row["_change_type"], 0) + 1
    return counted
