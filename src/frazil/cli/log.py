"""`frazil log`: the snapshots that led to a version, newest first."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.options import AsJson, Branch, Repo, Snapshot, Tag

if TYPE_CHECKING:
    from frazil.repo.repository import Repository
    from frazil.repo.version import Version


def log(
    repo: Repo,
    *,
    branch: Branch = None,
    tag: Tag = None,
    snapshot: Snapshot = None,
    limit: Annotated[int | None, typer.Option("-n", "--limit", min=1, help="At most N.")] = None,
    graph: Annotated[
        bool, typer.Option("--graph", help="Draw how all branches, or the one named, came to be.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the history of a branch, newest snapshot first; or draw that of all branches."""
    from frazil.cli.output import format_time, print_json, print_table
    from frazil.cli.repositories import chosen_version, open_repository
    from frazil.cli.views.commits import record_as_json

    version = chosen_version(branch=branch, tag=tag, snapshot=snapshot)
    repository = open_repository(repo)
    if graph:
        named = branch or tag or snapshot
        _draw(repository, version if named else None, limit, as_json=as_json)
        return
    records = list(islice(repository.ancestry(version), limit))
    if as_json:
        print_json([record_as_json(record) for record in records])
        return
    print_table(
        ["snapshot", "written at (UTC)", "message"],
        [(str(record.id), format_time(record.flushed_at_us), record.message) for record in records],
    )


def _draw(
    repository: "Repository", version: "Version | None", limit: int | None, *, as_json: bool
) -> None:
    """With `limit`, only so many commits from the top."""
    import sys
    from dataclasses import asdict

    from frazil.cli.output import print_json
    from frazil.describe.drawing import text_of
    from frazil.describe.graph import graph_of

    drawn = graph_of(repository.repo_info(), version)
    if as_json:
        found = asdict(drawn)
        print_json({**found, "commits": found["commits"][:limit]})
        return
    lines = text_of(drawn, plain=not sys.stdout.isatty()).splitlines()
    print("\n".join(lines if limit is None else lines[: 2 * limit - 1]))
