"""`frazil unpack`: chunks out of packs again."""

from typing import TYPE_CHECKING

from frazil.cli.on_spark import OnSpark
from frazil.cli.options import AsJson, DryRun, Message, OnBranch, Repo
from frazil.cli.pack import Paths

if TYPE_CHECKING:
    from frazil.cli.views.packing import Packing
    from frazil.repo.repository import Repository


def unpack(
    repo: Repo,
    paths: Paths = None,
    *,
    branch: OnBranch = "main",
    message: Message = None,
    spark: OnSpark = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Give every chunk of a branch's tip that is in a pack an object of its own again."""
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.packing import Packing, print_packing
    from frazil.cli.watching import progress_bar
    from frazil.maintenance import unpack as engine
    from frazil.paths import ROOT, NodePath

    repository = open_repository(repo)
    if spark and not dry_run:
        found = _unpack_on_spark(repository, paths or [], message, branch)
    else:
        chosen = tuple(map(NodePath, paths or ())) or (ROOT,)
        plan = engine.plan_unpack(repository, branch, chosen)
        with progress_bar() as tell:
            found = (
                Packing.planned(plan)
                if dry_run
                else Packing.of(engine.unpack(repository, plan, message, progress=tell))
            )
    print_packing(
        found, branch=branch, dry_run=dry_run, as_json=as_json, doing=("unpack", "unpacked")
    )


def _unpack_on_spark(
    repository: "Repository", paths: list[str], message: str | None, branch: str
) -> "Packing":
    from frazil.cli.on_spark import spark_session
    from frazil.cli.views.packing import Packing
    from frazil.spark.maintenance.unpack import unpack as run

    session = spark_session("unpack")
    return Packing.of(run(session, repository, message, branch=branch, paths=paths))
