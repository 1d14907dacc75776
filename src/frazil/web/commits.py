"""The history as pages of columns, each row with what is drawn beside it."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from frazil.describe.graph import Layout
from frazil.errors import ObjectNotFoundError
from frazil.format.repo_info import RepoInfo
from frazil.format.txlog import TransactionLog
from frazil.ids import SnapshotId
from frazil.repo import history
from frazil.web.answers import readable
from frazil.web.explored import MAX_LANES, Explored, row_of
from frazil.web.line_segments import segments_at

HEADLINE = 300  # letters of a message in a list


def repository_facts(explored: Explored) -> dict[str, object]:
    info = explored.info()
    return {
        "name": explored.name,
        "spec_version": info.spec_version,
        "status": info.status.availability.label,
        "status_reason": info.status.reason,
        "branches": _named(info, info.branches),
        "tags": _named(info, info.tags),
        "snapshots": len(info.snapshots),
        "metadata": readable(info.metadata),
    }


def _named(info: RepoInfo, refs: Mapping[str, int]) -> dict[str, list[str]]:
    names = sorted(refs, key=lambda name: (name != "main", name))
    return {"name": names, "id": [str(info.snapshots.id(refs[name])) for name in names]}


def commit_page(explored: Explored, offset: int, limit: int) -> dict[str, object]:
    """Rows from `offset` on, newest first; `segments` are the lines that pass each row."""
    info = explored.info()
    layout = explored.layout(info)
    rows = layout.rows[offset : offset + limit]
    owner = _owners(explored, info, layout)[offset : offset + limit].tolist()
    branches, tags = _names_at(info.branches), _names_at(info.tags)
    reached = _reached(explored, info)
    snapshots = info.snapshots
    parents = [snapshots.parent(row) for row in rows]
    return {
        "total": len(layout.rows),
        "offset": offset,
        "lanes": min(MAX_LANES, 1 + max((line.lane for line in layout.lines), default=0)),
        "id": [str(snapshots.id(row)) for row in rows],
        "parent": [None if row < 0 else str(snapshots.id(row)) for row in parents],
        "at_us": [snapshots.flushed_at(row) for row in rows],
        "message": [snapshots.message(row)[:HEADLINE] for row in rows],
        "branches": [branches.get(row, []) for row in rows],
        "tags": [tags.get(row, []) for row in rows],
        "detached": [row not in reached for row in rows],
        "lane": [layout.lines[line].lane for line in owner],
        "line": owner,
        "segments": segments_at(layout, owner, range(offset, offset + len(rows)), MAX_LANES - 1),
    }


def commit_facts(explored: Explored, at: str) -> dict[str, object]:
    info = explored.info()
    row = row_of(info, at)
    record = history.record_at(info, row)
    layout = explored.layout(info)
    children = [str(info.snapshots.id(child)) for child in _children(info, row)]
    return {
        "id": str(record.id),
        "parent": None if record.parent_id is None else str(record.parent_id),
        "children": children,
        "at_us": record.flushed_at_us,
        "message": record.message,
        "metadata": readable(record.metadata),
        "branches": _names_at(info.branches).get(row, []),
        "tags": _names_at(info.tags).get(row, []),
        "detached": row not in _reached(explored, info),
        "place": layout.rows.index(row) if row in layout.rows else None,
        "changes": _changes(explored, record.id),
    }


def _children(info: RepoInfo, row: int) -> list[int]:
    found: list[int] = np.flatnonzero(info.snapshots.parents == row)[:100].tolist()
    return found


def _changes(explored: Explored, snapshot: SnapshotId) -> dict[str, int] | None:
    """How much its transaction log lists; None if it has none, like those of old generations."""
    try:
        log: TransactionLog = explored.repository.files.fetch_log(snapshot)
    except ObjectNotFoundError:
        return None
    counted = {name: len(ids) for name, ids in log.node_lists()}
    chunks = sum(len(index) for index in log.updated_chunks.values())
    return {**counted, "updated_chunks": chunks, "moved": len(log.moved)}


def _names_at(refs: Mapping[str, int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for name in sorted(refs, key=lambda name: (name != "main", name)):
        found.setdefault(refs[name], []).append(name)
    return found


def _owners(explored: Explored, info: RepoInfo, layout: Layout) -> npt.NDArray[np.int64]:
    """Number of the line that each place belongs to."""

    def make() -> npt.NDArray[np.int64]:
        owners = np.zeros(len(layout.rows), np.int64)
        for number, line in enumerate(layout.lines):
            owners[list(line.places)] = number
        return owners

    return explored.recall_of(info, "owners", make)


def _reached(explored: Explored, info: RepoInfo) -> set[int]:
    """Rows that a branch or a tag leads to."""
    return explored.recall_of(info, "reached", partial(_walk, info))


def _walk(info: RepoInfo) -> set[int]:
    reached = set[int]()
    for tip in {*info.branches.values(), *info.tags.values()}:
        for row in history.ancestor_rows(info, tip):
            if row in reached:
                break
            reached.add(row)
    return reached
