"""The Spark job of virtual arrays: sources to references, references to manifests.

One row per block of references goes through the shuffle, one row per manifest to the driver.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import batched, groupby
from math import prod
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from frazil.engine.changes.attached_manifests import AttachedManifest
from frazil.engine.commit.splitting import cell_sizes, plan_manifests
from frazil.engine.session.session import Session
from frazil.format.chunk_index import ChunkSet
from frazil.format.nodes import Node
from frazil.format.transaction_log import TransactionLog
from frazil.ids import ManifestId, NodeId
from frazil.paths import NodePath
from frazil.spark.ingestion.ingest_layout import Layout, TargetArray
from frazil.spark.ingestion.virtual_ingest import (
    Block,
    VirtualJob,
    VirtualTarget,
    appended_cells,
    attached_manifest,
    refer,
    write_cell,
)
from frazil.spark.runtime.executor import SparkExecutor
from frazil.spark.runtime.jobs import collect, map_arrow, map_tasks, parallelism
from frazil.spark.runtime.progress import Counter
from frazil.spark.runtime.workers import carrying_errors, limit_gc

SOURCES_PER_TASK = 32
CHUNKS_LOGGED_HERE = 200_000  # the log of more is written by an executor
_BLOCKS_PER_BATCH = 16

_BLOCKS = pa.schema(
    [
        ("array", pa.int32()),
        ("cell", pa.int64()),
        ("index", pa.binary()),
        ("offset", pa.binary()),
        ("length", pa.binary()),
        ("location", pa.binary()),
        ("modified", pa.int64()),
        ("chunk_id", pa.binary()),
    ]
)
_MANIFESTS = pa.schema(
    [
        ("array", pa.int32()),
        ("id", pa.binary()),
        ("refs", pa.int64()),
        ("size", pa.int64()),
        ("extents", pa.binary()),
        ("changed", pa.int64()),
        ("box", pa.binary()),
        ("bits", pa.binary()),
    ]
)


def plan_targets(session: Session, group: NodePath, layout: Layout) -> tuple[VirtualTarget, ...]:
    """Plans which manifests of each virtual array are rewritten."""
    return tuple(
        _target(session, session.node(group.child(array.name)), number, array, layout.base_length)
        for number, array in enumerate(layout.arrays)
        if array.stored is not None
    )


def _target(
    session: Session, node: Node, number: int, array: TargetArray, base_length: int
) -> VirtualTarget:
    cell = cell_sizes(session.files.settings.splitting, node)
    grid = () if node.array is None else node.array.num_chunks
    current = () if node.array is None else node.array.manifests
    changed = appended_cells(array, grid, cell, base_length)
    plan = plan_manifests(current, changed, grid=grid, cell=cell)
    return VirtualTarget(number, node, cell, plan.rewrite)


def run_virtual(spark: SparkSession, job: VirtualJob, counter: Counter) -> pa.Table:
    """Runs the tasks; returns a row for each manifest, for any number of references."""
    count, cores = len(job.sources), parallelism(spark)
    partitions = max(4 * cores, -(-count // SOURCES_PER_TASK))
    # not Executor.run: blocks of references are shuffled, and do not come to the driver
    blocks = map_tasks(spark, count, partitions, partial(_refer, job, counter), _BLOCKS)
    shuffled = blocks.repartition(_writers(job, cores), "array", "cell")
    ordered = shuffled.sortWithinPartitions("array", "cell")
    return collect(map_arrow(ordered, partial(_write_batches, job), _MANIFESTS))


def attach(
    executor: SparkExecutor, session: Session, group: NodePath, job: VirtualJob, written: pa.Table
) -> int:
    """Lets the session have the manifests. Number of chunks that they changed."""
    by_array: dict[int, list[AttachedManifest]] = {target.array: [] for target in job.targets}
    for row in written.to_pylist():
        found = attached_manifest(row)
        if found is not None:
            by_array[row["array"]].append(found)
    count = sum(each.changed.count for some in by_array.values() for each in some)
    writer = partial(write_log, executor, job.base) if count > CHUNKS_LOGGED_HERE else None
    for target in job.targets:
        replaced: list[ManifestId] = [ref.id for ref in target.rewrite]
        name = job.layout.arrays[target.array].name
        session.attach_manifests(
            group.child(name), by_array[target.array], replaced, log_writer=writer
        )
    return count


def write_log(
    executor: SparkExecutor,
    base: Session,
    log: TransactionLog,
    chunks: Mapping[NodeId, Sequence[ChunkSet]],
) -> None:
    """Writes a transaction log; runs on an executor, since a log has some three bytes for each
    chunk.
    """
    deque(executor.run(partial(_write_log, base, log, chunks), 1, "writing the log", sizes=0), 0)


def _write_log(
    base: Session, log: TransactionLog, chunks: Mapping[NodeId, Sequence[ChunkSet]], *_: object
) -> None:
    base.files.put_log_stream(log, chunks)
    base.files.store.sync()


def _writers(job: VirtualJob, cores: int) -> int:
    """Partitions of the shuffle: there is no use in more than there are cells."""
    cells = sum(prod(target.cells) for target in job.targets)
    return max(1, min(cells, 4 * cores))


def _refer(job: VirtualJob, counter: Counter, sources: range) -> Iterator[pa.RecordBatch]:
    if sources.start == 0:
        yield from _batch(row for target in job.targets for row in _nothing(target))
    for number in sources:
        yield from _batch(_rows(job, counter, number))
    job.base.files.store.sync()  # chunks that could not be virtual


def _rows(job: VirtualJob, counter: Counter, number: int) -> Iterator[dict[str, Any]]:
    for block in refer(job, number):
        counter.add(len(block.index) * job.chunk_bytes(block.array))
        yield block.to_row()


def _nothing(target: VirtualTarget) -> list[dict[str, Any]]:
    """Empty blocks: so that cells are written of which only older references are left."""
    empty = {"index": b"", "offset": b"", "length": b"", "location": b"", "chunk_id": b""}
    return [
        {"array": target.array, "cell": cell, "modified": 0, **empty}
        for cell in target.cells_to_keep()
    ]


def _batch(rows: Iterable[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    for some in batched(rows, _BLOCKS_PER_BATCH):
        yield pa.RecordBatch.from_pylist(list(some), schema=_BLOCKS)


def _write_batches(job: VirtualJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows come ordered by cell: one cell is in memory at a time."""
    limit_gc()
    with carrying_errors():
        rows = (row for batch in batches for row in batch.to_pylist())
        for (array, cell), some in groupby(rows, key=itemgetter("array", "cell")):
            ndim = len(job.layout.arrays[array].dims)
            blocks = [Block.from_row(row, ndim) for row in some]
            told = write_cell(job, array, cell, blocks)
            yield pa.RecordBatch.from_pylist([told], schema=_MANIFESTS)
        job.base.files.store.sync()
