"""`frazil reduce`: means, sums and extremes over dimensions, stored or shown."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, DryRun, Message, OnBranch, Repo


def reduce(
    repo: Repo,
    variables: Annotated[
        list[str], typer.Argument(metavar="VARIABLE...", help="Of the same dimensions.")
    ],
    *,
    over: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A dimension that vanishes; may be repeated."),
    ] = None,
    how: Annotated[str, typer.Option(help="mean, min, max, sum, count or std.")] = "mean",
    groupby: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A coordinate, or a part of a time: time.month."),
    ] = None,
    skipna: Annotated[
        bool, typer.Option("--skipna/--no-skipna", help="Whether missing values are left out.")
    ] = True,
    group: Annotated[str, typer.Option(help="The group of the variables.")] = "/",
    into: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Group for the result. Without, it is printed."),
    ] = None,
    branch: OnBranch = "main",
    message: Message = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="A repeated run with the same key commits nothing.")
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Reduce variables over some of their dimensions, as one commit or as rows."""
    from frazil.cli.output import print_json, silence_logs
    from frazil.cli.places import open_source
    from frazil.cli.sql import OutputFormat
    from frazil.cli.views.rows import print_rows
    from frazil.spark.pipelines.reduce import explain_reduce
    from frazil.spark.pipelines.reduce import reduce as run_reduce
    from frazil.spark.session import session

    repository = open_source(repo)
    # Before Spark starts: a typing error should not take long.
    plan = explain_reduce(
        repository, variables, over=over, how=how, groupby=groupby, skipna=skipna, group=group,
        branch=branch, into=into,
    )  # fmt: skip
    if dry_run:
        shape = dict(zip(plan.dims, plan.shape, strict=True))
        told = {"dry_run": True, "shape": shape, "bytes": plan.size_bytes, "tasks": plan.tasks}
        if as_json:
            print_json(told)
        else:
            lengths = " x ".join(f"{name} {length}" for name, length in shape.items())
            print(f"{plan.how} of {plan.size_bytes / 1e6:.1f} MB: {lengths or 'one value'}")
        return
    silence_logs()
    spark = session(app_name="frazil reduce")
    if into is None:
        frame = run_reduce(
            spark, repository, variables, over=over, how=how, groupby=groupby, skipna=skipna,
            group=group, branch=branch,
        )  # fmt: skip
        ordered = frame.orderBy(*(f"`{dim}`" for dim in plan.dims)) if plan.dims else frame
        rows = ordered.toLocalIterator(prefetchPartitions=True)
        shown = OutputFormat.JSON if as_json else OutputFormat.TABLE
        print_rows(frame.columns, (tuple(row) for row in rows), shown)
        return
    result = run_reduce(
        spark, repository, variables, over=over, how=how, groupby=groupby, skipna=skipna,
        group=group, branch=branch, into=into, message=message, idempotency_key=idempotency_key,
    )  # fmt: skip
    if as_json:
        print_json({name: getattr(result, name) for name in type(result).__slots__})
    elif not result.committed:
        print(f"nothing to do: {result.snapshot_id} has that key")
    else:
        print(
            f"committed {result.snapshot_id} to {branch}: {result.variables} variables,"
            f" {result.chunks} chunks, {result.bytes / 1e6:.1f} MB in {result.seconds:.1f} s"
        )
