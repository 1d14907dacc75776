"""`frazil unpack`: chunks out of packs again."""

from frazil.cli.options import AsJson, DryRun, Message, OnBranch, Repo
from frazil.cli.pack import Paths


def unpack(
    repo: Repo,
    paths: Paths = None,
    *,
    branch: OnBranch = "main",
    message: Message = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Give every chunk of a branch's tip that is in a pack an object of its own again."""
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.packing import print_packing
    from frazil.maintenance import unpack as engine
    from frazil.paths import ROOT, NodePath

    repository = open_repository(repo)
    plan = engine.plan_unpack(repository, branch, tuple(map(NodePath, paths or ())) or (ROOT,))
    done = None if dry_run else engine.unpack(repository, plan, message)
    print_packing(
        plan,
        None if done is None else done.snapshot,
        branch=branch,
        dry_run=dry_run,
        as_json=as_json,
        doing=("unpack", "unpacked"),
    )
