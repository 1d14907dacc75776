"""`frazil export`: a group as a Zarr store, Parquet or NetCDF; or all of it as one file."""

from enum import StrEnum
from typing import Annotated

import typer

from frazil.cli.clone import Refs
from frazil.cli.lengths import parse_lengths
from frazil.cli.options import AsJson, Branch, DryRun, Repo, Snapshot, Tag


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
        typer.Option(
            "--format", help="Of what is written.  [default: bundle if so named, or zarr]"
        ),
    ] = None,
    group: Annotated[str, typer.Option(help="The group that is exported.")] = "/",
    variables: Annotated[
        list[str] | None,
        typer.Option("--variable", help="Only this one; may be repeated. Default: all."),
    ] = None,
    branch: Branch = None,
    tag: Tag = None,
    snapshot: Snapshot = None,
    split: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=LENGTH,...", help="NetCDF: so many steps to a file."),
    ] = None,
    refs: Refs = None,
    since: Annotated[
        list[str] | None,
        typer.Option(metavar="COMMIT", help="Bundle: only what is new since; may be repeated."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what is at the target.")
    ] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Write a group to another place, in another format; or a repository to one file.

    A bundle holds branches and tags with their history, and is for `frazil import`.
    """
    parts = parse_lengths(split or [], "--split")
    to = to or (ExportFormat.BUNDLE if target.endswith(".bundle") else ExportFormat.ZARR)
    if to is ExportFormat.BUNDLE:
        _export_bundle(repo, target, refs, since or [], dry_run=dry_run, as_json=as_json)
        return
    if refs or since:
        raise typer.BadParameter("--ref and --since are for bundles")

    from frazil.cli.output import print_json, print_table, silence_logs
    from frazil.cli.places import open_source
    from frazil.cli.repositories import chosen_version
    from frazil.spark.pipelines.export import explain_export
    from frazil.spark.pipelines.export import export as run_export
    from frazil.spark.session import session

    repository = open_source(repo)
    version = chosen_version(branch=branch, tag=tag, snapshot=snapshot)
    plan = explain_export(repository.readonly_session(version), group, variables)
    if dry_run:
        listed = [{"array": one.path.text, "chunks": one.chunks} for one in plan.arrays]
        if as_json:
            print_json({"dry_run": True, "format": to, "target": target, "arrays": listed})
        else:
            print_table(["array", "chunks"], [[one.path.text, one.chunks] for one in plan.arrays])
        return
    silence_logs()
    result = run_export(
        session(app_name="frazil export"),
        repository,
        target,
        format=to,
        group=group,
        variables=variables,
        branch=branch,
        tag=tag,
        snapshot=snapshot,
        split=parts,
        overwrite=overwrite,
    )
    if as_json:
        print_json({name: getattr(result, name) for name in type(result).__slots__})
    else:
        print(
            f"exported {result.snapshot_id} to {target}: {result.objects} objects,"
            f" {result.bytes / 1e6:.1f} MB in {result.seconds:.1f} s"
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
    from frazil.cli.places import open_source
    from frazil.cli.repositories import resolve
    from frazil.cli.views.copies import print_copy
    from frazil.cli.watching import progress_bar

    source = open_source(repo)
    known = [str(resolve(source, one)) for one in since]
    with progress_bar() as tell:
        done = Repository(source, Storage(source.store)).export_bundle(
            target, refs=refs, since=known, dry_run=dry_run, progress=tell
        )
    print_copy(done, target, verb="exported", as_json=as_json)
