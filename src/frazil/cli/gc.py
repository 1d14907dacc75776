"""`frazil gc`: deletes files that are no longer reachable."""

from typing import Annotated

import typer

from frazil.cli.on_spark import OnSpark
from frazil.cli.options import AsJson, DryRun, Repo, Yes, count_of


def gc(
    repo: Repo,
    *,
    older_than: Annotated[
        str,
        typer.Option(metavar="AGE", help="Delete files older than this: 7d, 36h, or a time."),
    ] = "7d",
    safety_age: Annotated[
        str,
        typer.Option(
            metavar="AGE",
            help="Refuse to delete newer files, which a session may still need; 0 for no limit.",
        ),
    ] = "1d",
    incremental: Annotated[
        bool,
        typer.Option(
            "--incremental", help="Delete only files of expired snapshots, without listing chunks."
        ),
    ] = False,
    inventory: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="A listing (CSV, Parquet) to use instead of listing."),
    ] = None,
    inventory_prefix: Annotated[
        str, typer.Option(metavar="PREFIX", help="Prefix of the repository in that listing.")
    ] = "",
    backups: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Also delete backups of the repo file older than this."),
    ] = None,
    leftovers: Annotated[
        bool,
        typer.Option(
            "--leftovers", help="Also delete branches and temporary files of killed jobs."
        ),
    ] = False,
    spark: OnSpark = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete files that are not reachable from a branch or tag."""
    from dataclasses import asdict

    from frazil.cli.on_spark import executor_for
    from frazil.cli.options import parse_duration, parse_moment
    from frazil.cli.output import print_json, require_consent
    from frazil.cli.repositories import open_source
    from frazil.cli.views.maintenance_view import print_summary
    from frazil.clock import from_datetime
    from frazil.maintenance.gc import GCRequest, collect_garbage, plan_gc
    from frazil.maintenance.inventory import FileInventory

    if not dry_run:
        require_consent(f"delete unreachable files of {repo}", given=yes)
    repository = open_source(repo)
    listing = FileInventory.of(inventory, prefix=inventory_prefix) if inventory else None
    request = GCRequest(
        cutoff_us=from_datetime(parse_moment(older_than)),
        incremental=incremental,
        safety_age_us=round(parse_duration(safety_age).total_seconds() * 1_000_000),
        backups_us=None if backups is None else from_datetime(parse_moment(backups)),
        leftovers=leftovers,
    )
    with executor_for(repository, "gc", on_spark=spark) as executor:
        plan = plan_gc(repository, request, executor, inventory=listing)
        summary = plan.summary() if dry_run else collect_garbage(repository, plan, executor)
    if as_json:
        print_json({"dry_run": dry_run, **asdict(summary)})
    else:
        print_summary(summary, dry_run=dry_run)
    if summary.objects_failed_to_delete:
        raise typer.Exit(1)


# `frazil expire`: history that is not needed any more.


def expire(
    repo: Repo,
    *,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Expire snapshots older than this: 30d, 12h, or a time."),
    ] = None,
    snapshot: Annotated[
        list[str] | None,
        typer.Option(metavar="COMMIT", help="Expire only this snapshot; repeatable."),
    ] = None,
    retain_last: Annotated[
        int,
        typer.Option(metavar="N", help="Keep the newest N snapshots of each branch, however old."),
    ] = 0,
    protect_branch: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Keep matching branches and all of their history."),
    ] = None,
    protect_tag: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Keep matching tags and all of their history."),
    ] = None,
    delete_branches: Annotated[
        bool, typer.Option("--delete-branches", help="Also delete branches whose tip is expired.")
    ] = False,
    delete_tags: Annotated[
        bool, typer.Option("--delete-tags", help="Also delete tags whose snapshot is expired.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove old snapshots from history. The next `frazil gc` deletes their files.

    The first snapshot and the tip of main always stay.
    """
    from frazil.cli.options import parse_moment
    from frazil.cli.output import print_json, require_consent
    from frazil.cli.repositories import open_source, resolve
    from frazil.cli.views.maintenance_view import print_expired
    from frazil.clock import from_datetime
    from frazil.maintenance import expire as engine

    if older_than is None and not snapshot:
        raise typer.BadParameter("say what to expire: --older-than AGE, or --snapshot COMMIT")
    repository = open_source(repo)
    request = engine.ExpireRequest(
        older_than_us=None if older_than is None else from_datetime(parse_moment(older_than)),
        delete_branches=delete_branches,
        delete_tags=delete_tags,
        snapshots=frozenset(resolve(repository, each) for each in snapshot) if snapshot else None,
        retain_last=retain_last,
        protected_branches=tuple(protect_branch or ()),
        protected_tags=tuple(protect_tag or ()),
    )
    before = repository.repo_info()
    expired = engine.plan_expire(repository, request).snapshots
    if not dry_run:
        if expired:
            require_consent(f"expire {count_of(len(expired), 'snapshot')}", given=yes)
        plan = engine.plan_expire(repository, request)  # of now: consent takes its time
        expired = engine.expire(repository, plan).snapshots
    if as_json:
        print_json({"dry_run": dry_run, "expired_snapshot_ids": expired})
    else:
        print_expired(before, expired, dry_run=dry_run)


# `frazil stats`: what is stored, and for whom.


def stats(repo: Repo, *, as_json: AsJson = False) -> None:
    """Show how many bytes chunks take: in all, for each branch, tag and array.

    What one has alone is what could be freed if it were deleted.
    """
    from frazil.cli.on_spark import executor_for
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_source
    from frazil.cli.views.maintenance_view import print_stats, stats_as_json
    from frazil.maintenance.stats import plan_stats, storage_stats

    repository = open_source(repo)
    with executor_for(repository, "stats", on_spark=False) as executor:
        found = storage_stats(repository, plan_stats(repository, executor), executor)
    if as_json:
        print_json(stats_as_json(found))
    else:
        print_stats(found)
