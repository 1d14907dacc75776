"""`frazil doctor`: whether all that is needed is there, and what to do if not."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson


def doctor(
    repo: Annotated[
        str | None,
        typer.Argument(metavar="REPO", help="Also look whether this place can be reached."),
    ] = None,
    *,
    spark: Annotated[
        bool, typer.Option("--spark", help="Also start Spark and run a query: some seconds.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check Python, packages, Java, Spark and storage; say how to put right what is wrong.

    Exits with 1 if something is wrong; what is only not installed is no fault.
    """
    import os

    from frazil.cli.views.health_view import checks, print_checks

    found = list(checks(os.environ, repo=repo, start_spark=spark))
    print_checks(found, as_json=as_json)
    if any(each.state == "wrong" for each in found):
        raise typer.Exit(1)
