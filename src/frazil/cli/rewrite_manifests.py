"""`frazil rewrite-manifests`: all manifests of a branch's tip, cut anew."""

from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.on_spark import OnSpark
from frazil.cli.options import AsJson, DryRun, OnBranch, Repo

if TYPE_CHECKING:
    from frazil.maintenance.rewrite_manifests import CommitMethod, RewritePlan, RewriteResult
    from frazil.repo.repository import Repository


def rewrite_manifests(
    repo: Repo,
    *,
    branch: OnBranch = "main",
    message: Annotated[
        str, typer.Option("-m", "--message", help="Of the new commit.")
    ] = "Rewrite manifests",
    split: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIM=N",
            help="Chunks a manifest covers along a dimension: by name, number, or `any`."
            "  [default: as the repository is configured]",
        ),
    ] = None,
    amend: Annotated[
        bool, typer.Option("--amend", help="In the place of the tip, not on top of it.")
    ] = False,
    spark: OnSpark = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Write the manifests of a branch's tip anew, cut as the configuration says now."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository
    from frazil.cli.sizes import format_size
    from frazil.cli.watching import progress_bar
    from frazil.maintenance import rewrite_manifests as engine

    repository = open_repository(repo)
    if split:
        repository = _split(repository, split)
    method: CommitMethod = "amend" if amend else "new_commit"
    plan = engine.plan_rewrite_manifests(repository, branch, method)
    before = {
        "arrays": len(plan.arrays),
        "manifests_before": plan.manifests,
        "references": plan.references,
        "bytes_before": plan.bytes,
    }
    if dry_run:
        if as_json:
            print_json({"dry_run": True, "snapshot": None, **before})
        else:
            print(f"{plan.manifests} manifests of {len(plan.arrays)} arrays would be written anew")
        return
    if spark:
        done = _rewrite_on_spark(repository, plan, message)
    else:
        with progress_bar() as tell:
            done = engine.rewrite_manifests(repository, plan, message, progress=tell)
    if as_json:
        after = {"manifests": done.manifests, "bytes": done.bytes}
        print_json({"dry_run": False, "snapshot": str(done.snapshot), **before, **after})
        return
    print(f"branch {branch} is now at new snapshot {done.snapshot}")
    print(
        f"{done.references} references of {done.arrays} arrays: {plan.manifests} manifests"
        f" ({format_size(plan.bytes)}) are now {done.manifests} ({format_size(done.bytes)})"
    )


def _rewrite_on_spark(
    repository: "Repository", plan: "RewritePlan", message: str
) -> "RewriteResult":
    from frazil.cli.on_spark import spark_session
    from frazil.ids import SnapshotId
    from frazil.maintenance.rewrite_manifests import RewriteResult
    from frazil.spark.maintenance.rewrite_manifests import rewrite_manifests as run

    done = run(
        spark_session("rewrite-manifests"), repository, message,
        branch=plan.branch, commit_method=plan.commit_method,
    )  # fmt: skip
    return RewriteResult(
        snapshot=SnapshotId.parse(done.snapshot),
        arrays=done.arrays,
        manifests_before=done.manifests_before,
        manifests=done.manifests,
        references=done.references,
        bytes=done.bytes,
    )


def _split(repository: "Repository", rules: list[str]) -> "Repository":
    """With another splitting, for all arrays; nothing of it is stored."""
    from frazil.format.conditions import (
        SplitAnyArray,
        SplitAnyDimension,
        SplitAxis,
        SplitDimensionName,
    )
    from frazil.format.config import ManifestConfig, ManifestSplittingConfig, RepositoryConfig

    sizes: list[tuple[SplitAnyDimension | SplitAxis | SplitDimensionName, int]] = []
    for rule in rules:
        name, _, count = rule.rpartition("=")
        if not name or not count.isdecimal() or int(count) < 1:
            raise typer.BadParameter(f"{rule!r}: write time=1000, 0=1000 or any=1000")
        if name == "any":
            sizes.append((SplitAnyDimension(), int(count)))
        elif name.isdecimal():
            sizes.append((SplitAxis(int(name)), int(count)))
        else:
            sizes.append((SplitDimensionName(f"^{name}$"), int(count)))
    splitting = ManifestSplittingConfig(split_sizes=((SplitAnyArray(), tuple(sizes)),))
    return repository.reopened(RepositoryConfig(manifest=ManifestConfig(splitting=splitting)))
