"""`frazil serve`: the explorer, a repository in the browser."""

from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.options import Authorize, Repo

if TYPE_CHECKING:
    from frazil.engine.repository import Repository


def serve(
    repo: Repo,
    *,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")
    ] = 8765,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Answer to this name too: behind a proxy, say."),
    ] = None,
    authorize: Authorize = None,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open the explorer in a browser.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the URL as a line of JSON, for programs.")
    ] = False,
) -> None:
    """Look at a repository in the browser: history, arrays, chunks. Nothing can be changed.

    For a folder that is no repository, all repositories directly below it are shown. Runs until it
    is interrupted (Ctrl-C). Needs the extra `web`: pip install 'frazil[web]'.
    """
    import json
    from contextlib import suppress

    from frazil.errors import InvalidInputError

    try:
        from frazil.web.server import Server
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("frazil"):
            raise
        raise InvalidInputError(
            f"the explorer needs the package {error.name!r}: install the extra web,"
            " pip install 'frazil[web]'"
        ) from error

    served = _open(repo, authorize or [])
    name = repo.rstrip("/").rpartition("/")[2] or repo
    try:
        server = Server(served, name=name, host=host, port=port, allowed_hosts=allow_host or ())
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInputError(f"cannot listen on {host} port {port}: {reason}") from error
    what = f"{repo} is" if not isinstance(served, dict) else f"the repositories of {repo} are"
    shown = f"{what} at {server.url} (Ctrl-C stops)"
    with suppress(KeyboardInterrupt):  # from here on it is the way to stop
        print(json.dumps({"url": server.url}) if as_json else shown, flush=True)
        if open_browser:
            typer.launch(server.url)
        server.run()


def _open(repo: str, authorize: list[str]) -> "Repository | dict[str, Repository]":
    """The repository, or those of a folder by name."""
    import json
    from pathlib import Path

    from frazil.cli.repositories import open_source
    from frazil.errors import RepositoryNotFoundError
    from frazil.spark.runtime.access import AccessText, parse_access
    from frazil.web.server import open_folder

    words = AccessText(json.dumps(dict(one.rpartition("=")[::2] for one in authorize)))

    def with_access(repository: "Repository") -> "Repository":
        return repository.reopened(access=parse_access(words)) if authorize else repository

    try:
        return with_access(open_source(repo))
    except RepositoryNotFoundError:
        found = open_folder(Path(repo)) if Path(repo).is_dir() else {}
        if not found:
            raise
    return {name: with_access(repository) for name, repository in found.items()}
