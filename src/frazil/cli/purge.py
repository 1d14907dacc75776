"""`frazil purge`: something taken out of all history."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.on_spark import OnSpark, executor_for
from frazil.cli.options import AsJson, DryRun, Repo, Yes, count_of

if TYPE_CHECKING:
    from frazil.engine.repository import Repository


def purge(
    repo: Repo,
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="PATH", help="A group or array; everything below it is removed, too."
        ),
    ] = None,
    *,
    message_of: Annotated[
        list[str] | None,
        typer.Option(metavar="COMMIT", help="Commit whose message is replaced; repeatable."),
    ] = None,
    replacement: Annotated[str, typer.Option(help="The new message.")] = "(redacted)",
    with_metadata: Annotated[
        bool, typer.Option("--with-metadata", help="Remove the metadata of these commits, too.")
    ] = False,
    message: Annotated[
        str,
        typer.Option("-m", "--message", help="Message of the new commits."),
    ] = "Purge",
    spark: OnSpark = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove a path, or commit messages, from all of history. This cannot be undone.

    Snapshots keep their ids. Shows what still refers to what was purged. Stop writers first.
    """
    from frazil.cli.repositories import open_repository

    if (path is None) == (not message_of):
        raise typer.BadParameter("give a path, or --message-of COMMIT")
    repository = open_repository(repo)
    how = _How(on_spark=spark, dry_run=dry_run, yes=yes, as_json=as_json)
    if path is not None:
        _purge_path(repository, path, message, how)
    else:
        given = {"replacement": replacement, "with_metadata": with_metadata}
        _purge_messages(repository, message_of or [], given, how)


@dataclass(frozen=True, slots=True, kw_only=True)
class _How:
    on_spark: bool
    dry_run: bool
    yes: bool
    as_json: bool


def _purge_path(repository: "Repository", path: str, message: str, how: _How) -> None:
    from frazil.cli.output import require_consent
    from frazil.cli.views.maintenance_view import print_path_purge
    from frazil.maintenance.purge.purge_path import plan_purge_path, purge_path
    from frazil.paths import NodePath

    with executor_for(repository, "purge", on_spark=how.on_spark) as executor:
        plan = plan_purge_path(repository, NodePath(path), executor)
    done = plan.summary()
    if not how.dry_run and not plan.is_empty:
        require_consent(
            f"remove {count_of(len(plan.nodes), 'node')} from"
            f" {count_of(len(plan.snapshots), 'snapshot')}, permanently",
            given=how.yes,
        )
        with executor_for(repository, "purge", on_spark=how.on_spark) as executor:
            done = purge_path(repository, plan, message, executor)
    print_path_purge(plan, done.commits, dry_run=how.dry_run, as_json=how.as_json)


def _purge_messages(
    repository: "Repository",
    commits: list[str],
    given: dict[str, object],
    how: _How,
) -> None:
    from frazil.cli.output import require_consent
    from frazil.cli.repositories import resolve
    from frazil.cli.views.maintenance_view import print_message_purge
    from frazil.maintenance.purge.purge_message import plan_purge_messages, purge_messages

    with executor_for(repository, "purge", on_spark=how.on_spark) as executor:
        plan = plan_purge_messages(
            repository,
            [resolve(repository, each) for each in commits],
            replacement=str(given["replacement"]),
            with_metadata=bool(given["with_metadata"]),
            executor=executor,
        )
    if not how.dry_run and not plan.is_empty:
        require_consent(
            f"replace the messages of {count_of(len(plan.snapshots), 'commit')}, permanently",
            given=how.yes,
        )
        with executor_for(repository, "purge", on_spark=how.on_spark) as executor:
            purge_messages(repository, plan, executor)
    print_message_purge(plan, dry_run=how.dry_run, as_json=how.as_json)
