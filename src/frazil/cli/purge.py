"""`frazil purge`: something taken out of all history."""

from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.options import AsJson, DryRun, Repo, Yes

if TYPE_CHECKING:
    from frazil.repo.repository import Repository


def purge(
    repo: Repo,
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="A node, with all that is below it.")
    ] = None,
    *,
    message_of: Annotated[
        list[str] | None,
        typer.Option(metavar="COMMIT", help="Whose message is replaced; may be repeated."),
    ] = None,
    replacement: Annotated[
        str, typer.Option(help="What the message is from then on.")
    ] = "(redacted)",
    with_metadata: Annotated[
        bool, typer.Option("--with-metadata", help="Take the commits' metadata out as well.")
    ] = False,
    message: Annotated[
        str, typer.Option("-m", "--message", help="Of the commits on top of branches.")
    ] = "Purge",
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Take a path, or messages of commits, out of all history. It cannot be undone.

    Snapshots keep their ids. Shows what still refers to what was purged. Stop writers first.
    """
    from frazil.cli.repositories import open_repository

    if (path is None) == (not message_of):
        raise typer.BadParameter("give a path, or --message-of COMMIT")
    repository = open_repository(repo)
    if path is not None:
        _purge_path(repository, path, message, dry_run=dry_run, yes=yes, as_json=as_json)
    else:
        given = {"replacement": replacement, "with_metadata": with_metadata}
        _purge_messages(
            repository, message_of or [], given, dry_run=dry_run, yes=yes, as_json=as_json
        )


def _purge_path(
    repository: "Repository", path: str, message: str, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    from frazil.cli.consent import require_consent
    from frazil.cli.views.purging import print_path_purge
    from frazil.maintenance.purge.path import plan_purge_path, purge_path
    from frazil.paths import NodePath

    plan = plan_purge_path(repository, NodePath(path))
    done = None
    if not dry_run and not plan.is_empty:
        require_consent(
            f"Take {len(plan.nodes)} nodes out of {len(plan.snapshots)} snapshots, for ever?",
            given=yes,
        )
        done = purge_path(repository, plan, message)
    print_path_purge(plan, {} if done is None else done.commits, dry_run=dry_run, as_json=as_json)


def _purge_messages(
    repository: "Repository",
    commits: list[str],
    given: dict[str, object],
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    from frazil.cli.consent import require_consent
    from frazil.cli.repositories import resolve
    from frazil.cli.views.purging import print_message_purge
    from frazil.maintenance.purge.message import plan_purge_messages, purge_messages

    plan = plan_purge_messages(
        repository,
        [resolve(repository, each) for each in commits],
        replacement=str(given["replacement"]),
        with_metadata=bool(given["with_metadata"]),
    )
    if not dry_run and not plan.is_empty:
        require_consent(
            f"Replace the messages of {len(plan.snapshots)} commits, for ever?", given=yes
        )
        purge_messages(repository, plan)
    print_message_purge(plan, dry_run=dry_run, as_json=as_json)
