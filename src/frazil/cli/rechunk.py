"""`frazil rechunk`: other chunks, codecs or shards for arrays."""

from typing import Annotated

import typer

from frazil.cli.lengths import parse_lengths
from frazil.cli.options import AsJson, DryRun, Message, OnBranch, Repo


def rechunk(
    repo: Repo,
    path: Annotated[str, typer.Argument(metavar="PATH", help="An array, or a group of them.")] = (
        "/"
    ),
    *,
    chunks: Annotated[
        list[str] | None, typer.Option(metavar="NAME=LENGTH,...", help="-1 is the whole.")
    ] = None,
    shards: Annotated[
        list[str] | None, typer.Option(metavar="NAME=LENGTH,...", help="In whole chunks.")
    ] = None,
    unsharded: Annotated[bool, typer.Option("--unsharded", help="Take sharding away.")] = False,
    codecs: Annotated[
        list[str] | None,
        typer.Option("--codec", metavar="NAME", help="A compressor, such as zstd; repeatable."),
    ] = None,
    into: Annotated[
        str | None, typer.Option(metavar="PATH", help="Leave the arrays, write new ones there.")
    ] = None,
    branch: OnBranch = "main",
    message: Message = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="A repeated run with the same key commits nothing.")
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Write arrays with other chunks, codecs or shards, as one commit."""
    lengths = parse_lengths(chunks or [], "--chunks") or None
    per_shard = parse_lengths(shards or [], "--shards") or None
    if unsharded and per_shard:
        raise typer.BadParameter("give one of --shards and --unsharded")

    from frazil.cli.output import print_json, silence_logs
    from frazil.cli.places import open_source
    from frazil.cli.views.rechunking import plan_as_json, print_plan
    from frazil.spark.pipelines.rechunk import explain_rechunk
    from frazil.spark.pipelines.rechunk import rechunk as run_rechunk
    from frazil.spark.session import session

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
        print_json({name: getattr(result, name) for name in type(result).__slots__})
    elif not result.committed:
        print(f"nothing to do: {result.snapshot_id} is as wanted")
    else:
        print(
            f"committed {result.snapshot_id} to {branch}: {result.arrays} arrays,"
            f" {result.chunks} chunks, {result.bytes / 1e6:.1f} MB in {result.seconds:.1f} s"
        )
