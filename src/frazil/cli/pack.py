"""`frazil pack`: small chunk objects put together."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, DryRun, Message, OnBranch, Repo

Paths = Annotated[
    list[str] | None,
    typer.Argument(metavar="PATH", help="Arrays, or groups of them.  [default: all]"),
]


def pack(
    repo: Repo,
    paths: Paths = None,
    *,
    branch: OnBranch = "main",
    message: Message = None,
    small: Annotated[
        str, typer.Option(metavar="SIZE", help="Chunks of up to this size are packed.")
    ] = "1M",
    size: Annotated[str, typer.Option(metavar="SIZE", help="Of a pack, about.")] = "16M",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Put small chunk objects of a branch's tip together, many chunks an object.

    The old objects stay until older snapshots are expired and garbage is collected.
    """
    from frazil.cli.repositories import open_repository
    from frazil.cli.sizes import parse_size
    from frazil.cli.views.packing import print_packing
    from frazil.maintenance import pack as engine
    from frazil.paths import ROOT, NodePath

    repository = open_repository(repo)
    plan = engine.plan_pack(
        repository,
        branch,
        tuple(map(NodePath, paths or ())) or (ROOT,),
        small_bytes=parse_size(small),
        pack_bytes=parse_size(size),
    )
    done = None if dry_run else engine.pack(repository, plan, message)
    print_packing(
        plan,
        None if done is None else done.snapshot,
        branch=branch,
        dry_run=dry_run,
        as_json=as_json,
        doing=("pack", "packed"),
    )
