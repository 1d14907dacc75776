"""`frazil gc`: files that nothing leads to any more."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.on_spark import OnSpark
from frazil.cli.options import AsJson, DryRun, Repo, Yes

if TYPE_CHECKING:
    from frazil.maintenance.garbage import GarbageWork
    from frazil.maintenance.inventory import Inventory
    from frazil.repo.repository import Repository


def gc(
    repo: Repo,
    *,
    older_than: Annotated[
        str,
        typer.Option(metavar="AGE", help="Files older than this: 7d, 36h, or a time."),
    ] = "7d",
    safety_age: Annotated[
        str,
        typer.Option(
            metavar="AGE", help="Refuse anything younger: a session may still need it. 0: never."
        ),
    ] = "1d",
    incremental: Annotated[
        bool,
        typer.Option("--incremental", help="Only what expired snapshots had; lists no chunks."),
    ] = False,
    inventory: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="A listing (CSV, Parquet) to use instead of listing."),
    ] = None,
    inventory_prefix: Annotated[
        str, typer.Option(metavar="PREFIX", help="Where the repository is in that listing.")
    ] = "",
    backups: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Also copies of the entry point older than this."),
    ] = None,
    leftovers: Annotated[
        bool,
        typer.Option("--leftovers", help="Also branches and temporary files of killed jobs."),
    ] = False,
    spark: OnSpark = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete files that no branch or tag leads to."""
    from dataclasses import asdict

    from frazil.cli.ages import parse_duration, parse_moment
    from frazil.cli.consent import require_consent
    from frazil.cli.output import print_json
    from frazil.cli.places import open_source
    from frazil.cli.views.collecting import print_summary
    from frazil.clock import from_datetime
    from frazil.maintenance.collection import collect_garbage, inventory_of
    from frazil.maintenance.deleting import DeleteLimits
    from frazil.maintenance.garbage import GarbageRequest
    from frazil.maintenance.inventory_files import FileInventory

    if not dry_run:
        require_consent(f"Delete files of {repo} that nothing leads to?", given=yes)
    repository = open_source(repo)
    listing = FileInventory.of(inventory, prefix=inventory_prefix) if inventory else None
    request = GarbageRequest(
        cutoff_us=from_datetime(parse_moment(older_than)),
        incremental=incremental,
        safety_age_us=round(parse_duration(safety_age).total_seconds() * 1_000_000),
    )
    with _work(repository, inventory_of(repository, listing), on_spark=spark) as work:
        summary = collect_garbage(
            repository,
            work,
            request,
            DeleteLimits(),
            backups_us=None if backups is None else from_datetime(parse_moment(backups)),
            leftovers=leftovers,
            dry_run=dry_run,
        )
    if as_json:
        print_json({"dry_run": dry_run, **asdict(summary)})
    else:
        print_summary(summary, dry_run=dry_run)
    if summary.objects_failed_to_delete:
        raise typer.Exit(1)


@contextmanager
def _work(
    repository: "Repository", inventory: "Inventory", *, on_spark: bool
) -> Iterator["GarbageWork"]:
    if on_spark:
        from frazil.cli.on_spark import spark_session
        from frazil.spark.maintenance.files import ExecutorFiles
        from frazil.spark.maintenance.scattered import ScatteredWork

        yield ScatteredWork(spark_session("gc"), ExecutorFiles.of(repository), inventory)
        return
    from frazil.cli.watching import progress_bar
    from frazil.maintenance.work import LocalWork

    with progress_bar() as tell:
        yield LocalWork(repository.files, inventory, progress=tell)
