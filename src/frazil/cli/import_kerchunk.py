"""`frazil import-kerchunk`: a set of references into a repository, as one commit."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, Message, Repo


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
