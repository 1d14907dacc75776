"""Ingest's two Spark jobs: describe the sources, and run the tasks of a plan.

Both map over a table of numbers, one per partition, and return small rows.
"""

import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from frazil.errors import IcechunkError
from frazil.ids import ChunkId
from frazil.spark.ingestion.tasks import IngestJob, TaskResult, run_partition
from frazil.spark.runtime.jobs import COLUMNS, decode_refs, encode_refs, parallelism
from frazil.spark.runtime.progress import Counter
from frazil.spark.runtime.workers import carrying_errors, errors_carried, limit_gc
from frazil.spark.sources import Source, SourceDescription, describe_source

# Opening a file takes some milliseconds, starting a Spark job some hundred.
LOCAL_DESCRIPTIONS = 4
FILES_PER_TASK = 32

_DESCRIPTIONS = pa.schema([("position", pa.int32()), ("description", pa.binary())])
_RESULTS = pa.schema(
    [
        ("array", pa.int32()),
        ("raw_bytes", pa.int64()),
        ("record", pa.binary()),
        ("reused", pa.int32()),
        *((name, pa.binary()) for name in COLUMNS),
    ]
)


def describe_sources(
    spark: SparkSession,
    sources: Sequence[Source],
    *,
    concat_dims: tuple[str, ...],
    only: tuple[str, ...] | None,
    group: str | None,
    storage: bool,
    mark: bool,
) -> list[SourceDescription | IcechunkError]:
    """Describes sources, in order. An error names its source and replaces its description."""
    describe = partial(
        _describe, concat_dim=concat_dims, only=only, group=group, storage=storage, mark=mark
    )
    if len(sources) <= LOCAL_DESCRIPTIONS:
        return [describe(source) for source in sources]
    partitions = min(len(sources), max(parallelism(spark), len(sources) // FILES_PER_TASK))
    table = _map(
        spark,
        partitions,
        partial(_describe_batches, tuple(sources), partitions, describe),
        _DESCRIPTIONS,
    )
    found: list[SourceDescription | IcechunkError | None] = [None] * len(sources)
    for row in table.to_pylist():
        # made by our own tasks a moment ago
        found[row["position"]] = pickle.loads(row["description"])  # noqa: S301
    return [description for description in found if description is not None]


def _describe(source: Source, **options: Any) -> SourceDescription | IcechunkError:
    try:
        return describe_source(source, **options)
    except IcechunkError as error:
        return error


def run_job(spark: SparkSession, job: IngestJob, counter: Counter) -> list[TaskResult]:
    """All results, in no order. One row per task comes back, chunk data does not."""
    if job.plan.partitions == 0:
        return []
    table = _map(spark, job.plan.partitions, partial(_run_batches, job, counter), _RESULTS)
    return [
        TaskResult(
            row["array"],
            decode_refs(row, len(job.plan.layout.arrays[row["array"]].dims)),
            row["raw_bytes"],
            ChunkId(row["record"]) if row["record"] else None,
            reused=bool(row["reused"]),
        )
        for row in table.to_pylist()
    ]


def _map(
    spark: SparkSession,
    partitions: int,
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
) -> pa.Table:
    numbers = spark.range(0, partitions, 1, partitions)
    with errors_carried(), warnings.catch_warnings():
        # PySpark 4.3 warns about pandas 3, which is not used here (docs/spark-facts.md 8)
        warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
        return numbers.mapInArrow(function, _ddl(schema)).toArrow()


def _describe_batches(
    sources: tuple[Source, ...],
    partitions: int,
    describe: Callable[[Source], SourceDescription | IcechunkError],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    limit_gc()
    with carrying_errors():
        for number in _numbers(batches):
            rows = [
                {"position": position, "description": pickle.dumps(describe(sources[position]))}
                for position in range(number, len(sources), partitions)
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=_DESCRIPTIONS)


def _run_batches(
    job: IngestJob, counter: Counter, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    limit_gc()
    with carrying_errors():
        for number in _numbers(batches):
            results = run_partition(job, number)
            counter.add(sum(r.raw_bytes for r in results))
            yield pa.RecordBatch.from_pylist([*map(_row, results)], schema=_RESULTS)


def _row(result: TaskResult) -> dict[str, Any]:
    return {
        "array": result.array,
        "raw_bytes": result.raw_bytes,
        "record": b"" if result.record is None else result.record.raw,
        "reused": int(result.reused),
        **encode_refs(result.refs),
    }


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _ddl(schema: pa.Schema) -> str:
    names = {pa.int32(): "int", pa.int64(): "long", pa.binary(): "binary"}
    return ", ".join(f"{field.name} {names[field.type]}" for field in schema)
