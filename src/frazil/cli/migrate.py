"""`frazil migrate`: a repository in a newer version of the format."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, DryRun, Repo, Yes


def migrate(
    repo: Repo,
    target: Annotated[
        str | None,
        typer.Argument(metavar="TARGET", help="Another place for the new repository."),
    ] = None,
    *,
    to: Annotated[int, typer.Option(min=1, max=2, help="Version of the format.")] = 2,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Remove the old files that a migration has kept.")
    ] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Let Spark's executors copy and write.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Bring a repository of any older generation to version 2 of the format, or to version 1.

    In place the old files are kept until `--confirm`; both can be run again if interrupted.
    """
    if confirm and target is not None:
        raise typer.BadParameter("--confirm is about a migration in place: leave TARGET out")

    from frazil.api import Repository, Storage
    from frazil.cli.consent import require_consent
    from frazil.cli.places import open_target
    from frazil.cli.repositories import open_repository, store_at
    from frazil.cli.views.copies import print_confirmation, print_migration
    from frazil.cli.watching import progress_bar

    opened = Repository(open_repository(repo), Storage(store_at(repo)))
    if confirm:
        found = opened.confirm_migration(dry_run=True)
        if found.files and not dry_run:
            question = f"Remove {found.files} files of the old repository ({found.generation})?"
            require_consent(question, given=yes)
            found = opened.confirm_migration()
        print_confirmation(found, as_json=as_json)
        return
    if target is None and not dry_run:
        question = f"Migrate {repo} from {opened.generation} to version {to}, in place?"
        require_consent(question, given=yes)
    if spark and not dry_run:
        _migrate_on_spark(repo, target, to, as_json=as_json)
        return
    with progress_bar() as tell:
        done = opened.migrate(
            to,
            storage=None if target is None else Storage(open_target(target)),
            dry_run=dry_run,
            progress=tell,
        )
    print_migration(done, repo if target is None else target, as_json=as_json)


def _migrate_on_spark(repo: str, target: str | None, to: int, *, as_json: bool) -> None:
    from frazil.api.migrating import MigrationSummary
    from frazil.cli.output import silence_logs
    from frazil.cli.views.copies import print_migration
    from frazil.spark.maintenance.migrate import migrate as run
    from frazil.spark.session import session

    silence_logs()
    done = run(session(app_name="frazil migrate"), repo, target, to=to)
    summary = MigrationSummary(
        dry_run=False,
        generation=done.generation,
        spec_version=done.spec_version,
        in_place=done.in_place,
        snapshots=done.snapshots,
        manifests=done.manifests,
        copied=done.copied,
        bytes=done.bytes,
        snapshot_ids={row["old"]: row["new"] for row in done.snapshot_ids.collect()},
        seconds=done.seconds,
    )
    print_migration(summary, repo if target is None else target, as_json=as_json)
