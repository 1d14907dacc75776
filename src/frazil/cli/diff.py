"""`frazil diff`: what changed between two snapshots."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, Repo


def diff(
    repo: Repo,
    older: Annotated[str, typer.Argument(metavar="FROM", help="Branch, tag, id, or main~1.")],
    newer: Annotated[str, typer.Argument(metavar="TO", help="The same; a descendant of FROM.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Show what changed from one snapshot to a later one."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository, resolve
    from frazil.cli.views.differences import diff_as_json, diff_as_text

    repository = open_repository(repo)
    changes = repository.diff(resolve(repository, older), resolve(repository, newer))
    if as_json:
        print_json(diff_as_json(changes))
    else:
        print(diff_as_text(changes) or "no changes")
