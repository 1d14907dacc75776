"""Files into a repository: many sources, one Spark job, one commit.

    driver      find and describe sources -> layout -> plan -> create or resize arrays (pending)
    executors   read slabs -> blocks of whole chunks -> encode -> store -> references
    driver      references into the session -> commit, once

A failure anywhere before the commit leaves the branch as it was. Chunks that were stored by then
are referred to by nothing, and garbage collection takes them.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from os import PathLike
from time import perf_counter

from pyspark.sql import SparkSession

from frazil.errors import InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.paths import NodePath
from frazil.repo.repository import Repository
from frazil.repo.session import Session
from frazil.repo.version import Exactly
from frazil.spark.ingestion.jobs import describe_sources, parallelism, run_job
from frazil.spark.ingestion.layout import Layout, plan_layout
from frazil.spark.ingestion.plan import IngestPlan, plan_ingest
from frazil.spark.ingestion.target import (
    create_arrays,
    describe_group,
    merge_results,
    parse_group,
    require_absent,
    resize_arrays,
    write_coordinates,
)
from frazil.spark.ingestion.tasks import IngestJob
from frazil.spark.jobs.commits import CommitNote, commit_once, find_commit
from frazil.spark.opened import RepositoryLike, place_of
from frazil.spark.place import open_place
from frazil.spark.progress import (
    JobProgress,
    ProgressCallback,
    ProgressOption,
    create_counter,
    progress_callback,
    watched,
)
from frazil.spark.sources import Source, SourceName, find_sources

# A task should take at least some 50 ms, for Spark's overhead not to matter, and hold at most this
# much in memory; between the two there are a few tasks per core, so that none waits long.
MIN_TASK_BYTES = 8 << 20
MAX_TASK_BYTES = 64 << 20
TASKS_PER_CORE = 4


class IngestMode(StrEnum):
    CREATE = "create"
    APPEND = "append"


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """`committed` is False when an earlier ingest with the same idempotency key had done the work;
    `snapshot_id` is then the one it made.
    """

    snapshot_id: str
    files: int
    chunks: int
    bytes: int  # stored, after compression
    seconds: float
    committed: bool


def ingest(
    spark: SparkSession,
    sources: SourceName | Iterable[SourceName],
    repo: RepositoryLike,
    *,
    group: str = "/",
    concat_dim: str | None = None,
    chunks: Mapping[str, int] | None = None,
    branch: str = "main",
    mode: str = IngestMode.CREATE,
    message: str | None = None,
    metadata: Mapping[str, Json] | None = None,
    variables: Iterable[str] | None = None,
    source_group: str | None = None,
    idempotency_key: str | None = None,
    progress: ProgressOption = None,
) -> IngestResult:
    """Writes NetCDF4/HDF5 files and Zarr stores to a group of a repository, as one commit.

    Args:
        spark: the session whose executors read and write. They must see the sources and the
            repository under the same paths as the driver.
        sources: paths, patterns and directories. Sources are ordered by the coordinate of
            `concat_dim`, which must neither overlap nor repeat; as given if there is none.
        repo: the repository to write to, or the path of its folder.
        group: where the arrays go; created when missing.
        concat_dim: the dimension along which sources follow one another; may be left out for
            a single source. Variables without it must be equal in all sources.
        chunks: chunk length by dimension, -1 for the whole dimension. Dimensions not named are
            whole, and the concat dimension is cut into chunks of about 8 MiB. Dimension
            coordinates are always one chunk.
        branch: the branch that gets the commit.
        mode: `create` refuses arrays that exist; `append` extends them along `concat_dim`, in
            their chunks, types and time units.
        message: of the commit.
        metadata: of the commit, in addition to what ingest records under the key `frazil`.
        variables: the variables wanted, all by default; their coordinates come along.
        source_group: the group inside each source, for files that have groups.
        idempotency_key: if a commit in the branch's history was made with the same key,
            nothing is done, and that commit is returned.
        progress: a callback for JobProgress, True for a bar, False for silence; by default
            a bar when standard error is a terminal.

    Raises:
        ObjectNotFoundError: a source is missing.
        FormatError: a source is damaged; the message names it.
        InvalidInputError: sources do not fit together, or not to the group.
        AlreadyExistsError: an array is there already and mode is `create`.
        ConflictError: the branch moved during the ingest.
    """
    started = perf_counter()
    request = _Request(
        repository=_open(repo),
        group=parse_group(group),
        concat_dim=concat_dim,
        chunks=dict(chunks or {}),
        branch=branch,
        mode=_parse_mode(mode),
        variables=None if variables is None else tuple(variables),
        source_group=source_group,
        key=idempotency_key,
    )
    done = find_commit(request.repository, branch, request.key)
    if done is not None:
        return _nothing_done(done, started)
    found = find_sources(sources)
    note = _note(spark, request, len(found))
    with progress_callback(progress) as tell:
        session = request.repository.writable_session(branch)
        tell(JobProgress(f"Reading the metadata of {_count(len(found), 'file')}", 0, 0))
        with _cancelled_on_interrupt(spark, note.job):
            layout, ordered = _plan_sources(spark, request, session, found)
            written, size_bytes = _write(
                spark, request, session, layout, sources=ordered, tell=tell
            )
        text = message or _message(request, len(found))
        committed = commit_once(
            request.repository, session, note, text, branch=branch, metadata=metadata
        )
    if not committed.made:  # perhaps by a copy of this very job
        return _nothing_done(committed.snapshot_id, started)
    return IngestResult(
        snapshot_id=committed.snapshot_id,
        files=len(found),
        chunks=written,
        bytes=size_bytes,
        seconds=perf_counter() - started,
        committed=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """The arguments of `ingest`, checked."""

    repository: Repository
    group: NodePath
    concat_dim: str | None
    chunks: dict[str, int]
    branch: str
    mode: IngestMode
    variables: tuple[str, ...] | None
    source_group: str | None
    key: str | None

    def __post_init__(self) -> None:
        if self.mode is IngestMode.APPEND and self.concat_dim is None:
            raise InvalidInputError("appending needs a concat_dim")


def _open(repo: RepositoryLike) -> Repository:
    """Refuses storage that executors would not see."""
    place = place_of(repo)
    if isinstance(repo, str | PathLike):
        return Repository.open(open_place(place))
    return repo if isinstance(repo, Repository) else repo.engine


def _plan_sources(
    spark: SparkSession, request: _Request, session: Session, found: tuple[Source, ...]
) -> tuple[Layout, tuple[Source, ...]]:
    """The layout, and the sources in its order."""
    existing = None
    if request.mode is IngestMode.APPEND and request.concat_dim is not None:
        existing = describe_group(session, request.group, request.concat_dim)
    descriptions = describe_sources(
        spark,
        found,
        concat_dim=request.concat_dim,
        only=request.variables,
        group=request.source_group,
    )
    if existing is None:
        names = list(descriptions[0].variables)
        require_absent(session, request.group, names)
    layout = plan_layout(
        descriptions,
        concat_dim=request.concat_dim,
        chunks=request.chunks,
        existing=existing,
    )
    return layout, tuple(found[position] for position in layout.order)


def _write(
    spark: SparkSession,
    request: _Request,
    session: Session,
    layout: Layout,
    *,
    sources: tuple[Source, ...],
    tell: ProgressCallback,
) -> tuple[int, int]:
    """Everything but the commit. Number of chunks written, and their bytes."""
    append = request.mode is IngestMode.APPEND
    prepare = resize_arrays if append else create_arrays
    documents = prepare(session, request.group, layout)
    plan = _plan_work(spark, layout)
    base = request.repository.readonly_session(Exactly(session.snapshot_id)) if append else None
    job = IngestJob(
        plan=plan,
        sources=sources,
        source_group=request.source_group,
        group=request.group,
        documents=documents,
        writer=session.chunk_writer(),
        base=base,
    )
    counter = create_counter(spark)
    doing = f"Writing {_count(plan.chunks(), 'chunk')}"
    with watched(counter, doing, plan.size_bytes(), tell):
        results = run_job(spark, job, counter)
    counts = [
        write_coordinates(session, request.group, layout, documents),
        merge_results(session, request.group, layout, results),
    ]
    return sum(chunks for chunks, _ in counts), sum(size for _, size in counts)


def _plan_work(spark: SparkSession, layout: Layout) -> IngestPlan:
    total = plan_ingest(layout, task_bytes=MAX_TASK_BYTES, partition_bytes=1).size_bytes()
    fair = total // (parallelism(spark) * TASKS_PER_CORE)
    size = min(MAX_TASK_BYTES, max(MIN_TASK_BYTES, fair))
    return plan_ingest(layout, task_bytes=size, partition_bytes=size)


def _note(spark: SparkSession, request: _Request, sources: int) -> CommitNote:
    return CommitNote(
        operation="ingest",
        application=spark.conf.get("spark.app.name", "spark") or "spark",
        key=request.key,
        facts={"mode": str(request.mode), "sources": sources},
    )


def _nothing_done(snapshot_id: str, started: float) -> IngestResult:
    return IngestResult(
        snapshot_id=snapshot_id,
        files=0,
        chunks=0,
        bytes=0,
        seconds=perf_counter() - started,
        committed=False,
    )


def _message(request: _Request, sources: int) -> str:
    verb = "Append" if request.mode is IngestMode.APPEND else "Ingest"
    return f"{verb} {_count(sources, 'file')} to {request.group}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _parse_mode(text: str) -> IngestMode:
    try:
        return IngestMode(text)
    except ValueError:
        raise InvalidInputError(f"mode is {text!r}, expected 'create' or 'append'") from None


@contextmanager
def _cancelled_on_interrupt(spark: SparkSession, job: str) -> Iterator[None]:
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
