"""The Spark job of virtual arrays: sources to references, references to manifests.

Blocks of references go through the shuffle, one row per manifest to the driver: also for few, so
that arrays that grow file by file are split in one way.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from frazil.engine.session.session import Session
from frazil.format.chunk_index import Box
from frazil.paths import NodePath
from frazil.spark.ingestion.ingest_layout import Layout
from frazil.spark.ingestion.virtual_ingest import VirtualJob, refer
from frazil.spark.runtime.progress import Counter
from frazil.spark.runtime.stored_refs import (
    BLOCKS,
    CellTarget,
    Gather,
    RefsSink,
    Stored,
    Written,
    plan_target,
)

SOURCES_PER_TASK = 32


def plan_targets(
    session: Session, group: NodePath, layout: Layout, arrays: Sequence[int]
) -> tuple[CellTarget, ...]:
    """Plans which manifests of virtual arrays, positions in the layout, may be rewritten."""
    return tuple(
        plan_target(session, group.child(layout.arrays[position].name), _appended(layout, position))
        for position in arrays
    )


def _appended(layout: Layout, position: int) -> Box:
    """The chunks of an array after what there was."""
    array = layout.arrays[position]
    first = [
        layout.base_length // chunk if axis == array.axis else 0
        for axis, chunk in enumerate(array.chunks)
    ]
    stop = [-(-size // chunk) for size, chunk in zip(array.shape, array.chunks, strict=True)]
    return Box(tuple(first), tuple(stop))


def run_virtual(sink: RefsSink, job: VirtualJob, doing: str) -> Stored:
    """Runs the tasks, and lets the session have the manifests."""
    count = len(job.sources)
    partitions = max(4 * sink.executor.parallelism, -(-count // SOURCES_PER_TASK))
    with sink.executor.counter(doing, job.size_bytes()) as counter:
        # not RefsSink.run: progress counts the references of each source
        store = _Refer(job, counter, sink.gather())
        return sink.take(sink.executor.map_rows(count, partitions, store, BLOCKS))


@dataclass(frozen=True, slots=True, eq=False)
class _Refer:
    job: VirtualJob
    counter: Counter
    gather: Gather

    def __call__(self, sources: range) -> Iterator[pa.RecordBatch]:
        yield from self.gather(self._written(sources))

    def _written(self, sources: range) -> Iterator[Written]:
        for number in sources:
            for written in refer(self.job, number):
                self.counter.add(len(written.refs) * self.job.chunk_bytes(written.array))
                yield written
        self.job.base.files.store.sync()  # chunks that could not be virtual
