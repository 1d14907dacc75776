"""`frazil ingest`: files into a repository, as one commit."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.options import AsJson, IdempotencyKey, Message, Repo

if TYPE_CHECKING:
    from frazil.spark.ingestion.ingest import IngestResult


def _parse_chunks(texts: list[str]) -> dict[str, int]:
    """`time=24,lat=90`, perhaps over several options; -1 is the whole dimension."""
    chunks = dict[str, int]()
    for part in (part for text in texts for part in text.split(",") if part):
        name, _, length = part.partition("=")
        try:
            chunks[name.strip()] = int(length)
        except ValueError:
            raise typer.BadParameter(
                f"{part!r} is not NAME=LENGTH, as in time=24,lat=90", param_hint="--chunks"
            ) from None
    return chunks


def _parse_storage(texts: list[str]) -> dict[str, object]:
    """`region=eu-west-1`, one in each option."""
    from frazil.spark.runtime.storage_options import is_secret

    found = dict[str, object]()
    for text in texts:
        name, given, value = text.partition("=")
        if not given:
            raise typer.BadParameter(
                f"{text!r} is not NAME=VALUE, as in region=eu-west-1", param_hint="--source-storage"
            )
        if is_secret(name):
            raise typer.BadParameter(
                f"{name!r} is a secret, which others could see in the list of processes:"
                " leave it to the environment",
                param_hint="--source-storage",
            )
        found[name.strip()] = value
    return found


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
            help="The dimension along which the sources follow one another;"
            " repeated for a grid of sources."
        ),
    ] = None,
    combine: Annotated[
        str,
        typer.Option(help="concat, or coords: along the dimensions whose coordinates differ."),
    ] = "concat",
    virtual: Annotated[
        bool, typer.Option("--virtual", help="Refer to the chunks of the sources: copy nothing.")
    ] = False,
    on_error: Annotated[
        str, typer.Option(help="fail, or skip sources that cannot be read or do not fit.")
    ] = "fail",
    format: Annotated[  # noqa: A002 -- the name of the option
        str | None,
        typer.Option(help="netcdf3, netcdf4, hdf5, zarr, grib2, tiff, parquet; else guessed."),
    ] = None,
    chunks: Annotated[
        list[str] | None, typer.Option(metavar="NAME=LENGTH,...", help="Chunk lengths.")
    ] = None,
    group: Annotated[str, typer.Option(help="Where the arrays go.")] = "/",
    branch: Annotated[str, typer.Option(help="The branch that gets the commit.")] = "main",
    message: Annotated[str | None, typer.Option("-m", "--message", help="Of the commit.")] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Extend arrays that are there, along --concat-dim.")
    ] = False,
    region: Annotated[
        bool,
        typer.Option("--region", help="Replace the part of arrays that has these coordinates."),
    ] = False,
    variables: Annotated[
        list[str] | None,
        typer.Option("--variable", help="Only this one; may be repeated. Default: all."),
    ] = None,
    idempotency_key: IdempotencyKey = None,
    source_storage: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="How the bucket of the sources is reached (region, endpoint_url, anonymous, ...);"
            " may be repeated. Credentials are taken from the environment.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option(help="Go on where an earlier run failed, or store all again.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Write files into a repository, as one commit."""
    if append and region:
        raise typer.BadParameter("--append and --region exclude each other", param_hint="--region")
    lengths = _parse_chunks(chunks or [])
    reached = _parse_storage(source_storage or [])

    from frazil.cli.output import silence_logs
    from frazil.cli.repositories import open_repository
    from frazil.spark.ingestion.ingest import PARQUET
    from frazil.spark.ingestion.ingest import ingest as run_ingest
    from frazil.spark.ingestion.ingest_run import IngestMode
    from frazil.spark.sources import find_sources, parse_format
    from frazil.spark.spark_session import session

    repository = open_repository(repo)
    # Before Spark starts: a typing error should not take long.
    repository.lookup_branch(branch)
    if format != PARQUET and not all(name.endswith(".parquet") for name in sources):
        find_sources(sources, source_format=parse_format(format), storage=reached)
    silence_logs()
    result = run_ingest(
        session(app_name="frazil ingest"),
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
        mode=IngestMode.APPEND if append else IngestMode.REGION if region else IngestMode.CREATE,
        message=message,
        variables=variables,
        idempotency_key=idempotency_key,
        source_storage=reached,
        resume=resume,
    )
    _report(result, branch, as_json=as_json)


def _report(result: "IngestResult", branch: str, *, as_json: bool) -> None:
    from frazil.cli.output import print_json

    if as_json:
        print_json(asdict(result))
        return
    for one in result.skipped:
        print(f"skipped {one.reason}")
    if not result.committed:
        print(f"nothing to do: {result.snapshot_id} has this key already")
        return
    virtual = f", {result.virtual_chunks} virtual chunks" if result.virtual_chunks else ""
    if result.reused_chunks:
        virtual += f", {result.reused_chunks} chunks of an earlier run"
    print(
        f"committed {result.snapshot_id} to {branch}: {result.files} files,"
        f" {result.chunks} chunks, {result.bytes / 1e6:.1f} MB{virtual} in {result.seconds:.1f} s"
    )


# `frazil import-kerchunk`: a set of references into a repository, as one commit.


def import_kerchunk(
    repo: Repo,
    source: Annotated[
        str, typer.Argument(metavar="SET", help="A JSON file, or a directory of Parquet files.")
    ],
    *,
    group: Annotated[str, typer.Option(help="Where the arrays go.")] = "/",
    branch: Annotated[str, typer.Option(help="The branch that gets the commit.")] = "main",
    files_in: Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Add a virtual chunk container for the files in this directory.",
        ),
    ] = None,
    root: Annotated[
        str | None, typer.Option(help="What relative paths in the set are relative to.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check/--no-check", help="Refuse files that are modified from now on."),
    ] = True,
    message: Message = None,
    as_json: AsJson = False,
) -> None:
    """Make arrays of the references that kerchunk made, as one commit."""
    from pathlib import Path

    from frazil.api import (
        ObjectStoreConfig,
        Repository,
        Storage,
        VirtualChunkContainer,
    )
    from frazil.cli.output import print_json
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
        counts = {name: getattr(done, name) for name in type(done).__slots__}
        print_json({"snapshot_id": snapshot, **counts})
    else:
        print(
            f"committed {snapshot} to {branch}: {done.arrays} arrays, {done.virtual_chunks} chunks"
            f" in {done.files} files, {done.inline_chunks} inline chunks"
        )
