"""`frazil import`: what is in a bundle, brought into a repository."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, DryRun


def import_(
    bundle: Annotated[
        str, typer.Argument(metavar="BUNDLE", help="A file that `frazil export` wrote.")
    ],
    repo: Annotated[
        str, typer.Argument(metavar="REPO", help="Directory of the repository, new or not.")
    ],
    *,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Make a repository of a bundle, or add what is new in it to one that is there.

    Branches move forward, new branches and tags are added, others stay as they are.
    """
    from frazil.api import Repository, Storage
    from frazil.cli.places import open_target
    from frazil.cli.views.copies import print_copy
    from frazil.cli.watching import progress_bar

    with progress_bar() as tell:
        done = Repository.import_bundle(
            bundle, Storage(open_target(repo)), dry_run=dry_run, progress=tell
        )
    print_copy(done, repo, verb="imported", as_json=as_json)
