"""Results of garbage collection, packing and statistics, as text."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from frazil.cli.options import count_of
from frazil.cli.output import format_time, print_json, print_table, result_as_json
from frazil.describe.units import format_size
from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId
from frazil.maintenance.pack import PackResult
from frazil.maintenance.purge.purge_message import MessagePurgePlan
from frazil.maintenance.purge.purge_path import PathPurgePlan
from frazil.maintenance.summaries import (
    ChunkStorageStats,
    GCSummary,
    OwnerStats,
    Remaining,
    StorageStats,
)
from frazil.spark.pipelines.rechunk_plan import RechunkPlan


def print_summary(summary: GCSummary, *, dry_run: bool) -> None:
    verb = "would be" if dry_run else "were"
    counts = {
        "snapshot": summary.snapshots_deleted,
        "transaction log": summary.transaction_logs_deleted,
        "manifest": summary.manifests_deleted,
        "chunk object": summary.chunks_deleted,
        "backup": summary.backups_deleted,
        "job branch": summary.branches_deleted,
        "temporary file": summary.temporary_files_deleted,
    }
    print(f"{format_size(summary.bytes_deleted)} {verb} deleted")
    for name, count in counts.items():
        if count or name in {"snapshot", "chunk object"}:
            print(f"  {count_of(count, name)}")
    if summary.objects_failed_to_delete:
        print(f"{count_of(summary.objects_failed_to_delete, 'object')} could not be deleted")
        for error in summary.delete_errors:
            print(f"  {error}")
    if summary.skipped_phases:
        print(f"left for the next time: {', '.join(summary.skipped_phases)}")


def print_expired(info: RepoInfo, expired: list[str], *, dry_run: bool) -> None:
    """`info` is that of before."""
    print(f"{count_of(len(expired), 'snapshot')} {'would be expired' if dry_run else 'expired'}")
    rows = []
    for each in expired:
        row = info.snapshots.find(SnapshotId.parse(each))
        if row >= 0:
            written = format_time(info.snapshots.flushed_at(row))
            rows.append((each, written, info.snapshots.message(row)))
    print_table(["snapshot", "written", "message"], rows)


def print_stats(found: StorageStats) -> None:
    print(
        f"{count_of(found.snapshots, 'snapshot')}, {count_of(found.manifests, 'manifest')} of"
        f" {format_size(found.manifest_bytes)}, {count_of(found.references, 'reference')}"
    )
    headers = ["", "", "native", "virtual", "inline", "alone: native", "virtual", "inline"]
    rows: list[tuple[str, ...]] = [("all", "", *_sizes(found.total), "", "", "")]
    rows += [_row(each) for each in [*found.refs, *found.arrays]]
    print_table(headers, rows)


def stats_as_json(found: StorageStats) -> dict[str, Any]:
    return {
        **asdict(found),
        "refs": [_owner_as_json(each, each.kind) for each in found.refs],
        "arrays": [_owner_as_json(each, "path") for each in found.arrays],
    }


def _owner_as_json(owner: OwnerStats, called: str) -> dict[str, Any]:
    sizes = asdict(owner)
    del sizes["kind"]
    return {called: sizes.pop("name"), **sizes}


def _row(owner: OwnerStats) -> tuple[str, ...]:
    return (owner.kind, owner.name, *_sizes(owner.total), *_sizes(owner.exclusive))


def _sizes(sizes: ChunkStorageStats) -> tuple[str, str, str]:
    return (
        format_size(sizes.native_bytes),
        format_size(sizes.virtual_bytes),
        format_size(sizes.inlined_bytes),
    )


# Results of packing and unpacking, as text and as JSON.


def print_packing(
    found: PackResult,
    *,
    branch: str,
    dry_run: bool,
    as_json: bool,
    doing: tuple[str, str],  # pack, packed
) -> None:
    if as_json:
        print_json(result_as_json(found, dry_run=dry_run))
        return
    if not found.chunks:
        print(f"nothing to {doing[0]}")
        return
    verb = f"would be {doing[1]}" if dry_run else doing[1]
    packs = count_of(found.packs, "pack")
    print(f"{count_of(found.chunks, 'chunk')} ({format_size(found.bytes)}) {verb}: {packs}")
    if found.snapshot is not None:
        print(f"branch {branch} is now at new snapshot {found.snapshot}")


# Results of purges, and remaining references, in words and as JSON.


def print_path_purge(
    plan: PathPurgePlan, commits: Mapping[str, str], *, dry_run: bool, as_json: bool
) -> None:
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "path": plan.path.text,
                "nodes": [node.path.text for node in plan.nodes],
                "snapshot_ids": [str(each) for each in plan.snapshots],
                "transaction_logs": len(plan.logs),
                "manifests": len(plan.manifests),
                "chunks": len(plan.chunks),
                "chunk_bytes": plan.chunk_bytes,
                "commits": [
                    {"branch": name, "snapshot_id": snapshot} for name, snapshot in commits.items()
                ],
                "remaining": _as_json(plan.remaining),
            }
        )
        return
    if plan.is_empty:
        print(f"no snapshot has {plan.path}")
        _print_remaining(plan.remaining)
        return
    snapshots, objects = len(plan.snapshots), count_of(len(plan.chunks), "chunk object")
    verb = "would be removed" if dry_run else "removed"
    print(f"{count_of(len(plan.nodes), 'node')} {verb} from {count_of(snapshots, 'snapshot')}")
    print(
        f"{count_of(len(plan.manifests), 'manifest')} and {objects}"
        f" ({format_size(plan.chunk_bytes)}) {'would be deleted' if dry_run else 'deleted'}"
    )
    for branch, snapshot in commits.items():
        print(f"branch {branch} is now at new snapshot {snapshot}")
    _print_remaining(plan.remaining)


def print_message_purge(plan: MessagePurgePlan, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "snapshot_ids": [str(each) for each in plan.snapshots],
                "backups": len(plan.backups),
                "remaining": _as_json(plan.remaining),
            }
        )
        return
    verb = "would be" if dry_run else "were"
    print(f"the messages of {count_of(len(plan.snapshots), 'commit')} {verb} replaced")
    _print_remaining(plan.remaining)


def _as_json(remaining: Sequence[Remaining]) -> list[dict[str, str]]:
    return [{"kind": each.kind, "place": each.place, "text": each.text} for each in remaining]


def _print_remaining(remaining: Sequence[Remaining]) -> None:
    if remaining:
        print("what still refers to it, or may:")
        print_table(
            ["kind", "place", "what"], [(each.kind, each.place, each.text) for each in remaining]
        )


# The plan of a rechunk, for programs and for people.


def plan_as_json(plan: RechunkPlan) -> dict[str, Any]:
    return {
        "dry_run": True,
        "snapshot_id": plan.snapshot,
        "size_bytes": plan.size_bytes,
        "arrays": [
            {
                "path": one.source.text,
                "into": one.target.text,
                "shape": list(one.cut.shape),
                "chunk_shape": list(one.layout.chunks or ()),
                "shard_shape": None if one.layout.shards is None else list(one.layout.shards),
                "codecs": [codec["name"] for codec in one.layout.codecs],
                "size_bytes": one.size_bytes,
                "read_bytes": one.read_bytes,
                "scratch_bytes": one.scratch_bytes,
                "tasks": len(one.cut),
            }
            for one in plan.rewrites
        ],
        "unchanged": [one.target.text for one in plan.copies],
    }


def print_plan(plan: RechunkPlan) -> None:
    if not plan.rewrites and not plan.copies:
        print("nothing to do")
        return
    arrays = plan_as_json(plan)["arrays"]
    rows = [
        [
            one["into"],
            _lengths(one["shape"]),
            _lengths(one["chunk_shape"]),
            _lengths(one["shard_shape"] or ["-"]),
            " ".join(one["codecs"]),
            *(format_size(one[size]) for size in ("size_bytes", "read_bytes", "scratch_bytes")),
            one["tasks"],
        ]
        for one in arrays
    ]
    sizes = ["size", "read", "scratch"]
    print_table(["array", "shape", "chunks", "shards", "codecs", *sizes, "tasks"], rows)


def _lengths(lengths: list[Any]) -> str:
    return " x ".join(map(str, lengths))
