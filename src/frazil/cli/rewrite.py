"""`frazil rewrite-manifests`: rewrites all manifests of a branch's tip."""

from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.on_spark import OnSpark
from frazil.cli.options import AsJson, DryRun, Message, OnBranch, Repo

if TYPE_CHECKING:
    from frazil.cli.views.maintenance_view import Packing
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
    """Rewrite the manifests of a branch's tip, split as the configuration says now."""
    from frazil.cli.options import format_size
    from frazil.cli.output import print_json, progress_bar
    from frazil.cli.repositories import open_repository
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
            print(f"{plan.manifests} manifests of {len(plan.arrays)} arrays would be rewritten")
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
    """Configuration with another splitting for all arrays; it is not stored."""
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


# `frazil pack`: small chunk objects put together.

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
    from frazil.cli.options import parse_size
    from frazil.cli.output import progress_bar
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.maintenance_view import Packing, print_packing
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
    from frazil.cli.views.maintenance_view import Packing
    from frazil.spark.maintenance.pack import pack as run

    session = spark_session("pack")
    done = run(
        session, repository, message,
        branch=branch, paths=paths, small_bytes=sizes[0], pack_bytes=sizes[1],
    )  # fmt: skip
    return Packing.of(done)


# `frazil unpack`: chunks out of packs again.


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
    from frazil.cli.output import progress_bar
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.maintenance_view import Packing, print_packing
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
    from frazil.cli.views.maintenance_view import Packing
    from frazil.spark.maintenance.unpack import unpack as run

    session = spark_session("unpack")
    return Packing.of(run(session, repository, message, branch=branch, paths=paths))
