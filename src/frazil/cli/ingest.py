"""`frazil ingest`: files into a repository, as one commit."""

from typing import Annotated, Any

import typer

from frazil.cli.failure import is_interrupt
from frazil.cli.on_spark import SparkOrNot
from frazil.cli.options import (
    AsJson,
    IdempotencyKey,
    Message,
    Repo,
    count_of,
    parse_lengths,
)
from frazil.cli.storage_flags import parse_options


def ingest(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="NetCDF, HDF5, Zarr, GRIB, TIFF, Parquet: files, directories, quoted patterns;"
            " also in buckets (s3://...) and on web servers."
        ),
    ],
    repo: Repo,
    *,
    concat_dim: Annotated[
        list[str] | None,
        typer.Option(
            help="Dimension along which the sources are concatenated; repeatable for a grid."
        ),
    ] = None,
    combine: Annotated[
        str,
        typer.Option(help="concat, or coords: find the dimensions by comparing coordinates."),
    ] = "concat",
    virtual: Annotated[
        bool,
        typer.Option(
            "--virtual", help="Reference the chunks of the sources instead of copying them."
        ),
    ] = False,
    on_error: Annotated[
        str,
        typer.Option(help="fail, or skip: leave out sources that cannot be read or do not fit."),
    ] = "fail",
    format: Annotated[  # noqa: A002 -- the name of the option
        str | None,
        typer.Option(
            help="netcdf3, netcdf4, hdf5, zarr, grib2, tiff or parquet (default: detected)."
        ),
    ] = None,
    chunks: Annotated[
        list[str] | None, typer.Option(metavar="NAME=LENGTH,...", help="Chunk lengths.")
    ] = None,
    group: Annotated[str, typer.Option(help="The group to write to.")] = "/",
    branch: Annotated[str, typer.Option(help="The branch to commit to.")] = "main",
    message: Annotated[
        str | None, typer.Option("-m", "--message", help="Commit message (default: generated).")
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Extend existing arrays along --concat-dim.")
    ] = False,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Replace the part of existing arrays that has the same coordinates."
        ),
    ] = False,
    variables: Annotated[
        list[str] | None,
        typer.Option("--variable", help="Ingest only this variable; repeatable (default: all)."),
    ] = None,
    idempotency_key: IdempotencyKey = None,
    source_storage: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Setting of the sources' bucket (region, anonymous, ...); repeatable."
            " Credentials come from the environment.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option(help="Reuse the chunks of an earlier, failed run.")
    ] = True,
    spark: SparkOrNot = None,
    as_json: AsJson = False,
) -> None:
    """Write files into a repository, as one commit.

    Up to 256 MiB are ingested in this process; Spark ingests more.
    """
    _require_consistent(
        append=append, replace=replace, virtual=virtual, concat_dim=concat_dim, combine=combine
    )
    lengths = parse_lengths(chunks or [], "--chunks")
    reached = parse_options(source_storage or [], "--source-storage")
    from frazil.cli.output import shown_while

    with shown_while("Looking at the sources"):
        from frazil.cli.repositories import open_repository
        from frazil.cli.views.ingest_view import (
            interrupted,
            is_small,
            print_ingest,
            with_containers,
        )
        from frazil.errors import InvalidInputError
        from frazil.spark.ingestion.ingest import PARQUET
        from frazil.spark.ingestion.ingest import ingest as run_ingest
        from frazil.spark.sources import find_sources, parse_format

        repository = open_repository(repo)
        before = repository.lookup_branch(branch)
        rows = format == PARQUET or all(name.endswith(".parquet") for name in sources)
        if rows and spark is False:
            raise InvalidInputError("Parquet files are ingested by Spark: leave out --no-spark")
        found: tuple[Any, ...] = ()
        added = list[str]()
        if not rows:
            found = find_sources(sources, source_format=parse_format(format), storage=reached)
        if virtual:
            repository, added = with_containers(repository, found, reached)
        local = not rows and (is_small(found, virtual=virtual) if spark is None else not spark)
    try:
        result = run_ingest(
            None if local else _start_spark(),
            sources,
            repository,
            group=group,
            concat_dim=concat_dim,
            combine=combine,
            virtual=virtual,
            on_error=on_error,
            format=format,
            chunks=lengths,
            branch=branch,
            mode="append" if append else "region" if replace else "create",
            message=message,
            variables=variables,
            idempotency_key=idempotency_key,
            source_storage=reached,
            resume=resume,
        )
    except BaseException as error:
        if is_interrupt(error):
            raise interrupted(repository, branch, before, resume=resume) from error
        raise
    print_ingest(result, branch, added, as_json=as_json)


def _require_consistent(
    *, append: bool, replace: bool, virtual: bool, concat_dim: list[str] | None, combine: str
) -> None:
    """Raises BadParameter in the words of the command line."""
    if append and replace:
        raise typer.BadParameter("--append and --replace exclude each other")
    if virtual and replace:
        raise typer.BadParameter("--virtual and --replace exclude each other")
    if (append or replace) and not concat_dim:
        given = "--append" if append else "--replace"
        raise typer.BadParameter(f"{given} needs --concat-dim, such as --concat-dim time")
    if combine == "coords" and concat_dim:
        raise typer.BadParameter("--combine coords finds the dimensions itself: no --concat-dim")


def _start_spark() -> Any:
    from frazil.cli.on_spark import spark_session

    return spark_session("ingest")


# `frazil import-kerchunk`: a set of references into a repository, as one commit.


def import_kerchunk(
    repo: Repo,
    source: Annotated[
        str, typer.Argument(metavar="SET", help="A JSON file, or a directory of Parquet files.")
    ],
    *,
    group: Annotated[str, typer.Option(help="The group to write to.")] = "/",
    branch: Annotated[str, typer.Option(help="The branch to commit to.")] = "main",
    files_in: Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Add a virtual chunk container for the files in this directory.",
        ),
    ] = None,
    root: Annotated[str | None, typer.Option(help="Base of relative paths in the set.")] = None,
    check: Annotated[
        bool,
        typer.Option("--check/--no-check", help="Refuse files that are modified from now on."),
    ] = True,
    message: Message = None,
    as_json: AsJson = False,
) -> None:
    """Create virtual arrays from kerchunk references, as one commit."""
    from pathlib import Path

    from frazil.api import (
        ObjectStoreConfig,
        Repository,
        Storage,
        VirtualChunkContainer,
    )
    from frazil.cli.output import print_json, result_as_json
    from frazil.cli.repositories import open_repository, store_at
    from frazil.objectstore.credentials import LocalFileSystemAccess
    from frazil.references import import_kerchunk as run_import

    opened = open_repository(repo)
    storage = Storage(store_at(repo))
    config = opened.config
    if files_in is not None:
        directory = Path(files_in).resolve()
        container = VirtualChunkContainer(
            f"{directory.as_uri()}/", ObjectStoreConfig.LocalFileSystem(str(directory))
        )
        config.set_virtual_chunk_container(container)
    # Files that are named as a whole are measured; only those in local containers can be.
    allowed = {
        prefix: LocalFileSystemAccess()
        for prefix in config.virtual_chunk_containers or {}
        if prefix.startswith("file://")
    }
    repository = Repository.open(storage, config, authorize_virtual_chunk_access=allowed)
    session = repository.writable_session(branch)
    done = run_import(session, source, group=group, root=root, check_sources=check)
    if files_in is not None:
        repository.save_config()
    snapshot = session.commit(message or f"Import the references of {Path(source).name}")
    if as_json:
        print_json(result_as_json(done, snapshot_id=snapshot))
    else:
        print(
            f"committed {snapshot} to {branch}: {count_of(done.arrays, 'array')},"
            f" {count_of(done.virtual_chunks, 'virtual chunk')}"
            f" in {count_of(done.files, 'file')}, {count_of(done.inline_chunks, 'inline chunk')}"
        )
