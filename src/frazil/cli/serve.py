"""`frazil serve`: the explorer, a repository in the browser."""

from typing import Annotated

import typer

from frazil.cli.options import Authorize, Repo


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

    Runs until it is interrupted (Ctrl-C). Needs the extra `web`: pip install 'frazil[web]'.
    """
    import json

    from frazil.cli.repositories import open_source
    from frazil.errors import InvalidInputError
    from frazil.spark.runtime.access import AccessText, parse_access

    try:
        from frazil.web.server import Server
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("frazil"):
            raise
        raise InvalidInputError(
            f"the explorer needs the package {error.name!r}: install the extra web,"
            " pip install 'frazil[web]'"
        ) from error

    repository = open_source(repo)
    if authorize:
        words = json.dumps(dict(one.rpartition("=")[::2] for one in authorize))
        repository = repository.reopened(access=parse_access(AccessText(words)))
    name = repo.rstrip("/").rpartition("/")[2] or repo
    try:
        server = Server(repository, name=name, host=host, port=port, allowed_hosts=allow_host or ())
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInputError(f"cannot listen on {host} port {port}: {reason}") from error
    shown = f"{repo} is at {server.url} (Ctrl-C stops)"
    print(json.dumps({"url": server.url}) if as_json else shown, flush=True)
    if open_browser:
        typer.launch(server.url)
    server.run()
