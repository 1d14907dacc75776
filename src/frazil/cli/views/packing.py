"""What was packed or unpacked, in words and as JSON."""

from frazil.cli.output import print_json
from frazil.cli.sizes import format_size
from frazil.ids import SnapshotId
from frazil.maintenance.pack import PackPlan
from frazil.maintenance.unpack import UnpackPlan


def print_packing(
    plan: PackPlan | UnpackPlan,
    snapshot: SnapshotId | None,
    *,
    branch: str,
    dry_run: bool,
    as_json: bool,
    doing: tuple[str, str],  # pack, packed
) -> None:
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "snapshot": None if snapshot is None else str(snapshot),
                "chunks": len(plan.chunks),
                "packs": plan.packs,
                "references": plan.references,
                "bytes": plan.bytes,
            }
        )
        return
    if not len(plan.chunks):
        print(f"nothing to {doing[0]}")
        return
    verb = f"would be {doing[1]}" if dry_run else f"are {doing[1]}"
    print(f"{len(plan.chunks)} chunks ({format_size(plan.bytes)}) {verb}: {plan.packs} packs")
    if snapshot is not None:
        print(f"branch {branch} is now at new snapshot {snapshot}")
