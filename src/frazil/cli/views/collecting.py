"""What was deleted, and what is stored, as text."""

from frazil.cli.output import format_time, print_table
from frazil.cli.sizes import format_size
from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId
from frazil.maintenance.gc_summary import GCSummary
from frazil.maintenance.summaries import ChunkStorageStats, OwnerStats, StorageStats


def print_summary(summary: GCSummary, *, dry_run: bool) -> None:
    verb = "would be" if dry_run else "were"
    counts = {
        "snapshots": summary.snapshots_deleted,
        "transaction logs": summary.transaction_logs_deleted,
        "manifests": summary.manifests_deleted,
        "chunk objects": summary.chunks_deleted,
        "backups": summary.backups_deleted,
        "branches of killed jobs": summary.branches_deleted,
        "temporary files": summary.temporary_files_deleted,
    }
    print(f"{format_size(summary.bytes_deleted)} {verb} deleted")
    for name, count in counts.items():
        if count or name in {"snapshots", "chunk objects"}:
            print(f"  {count} {name}")
    if summary.objects_failed_to_delete:
        print(f"{summary.objects_failed_to_delete} objects could not be deleted")
        for error in summary.delete_errors:
            print(f"  {error}")
    if summary.skipped_phases:
        print(f"left for the next time: {', '.join(summary.skipped_phases)}")


def print_expired(info: RepoInfo, expired: list[str], *, dry_run: bool) -> None:
    """`info` is that of before."""
    print(f"{len(expired)} snapshots {'would be' if dry_run else 'are'} expired")
    rows = []
    for each in expired:
        row = info.snapshots.find(SnapshotId.parse(each))
        if row >= 0:
            written = format_time(info.snapshots.flushed_at(row))
            rows.append((each, written, info.snapshots.message(row)))
    print_table(["snapshot", "written", "message"], rows)


def print_stats(found: StorageStats) -> None:
    print(
        f"{found.snapshots} snapshots, {found.manifests} manifests of"
        f" {format_size(found.manifest_bytes)}, {found.references} references"
    )
    headers = ["", "", "native", "virtual", "inline", "alone: native", "virtual", "inline"]
    rows: list[tuple[str, ...]] = [("all", "", *_sizes(found.total), "", "", "")]
    rows += [_row(each) for each in [*found.refs, *found.arrays]]
    print_table(headers, rows)


def _row(owner: OwnerStats) -> tuple[str, ...]:
    return (owner.kind, owner.name, *_sizes(owner.total), *_sizes(owner.exclusive))


def _sizes(sizes: ChunkStorageStats) -> tuple[str, str, str]:
    return (
        format_size(sizes.native_bytes),
        format_size(sizes.virtual_bytes),
        format_size(sizes.inlined_bytes),
    )
