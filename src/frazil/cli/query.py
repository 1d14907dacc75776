"""`frazil sql`: queries over the arrays of a repository, one or many."""

from typing import Annotated

import typer

from frazil.cli.options import Authorize, Branch, Repo, Snapshot, Tag
from frazil.cli.output import TABLE, OutputFormat


def sql(
    repo: Repo,
    query: Annotated[
        str | None,
        typer.Argument(
            metavar="QUERY",
            help=f"A query in Spark SQL. The repository is table `{TABLE}` or its folder's name;"
            f" {TABLE}.`a/b` is a group in it, and so is a_b. Without QUERY: read from a prompt, or"
            " from standard input.",
        ),
    ] = None,
    *,
    group: Annotated[str, typer.Option(help="The group to use as the table.")] = "/",
    branch: Branch = None,
    tag: Tag = None,
    snapshot: Snapshot = None,
    as_of: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Use the branch as it was at this time (ISO 8601, UTC)."),
    ] = None,
    authorize: Authorize = None,
    output: Annotated[OutputFormat, typer.Option("--format", help="How rows are printed.")] = (
        OutputFormat.TABLE
    ),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON; the same as --format json.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show how many chunks would be read; do not run.")
    ] = False,
) -> None:
    """Run a SQL query, or ask for queries; only the chunks they need are read."""
    from frazil.cli.views.query_view import Queries, read_statements, run_prompt

    if query is None and explain:
        raise typer.BadParameter("--explain needs a QUERY")
    queries = Queries.of(
        repo,
        group=group,
        version={"branch": branch, "tag": tag, "snapshot": snapshot, "as_of": as_of},
        authorize=dict(one.rpartition("=")[::2] for one in authorize or ()),
        output=OutputFormat.JSON if as_json else output,
    )
    if query is not None:
        queries.explain(query) if explain else queries.run(query)
        return
    import sys

    if sys.stdin.isatty():
        run_prompt(queries)
        return
    statements = list(read_statements(sys.stdin))
    if not statements:
        raise typer.BadParameter("there is no query, neither here nor on standard input")
    for statement in statements:
        queries.run(statement)
