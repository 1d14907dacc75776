"""`frazil status`: a repository at a glance, and whether it takes changes."""

from enum import StrEnum
from typing import Annotated

import typer

from frazil.cli.options import AsJson, Repo


class Availability(StrEnum):
    ONLINE = "online"
    READ_ONLY = "read-only"
    OFFLINE = "offline"


def status(
    repo: Repo,
    *,
    wanted: Annotated[
        Availability | None,
        typer.Option("--set", help="Whether it takes changes from now on, for everybody."),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(help="Told to whoever tries to change it. Goes with --set.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a repository is and holds; or set whether it takes changes."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.standing import set_standing, standing_as_json, standing_as_text

    if reason is not None and wanted is None:
        raise typer.BadParameter("--reason goes with --set")
    repository = open_repository(repo)
    if wanted is not None:
        set_standing(repository, wanted.value, reason)
    facts = standing_as_json(repository, repo)
    if as_json:
        print_json(facts)
    else:
        print(standing_as_text(facts))
