"""What executors do: read slabs, assemble blocks of whole chunks, encode and store them.

Chunk data never leaves the executor; references do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.format.chunk_refs import ChunkRefs
from frazil.paths import NodePath
from frazil.repo.session import Session
from frazil.repo.writer import ChunkWriter
from frazil.spark.ingestion.layout import TargetArray
from frazil.spark.ingestion.plan import (
    BaseRead,
    IngestPlan,
    Read,
    SourceRead,
    Task,
    plan_reads,
    region,
    region_bytes,
)
from frazil.spark.ingestion.times import convert
from frazil.spark.sources import Opened, opened
from frazil.spark.sources.joined import AnySource, read_any
from frazil.zarrstore.arrays import read_region
from frazil.zarrstore.encoding import encode_region


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class IngestJob:
    """Everything that a task needs, picklable."""

    plan: IngestPlan
    sources: tuple[AnySource, ...]  # in the order of the plan
    source_group: str | None
    dims: tuple[str, ...]  # along which sources follow one another
    group: NodePath
    documents: tuple[bytes, ...]  # zarr.json of each array of the plan
    writer: ChunkWriter
    base: Session  # read-only, what is appended to


@dataclass(frozen=True, slots=True, eq=False)
class TaskResult:
    array: int
    refs: ChunkRefs
    raw_bytes: int


def run_partition(job: IngestJob, partition: int) -> Iterator[TaskResult]:
    """Results of the partition's tasks. What they refer to is durable once all are taken."""
    with opened(group=job.source_group, dims=job.dims) as files:
        for task in job.plan.tasks_of(partition):
            yield run_task(job, task, files)
    job.writer.sync()


def run_task(job: IngestJob, task: Task, files: Opened) -> TaskResult:
    array = job.plan.layout.arrays[task.array]
    block = _read_block(job, task, files)
    refs = store_region(job.documents[task.array], job.writer, region(array, task), block)
    return TaskResult(task.array, refs, region_bytes(array, task))


def store_region(
    document: bytes, writer: ChunkWriter, where: tuple[slice, ...], values: npt.NDArray[Any]
) -> ChunkRefs:
    """Encodes and stores a region that covers whole chunks; says where its chunks are."""
    chunks = encode_region(document, where, values)
    index = np.array(list(chunks), dtype=np.uint32).reshape(len(chunks), len(where))
    return ChunkRefs.from_payloads(index, [writer.put_chunk(data) for data in chunks.values()])


def _read_block(job: IngestJob, task: Task, files: Opened) -> npt.NDArray[np.generic]:
    array = job.plan.layout.arrays[task.array]
    reads = plan_reads(job.plan.layout, task)
    if len(reads) == 1:  # nothing to assemble
        return _read(job, array, reads[0], files)
    shape = tuple(part.stop - part.start for part in region(array, task))
    block = np.empty(shape, dtype=array.dtype)
    for read in reads:
        block[read.into] = _read(job, array, read, files)
    return block


def _read(job: IngestJob, array: TargetArray, read: Read, files: Opened) -> npt.NDArray[np.generic]:
    match read:
        case SourceRead(number, selection):
            source = job.sources[number]
            values = read_any(files, source, array.name, array.dims, selection)
            _require_shape(source.path, array.name, values.shape, selection)
            return _converted(array, number, source, values)
        case BaseRead(selection):
            return read_region(job.base, job.group.child(array.name), selection)
        case _:
            assert_never(read)


def _converted(
    array: TargetArray, number: int, source: AnySource, values: npt.NDArray[np.generic]
) -> npt.NDArray[np.generic]:
    conversion = array.conversions.get(number)
    if conversion is None:
        return values
    try:
        return convert(values, conversion, dtype=array.dtype, fill=array.attrs.get("_FillValue"))
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{source.path}: variable {array.name!r}: {error}", kind="bad-metadata"
        ) from error


def _require_shape(
    path: str, name: str, shape: tuple[int, ...], selection: tuple[slice, ...]
) -> None:
    """A file that shrank since it was described would otherwise be stretched to fit."""
    wanted = tuple(part.stop - part.start for part in selection)
    if shape != wanted:
        raise InvalidInputError(
            f"{path}: variable {name!r} gave {shape} values where {wanted} were expected;"
            " the file changed during the ingest",
            kind="bad-metadata",
        )
