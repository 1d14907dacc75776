"""`frazil log`: the ancestry of a version, newest first."""

from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.options import AsJson, Authorize, Branch, Commit, Repo, Snapshot, Tag, complete

if TYPE_CHECKING:
    from frazil.engine.refs.version import Version
    from frazil.engine.repository import Repository


def log(
    repo: Repo,
    *,
    branch: Branch = None,
    tag: Tag = None,
    snapshot: Snapshot = None,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=1, metavar="N", help="Show at most N.")
    ] = None,
    graph: Annotated[
        bool, typer.Option("--graph", help="Draw the history of all branches, or of the one named.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the history of a branch, newest first, or draw the history of all branches."""
    from frazil.cli.output import format_time, paged, print_json, print_table
    from frazil.cli.repositories import chosen_version, open_repository
    from frazil.cli.views.log_view import names_by_snapshot, record_as_json

    repository = open_repository(repo)
    version = chosen_version(repository, branch=branch, tag=tag, snapshot=snapshot)
    if graph:
        named = branch or tag or snapshot
        _draw(repository, version if named else None, limit, as_json=as_json)
        return
    records = list(islice(repository.ancestry(version), limit))
    branches, tags = names_by_snapshot(repository.branches()), names_by_snapshot(repository.tags())
    if as_json:
        told = (record_as_json(record, branches, tags) for record in records)
        print_json(list(told))
        return
    rows = []
    for record in records:
        names = [*branches.get(record.id, ()), *tags.get(record.id, ())]
        first = record.message.partition("\n")[0]
        message = f"({', '.join(names)}) {first}" if names else first
        rows.append((str(record.id), format_time(record.flushed_at_us), message))
    with paged():
        print_table(["snapshot", "written at (UTC)", "message"], rows)


def _draw(
    repository: "Repository", version: "Version | None", limit: int | None, *, as_json: bool
) -> None:
    """Draws the commit graph; `limit` is the greatest number of commits."""
    from frazil.cli.output import paged, print_json, wants_colour
    from frazil.cli.views.log_view import graph_as_json
    from frazil.describe.graph import graph_of, text_of

    drawn = graph_of(repository.repo_info(), version)
    if as_json:
        print_json(graph_as_json(drawn, limit))
        return
    lines = text_of(drawn, plain=not wants_colour(), dates=True).splitlines()
    with paged():
        print("\n".join(lines if limit is None else lines[: 2 * limit - 1]))


# `frazil show`: all about one commit.


def show(
    repo: Repo,
    commit: Commit = "main",
    *,
    as_json: AsJson = False,
) -> None:
    """Show a commit: its parent, message and metadata, and what it changed."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository, resolve
    from frazil.cli.views.history_view import commit_as_json, commit_as_text

    repository = open_repository(repo)
    snapshot = resolve(repository, commit)
    if as_json:
        print_json(commit_as_json(repository, snapshot))
    else:
        print(commit_as_text(repository, snapshot))


# `frazil diff`: what changed between two snapshots.


def diff(
    repo: Repo,
    older: Annotated[
        str,
        typer.Argument(
            metavar="FROM",
            help="A branch, a tag, a snapshot id, or main~1.",
            autocompletion=complete("refs"),
        ),
    ],
    newer: Annotated[
        str,
        typer.Argument(
            metavar="TO",
            help="A branch, a tag, a snapshot id, or main~1.",
            autocompletion=complete("refs"),
        ),
    ] = "main",
    *,
    values: Annotated[
        bool, typer.Option("--values", help="Read the changed chunks and compare their values.")
    ] = False,
    authorize: Authorize = None,
    as_json: AsJson = False,
) -> None:
    """Show what changed from one version to another, whether or not one descends from the other."""
    from frazil.cli.output import paged, print_json
    from frazil.cli.repositories import open_repository, resolve
    from frazil.cli.views.diff_view import as_json as as_dict
    from frazil.cli.views.diff_view import as_text
    from frazil.describe.version_diff import compare_versions

    repository = open_repository(repo)
    start, end = resolve(repository, older), resolve(repository, newer)
    found = compare_versions(repository, start, end)
    told, text = as_dict(found), as_text(found) or "no changes"
    if values:
        from frazil.cli.views.value_diff_view import value_changes, values_as_json, values_as_text
        from frazil.cli.views.values_view import open_session

        old, new = (
            open_session(repo, None, None, str(each), authorize or []) for each in (start, end)
        )
        compared = value_changes(old, new, found.changes)
        told["values"], text = values_as_json(compared), f"{text}\n{values_as_text(compared)}"
    if as_json:
        print_json(told)
        return
    with paged():
        print(text.rstrip())


# `frazil ops`: everything that was done to a repository, newest first.


def ops(
    repo: Repo,
    *,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=1, metavar="N", help="Show at most N.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show every operation on a repository, newest first."""
    from frazil.cli.output import format_time, print_json, print_table
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.history_view import operation_as_json, operation_details, operation_name

    updates = list(islice(open_repository(repo).ops_log(), limit))
    if as_json:
        print_json([operation_as_json(update) for update in updates])
        return
    rows = [
        (format_time(update.updated_at_us), operation_name(update), operation_details(update))
        for update in updates
    ]
    print_table(["at (UTC)", "operation", "details"], rows)


# `frazil status`: a repository at a glance, and whether it takes changes.


class Availability(StrEnum):
    ONLINE = "online"
    READ_ONLY = "read-only"
    OFFLINE = "offline"


def status(
    repo: Repo,
    *,
    wanted: Annotated[
        Availability | None,
        typer.Option("--set", help="Allow or forbid changes from now on."),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(help="Shown to those who try to change it; with --set.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Summarize a repository, or make it online, read-only or offline."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.history_view import set_standing, standing_as_json, standing_as_text

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
