"""`frazil clone`: a repository in another place."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, DryRun

Source = Annotated[
    str, typer.Argument(metavar="REPO", help="Directory of the repository, a bucket, or a bundle.")
]
Refs = Annotated[
    list[str] | None,
    typer.Option(
        "--ref",
        help="Only this branch or tag (or branch:NAME, tag:NAME); repeatable. Default: all.",
    ),
]


def clone(
    repo: Source,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="Directory of the clone, or a bucket.")
    ],
    *,
    shallow: Annotated[
        bool, typer.Option("--shallow", help="Refer to the chunks of REPO instead.")
    ] = False,
    refs: Refs = None,
    paths: Annotated[
        list[str] | None,
        typer.Option("--path", help="Only this group or array; may be repeated. Default: all."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Read back all that was copied, not only its size.")
    ] = False,
    spark: Annotated[bool, typer.Option("--spark", help="Let Spark's executors copy.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Copy a repository, or bring a copy up to date."""
    if spark and (paths or check):
        raise typer.BadParameter("--spark copies whole repositories or refs, and checks sizes")

    from frazil.api import Repository, Storage
    from frazil.cli.places import open_source, open_target
    from frazil.cli.views.copies import print_copy
    from frazil.cli.watching import progress_bar

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
    from frazil.cli.output import print_json, silence_logs
    from frazil.spark.pipelines.clone import clone as run_clone
    from frazil.spark.session import session

    silence_logs()
    result = run_clone(
        session(app_name="frazil clone"),
        source,  # type: ignore[arg-type]  # an engine's repository: named so, it would be imported
        target,
        deep=not shallow,
        refs=refs,
    )
    if as_json:
        print_json({name: getattr(result, name) for name in type(result).__slots__})
    else:
        print(
            f"cloned {result.snapshots} snapshots to {target}: {result.copied} of"
            f" {result.objects} objects copied, {result.bytes / 1e6:.1f} MB"
            f" in {result.seconds:.1f} s"
        )
