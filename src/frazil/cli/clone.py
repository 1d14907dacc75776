"""`frazil clone`: a repository in another place."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, DryRun, Repo


def clone(
    repo: Repo,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Directory of the clone.")],
    *,
    shallow: Annotated[
        bool, typer.Option("--shallow", help="Refer to the chunks of REPO, without history.")
    ] = False,
    refs: Annotated[
        list[str] | None,
        typer.Option("--ref", help="Only this branch or tag; may be repeated. Default: all."),
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Copy a repository, or bring a copy up to date."""
    from frazil.cli.output import print_json, silence_logs
    from frazil.cli.repositories import open_repository
    from frazil.spark.pipelines.clone import clone as run_clone
    from frazil.spark.pipelines.clone import explain_clone
    from frazil.spark.session import session

    repository = open_repository(repo)
    plan = explain_clone(repository, target, deep=not shallow, refs=refs)
    if dry_run:
        told = {name: getattr(plan, name) for name in type(plan).__slots__}
        if as_json:
            print_json({"dry_run": True, **told})
        else:
            state = "brought up to date" if plan.exists else "made"
            print(
                f"{target} would be {state}: {', '.join((*plan.branches, *plan.tags))},"
                f" {plan.snapshots} snapshots"
            )
        return
    silence_logs()
    result = run_clone(
        session(app_name="frazil clone"), repository, target, deep=not shallow, refs=refs
    )
    if as_json:
        print_json({name: getattr(result, name) for name in type(result).__slots__})
    else:
        print(
            f"cloned {result.snapshots} snapshots to {target}: {result.copied} of"
            f" {result.objects} objects copied, {result.bytes / 1e6:.1f} MB"
            f" in {result.seconds:.1f} s"
        )
