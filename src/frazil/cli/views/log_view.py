"""Records of commits for `frazil log`; light, so that it starts fast."""

from collections.abc import Mapping, Sequence
from typing import Any

from frazil.clock import to_datetime
from frazil.engine.refs.ancestry import SnapshotRecord
from frazil.ids import SnapshotId

type Names = Mapping[SnapshotId, Sequence[str]]


def names_by_snapshot(refs: Mapping[str, SnapshotId]) -> dict[SnapshotId, list[str]]:
    """Names of branches or tags by the snapshot they point to, main first."""
    found = dict[SnapshotId, list[str]]()
    for name in sorted(refs, key=lambda name: (name != "main", name)):
        found.setdefault(refs[name], []).append(name)
    return found


def record_as_json(record: SnapshotRecord, branches: Names, tags: Names) -> dict[str, Any]:
    return {
        "id": str(record.id),
        "parent_id": None if record.parent_id is None else str(record.parent_id),
        "written_at": to_datetime(record.flushed_at_us).isoformat(),
        "message": record.message,
        "metadata": record.metadata,
        "branches": list(branches.get(record.id, ())),
        "tags": list(tags.get(record.id, ())),
    }
