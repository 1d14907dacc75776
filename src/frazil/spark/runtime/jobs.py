"""Tasks by number on executors, through mapInArrow; small rows come back.

A partition holds several neighbouring tasks. Chunk data stays on the executor; references to what
it stored are what it returns.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no annotations
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from frazil.engine.commit.chunk_writer import ChunkWriter
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.strings import Strings
from frazil.format.chunk_refs import ChunkRefs, Inline, RefKind
from frazil.spark.runtime.workers import carrying_errors, errors_carried, limit_gc
from frazil.zarrstore.array_codecs import encode_region

# Arrays cut into boxes, one for each task: whole chunks of what is written, bounded in memory.

# A task should take at least some 50 ms, for Spark's overhead not to matter, and hold at most this
# much in memory; between the two there are a few tasks per core, so that none waits long.
MIN_TASK_BYTES = 8 << 20
MAX_TASK_BYTES = 64 << 20
TASKS_PER_CORE = 4

type Region = tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """A shape cut into boxes, numbered from 0, the last dimension fastest; the last are smaller."""

    shape: tuple[int, ...]
    box: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(-(-n // size) for n, size in zip(self.shape, self.box, strict=True))

    def __len__(self) -> int:
        return prod(self.counts)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Elements of each box."""
        lengths = [
            np.minimum(size, n - size * np.arange(count))
            for count, size, n in zip(self.counts, self.box, self.shape, strict=True)
        ]
        return reduce(np.multiply.outer, lengths, np.ones((), np.int64)).reshape(-1)

    def place(self, number: int) -> tuple[int, ...]:
        """Position of a box in the grid of boxes."""
        place = []
        for count in reversed(self.counts):
            number, along = divmod(number, count)
            place.append(along)
        return tuple(reversed(place))

    def region(self, number: int) -> Region:
        return tuple(
            slice(along * size, min((along + 1) * size, n))
            for along, size, n in zip(self.place(number), self.box, self.shape, strict=True)
        )

    def touched(self, region: Region) -> list[int]:
        """Numbers of the boxes that overlap a region, in ascending order."""
        numbers = np.zeros(1, np.int64)
        for part, size, count in zip(region, self.box, self.counts, strict=True):
            along = np.arange(part.start // size, -(-part.stop // size))
            numbers = (numbers[:, None] * count + along).reshape(-1)
        return [int(number) for number in numbers]

    def count_touched(self, box: Sequence[int]) -> int:
        """Boxes of another cut of the same shape that each box overlaps, added up."""
        pairs = 1
        for n, size, other in zip(self.shape, self.box, box, strict=True):
            starts = np.arange(0, n, size)
            pairs *= int((-(-np.minimum(starts + size, n) // other) - starts // other).sum())
        return pairs


def region_shape(region: Region) -> tuple[int, ...]:
    return tuple(part.stop - part.start for part in region)


def within(part: Region, region: Region) -> Region:
    """A part of a region, counted from where the region begins."""
    return tuple(
        slice(p.start - r.start, p.stop - r.start) for p, r in zip(part, region, strict=True)
    )


def choose_box(
    shape: Sequence[int],
    unit: Sequence[int],
    source: Sequence[int],
    *,
    itemsize: int,
    max_bytes: int,
) -> tuple[int, ...]:
    """Whole units, grown to at most `max_bytes` if one unit is not more.

    First towards whole chunks of the source, so that few of them are read twice; then along
    the last dimensions, where chunks are neighbours.
    """
    box = [max(1, size) for size in unit]
    towards_source = [_round_up(min(s, n), u) for s, n, u in zip(source, shape, box, strict=True)]
    whole = [_round_up(n, u) for n, u in zip(shape, box, strict=True)]
    limit = max_bytes // max(1, itemsize)
    by_need = sorted(range(len(box)), key=lambda k: -towards_source[k] / box[k])
    for goal, order in ((towards_source, by_need), (whole, reversed(range(len(box))))):
        for k in order:
            _grow(box, k, goal[k], limit)
    return tuple(box)


def _grow(box: list[int], k: int, goal: int, limit: int) -> None:
    """Grows along one axis, to the goal or an even part of it."""
    unit = box[k]
    fitting = limit // max(1, prod(box) // unit) // unit * unit
    if fitting > unit:
        box[k] = min(goal, _round_up(-(-goal // -(-goal // fitting)), unit))


def _round_up(number: int, unit: int) -> int:
    return -(-max(1, number) // unit) * unit


def task_bytes(total: int, parallelism: int) -> int:
    """Returns the bytes that one task should hold, for a total and a number of cores."""
    fair = total // (parallelism * TASKS_PER_CORE)
    return min(MAX_TASK_BYTES, max(MIN_TASK_BYTES, fair))


# Chunk references as a row of an Arrow table, for those who keep them.
#
#     column      bytes of
#     index       (n, ndim) u32
#     kind        (n,) u8
#     chunk_id    (n, 12) u8
#     offset      (n,) u64
#     length      (n,) u64
#     inline      the inline chunks, one after the other
#
# Little-endian, as on every machine that Spark runs on.

COLUMNS = ("index", "kind", "chunk_id", "offset", "length", "inline")


def encode_refs(refs: ChunkRefs) -> dict[str, bytes]:
    """Inline and native references; executors make no others."""
    rows = np.flatnonzero(refs.kind == RefKind.INLINE).tolist()
    payloads = [refs.payload(row) for row in rows]
    return {
        "index": refs.index.astype("<u4").tobytes(),
        "kind": refs.kind.tobytes(),
        "chunk_id": refs.chunk_id.tobytes(),
        "offset": refs.offset.astype("<u8").tobytes(),
        "length": refs.length.astype("<u8").tobytes(),
        "inline": b"".join(one.data for one in payloads if isinstance(one, Inline)),
    }


def decode_refs(columns: Mapping[str, bytes], ndim: int) -> ChunkRefs:
    kind = np.frombuffer(columns["kind"], dtype=np.uint8)
    length = np.frombuffer(columns["length"], dtype="<u8").astype(np.uint64)
    is_inline = kind == RefKind.INLINE
    sizes = length[is_inline].astype(np.int64)
    inline = Strings(
        heap=np.frombuffer(columns["inline"], dtype=np.uint8),
        start=np.cumsum(sizes) - sizes,
        length=sizes,
    )
    codes = np.where(is_inline, np.cumsum(is_inline) - 1, -1).astype(np.int64)
    return ChunkRefs.from_columns(
        np.frombuffer(columns["index"], dtype="<u4").reshape(len(kind), ndim).astype(np.uint32),
        kind,
        chunk_id=np.frombuffer(columns["chunk_id"], dtype=np.uint8).reshape(-1, 12),
        offset=np.frombuffer(columns["offset"], dtype="<u8").astype(np.uint64),
        length=length,
        inline=StringColumn(codes=codes, strings=inline),
    )


_MAX_RESULT_SIZE = "maxResultSize"  # is in the message of the error
_SPARK_TYPES = {
    pa.int32(): "int", pa.int64(): "long", pa.binary(): "binary", pa.string(): "string",
    pa.bool_(): "boolean",
}  # fmt: skip


def parallelism(spark: SparkSession) -> int:
    """Tasks that run at once, as far as the session tells."""
    try:
        return max(1, spark.sparkContext.defaultParallelism)
    except AttributeError:  # Spark Connect has no context
        return int(spark.conf.get("spark.default.parallelism", "8") or 8)


def partitions_for(spark: SparkSession, size_bytes: int) -> int:
    return -(-max(1, size_bytes) // task_bytes(size_bytes, parallelism(spark)))


def map_tasks(
    spark: SparkSession,
    tasks: int,
    partitions: int,
    function: Callable[[range], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """The rows that `function` makes of each run of task numbers."""
    partitions = max(1, min(tasks, partitions))
    numbers = spark.range(0, partitions, 1, partitions)
    return map_arrow(numbers, partial(_run, function, tasks, partitions), schema)


def map_arrow(
    frame: DataFrame,
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema | StructType,
) -> DataFrame:
    with _pandas_warning_ignored():
        told = schema if isinstance(schema, StructType) else ddl(schema)
        return frame.mapInArrow(function, told)


def collect(frame: DataFrame) -> pa.Table:
    """Errors of tasks are raised as what they were.

    What is more than `spark.driver.maxResultSize` together is fetched partition by partition.
    """
    with errors_carried(), _pandas_warning_ignored():
        try:
            return frame.toArrow()
        except (PySparkException, Py4JError) as error:
            if _MAX_RESULT_SIZE not in str(error):
                raise
        return _collect_partitions(frame)


def collect_rows(frame: DataFrame) -> Iterator[Row]:
    """Rows of partition after partition, once all tasks are done: one is in memory at a time.

    Until then what tasks give is on the disks of executors. Errors are raised as by `collect`.
    """
    kept = frame.persist(StorageLevel.DISK_ONLY)
    try:
        with errors_carried():
            with _pandas_warning_ignored():
                kept.count()
            yield from kept.toLocalIterator()
    finally:
        kept.unpersist()


def _collect_partitions(frame: DataFrame) -> pa.Table:
    """Tasks run once more."""
    rows = [row.asDict() for row in collect_rows(frame)]
    names = {text: kind for kind, text in _SPARK_TYPES.items()} | {"bigint": pa.int64()}
    fields = [(field.name, names[field.dataType.simpleString()]) for field in frame.schema]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def ddl(schema: pa.Schema) -> str:
    return ", ".join(f"`{field.name}` {_SPARK_TYPES[field.type]}" for field in schema)


@contextmanager
def cancelled_on_interrupt(spark: SparkSession, job: str) -> Iterator[None]:
    """Jobs started inside end when the user presses control-C."""
    tag = f"frazil-{job}"
    spark.addTag(tag)
    try:
        yield
    except KeyboardInterrupt:
        spark.interruptTag(tag)
        raise
    finally:
        spark.removeTag(tag)


@contextmanager
def _pandas_warning_ignored() -> Iterator[None]:
    with warnings.catch_warnings():
        # PySpark 4.3 warns about pandas 3, which is not used here (docs/spark-facts.md 8)
        warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
        yield


def _run(
    function: Callable[[range], Iterable[pa.RecordBatch]],
    tasks: int,
    partitions: int,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    limit_gc()
    with carrying_errors():
        for batch in batches:
            for number in batch.column(0).to_pylist():
                start, stop = (tasks * k // partitions for k in (number, number + 1))
                yield from function(range(start, stop))


# Regions of whole chunks, encoded and stored by tasks.


def store_region(
    document: bytes, writer: ChunkWriter, where: tuple[slice, ...], values: npt.NDArray[Any]
) -> ChunkRefs:
    """Encodes and stores a region that covers whole chunks; says where its chunks are."""
    chunks = encode_region(document, where, values)
    index = np.array(list(chunks), dtype=np.uint32).reshape(len(chunks), len(where))
    return writer.put_chunks(index, list(chunks.values()))
