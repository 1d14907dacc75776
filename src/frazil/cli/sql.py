"""`frazil sql`: one query over the arrays of a repository."""

from enum import StrEnum
from typing import Annotated

import typer

from frazil.cli.options import Branch, Repo, Snapshot, Tag

TABLE = "repo"


class OutputFormat(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def sql(
    repo: Repo,
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY",
            help=f"In Spark's SQL. The repository is the table `{TABLE}`, or its directory's name;"
            f" {TABLE}.`a/b` is a group in it.",
        ),
    ],
    *,
    group: Annotated[str, typer.Option(help="The group that the table is.")] = "/",
    branch: Branch = None,
    tag: Tag = None,
    snapshot: Snapshot = None,
    as_of: Annotated[
        str | None, typer.Option(metavar="TIME", help="The branch as it was then (ISO, UTC).")
    ] = None,
    authorize: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PREFIX=WORD",
            help="Virtual chunks that may be read: file:///data/=local, https://host/=http,"
            " s3://bucket/=anonymous, s3://bucket/=environment.",
        ),
    ] = None,
    output: Annotated[OutputFormat, typer.Option("--format", help="How rows are printed.")] = (
        OutputFormat.TABLE
    ),
    explain: Annotated[
        bool, typer.Option("--explain", help="Show how many chunks would be read; do not run.")
    ] = False,
) -> None:
    """Run a SQL query; only the chunks it needs are read."""
    from pathlib import Path

    from frazil.cli.output import silence_logs
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.rows import print_rows
    from frazil.errors import InvalidInputError
    from frazil.spark.session import session
    from frazil.spark.sql import plan_sql

    open_repository(repo)  # raises the error that names it
    spec: dict[str, object] = {
        "path": repo,
        "group": group,
        "branch": branch,
        "tag": tag,
        "snapshot": snapshot,
        "as_of": as_of,
        "authorize": dict(one.rpartition("=")[::2] for one in authorize or ()),
    }
    plan = plan_sql(query, {Path(repo).resolve().name: spec, TABLE: spec})
    if not plan.references:
        raise InvalidInputError(
            f"the query does not mention the repository; its table is called {TABLE}"
        )
    if explain:
        print(plan.summary)
        return
    silence_logs()
    spark = session(app_name="frazil sql", short_lived=True)
    frame = plan.run(spark)
    rows = frame.toLocalIterator(prefetchPartitions=True)
    print_rows(frame.columns, (tuple(row) for row in rows), output)
    spark.stop()
