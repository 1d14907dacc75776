"""`frazil init`: an empty repository."""

from enum import StrEnum
from typing import Annotated

import typer

from frazil.cli.options import AsJson, Repo


class Version(StrEnum):
    V2 = "2"
    V1 = "1"
    ALPHA2 = "alpha2"
    ALPHA1 = "alpha1"


def init(
    repo: Repo,
    spec_version: Annotated[
        Version, typer.Option(help="Of the format; the alphas are for stores that can only create.")
    ] = Version.V2,
    *,
    as_json: AsJson = False,
) -> None:
    """Make an empty repository in a new or empty folder, or below a prefix of a bucket."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import store_at
    from frazil.format.generation import Generation
    from frazil.repo.repository import Repository

    generations = {
        Version.V2: Generation.V2,
        Version.V1: Generation.V1,
        Version.ALPHA2: Generation.A2E,
        Version.ALPHA1: Generation.ALPHA1,
    }
    made = Repository.create(store_at(repo), generation=generations[spec_version])
    if as_json:
        tip = str(made.lookup_branch("main"))
        print_json({"location": repo, "generation": str(made.generation), "snapshot": tip})
    else:
        print(f"created an empty repository in {repo}")
