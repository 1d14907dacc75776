"""Records of commits for `frazil log`; light, so that it starts fast."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from frazil.clock import to_datetime
from frazil.engine.refs.ancestry import SnapshotRecord
from frazil.ids import SnapshotId

if TYPE_CHECKING:
    from frazil.describe.graph import Commit, Graph

type Names = Mapping[SnapshotId, Sequence[str]]


def names_by_snapshot(refs: Mapping[str, SnapshotId]) -> dict[SnapshotId, list[str]]:
    """Names of branches or tags by the snapshot they point to, main first."""
    found = dict[SnapshotId, list[str]]()
    for name in sorted(refs, key=lambda name: (name != "main", name)):
        found.setdefault(refs[name], []).append(name)
    return found


def record_as_json(record: SnapshotRecord, branches: Names, tags: Names) -> dict[str, Any]:
    return {
        "snapshot_id": str(record.id),
        "parent_id": None if record.parent_id is None else str(record.parent_id),
        "written_at": to_datetime(record.flushed_at_us).isoformat(),
        "message": record.message,
        "metadata": record.metadata,
        "branches": list(branches.get(record.id, ())),
        "tags": list(tags.get(record.id, ())),
    }


def graph_as_json(drawn: "Graph", limit: int | None) -> dict[str, Any]:
    """The newest commits, and the lines that lead through them."""
    return {
        "commits": [_commit_as_json(commit) for commit in drawn.commits[:limit]],
        "lines": [asdict(line) for line in drawn.lines],
    }


def _commit_as_json(commit: "Commit") -> dict[str, Any]:
    return {
        "snapshot_id": commit.id,
        "written_at": to_datetime(commit.written_at_us).isoformat(),
        "message": commit.message,
        "branches": commit.branches,
        "tags": commit.tags,
    }
