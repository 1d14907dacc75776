"""`frazil log`: the snapshots that led to a version, newest first."""

from itertools import islice
from typing import Annotated

import typer

from frazil.cli.options import AsJson, Branch, Repo, Snapshot, Tag


def log(
    repo: Repo,
    *,
    branch: Branch = None,
    tag: Tag = None,
    snapshot: Snapshot = None,
    limit: Annotated[int | None, typer.Option("-n", "--limit", min=1, help="At most N.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the history of a branch, newest snapshot first."""
    from frazil.cli.output import format_time, print_json, print_table
    from frazil.cli.repositories import chosen_version, open_repository
    from frazil.clock import to_datetime

    version = chosen_version(branch=branch, tag=tag, snapshot=snapshot)
    records = list(islice(open_repository(repo).ancestry(version), limit))
    if as_json:
        print_json(
            [
                {
                    "id": str(record.id),
                    "parent_id": None if record.parent_id is None else str(record.parent_id),
                    "written_at": to_datetime(record.flushed_at_us).isoformat(),
                    "message": record.message,
                    "metadata": record.metadata,
                }
                for record in records
            ]
        )
        return
    print_table(
        ["snapshot", "written at (UTC)", "message"],
        [(str(record.id), format_time(record.flushed_at_us), record.message) for record in records],
    )
