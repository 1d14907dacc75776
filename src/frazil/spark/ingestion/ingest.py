"""Files into a repository: many sources, one Spark job, one commit.

    driver      find and describe sources -> layout -> plan -> create or resize arrays (pending)
    executors   read slabs -> blocks of whole chunks -> encode -> store -> references
                virtual: references to the sources' chunks -> shuffle -> manifests
    driver      references into the session -> commit, once

A failure anywhere before the commit leaves the branch as it was. Chunks that were stored by then
are referred to by nothing, and garbage collection takes them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from time import perf_counter
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from frazil.engine.session.session import Session
from frazil.errors import IcechunkError, InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.spark.ingestion.grid import differing_dims
from frazil.spark.ingestion.ingest_jobs import describe_sources
from frazil.spark.ingestion.ingest_run import (
    Combine,
    IngestMode,
    OnError,
    Request,
    SkippedSource,
    Written,
    count_work,
    counted,
    forget,
    parse_combine,
    parse_dims,
    parse_mode,
    parse_on_error,
    skipped,
    without_bad_sources,
    write_sources,
)
from frazil.spark.ingestion.target import parse_group
from frazil.spark.io.write import WriteResult, write
from frazil.spark.runtime.commits import CommitNote, commit_once, find_commit
from frazil.spark.runtime.executor import JobExecutor, job_executor
from frazil.spark.runtime.progress import ProgressOption
from frazil.spark.sources import Source, SourceDescription, SourceName, find_sources, parse_format
from frazil.spark.table.opened import RepositoryLike
from frazil.spark.writing.options import open_engine

# Sources that are rows: DataFrames and Parquet files, which `frazil.spark.write` writes.

PARQUET = "parquet"


def find_rows(
    spark: SparkSession | None,
    sources: DataFrame | SourceName | Iterable[SourceName],
    format: str | None,  # noqa: A002 -- what Spark calls it
) -> DataFrame | list[str]:
    """The sources as one table, if they are rows; if they are arrays their names."""
    if isinstance(sources, DataFrame):
        return sources
    if isinstance(sources, Iterable) and not isinstance(sources, str | PathLike):
        names = [fspath(name) for name in sources]
    else:
        names = [fspath(sources)]
    are_parquet = [name.rstrip("/").lower().endswith(".parquet") for name in names]
    if format is None and any(are_parquet) and not all(are_parquet):
        raise InvalidInputError("Parquet files and arrays cannot be ingested together")
    if format == PARQUET or (format is None and names and all(are_parquet)):
        if spark is None:
            raise InvalidInputError("rows are written by Spark: a session is needed")
        return spark.read.parquet(*names)
    return names


def write_rows(rows: DataFrame, repo: Any, *, dims: tuple[str, ...], **options: Any) -> WriteResult:
    """One commit. `dims` are the columns that say where a row goes."""
    if not dims and options.get("mode") == "create":
        raise InvalidInputError(
            "rows need concat_dim: the columns that are dimensions, in the order of the axes"
        )
    return write(rows, repo, dims=dims or None, **options)


__all__ = [
    "IngestMode", "IngestPlan", "IngestResult", "SkippedSource", "explain_ingest", "ingest",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """`committed` is False when an earlier ingest with the same idempotency key had done the work;
    `snapshot_id` is then the one it made.
    """

    snapshot_id: str
    files: int
    chunks: int  # stored
    bytes: int  # of them, after compression
    virtual_chunks: int = 0  # referred to
    reused_chunks: int = 0  # of `chunks`, those that an earlier run stored, which failed
    skipped: tuple[SkippedSource, ...] = ()
    seconds: float
    committed: bool

    def skipped_frame(self, spark: SparkSession) -> DataFrame:
        """The sources that were left out, as a table: path, kind, reason."""
        rows = [(one.path, one.kind, one.reason) for one in self.skipped]
        return spark.createDataFrame(rows, "path string, kind string, reason string")


def ingest(
    spark: SparkSession | None,
    sources: SourceName | Iterable[SourceName] | DataFrame,
    repo: RepositoryLike,
    *,
    group: str = "/",
    concat_dim: str | Iterable[str] | None = None,
    combine: str = Combine.CONCAT,
    virtual: bool = False,
    on_error: str = OnError.FAIL,
    format: str | None = None,  # noqa: A002 -- what Spark calls it
    chunks: Mapping[str, int] | None = None,
    branch: str = "main",
    mode: str = IngestMode.CREATE,
    message: str | None = None,
    metadata: Mapping[str, Json] | None = None,
    variables: Iterable[str] | None = None,
    source_group: str | None = None,
    idempotency_key: str | None = None,
    storage: Mapping[str, object] | None = None,
    source_storage: Mapping[str, object] | None = None,
    resume: bool = True,
    progress: ProgressOption = None,
) -> IngestResult:
    """Writes files and Zarr stores to a group of a repository, as one commit.

    NetCDF 3 and 4, HDF5, Zarr 2 and 3, GRIB, TIFF. Parquet files and DataFrames are written by
    `frazil.spark.write`, which has more options for rows: their `concat_dim` names the columns
    that are dimensions.

    Args:
        spark: the session whose executors read and write. They must see the sources and the
            repository under the same paths as the driver. None: this process does the work, one
            task after the other, which is faster for some hundred megabytes.
        sources: paths, patterns and directories, of this machine or in buckets (`s3://...`), and
            URLs of files on web servers. Sources are ordered by the coordinate of
            `concat_dim`, which must neither overlap nor repeat; as given if there is none.
        repo: the repository to write to, or the path of its folder.
        group: where the arrays go; created when missing.
        concat_dim: the dimension along which sources follow one another; may be left out for
            a single source. Variables without it must be equal in all sources. Of a grid of
            sources all its dimensions; they are placed by their coordinates. A source in which
            the dimension is a scalar coordinate is one step of it.
        combine: `concat`, or `coords`: along the dimensions whose coordinates differ.
        virtual: refer to the chunks of the sources instead of copying them. The repository's
            configuration must have a virtual chunk container for them. Dimension coordinates,
            texts, times that are converted and small arrays that cannot be virtual are copied.
        on_error: `fail`, or `skip` sources that cannot be read or do not fit to the first one;
            the result tells which.
        format: of all sources: netcdf3, netcdf4, hdf5, zarr, grib2, tiff; by default what each
            file begins with, or its name, tells.
        chunks: chunk length by dimension, -1 for the whole dimension. Dimensions not named are
            whole, and the concat dimension is cut into chunks of about 8 MiB. Dimension
            coordinates are always one chunk.
        branch: the branch that gets the commit.
        mode: `create` refuses arrays that exist; `append` extends them along `concat_dim`, in
            their chunks, types and time units; `region` replaces the part of them that has the
            coordinates of the sources.
        message: of the commit.
        metadata: of the commit, in addition to what ingest records under the key `frazil`.
        variables: the variables wanted, all by default; their coordinates come along.
        source_group: the group inside each source, for files that have groups.
        idempotency_key: if a commit in the branch's history was made with the same key,
            nothing is done, and that commit is returned.
        storage: how the bucket that `repo` names is reached, as in `frazil.s3_storage` and such.
        source_storage: how the bucket or host of sources that are URLs is reached, likewise.
            No credentials are needed for what each process finds in its environment.
        resume: go on where an earlier run failed: what it has stored of sources that have not
            changed since is not stored again.
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
    given = find_rows(spark, sources, format)
    if isinstance(given, DataFrame):
        _require_for_rows(
            virtual=virtual,
            combine=combine != Combine.CONCAT,
            on_error=on_error != OnError.FAIL,
            variables=variables is not None,
            source_storage=bool(source_storage),
        )
        made = write_rows(
            given,
            repo,
            dims=parse_dims(concat_dim),
            group=group,
            mode=parse_mode(mode),
            chunks=chunks,
            branch=branch,
            message=message,
            metadata=metadata,
            txn=None if idempotency_key is None else ("ingest", idempotency_key),
            storage=storage,
            progress=progress,
        )
        return _of_rows(made)
    request = Request(
        repository=open_engine(repo, storage),
        group=parse_group(group),
        dims=parse_dims(concat_dim),
        combine=parse_combine(combine),
        chunks=dict(chunks or {}),
        branch=branch,
        mode=parse_mode(mode),
        virtual=virtual,
        on_error=parse_on_error(on_error),
        variables=None if variables is None else tuple(variables),
        source_group=source_group,
        key=idempotency_key,
        resume=resume,
    )
    source_format = parse_format(format)
    done = find_commit(request.repository, branch, request.key)
    if done is not None:
        return _nothing_done(done, started)
    found = find_sources(given, source_format=source_format, storage=source_storage)
    note = _note(spark, request, len(found))
    with job_executor(spark, request.repository, progress, job=note.job) as executor:
        session = request.repository.writable_session(branch)
        written, gone = _write(executor, request, session, found)
        note = replace(note, facts={**note.facts, "skipped": len(gone)} if gone else note.facts)
        text = message or _message(request, written.files)
        committed = commit_once(
            request.repository, session, note, text, branch=branch, metadata=metadata
        )
    forget(request, written)
    if not committed.made:  # perhaps by a copy of this very job
        return _nothing_done(committed.snapshot_id, started)
    return IngestResult(
        snapshot_id=committed.snapshot_id,
        files=written.files,
        chunks=written.chunks,
        bytes=written.size_bytes,
        virtual_chunks=written.virtual_chunks,
        reused_chunks=written.reused_chunks,
        skipped=gone,
        seconds=perf_counter() - started,
        committed=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPlan:
    """Amounts of a planned ingest; `bytes` are those of copied values, before compression."""

    files: int
    chunks: int
    virtual_chunks: int
    bytes: int
    skipped: tuple[SkippedSource, ...] = ()


def explain_ingest(
    spark: SparkSession | None,
    sources: SourceName | Iterable[SourceName],
    repo: RepositoryLike,
    *,
    group: str = "/",
    concat_dim: str | Iterable[str] | None = None,
    combine: str = Combine.CONCAT,
    virtual: bool = False,
    on_error: str = OnError.FAIL,
    format: str | None = None,  # noqa: A002 -- what Spark calls it
    chunks: Mapping[str, int] | None = None,
    branch: str = "main",
    mode: str = IngestMode.CREATE,
    variables: Iterable[str] | None = None,
    source_group: str | None = None,
    storage: Mapping[str, object] | None = None,
    source_storage: Mapping[str, object] | None = None,
) -> IngestPlan:
    """Describes what `ingest` of files and Zarr stores would do, and raises what it would raise
    about them. Reads their metadata only, and writes nothing.
    """
    given = find_rows(spark, sources, format)
    if isinstance(given, DataFrame):
        raise InvalidInputError("rows have no plan before they are read: Parquet is just ingested")
    request = Request(
        repository=open_engine(repo, storage),
        group=parse_group(group),
        dims=parse_dims(concat_dim),
        combine=parse_combine(combine),
        chunks=dict(chunks or {}),
        branch=branch,
        mode=parse_mode(mode),
        virtual=virtual,
        on_error=parse_on_error(on_error),
        variables=None if variables is None else tuple(variables),
        source_group=source_group,
        key=None,
        resume=False,
    )
    found = find_sources(given, source_format=parse_format(format), storage=source_storage)
    session = request.repository.writable_session(branch)
    with job_executor(spark, request.repository, progress=False) as executor:
        request, good, bad = _describe_all(executor, request, found)
        (planned, virtual_chunks), more = without_bad_sources(
            list(good),
            lambda left: count_work(executor, request, session, {s: good[s] for s in left}),
            request.on_error,
            session.discard_changes,
        )
    return IngestPlan(
        files=len(good) - len(more),
        chunks=planned.chunks(),
        virtual_chunks=virtual_chunks,
        bytes=planned.size_bytes(),
        skipped=(*(skipped(source.path, error) for source, error in bad), *more),
    )


def _require_for_rows(**given: bool) -> None:
    if any(given.values()):
        names = ", ".join(name for name, is_given in given.items() if is_given)
        raise InvalidInputError(f"not for rows: {names}")


def _of_rows(made: WriteResult) -> IngestResult:
    return IngestResult(
        snapshot_id=made.snapshot_id,
        files=0,
        chunks=made.chunks,
        bytes=made.bytes,
        seconds=made.seconds,
        committed=made.committed,
    )


def _write(
    executor: JobExecutor, request: Request, session: Session, found: tuple[Source, ...]
) -> tuple[Written, tuple[SkippedSource, ...]]:
    """Everything but the commit; what was left out."""
    request, good, bad = _describe_all(executor, request, found)
    written, more = without_bad_sources(
        list(good),
        lambda left: write_sources(executor, request, session, {s: good[s] for s in left}),
        request.on_error,
        session.discard_changes,
    )
    return written, (*(skipped(source.path, error) for source, error in bad), *more)


type _Described = dict[Source, SourceDescription]
type _Errors = list[tuple[Source, IcechunkError]]


def _describe_all(
    executor: JobExecutor, request: Request, found: tuple[Source, ...]
) -> tuple[Request, _Described, _Errors]:
    """Describes the sources; the request then has the dimensions that they are combined along."""
    good, bad = _describe(executor, request, found)
    if request.combine is Combine.COORDS and len(good) > 1:
        dims = differing_dims(list(good.values()))
        request = replace(request, dims=dims, combine=Combine.CONCAT)
        good, _ = _describe(executor, request, tuple(good))
    return request, good, bad


def _describe(
    executor: JobExecutor, request: Request, found: tuple[Source, ...]
) -> tuple[_Described, _Errors]:
    """Returns descriptions of the sources that can be described, and the errors of the others."""
    described = describe_sources(
        executor,
        found,
        f"Reading the metadata of {counted(len(found), 'file')}",
        concat_dims=request.dims,
        only=request.variables,
        group=request.source_group,
        storage=request.virtual,
        mark=request.resume,
    )
    good: _Described = {}
    bad: _Errors = []
    for source, one in zip(found, described, strict=True):
        if isinstance(one, IcechunkError):
            bad.append((source, one))
        else:
            good[source] = one
    if bad and (request.on_error is OnError.FAIL or not good):
        raise bad[0][1]
    return good, bad


def _note(spark: SparkSession | None, request: Request, sources: int) -> CommitNote:
    return CommitNote(
        operation="ingest",
        application=_application(spark),
        key=request.key,
        facts={"mode": str(request.mode), "sources": sources},
    )


def _application(spark: SparkSession | None) -> str:
    if spark is None:
        return "frazil"
    return spark.conf.get("spark.app.name", "spark") or "spark"


def _nothing_done(snapshot_id: str, started: float) -> IngestResult:
    return IngestResult(
        snapshot_id=snapshot_id,
        files=0,
        chunks=0,
        bytes=0,
        seconds=perf_counter() - started,
        committed=False,
    )


def _message(request: Request, sources: int) -> str:
    if request.mode is IngestMode.REGION:
        return f"Replace a part of {request.group} by {counted(sources, 'file')}"
    verb = "Append" if request.mode is IngestMode.APPEND else "Ingest"
    return f"{verb} {counted(sources, 'file')} to {request.group}"
