"""`frazil clone`: a repository in another place."""

from enum import StrEnum
from typing import Annotated

import typer

from frazil.cli.on_spark import SparkOrNot
from frazil.cli.options import (
    AsJson,
    Branch,
    DryRun,
    Repo,
    Snapshot,
    Tag,
    Yes,
    count_of,
    parse_lengths,
)
from frazil.describe.units import format_size

Source = Annotated[
    str, typer.Argument(metavar="REPO", help="Directory of the repository, a bucket, or a bundle.")
]
Refs = Annotated[
    list[str] | None,
    typer.Option(
        "--ref",
        help="Only this branch or tag (or branch:NAME, tag:NAME); repeatable (default: all).",
    ),
]


def clone(
    repo: Source,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="Directory of the clone, or a bucket.")
    ],
    *,
    shallow: Annotated[
        bool,
        typer.Option("--shallow", help="Reference the chunks of REPO instead of copying them."),
    ] = False,
    refs: Refs = None,
    paths: Annotated[
        list[str] | None,
        typer.Option("--path", help="Copy only this group or array; repeatable (default: all)."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Read back everything that was copied.")
    ] = False,
    spark: Annotated[bool, typer.Option("--spark", help="Let Spark's executors copy.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Copy a repository, or bring a copy up to date."""
    if spark and (paths or check):
        raise typer.BadParameter("--spark copies whole repositories or refs, and checks sizes")

    from frazil.api import Repository, Storage
    from frazil.cli.output import progress_bar
    from frazil.cli.repositories import open_source, open_target
    from frazil.cli.views.copy_view import print_copy

    source, store = open_source(repo), open_target(target)
    if spark and not dry_run:
        _clone_on_spark(source, target, shallow=shallow, refs=refs, as_json=as_json)
        return
    with progress_bar() as tell:
        done = Repository(source, Storage(source.store)).clone_to(
            Storage(store),
            refs=refs,
            paths=paths or (),
            shallow=shallow,
            check_contents=check,
            dry_run=dry_run,
            progress=tell,
        )
    print_copy(done, target, verb="cloned", as_json=as_json)


def _clone_on_spark(
    source: object, target: str, *, shallow: bool, refs: list[str] | None, as_json: bool
) -> None:
    from frazil.cli.on_spark import spark_session
    from frazil.cli.output import print_json, result_as_json
    from frazil.spark.pipelines.clone import clone as run_clone

    result = run_clone(
        spark_session("clone"),
        source,  # type: ignore[arg-type]  # an engine's repository: named so, it would be imported
        target,
        deep=not shallow,
        refs=refs,
    )
    if as_json:
        print_json(result_as_json(result))
    else:
        print(
            f"cloned {count_of(result.snapshots, 'snapshot')} to {target}: {result.copied} of"
            f" {count_of(result.objects, 'object')} copied, {format_size(result.bytes)}"
            f" in {result.seconds:.1f} s"
        )


# `frazil export`: a group as a Zarr store, Parquet or NetCDF; or all of it as one file.


class ExportFormat(StrEnum):
    ZARR = "zarr"
    PARQUET = "parquet"
    NETCDF = "netcdf"
    BUNDLE = "bundle"


def export(
    repo: Repo,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="A directory, or a .nc or .bundle file.")
    ],
    *,
    to: Annotated[
        ExportFormat | None,
        typer.Option("--format", help="Format (default: bundle for *.bundle, otherwise zarr)."),
    ] = None,
    group: Annotated[str, typer.Option(help="The group to export.")] = "/",
    variables: Annotated[
        list[str] | None,
        typer.Option("--variable", help="Export only this variable; repeatable (default: all)."),
    ] = None,
    branch: Branch = None,
    tag: Tag = None,
    snapshot: Snapshot = None,
    split: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=LENGTH,...", help="NetCDF: number of steps per file."),
    ] = None,
    refs: Refs = None,
    since: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COMMIT", help="Bundle: only what is new since this commit; repeatable."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what is at the target.")
    ] = False,
    spark: SparkOrNot = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Export a group to another format, or a whole repository to one file.

    A bundle holds branches and tags with their history, and is for `frazil import`.
    """
    parts = parse_lengths(split or [], "--split")
    to = to or (ExportFormat.BUNDLE if target.endswith(".bundle") else ExportFormat.ZARR)
    if to is ExportFormat.BUNDLE:
        _export_bundle(repo, target, refs, since or [], dry_run=dry_run, as_json=as_json)
        return
    if refs or since:
        raise typer.BadParameter("--ref and --since are for bundles")

    if to is ExportFormat.PARQUET and spark is False:
        raise typer.BadParameter("Parquet files are written by Spark: leave out --no-spark")
    from frazil.cli.output import print_json, print_table, result_as_json, shown_while

    with shown_while("Looking at the repository"):
        from frazil.cli.on_spark import spark_session
        from frazil.cli.repositories import chosen_version, open_source, parse_snapshot
        from frazil.cli.views.copy_view import is_small
        from frazil.spark.pipelines.export import explain_export
        from frazil.spark.pipelines.export import export as run_export

        repository = open_source(repo)
        version = chosen_version(repository, branch=branch, tag=tag, snapshot=snapshot)
        opened = repository.readonly_session(version)
        plan = explain_export(opened, group, variables)
        small = is_small(opened, [one.path for one in plan.arrays])
        local = to is not ExportFormat.PARQUET and (small if spark is None else not spark)
    if dry_run:
        listed = [{"path": one.path.text, "chunks": one.chunks} for one in plan.arrays]
        if as_json:
            print_json({"dry_run": True, "format": to, "target": target, "arrays": listed})
        else:
            print_table(["array", "chunks"], [[one.path.text, one.chunks] for one in plan.arrays])
        return
    result = run_export(
        None if local else spark_session("export"),
        repository,
        target,
        format=to,
        group=group,
        variables=variables,
        branch=branch,
        tag=tag,
        snapshot=None if snapshot is None else str(parse_snapshot(repository, snapshot)),
        split=parts,
        overwrite=overwrite,
    )
    if as_json:
        print_json(result_as_json(result))
    else:
        print(
            f"exported {result.snapshot_id} to {target}: {count_of(result.objects, 'object')},"
            f" {format_size(result.bytes)} in {result.seconds:.1f} s"
        )


def _export_bundle(
    repo: str,
    target: str,
    refs: list[str] | None,
    since: list[str],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    from frazil.api import Repository, Storage
    from frazil.cli.output import progress_bar
    from frazil.cli.repositories import open_source, resolve
    from frazil.cli.views.copy_view import print_copy

    source = open_source(repo)
    known = [str(resolve(source, one)) for one in since]
    with progress_bar() as tell:
        done = Repository(source, Storage(source.store)).export_bundle(
            target, refs=refs, since=known, dry_run=dry_run, progress=tell
        )
    print_copy(done, target, verb="exported", as_json=as_json)


# `frazil import`: what is in a bundle, brought into a repository.


def import_(
    bundle: Annotated[
        str, typer.Argument(metavar="BUNDLE", help="A file that `frazil export` wrote.")
    ],
    repo: Annotated[
        str, typer.Argument(metavar="REPO", help="Directory of the repository, new or not.")
    ],
    *,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Create a repository from a bundle, or add what is new in the bundle to one that exists.

    Branches move forward, new branches and tags are added, others stay as they are.
    """
    from frazil.api import Repository, Storage
    from frazil.cli.output import progress_bar
    from frazil.cli.repositories import open_target
    from frazil.cli.views.copy_view import print_copy

    with progress_bar() as tell:
        done = Repository.import_bundle(
            bundle, Storage(open_target(repo)), dry_run=dry_run, progress=tell
        )
    print_copy(done, repo, verb="imported", as_json=as_json)


# `frazil migrate`: a repository in a newer version of the format.


def migrate(
    repo: Repo,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET", help="Location of the new repository (default: in place)."
        ),
    ] = None,
    *,
    to: Annotated[int, typer.Option(min=1, max=2, help="Version of the format.")] = 2,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Delete the old files that a migration kept.")
    ] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Let Spark's executors copy and write.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Upgrade a repository of any older generation to version 2 of the format, or to version 1.

    In place the old files are kept until `--confirm`; both can be run again if interrupted.
    """
    if confirm and target is not None:
        raise typer.BadParameter("--confirm is about a migration in place: leave TARGET out")

    from frazil.api import Repository, Storage
    from frazil.cli.output import progress_bar, require_consent
    from frazil.cli.repositories import open_repository, open_target, store_at
    from frazil.cli.views.copy_view import print_confirmation, print_current, print_migration

    opened = Repository(open_repository(repo), Storage(store_at(repo)))
    if confirm:
        found = opened.confirm_migration(dry_run=True)
        if found.files and not dry_run:
            files = count_of(found.files, "file")
            question = f"remove {files} of the old repository ({found.generation})"
            require_consent(question, given=yes)
            found = opened.confirm_migration()
        print_confirmation(found, as_json=as_json)
        return
    if target is None and str(opened.generation) == f"V{to}":
        print_current(repo, to, as_json=as_json)
        return
    if target is None and not dry_run:
        question = f"migrate {repo} from {opened.generation} to version {to}, in place"
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
    from frazil.cli.on_spark import spark_session
    from frazil.cli.views.copy_view import print_migration
    from frazil.maintenance.migrate.migration import MigrateResult
    from frazil.spark.actions.migrate import migrate as run

    done = run(spark_session("migrate"), repo, target, to=to)
    summary = MigrateResult(
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
