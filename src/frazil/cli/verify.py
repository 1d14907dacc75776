"""`frazil verify`: what is wrong with a repository, and its repair."""

from typing import Annotated

import typer

from frazil.cli.on_spark import OnSpark
from frazil.cli.options import AsJson, DryRun, Repo, Yes

PROBLEMS = 5  # exit code


def verify(
    repo: Repo,
    *,
    decode: Annotated[bool, typer.Option(help="Read and decode every chunk, too.")] = False,
    virtual: Annotated[
        bool, typer.Option(help="Ask for the objects of virtual chunks on local disks, too.")
    ] = False,
    repair: Annotated[
        bool, typer.Option(help="Repair what can be repaired without guessing; old files are kept.")
    ] = False,
    spark: OnSpark = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Check every file of a repository, even of one that does not open. Exits with 5 on errors."""
    if spark and repair:
        raise typer.BadParameter("--spark is for looking: a repair is done here")

    from frazil.cli.output import print_json
    from frazil.cli.views import problems_view as views

    report, result = (
        views.run_repair(repo, dry_run=dry_run, consent=yes)
        if repair
        else (views.run_verify(repo, decode=decode, virtual=virtual, on_spark=spark), None)
    )
    if as_json:
        print_json(views.as_json(report, result, dry_run=dry_run))
    else:
        views.print_text(report, result, dry_run=dry_run)
    still = report if result is None or not dry_run else result.before
    if not still.ok:
        raise typer.Exit(PROBLEMS)
