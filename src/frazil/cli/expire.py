"""`frazil expire`: history that is not needed any more."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, DryRun, Repo, Yes


def expire(
    repo: Repo,
    *,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Snapshots older than this: 30d, 12h, or a time."),
    ] = None,
    snapshot: Annotated[
        list[str] | None,
        typer.Option(metavar="COMMIT", help="Only this one; may be given several times."),
    ] = None,
    retain_last: Annotated[
        int, typer.Option(metavar="N", help="Keep the newest N of each branch, however old.")
    ] = 0,
    protect_branch: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Keep such branches and all of their history."),
    ] = None,
    protect_tag: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Keep such tags and all of their history."),
    ] = None,
    delete_branches: Annotated[
        bool, typer.Option("--delete-branches", help="Also branches whose tip is expired.")
    ] = False,
    delete_tags: Annotated[
        bool, typer.Option("--delete-tags", help="Also tags whose snapshot is expired.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Take old snapshots out of history. Their files go with the next `frazil gc`.

    The first snapshot and the tip of main always stay.
    """
    from frazil.cli.ages import parse_moment
    from frazil.cli.consent import require_consent
    from frazil.cli.output import print_json
    from frazil.cli.places import open_source
    from frazil.cli.repositories import resolve
    from frazil.cli.views.collecting import print_expired
    from frazil.clock import from_datetime
    from frazil.maintenance.collection import expire_snapshots
    from frazil.maintenance.expire import ExpireRequest

    if older_than is None and not snapshot:
        raise typer.BadParameter("say what to expire: --older-than AGE, or --snapshot COMMIT")
    repository = open_source(repo)
    request = ExpireRequest(
        older_than_us=None if older_than is None else from_datetime(parse_moment(older_than)),
        delete_branches=delete_branches,
        delete_tags=delete_tags,
        snapshots=frozenset(resolve(repository, each) for each in snapshot) if snapshot else None,
        retain_last=retain_last,
        protected_branches=tuple(protect_branch or ()),
        protected_tags=tuple(protect_tag or ()),
    )
    before = repository.repo_info()
    expired = expire_snapshots(repository, request, dry_run=True)
    if not dry_run:
        if expired:
            require_consent(f"Expire {len(expired)} snapshots?", given=yes)
        expired = expire_snapshots(repository, request)
    if as_json:
        print_json({"dry_run": dry_run, "expired": expired})
    else:
        print_expired(before, expired, dry_run=dry_run)
