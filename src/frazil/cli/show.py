"""`frazil show`: all about one commit."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, Repo


def show(
    repo: Repo,
    commit: Annotated[
        str, typer.Argument(metavar="COMMIT", help="A branch, a tag, the id of a snapshot, main~1.")
    ] = "main",
    *,
    as_json: AsJson = False,
) -> None:
    """Show a commit: who it comes after, its message and metadata, and what it changed."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository, resolve
    from frazil.cli.views.commits import commit_as_json, commit_as_text

    repository = open_repository(repo)
    snapshot = resolve(repository, commit)
    if as_json:
        print_json(commit_as_json(repository, snapshot))
    else:
        print(commit_as_text(repository, snapshot))
