"""`frazil pack`: small chunk objects put together."""

from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.on_spark import OnSpark
from frazil.cli.options import AsJson, DryRun, Message, OnBranch, Repo

if TYPE_CHECKING:
    from frazil.cli.views.packing import Packing
    from frazil.repo.repository import Repository

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
    spark: OnSpark = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Put small chunk objects of a branch's tip together, many chunks an object.

    The old objects stay until older snapshots are expired and garbage is collected.
    """
    from frazil.cli.repositories import open_repository
    from frazil.cli.sizes import parse_size
    from frazil.cli.views.packing import Packing, print_packing
    from frazil.cli.watching import progress_bar
    from frazil.maintenance import pack as engine
    from frazil.paths import ROOT, NodePath

    sizes = parse_size(small), parse_size(size)
    repository = open_repository(repo)
    if spark and not dry_run:
        found = _pack_on_spark(repository, paths or [], message, branch, sizes)
    else:
        chosen = tuple(map(NodePath, paths or ())) or (ROOT,)
        plan = engine.plan_pack(
            repository, branch, chosen, small_bytes=sizes[0], pack_bytes=sizes[1]
        )
        with progress_bar() as tell:
            found = (
                Packing.planned(plan)
                if dry_run
                else Packing.of(engine.pack(repository, plan, message, progress=tell))
            )
    print_packing(found, branch=branch, dry_run=dry_run, as_json=as_json, doing=("pack", "packed"))


def _pack_on_spark(
    repository: "Repository",
    paths: list[str],
    message: str | None,
    branch: str,
    sizes: tuple[int, int],
) -> "Packing":
    from frazil.cli.on_spark import spark_session
    from frazil.cli.views.packing import Packing
    from frazil.spark.maintenance.pack import pack as run

    session = spark_session("pack")
    done = run(
        session, repository, message,
        branch=branch, paths=paths, small_bytes=sizes[0], pack_bytes=sizes[1],
    )  # fmt: skip
    return Packing.of(done)
