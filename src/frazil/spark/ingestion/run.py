"""An ingest from described sources to a session that is ready to be committed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import SparkSession

from frazil.errors import InvalidInputError
from frazil.flatbuf.strings import Strings
from frazil.ids import ChunkId
from frazil.references.locations import locate
from frazil.repo.session import Session
from frazil.repo.version import Exactly
from frazil.spark.ingestion.grid import join_grid
from frazil.spark.ingestion.jobs import parallelism, run_job
from frazil.spark.ingestion.layout import Layout, plan_layout
from frazil.spark.ingestion.plan import IngestPlan, plan_ingest
from frazil.spark.ingestion.records import Records
from frazil.spark.ingestion.region import drop_replaced
from frazil.spark.ingestion.request import IngestMode, Request
from frazil.spark.ingestion.target import (
    create_arrays,
    describe_group,
    merge_results,
    require_absent,
    resize_arrays,
    write_coordinates,
)
from frazil.spark.ingestion.tasks import IngestJob, TaskResult
from frazil.spark.ingestion.virtual import VirtualJob, record_names
from frazil.spark.ingestion.virtual_jobs import attach, plan_targets, run_virtual
from frazil.spark.progress import ProgressCallback, create_counter, watched
from frazil.spark.sources import Source, SourceDescription, SourceKind
from frazil.spark.sources.joined import AnySource

# A task should take at least some 50 ms, for Spark's overhead not to matter, and hold at most this
# much in memory; between the two there are a few tasks per core, so that none waits long.
MIN_TASK_BYTES = 8 << 20
MAX_TASK_BYTES = 64 << 20
TASKS_PER_CORE = 4


@dataclass(frozen=True, slots=True)
class Written:
    files: int
    chunks: int  # stored by us
    size_bytes: int
    virtual_chunks: int
    reused_chunks: int = 0  # of `chunks`: an earlier run stored them
    records: tuple[ChunkId, ...] = ()  # that tell of them


@dataclass(frozen=True, slots=True)
class _Virtual:
    chunks: int  # that are referred to
    records: tuple[ChunkId, ...] = ()


def write_sources(
    spark: SparkSession,
    request: Request,
    session: Session,
    described: Mapping[Source, SourceDescription],
    tell: ProgressCallback,
) -> Written:
    """Everything but the commit. Errors that are about a source begin with its path."""
    layout, sources = _plan_sources(request, session, described)
    if request.virtual:
        _require_containers(session, list(described))
    change = resize_arrays if request.changes_group else create_arrays
    documents = change(session, request.group, layout)
    job = IngestJob(
        plan=_plan_work(spark, layout),
        sources=sources,
        source_group=request.source_group,
        dims=request.dims,
        group=request.group,
        documents=documents,
        writer=session.chunk_writer(),
        base=request.repository.readonly_session(Exactly(session.snapshot_id)),
        records=_records_of(request),
        marks={source.path: description.mark for source, description in described.items()},
    )
    virtual = _Virtual(0)
    if request.virtual:
        virtual = _write_virtual(spark, request, session, job, tell)
    counter = create_counter(spark)
    doing = f"Writing {counted(job.plan.chunks(), 'chunk')}"
    with watched(counter, doing, job.plan.size_bytes(), tell):
        results = run_job(spark, job, counter)
    if request.mode is IngestMode.REGION:
        drop_replaced(session, request.group, job.plan, results)
    counts = [
        write_coordinates(session, request.group, layout, documents),
        merge_results(session, request.group, layout, results),
    ]
    return Written(
        files=len(described),
        chunks=sum(chunks for chunks, _ in counts),
        size_bytes=sum(size for _, size in counts),
        virtual_chunks=virtual.chunks,
        reused_chunks=sum(len(result.refs) for result in results if result.reused),
        records=(*virtual.records, *_records(results)),
    )


def forget(request: Request, written: Written) -> None:
    """After the commit: what is on record need not be found any more."""
    records = _records_of(request)
    if records is not None:
        records.delete(written.records)


def _records_of(request: Request) -> Records | None:
    if not request.resume:
        return None
    scope = repr((request.branch, str(request.mode), request.key))
    return Records(request.repository.store, scope)


def _records(results: Sequence[TaskResult]) -> list[ChunkId]:
    return [result.record for result in results if result.record is not None]


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _plan_sources(
    request: Request, session: Session, described: Mapping[Source, SourceDescription]
) -> tuple[Layout, tuple[AnySource, ...]]:
    """The layout, and the sources in its order."""
    dims = request.dims
    existing = None
    if request.changes_group:
        existing = _comparable(describe_group(session, request.group, dims[0]), dims[1:])
    else:
        names = list(next(iter(described.values())).variables)
        require_absent(session, request.group, names)
    pairs: list[tuple[SourceDescription, AnySource]] = [
        (description, source) for source, description in described.items()
    ]
    joined = join_grid(pairs, dims)
    layout = plan_layout(
        [description for description, _ in joined],
        concat_dim=dims[0] if dims else None,
        chunks=request.chunks,
        existing=existing,
        virtual=request.virtual,
        inside=request.mode is IngestMode.REGION,
    )
    return layout, tuple(joined[position][1] for position in layout.order)


def _comparable(existing: SourceDescription, joined: tuple[str, ...]) -> SourceDescription:
    """Without the marks of what sources hold only a part of."""
    variables = {
        name: replace(variable, digest=None) if set(joined) & set(variable.dims) else variable
        for name, variable in existing.variables.items()
    }
    return replace(existing, variables=variables)


def _write_virtual(
    spark: SparkSession,
    request: Request,
    session: Session,
    copied: IngestJob,
    tell: ProgressCallback,
) -> _Virtual:
    layout = copied.plan.layout
    targets = plan_targets(session, request.group, layout)
    if not targets:
        return _Virtual(0)
    job = VirtualJob(
        layout=layout,
        sources=copied.sources,
        source_group=request.source_group,
        targets=targets,
        base=copied.base,
        records=copied.records,
        marks=copied.marks,
    )
    counter = create_counter(spark)
    doing = f"Referring to chunks of {counted(len(job.sources), 'file')}"
    with watched(counter, doing, job.size_bytes(), tell):
        written = run_virtual(spark, job, counter, parallelism(spark))
    chunks = attach(spark, session, request.group, job, written)
    return _Virtual(chunks, tuple(record_names(job)))


def _require_containers(session: Session, sources: Sequence[Source]) -> None:
    """Raises InvalidInputError for a source that nobody could read through the repository."""
    paths = [f"{s.path}/zarr.json" if s.kind is SourceKind.ZARR else s.path for s in sources]
    locations = Strings.from_list([locate(path, root=None) for path in paths])
    covered = session.files.virtual.access.all_containers().covered(locations)
    if not covered.all():
        at = int(np.argmin(covered))
        raise InvalidInputError(
            f"no virtual chunk container of the repository covers {locations.text(at)!r}: add one"
            " to its configuration (RepositoryConfig.set_virtual_chunk_container, save_config)",
            kind="no-container-for-virtual-chunk",
        )


def _plan_work(spark: SparkSession, layout: Layout) -> IngestPlan:
    total = plan_ingest(layout, task_bytes=MAX_TASK_BYTES, partition_bytes=1).size_bytes()
    fair = total // (parallelism(spark) * TASKS_PER_CORE)
    size = min(MAX_TASK_BYTES, max(MIN_TASK_BYTES, fair))
    return plan_ingest(layout, task_bytes=size, partition_bytes=size)
