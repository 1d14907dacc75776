"""`frazil map-blocks`: a function of one's own over blocks of arrays."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from frazil.cli.options import (
    AsJson,
    DryRun,
    IdempotencyKey,
    Message,
    OnBranch,
    Repo,
    count_of,
    parse_lengths,
)
from frazil.describe.units import format_size


def map_blocks(
    repo: Repo,
    function: Annotated[
        str,
        typer.Argument(
            metavar="FUNCTION", help="file.py:name, or module:name that executors can import."
        ),
    ],
    inputs: Annotated[
        list[str], typer.Argument(metavar="ARRAY", help="Arrays to pass to the function.")
    ],
    *,
    outputs: Annotated[
        list[str],
        typer.Option(
            "--output", metavar="PATH=DTYPE", help="Array to create from its result; repeatable."
        ),
    ],
    blocks: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=LENGTH,...", help="Lengths; -1 for the whole dimension."),
    ] = None,
    halo: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=LENGTH,...", help="Overlap with neighbouring blocks, on both sides."
        ),
    ] = None,
    boundary: Annotated[
        str, typer.Option(help="Values beyond the ends: clip, nearest, reflect, wrap or a number.")
    ] = "clip",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace existing arrays.")
    ] = False,
    branch: OnBranch = "main",
    message: Message = None,
    idempotency_key: IdempotencyKey = None,
    as_json: AsJson = False,
) -> None:
    """Apply a function to aligned blocks of arrays, and store what it returns, as one commit."""
    made = dict(_output(text) for text in outputs)
    lengths = parse_lengths(blocks or [], "--blocks")
    neighbours = parse_lengths(halo or [], "--halo")

    from frazil.cli.output import print_json, result_as_json, silence_logs
    from frazil.cli.repositories import open_source
    from frazil.spark.pipelines.map_blocks import map_blocks as run_map
    from frazil.spark.spark_session import session

    called = _load(function)
    repository = open_source(repo)
    silence_logs()
    result = run_map(
        session(app_name="frazil map-blocks"), repository, called, inputs, made,
        blocks=lengths or None, halo=neighbours or None, boundary=_boundary(boundary),
        overwrite=overwrite, branch=branch, message=message, idempotency_key=idempotency_key,
    )  # fmt: skip
    if as_json:
        print_json(result_as_json(result))
    elif not result.committed:
        print(f"nothing to do: {result.snapshot_id} has that key")
    else:
        print(
            f"committed {result.snapshot_id} to {branch}: {count_of(result.arrays, 'array')},"
            f" {count_of(result.blocks, 'block')}, {format_size(result.bytes)}"
            f" in {result.seconds:.1f} s"
        )


def _output(text: str) -> tuple[str, str]:
    path, equals, dtype = text.rpartition("=")
    if not equals or not path or not dtype:
        raise typer.BadParameter(f"{text!r} is not PATH=DTYPE", param_hint="--output")
    return path, dtype


def _boundary(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _load(text: str) -> Callable[..., Any]:
    """A function of a file travels to executors by value, one of a module by name."""
    import importlib
    import importlib.util
    from pathlib import Path

    where, colon, name = text.rpartition(":")
    if not colon or not where or not name:
        raise typer.BadParameter(f"{text!r} is not file.py:name or module:name")
    if not where.endswith(".py"):
        try:
            found: Any = importlib.import_module(where)
        except ImportError as error:
            raise typer.BadParameter(f"cannot import {where!r}: {error}") from error
    else:
        if not Path(where).is_file():
            raise typer.BadParameter(f"there is no file {where}")
        spec = importlib.util.spec_from_file_location(f"_frazil_{Path(where).stem}", where)
        if spec is None or spec.loader is None:
            raise typer.BadParameter(f"{where} is no Python file")
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    called = getattr(found, name, None)
    if not callable(called):
        raise typer.BadParameter(f"there is no function {name!r} in {where}")
    return called  # type: ignore[no-any-return]  # of the user's module


# `frazil rechunk`: other chunks, codecs or shards for arrays.


def rechunk(
    repo: Repo,
    path: Annotated[str, typer.Argument(metavar="PATH", help="An array, or a group of them.")] = (
        "/"
    ),
    *,
    chunks: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=LENGTH,...", help="Lengths; -1 for the whole dimension."),
    ] = None,
    shards: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=LENGTH,...", help="Shard lengths, in whole chunks."),
    ] = None,
    unsharded: Annotated[bool, typer.Option("--unsharded", help="Remove sharding.")] = False,
    codecs: Annotated[
        list[str] | None,
        typer.Option("--codec", metavar="NAME", help="A compressor, such as zstd; repeatable."),
    ] = None,
    into: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Write new arrays here, and keep the old ones."),
    ] = None,
    branch: OnBranch = "main",
    message: Message = None,
    idempotency_key: IdempotencyKey = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Write arrays with other chunks, codecs or shards, as one commit."""
    lengths = parse_lengths(chunks or [], "--chunks") or None
    per_shard = parse_lengths(shards or [], "--shards") or None
    if unsharded and per_shard:
        raise typer.BadParameter("give one of --shards and --unsharded")

    from frazil.cli.output import print_json, result_as_json, silence_logs
    from frazil.cli.repositories import open_source
    from frazil.cli.views.maintenance_view import plan_as_json, print_plan
    from frazil.spark.pipelines.rechunk import explain_rechunk
    from frazil.spark.pipelines.rechunk import rechunk as run_rechunk
    from frazil.spark.spark_session import session

    repository = open_source(repo)
    sharding = {} if unsharded else per_shard
    # Before Spark starts: a typing error should not take long.
    plan = explain_rechunk(
        None, repository, path, chunks=lengths, codecs=codecs, shards=sharding, branch=branch,
        into=into,
    )  # fmt: skip
    if dry_run:
        print_json(plan_as_json(plan)) if as_json else print_plan(plan)
        return
    silence_logs()
    result = run_rechunk(
        session(app_name="frazil rechunk"),
        repository,
        path,
        chunks=lengths,
        codecs=codecs,
        shards=sharding,
        branch=branch,
        into=into,
        message=message,
        idempotency_key=idempotency_key,
    )
    if as_json:
        print_json(result_as_json(result))
    elif not result.committed:
        print(f"nothing to do: {result.snapshot_id} is as wanted")
    else:
        print(
            f"committed {result.snapshot_id} to {branch}: {count_of(result.arrays, 'array')},"
            f" {count_of(result.chunks, 'chunk')}, {format_size(result.bytes)}"
            f" in {result.seconds:.1f} s"
        )


# `frazil reduce`: means, sums and extremes over dimensions, stored or shown.


def reduce(
    repo: Repo,
    variables: Annotated[
        list[str], typer.Argument(metavar="VARIABLE", help="Variables with the same dimensions.")
    ],
    *,
    over: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Dimension to reduce over; repeatable."),
    ] = None,
    how: Annotated[str, typer.Option(help="mean, min, max, sum, count or std.")] = "mean",
    groupby: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A coordinate, or a part of a time: time.month."),
    ] = None,
    skipna: Annotated[
        bool, typer.Option("--skipna/--no-skipna", help="Leave out missing values, or not.")
    ] = True,
    group: Annotated[str, typer.Option(help="The group of the variables.")] = "/",
    into: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Group for the result. Without, it is printed."),
    ] = None,
    branch: OnBranch = "main",
    message: Message = None,
    idempotency_key: IdempotencyKey = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Reduce variables over some of their dimensions, as one commit or as rows."""
    from frazil.cli.output import OutputFormat, print_json, result_as_json, silence_logs
    from frazil.cli.repositories import open_source
    from frazil.cli.views.query_view import print_rows
    from frazil.spark.pipelines.reduce import explain_reduce
    from frazil.spark.pipelines.reduce import reduce as run_reduce
    from frazil.spark.spark_session import session

    repository = open_source(repo)
    # Before Spark starts: a typing error should not take long.
    plan = explain_reduce(
        repository, variables, over=over, how=how, groupby=groupby, skipna=skipna, group=group,
        branch=branch, into=into,
    )  # fmt: skip
    if dry_run:
        if as_json:
            print_json(
                {
                    "dry_run": True,
                    "shape": plan.shape,
                    "dimension_names": plan.dims,
                    "size_bytes": plan.size_bytes,
                    "tasks": plan.tasks,
                }
            )
        else:
            named = zip(plan.dims, plan.shape, strict=True)
            lengths = " x ".join(f"{name} {length}" for name, length in named)
            print(f"{plan.how} of {format_size(plan.size_bytes)}: {lengths or 'one value'}")
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
        print_json(result_as_json(result))
    elif not result.committed:
        print(f"nothing to do: {result.snapshot_id} has that key")
    else:
        print(
            f"committed {result.snapshot_id} to {branch}: {count_of(result.variables, 'variable')},"
            f" {count_of(result.chunks, 'chunk')}, {format_size(result.bytes)}"
            f" in {result.seconds:.1f} s"
        )
