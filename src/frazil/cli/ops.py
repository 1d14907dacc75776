"""`frazil ops`: everything that was done to a repository, newest first."""

from itertools import islice
from typing import Annotated

import typer

from frazil.cli.options import AsJson, Repo


def ops(
    repo: Repo,
    *,
    limit: Annotated[int | None, typer.Option("-n", "--limit", min=1, help="At most N.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show all that was done to a repository, newest first."""
    from frazil.cli.output import format_time, print_json, print_table
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.operations import operation_as_json, operation_details, operation_name

    updates = list(islice(open_repository(repo).ops_log(), limit))
    if as_json:
        print_json([operation_as_json(update) for update in updates])
        return
    rows = [
        (format_time(update.updated_at_us), operation_name(update), operation_details(update))
        for update in updates
    ]
    print_table(["at (UTC)", "operation", "details"], rows)
