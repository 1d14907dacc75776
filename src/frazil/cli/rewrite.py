"""`frazil rewrite-manifests`: rewrites all manifests of a branch's tip."""

from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.on_spark import OnSpark
from frazil.cli.options import AsJson, DryRun, Message, OnBranch, Repo, count_of
from frazil.describe.units import format_size

if TYPE_CHECKING:
    from frazil.engine.repository import Repository
    from frazil.maintenance.rewrite_manifests import CommitMethod


def rewrite_manifests(
    repo: Repo,
    *,
    branch: OnBranch = "main",
    message: Annotated[
        str, typer.Option("-m", "--message", help="Message of the new commit.")
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
        bool, typer.Option("--amend", help="Replace the last commit instead of adding one.")
    ] = False,
    spark: OnSpark = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Rewrite the manifests of a branch's tip, split as the configuration says now."""
    from frazil.cli.on_spark import executor_for
    from frazil.cli.output import print_json
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
        "size_bytes_before": plan.bytes,
    }
    if dry_run:
        if as_json:
            print_json({"dry_run": True, "snapshot_id": None, **before})
        else:
            arrays = count_of(len(plan.arrays), "array")
            print(f"{count_of(plan.manifests, 'manifest')} of {arrays} would be rewritten")
        return
    with executor_for(repository, "rewrite-manifests", on_spark=spark) as executor:
        done = engine.rewrite_manifests(repository, plan, message, executor)
    if as_json:
        after = {"manifests": done.manifests, "size_bytes": done.bytes}
        print_json({"dry_run": False, "snapshot_id": done.snapshot, **before, **after})
        return
    print(f"branch {branch} is now at new snapshot {done.snapshot}")
    print(
        f"{count_of(done.references, 'reference')} of {count_of(done.arrays, 'array')}:"
        f" {count_of(plan.manifests, 'manifest')}"
        f" ({format_size(plan.bytes)}) are now {done.manifests} ({format_size(done.bytes)})"
    )


def _split(repository: "Repository", rules: list[str]) -> "Repository":
    """Overrides the splitting of manifests for all arrays; the override is not stored."""
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


# `frazil pack`: packs small chunk objects.

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
    size: Annotated[str, typer.Option(metavar="SIZE", help="Approximate size of a pack.")] = "16M",
    spark: OnSpark = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Combine the small chunk objects of a branch's last commit into larger ones.

    The old objects stay until older snapshots are expired and garbage is collected.
    """
    from frazil.cli.on_spark import executor_for
    from frazil.cli.options import parse_size
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.maintenance_view import print_packing
    from frazil.maintenance import pack as engine
    from frazil.paths import ROOT, NodePath

    small_bytes, pack_bytes = parse_size(small), parse_size(size)
    repository = open_repository(repo)
    chosen = tuple(map(NodePath, paths or ())) or (ROOT,)
    with executor_for(repository, "pack", on_spark=spark and not dry_run) as executor:
        plan = engine.plan_pack(
            repository, branch, chosen, executor, small_bytes=small_bytes, pack_bytes=pack_bytes
        )
        found = plan.result() if dry_run else engine.pack(repository, plan, message, executor)
    print_packing(found, branch=branch, dry_run=dry_run, as_json=as_json, doing=("pack", "packed"))


# `frazil unpack`: gives chunks in packs objects of their own again.


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
    """Store each packed chunk of a branch's last commit as its own object again."""
    from frazil.cli.on_spark import executor_for
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.maintenance_view import print_packing
    from frazil.maintenance import pack as engine
    from frazil.paths import ROOT, NodePath

    repository = open_repository(repo)
    chosen = tuple(map(NodePath, paths or ())) or (ROOT,)
    with executor_for(repository, "unpack", on_spark=spark and not dry_run) as executor:
        plan = engine.plan_unpack(repository, branch, chosen, executor)
        found = plan.result() if dry_run else engine.unpack(repository, plan, message, executor)
    print_packing(
        found, branch=branch, dry_run=dry_run, as_json=as_json, doing=("unpack", "unpacked")
    )
