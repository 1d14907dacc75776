"""What was purged, and what still refers to it, in words and as JSON."""

from collections.abc import Mapping, Sequence

from frazil.cli.output import print_json, print_table
from frazil.cli.sizes import format_size
from frazil.ids import SnapshotId
from frazil.maintenance.purge.message import MessagePurgePlan
from frazil.maintenance.purge.path import PathPurgePlan
from frazil.maintenance.purge.remaining import Remaining


def print_path_purge(
    plan: PathPurgePlan, commits: Mapping[str, SnapshotId], *, dry_run: bool, as_json: bool
) -> None:
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "path": plan.path.text,
                "nodes": [node.path.text for node in plan.nodes],
                "snapshots": [str(each) for each in plan.snapshots],
                "transaction_logs": len(plan.logs),
                "manifests": len(plan.manifests),
                "chunks": len(plan.chunks),
                "chunk_bytes": plan.chunk_bytes,
                "commits": {branch: str(snapshot) for branch, snapshot in commits.items()},
                "remaining": _as_json(plan.remaining),
            }
        )
        return
    if plan.is_empty:
        print(f"no snapshot has {plan.path}")
        _print_remaining(plan.remaining)
        return
    verb = "would be taken" if dry_run else "were taken"
    print(f"{len(plan.nodes)} nodes {verb} out of {len(plan.snapshots)} snapshots")
    print(
        f"{len(plan.manifests)} manifests and {len(plan.chunks)} chunk objects"
        f" ({format_size(plan.chunk_bytes)}) {'would be' if dry_run else 'are'} deleted"
    )
    for branch, snapshot in commits.items():
        print(f"branch {branch} is now at new snapshot {snapshot}")
    _print_remaining(plan.remaining)


def print_message_purge(plan: MessagePurgePlan, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "snapshots": [str(each) for each in plan.snapshots],
                "backups": len(plan.backups),
                "remaining": _as_json(plan.remaining),
            }
        )
        return
    verb = "would be" if dry_run else "were"
    print(f"the messages of {len(plan.snapshots)} commits {verb} replaced")
    _print_remaining(plan.remaining)


def _as_json(remaining: Sequence[Remaining]) -> list[dict[str, str]]:
    return [{"kind": each.kind, "place": each.place, "text": each.text} for each in remaining]


def _print_remaining(remaining: Sequence[Remaining]) -> None:
    if remaining:
        print("what still refers to it, or may:")
        print_table(
            ["kind", "place", "what"], [(each.kind, each.place, each.text) for each in remaining]
        )
