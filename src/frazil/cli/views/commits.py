"""One commit, in words and as JSON."""

from typing import Any

from frazil.cli.output import format_time
from frazil.cli.sizes import format_size
from frazil.cli.views.differences import diff_as_json, diff_as_text
from frazil.clock import to_datetime
from frazil.errors import IcechunkError
from frazil.ids import SnapshotId
from frazil.repo.diff import Diff
from frazil.repo.history import SnapshotRecord
from frazil.repo.repository import Repository


def record_as_json(record: SnapshotRecord) -> dict[str, Any]:
    return {
        "id": str(record.id),
        "parent_id": None if record.parent_id is None else str(record.parent_id),
        "written_at": to_datetime(record.flushed_at_us).isoformat(),
        "message": record.message,
        "metadata": record.metadata,
    }


def commit_as_json(repository: Repository, snapshot: SnapshotId) -> dict[str, Any]:
    record = repository.lookup_snapshot(snapshot)
    changes = _changes(repository, record)
    manifests = repository.manifest_files(snapshot)
    return {
        **record_as_json(record),
        "branches": _names(repository.branches(), snapshot),
        "tags": _names(repository.tags(), snapshot),
        "manifests": len(manifests),
        "manifest_bytes": sum(file.size_bytes for file in manifests),
        "chunk_references": sum(file.num_refs for file in manifests),
        "changes": None if changes is None else diff_as_json(changes),
    }


def commit_as_text(repository: Repository, snapshot: SnapshotId) -> str:
    facts = commit_as_json(repository, snapshot)
    record = repository.lookup_snapshot(snapshot)
    names = [*facts["branches"], *facts["tags"]]
    lines = [
        f"snapshot  {facts['id']}" + (f"  ({', '.join(names)})" if names else ""),
        f"parent    {facts['parent_id'] or 'none: the first one'}",
        f"written   {format_time(record.flushed_at_us)} UTC",
        f"holds     {facts['chunk_references']} chunk references",
        f"manifests {facts['manifests']} ({format_size(facts['manifest_bytes'])})",
    ]
    lines += [f"{name}: {value}" for name, value in record.metadata.items()]
    lines += ["", *(f"    {line}" for line in record.message.splitlines()), ""]
    changes = _changes(repository, record)
    if changes is not None:
        lines.append(diff_as_text(changes) or "no changes")
    return "\n".join(lines).rstrip()


def _changes(repository: Repository, record: SnapshotRecord) -> Diff | None:
    """None for the first snapshot, and where the transaction log is gone."""
    if record.parent_id is None:
        return None
    try:
        return repository.diff(record.parent_id, record.id)
    except IcechunkError:
        return None


def _names(refs: dict[str, SnapshotId], snapshot: SnapshotId) -> list[str]:
    return sorted(name for name, target in refs.items() if target == snapshot)
