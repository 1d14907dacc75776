"""Tasks of an ingest: read slabs, assemble blocks of whole chunks, encode and store them.

Chunk data never leaves the executor; references do.
"""

import hashlib
import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.engine.commit.chunk_writer import ChunkWriter
from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import chunk_key
from frazil.engine.files.reuse import copy_chunks
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError, ObjectNotFoundError, StorageError
from frazil.format.chunk_refs import ChunkRefs, RefKind
from frazil.ids import ChunkId
from frazil.objectstore.pool import Pool
from frazil.objectstore.protocol import ObjectStore
from frazil.paths import NodePath
from frazil.spark.ingestion.ingest_layout import TargetArray
from frazil.spark.ingestion.ingest_plan import (
    BaseRead,
    Box,
    IngestPlan,
    Read,
    SourceRead,
    Task,
    plan_reads,
    region,
)
from frazil.spark.ingestion.source_checks import convert
from frazil.spark.runtime.jobs import COLUMNS, decode_refs, encode_refs, store_region
from frazil.spark.runtime.stored_refs import Written
from frazil.spark.sources import ReaderPool, open_readers
from frazil.spark.sources.source_reader import AnySource, pieces_of, read_any
from frazil.zarrstore.arrays import read_region

# Records of what an ingest has stored so far: a rerun finds it, and stores only the rest.
#
#     name       that of a chunk; it follows from the ingest and from the piece of work: which
#                sources it reads, in which version, and what becomes of them. Nothing is listed
#     content    an Arrow table, and when it was made
#     written    by executors, when what it tells of is durable
#     deleted    by the driver, after the commit
#
# No manifest refers to a record: to garbage collection, anyone's, it is garbage as are the chunks
# that it tells of until they are committed. So a record may outlive them, and they may go at any
# moment: references that are found are to copies of them, made for the run that asks
# (frazil.engine.files.reuse). Records older than a day are not used.

MAX_AGE_S = 24 * 3600
_STORED_AT = b"frazil.stored_at_s"
_AT_ONCE = 16
_REFS = pa.schema([(name, pa.binary()) for name in COLUMNS])


@dataclass(frozen=True, slots=True)
class Records:
    """Records of one ingest; picklable if the store is."""

    store: ObjectStore
    scope: str  # what tells the ingest from others to the same repository

    def name(self, *identity: object) -> ChunkId:
        """Name of the record of a piece of work."""
        text = json.dumps([self.scope, *identity], sort_keys=True, default=str)
        return ChunkId(hashlib.sha256(text.encode(), usedforsecurity=False).digest()[:12])

    def find(self, name: ChunkId) -> pa.Table | None:
        """Returns a record; None if there is none, or if it is too old or damaged."""
        try:
            data = self.store.get(chunk_key(name)).data
            with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
                table: pa.Table = stream.read_all()
            stored_at_s = float(table.schema.metadata[_STORED_AT])
        except (ObjectNotFoundError, pa.ArrowInvalid, OSError, KeyError, TypeError, ValueError):
            return None
        return table if time.time() - stored_at_s < MAX_AGE_S else None

    def put(self, name: ChunkId, table: pa.Table) -> None:
        marked = table.replace_schema_metadata({_STORED_AT: repr(time.time()).encode()})
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, marked.schema, options=options) as stream:
            stream.write_table(marked)
        self.store.put(chunk_key(name), sink.getvalue())

    def find_refs(self, name: ChunkId, ndim: int) -> ChunkRefs | None:
        """References to copies of the chunks; None if they are not all there any more."""
        table = self.find(name)
        if table is None or table.schema.names != list(COLUMNS) or table.num_rows != 1:
            return None
        row: Mapping[str, bytes] = table.to_pylist()[0]
        try:
            refs = decode_refs(row, ndim)
        except ValueError:
            return None
        return copy_chunks(self.store, refs, Pool(_AT_ONCE))

    def put_refs(self, name: ChunkId, refs: ChunkRefs) -> None:
        self.put(name, pa.Table.from_pylist([encode_refs(refs)], schema=_REFS))

    def delete(self, names: Iterable[ChunkId]) -> None:
        """Deletes records. Those that remain are garbage, and no reason to fail."""
        with suppress(StorageError):
            self.store.delete(chunk_key(name) for name in names)


def stores_chunks(refs: ChunkRefs) -> bool:
    """True if there are chunks that need not be stored again."""
    return bool((refs.kind == RefKind.NATIVE).any())


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class IngestJob:
    """Stores what the plan says, a row for each of its partitions; picklable."""

    plan: IngestPlan
    sources: tuple[AnySource, ...]  # in the order of the plan
    source_group: str | None
    dims: tuple[str, ...]  # along which sources follow one another
    group: NodePath
    documents: tuple[bytes, ...]  # zarr.json of each array of the plan
    writer: ChunkWriter
    base: Session  # read-only, what is appended to
    records: Records | None  # of what was stored
    marks: Mapping[str, str]  # by path, which version of a source this is about
    replaces: bool = False  # chunks of which nothing is left but the fill value are removed

    def __call__(self, _: Files, partitions: range) -> Iterator[Written]:
        """Arrays are numbered as the work of the plan; counts are of chunks that were reused."""
        for number in partitions:
            for result in run_partition(self, number):
                yield self._written(result)

    def _written(self, result: "TaskResult") -> Written:
        task = result.task
        return Written(
            self.plan.work.index(task.array),
            result.refs,
            _missing(task, result.refs) if self.replaces else None,
            len(result.refs) if result.reused else 0,
            b"" if result.record is None else result.record.raw,
        )


@dataclass(frozen=True, slots=True, eq=False)
class TaskResult:
    task: Task
    refs: ChunkRefs
    record: ChunkId | None = None  # that tells of it
    reused: bool = False  # an earlier run stored it


def run_partition(job: IngestJob, partition: int) -> list[TaskResult]:
    """Results of the partition's tasks. What they refer to is durable, and on record."""
    with open_readers(group=job.source_group, dims=job.dims) as files:
        results = [run_task(job, task, files) for task in job.plan.tasks_of(partition)]
    job.writer.sync()
    if job.records is not None:
        for result in results:
            # those of copies, too: the next run need not find the originals
            if result.record is not None:
                job.records.put_refs(result.record, result.refs)
    return results


def run_task(job: IngestJob, task: Task, files: ReaderPool) -> TaskResult:
    """Stores chunks, or copies those that an earlier run stored."""
    array = job.plan.layout.arrays[task.array]
    record = None if job.records is None else job.records.name(*_identity(job, task))
    if job.records is not None and record is not None:
        known = job.records.find_refs(record, len(array.dims))
        if known is not None:
            return TaskResult(task, known, record, reused=True)
    block = _read_block(job, task, files)
    refs = store_region(job.documents[task.array], job.writer, region(array, task), block)
    return TaskResult(task, refs, record if stores_chunks(refs) else None)


def _missing(task: Task, refs: ChunkRefs) -> npt.NDArray[np.uint32]:
    """Chunks of the task that were not stored, (n, ndim)."""
    along = [np.arange(lo, hi) for lo, hi in zip(task.lo, task.hi, strict=True)]
    mesh = np.meshgrid(*along, indexing="ij")
    index = np.empty((math.prod(map(len, along)), len(along)), dtype=np.uint32)
    for axis, each in enumerate(mesh):
        index[:, axis] = each.ravel()
    return index[refs.lookup(index) < 0] if len(refs) else index


def _identity(job: IngestJob, task: Task) -> Iterable[object]:
    """Identity of the task: everything that its chunks' bytes depend on."""
    array = job.plan.layout.arrays[task.array]
    document = json.loads(job.documents[task.array])
    yield job.group.child(array.name).text
    yield [document[key] for key in ("data_type", "chunk_grid", "codecs", "fill_value")]
    yield job.writer.inline_threshold_bytes
    yield [*map(list, (task.lo, task.hi)), _plain(region(array, task))]
    yield [job.source_group, job.dims]
    for read in plan_reads(job.plan.layout, task):
        match read:
            case SourceRead(number, selection, into):
                conversion = array.conversions.get(number)
                versions = [
                    (piece.source.path, job.marks[piece.source.path])
                    for piece in pieces_of(job.sources[number])
                ]
                converted = None if conversion is None else astuple(conversion)
                yield [versions, _plain(selection), _plain(into), converted]
            case BaseRead(selection, into):
                yield [str(job.base.snapshot_id), _plain(selection), _plain(into)]
            case _:
                assert_never(read)


def _plain(box: Box) -> list[list[int]]:
    return [[int(part.start), int(part.stop)] for part in box]


def _read_block(job: IngestJob, task: Task, files: ReaderPool) -> npt.NDArray[np.generic]:
    array = job.plan.layout.arrays[task.array]
    reads = plan_reads(job.plan.layout, task)
    if len(reads) == 1:  # nothing to assemble
        return _read(job, array, reads[0], files)
    shape = tuple(part.stop - part.start for part in region(array, task))
    block = np.empty(shape, dtype=array.dtype)
    for read in reads:
        block[read.into] = _read(job, array, read, files)
    return block


def _read(
    job: IngestJob, array: TargetArray, read: Read, files: ReaderPool
) -> npt.NDArray[np.generic]:
    match read:
        case SourceRead(number, selection):
            source = job.sources[number]
            values = read_any(files, source, array.name, array.dims, selection)
            _require_shape(source.path, array.name, values.shape, selection)
            return _convert(array, number, source, values)
        case BaseRead(selection):
            return read_region(job.base, job.group.child(array.name), selection)
        case _:
            assert_never(read)


def _convert(
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
