"""An ingest from described sources to a session that is ready to be committed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import batched

import numpy as np

from frazil.engine.refs.version import Exactly
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import FormatError, IcechunkError, InvalidInputError, ObjectNotFoundError
from frazil.flatbuf.strings import Strings
from frazil.format.chunk_index import Box
from frazil.ids import ChunkId
from frazil.paths import NodePath
from frazil.references.plan import locate
from frazil.spark.ingestion.grid import join_grid
from frazil.spark.ingestion.ingest_layout import Layout, plan_layout
from frazil.spark.ingestion.ingest_plan import IngestPlan, plan_ingest, plan_tiling
from frazil.spark.ingestion.target import (
    create_arrays,
    describe_group,
    require_absent,
    resize_arrays,
    write_coordinates,
)
from frazil.spark.ingestion.tasks import IngestJob, Records
from frazil.spark.ingestion.virtual_ingest import VirtualJob, record_names
from frazil.spark.ingestion.virtual_jobs import plan_targets, run_virtual
from frazil.spark.runtime import jobs
from frazil.spark.runtime.executor import JobExecutor
from frazil.spark.runtime.stored_refs import RefsSink, Stored, plan_sink
from frazil.spark.sources import Source, SourceDescription
from frazil.spark.sources.source_reader import AnySource

# Sources that an ingest goes on without, if it may.
#
# Every error about a source begins with its path, or has it as where it happened: so the one to
# leave out is known, found by the driver or by an executor.


class OnError(StrEnum):
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class SkippedSource:
    """`kind` and `reason` are those of the error."""

    path: str
    kind: str
    reason: str


def parse_on_error(text: str) -> OnError:
    try:
        return OnError(text)
    except ValueError:
        raise InvalidInputError(f"on_error is {text!r}, expected 'fail' or 'skip'") from None


def skipped(path: str, error: IcechunkError) -> SkippedSource:
    return SkippedSource(path, error.kind or type(error).__name__, str(error))


def without_bad_sources[T](
    sources: Sequence[Source],
    work: Callable[[tuple[Source, ...]], T],
    policy: OnError,
    start_again: Callable[[], None],
) -> tuple[T, tuple[SkippedSource, ...]]:
    """Runs `work` on the sources, without those that make it fail.

    Before each further try `start_again` is called. Raises the error if no source is at fault, if
    the policy is to fail, or if no source is left.
    """
    left, gone = list(sources), list[SkippedSource]()
    while True:
        try:
            return work(tuple(left)), tuple(gone)
        except IcechunkError as error:
            bad = None if policy is OnError.FAIL else _find_culprit(error, left)
            if bad is None or len(left) == 1:
                raise
            left.remove(bad)
            gone.append(skipped(bad.path, error))
        start_again()


def _find_culprit(error: IcechunkError, sources: Iterable[Source]) -> Source | None:
    match error:
        case FormatError():
            where = error.where or ""
        case ObjectNotFoundError():
            where = error.key
        case _:
            where = ""
    text = str(error)
    for source in sources:
        if where == source.path or text.startswith(f"{source.path}: "):
            return source
    return None


# The request for an ingest, checked.


class IngestMode(StrEnum):
    CREATE = "create"
    APPEND = "append"
    REGION = "region"  # replaces a part of what is there


class Combine(StrEnum):
    CONCAT = "concat"  # along the dimensions named
    COORDS = "coords"  # along those whose coordinates differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    repository: Repository
    group: NodePath
    dims: tuple[str, ...]  # along which sources follow one another
    combine: Combine
    chunks: dict[str, int]
    branch: str
    mode: IngestMode
    virtual: bool
    on_error: OnError
    variables: tuple[str, ...] | None
    source_group: str | None
    key: str | None
    resume: bool  # where an earlier run failed

    def __post_init__(self) -> None:
        if self.changes_group and not self.dims:
            raise InvalidInputError(f"mode={str(self.mode)!r} needs a concat_dim")
        if self.mode is IngestMode.REGION and self.virtual:
            raise InvalidInputError(
                "a region is copied: virtual chunks are created, or appended to arrays"
            )
        if self.combine is Combine.COORDS and self.dims:
            raise InvalidInputError("combine='coords' finds the dimensions itself: no concat_dim")
        if len(set(self.dims)) != len(self.dims):
            raise InvalidInputError(f"concat_dim names a dimension twice: {list(self.dims)}")

    @property
    def changes_group(self) -> bool:
        """True if the ingest changes an existing group."""
        return self.mode is not IngestMode.CREATE


def parse_dims(given: str | Iterable[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)


def parse_mode(text: str) -> IngestMode:
    try:
        return IngestMode(text)
    except ValueError:
        raise InvalidInputError(
            f"mode is {text!r}, expected 'create', 'append' or 'region'"
        ) from None


def parse_combine(text: str) -> Combine:
    try:
        return Combine(text)
    except ValueError:
        raise InvalidInputError(f"combine is {text!r}, expected 'concat' or 'coords'") from None


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
    executor: JobExecutor,
    request: Request,
    session: Session,
    described: Mapping[Source, SourceDescription],
) -> Written:
    """Everything but the commit. Errors that are about a source begin with its path."""
    layout, sources = plan_sources(request, session, described)
    if request.virtual:
        _require_containers(session, list(described))
    change = resize_arrays if request.changes_group else create_arrays
    documents = change(session, request.group, layout)
    job = IngestJob(
        plan=_plan_work(executor, layout),
        sources=sources,
        source_group=request.source_group,
        dims=request.dims,
        group=request.group,
        documents=documents,
        writer=session.chunk_writer(),
        base=request.repository.readonly_session(Exactly(session.snapshot_id)),
        records=_records_of(request),
        marks={source.path: description.mark for source, description in described.items()},
        replaces=request.mode is IngestMode.REGION,
    )
    virtual = _Virtual(0)
    if request.virtual:
        virtual = _write_virtual(executor, request, session, job)
    stored = _write_chunks(executor, request, session, job)
    chunks, size_bytes = write_coordinates(session, request.group, layout, documents)
    return Written(
        files=len(described),
        chunks=stored.chunks + chunks,
        size_bytes=stored.size_bytes + size_bytes,
        virtual_chunks=virtual.chunks,
        reused_chunks=sum(stored.counts.values()),
        records=(*virtual.records, *_records(stored.notes)),
    )


def count_work(
    executor: JobExecutor,
    request: Request,
    session: Session,
    described: Mapping[Source, SourceDescription],
) -> tuple[IngestPlan, int]:
    """The plan of what is copied, and the number of chunks that are referred to."""
    layout, _ = plan_sources(request, session, described)
    if request.virtual:
        _require_containers(session, list(described))
    virtual = [
        plan_tiling(
            array, base_length=layout.base_length, stop=int(layout.starts[-1]), task_bytes=1
        ).chunks
        for array in layout.arrays
        if array.stored is not None
    ]
    return _plan_work(executor, layout), sum(virtual)


def _write_chunks(
    executor: JobExecutor, request: Request, session: Session, job: IngestJob
) -> Stored:
    """Chunks of the arrays that are copied, and references to them into the session."""
    plan = job.plan
    arrays = [
        (request.group.child(plan.layout.arrays[position].name), Box(tiling.first, tiling.grid))
        for position, tiling in zip(plan.work, plan.tilings, strict=True)
    ]
    sink = plan_sink(executor, request.repository, session, arrays, plan.chunks())
    doing, count = f"Writing {counted(plan.chunks(), 'chunk')}", plan.partitions
    return sink.run(job, count, doing, sizes=plan.size_bytes(), partitions=count)


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


def _records(notes: bytes) -> list[ChunkId]:
    return [ChunkId(bytes(raw)) for raw in batched(notes, ChunkId.size)]


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def plan_sources(
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
    executor: JobExecutor, request: Request, session: Session, copied: IngestJob
) -> _Virtual:
    layout = copied.plan.layout
    arrays = tuple(k for k, array in enumerate(layout.arrays) if array.stored is not None)
    if not arrays:
        return _Virtual(0)
    targets = plan_targets(session, request.group, layout, arrays)
    sink = RefsSink(executor, session, copied.base, targets, many=True)
    job = VirtualJob(
        layout=layout,
        sources=copied.sources,
        source_group=request.source_group,
        arrays=arrays,
        grids=tuple(target.grid for target in targets),
        base=copied.base,
        records=copied.records,
        marks=copied.marks,
    )
    doing = f"Referring to chunks of {counted(len(job.sources), 'file')}"
    stored = run_virtual(sink, job, doing)
    return _Virtual(stored.chunks, tuple(record_names(job)))


def _require_containers(session: Session, sources: Sequence[Source]) -> None:
    """Raises InvalidInputError for a source that no reader of the repository could access."""
    paths = [f"{s.path}/zarr.json" if s.format.is_folder else s.path for s in sources]
    locations = Strings.from_list([locate(path, root=None) for path in paths])
    covered = session.files.virtual.access.all_containers().covered(locations)
    if not covered.all():
        at = int(np.argmin(covered))
        raise InvalidInputError(
            f"no virtual chunk container of the repository covers {locations.text(at)!r}: add one"
            " to its configuration (RepositoryConfig.set_virtual_chunk_container, save_config)",
            kind="no-container-for-virtual-chunk",
        )


def _plan_work(executor: JobExecutor, layout: Layout) -> IngestPlan:
    total = plan_ingest(layout, task_bytes=jobs.MAX_TASK_BYTES, partition_bytes=1).size_bytes()
    size = jobs.task_bytes(total, executor.parallelism)
    return plan_ingest(layout, task_bytes=size, partition_bytes=size)
