"""The history as pages of columns, each row with what is drawn beside it."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from threading import Lock

import numpy as np
import numpy.typing as npt

from frazil.describe.graph import Layout, Line
from frazil.engine.refs import ancestry as history
from frazil.errors import FormatError, ObjectNotFoundError
from frazil.format.repo_info import RepoInfo
from frazil.format.transaction_log import TransactionLog
from frazil.format.update_log import RepoStatus, Update
from frazil.ids import SnapshotId
from frazil.web.explored import MAX_LANES, Explored, row_of
from frazil.web.http import to_json
from frazil.web.locations import location_facts

# Segments of the lines of a history that are drawn beside each commit.
#
# A segment is [lane, line, from above, to below, lane of the commit that it joins here or -1].

type Segments = list[list[int]]


def segments_at(layout: Layout, owner: Sequence[int], places: range, shared: int) -> list[Segments]:
    """Returns the line segments at some rows; `owner` is the commit of each line, lines in the lane
    `shared` are one.

    There may be thousands of those, so they are counted rather than looked at one by one.
    """
    lanes = [layout.lines[number].lane for number in owner]
    found: list[Segments] = [[] for _ in places]
    together: list[tuple[int, Line]] = []
    for number, line in enumerate(layout.lines):
        if line.first >= places.stop or line.last < places.start:
            continue
        if line.lane == shared:
            together.append((number, line))
            continue
        for place in range(max(line.first, places.start), min(line.last + 1, places.stop)):
            joins = lanes[place - places.start] if line.joins == place else -1
            above, below = int(line.first < place), int(line.last > place)
            found[place - places.start].append([line.lane, number, above, below, joins])
    if together:
        _add_shared(found, together, lanes, places)
    return found


def _add_shared(
    found: list[Segments], together: Sequence[tuple[int, Line]], lanes: list[int], places: range
) -> None:
    """Adds one segment for all that pass a place, and one for all that end there."""
    lane = together[0][1].lane
    first = np.array([line.first for _, line in together]) - places.start
    last = np.array([line.last for _, line in together]) - places.start
    ends = np.array([line.joins is not None for _, line in together])
    above = _interval_mask(first + 1, last + 1, len(found))
    below = _interval_mask(first, last, len(found))
    here = (first >= 0) & (first < len(found))
    starts = dict(zip(first[here].tolist(), np.flatnonzero(here).tolist(), strict=True))
    joining = set(last[ends].tolist())
    for at, segments in enumerate(found):
        number = together[starts.get(at, 0)][0]
        passing = int(above[at] and (below[at] or at not in joining))
        if passing or below[at] or at in starts:
            segments.append([lane, number, passing, int(below[at]), -1])
        if at in joining:
            segments.append([lane, number, 1, 0, lanes[at]])


def _interval_mask(start: np.ndarray, stop: np.ndarray, count: int) -> np.ndarray:
    """True for each of `count` rows that lies in any of the intervals, whose ends are exclusive."""
    edges = np.zeros(count + 1, np.int64)
    np.add.at(edges, np.clip(start, 0, count), 1)
    np.add.at(edges, np.clip(stop, 0, count), -1)
    return np.cumsum(edges)[:count] > 0


HEADLINE = 300  # letters of a message in a list


def repository_facts(explored: Explored) -> dict[str, object]:
    info = explored.info()
    return {
        "name": explored.name,
        "location": location_facts(explored.repository.raw_store),
        "spec_version": info.spec_version,
        "status": info.status.availability.label,
        "status_reason": info.status.reason,
        "branches": _ref_columns(info, info.branches),
        "tags": _ref_columns(info, info.tags),
        "snapshots": len(info.snapshots),
        "metadata": to_json(info.metadata),
    }


def _ref_columns(info: RepoInfo, refs: Mapping[str, int]) -> dict[str, list[str]]:
    names = sorted(refs, key=lambda name: (name != "main", name))
    return {"name": names, "id": [str(info.snapshots.id(refs[name])) for name in names]}


def commit_page(explored: Explored, offset: int, limit: int) -> dict[str, object]:
    """Rows from `offset` on, newest first; `segments` are the lines that pass each row."""
    info = explored.info()
    layout = explored.layout(info)
    rows = layout.rows[offset : offset + limit]
    owner = _owners(explored, info, layout)[offset : offset + limit].tolist()
    branches, tags = _names_at(info.branches), _names_at(info.tags)
    reached = _reachable_rows(explored, info)
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
        "metadata": to_json(record.metadata),
        "branches": _names_at(info.branches).get(row, []),
        "tags": _names_at(info.tags).get(row, []),
        "detached": row not in _reachable_rows(explored, info),
        "place": layout.rows.index(row) if row in layout.rows else None,
        "changes": _changes(explored, record.id),
    }


def _children(info: RepoInfo, row: int) -> list[int]:
    found: list[int] = np.flatnonzero(info.snapshots.parents == row)[:100].tolist()
    return found


def _changes(explored: Explored, snapshot: SnapshotId) -> dict[str, int] | None:
    """Number of changes in its transaction log; None without one, as in old generations."""
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


def _reachable_rows(explored: Explored, info: RepoInfo) -> set[int]:
    """Rows reachable from a branch or a tag."""
    return explored.recall_of(info, "reached", partial(_walk, info))


def _walk(info: RepoInfo) -> set[int]:
    reached = set[int]()
    for tip in {*info.branches.values(), *info.tags.values()}:
        for row in history.ancestor_rows(info, tip):
            if row in reached:
                break
            reached.add(row)
    return reached


# The ops log by the page, newest first.

_OLD = "unsupported-spec-version"


class _Log:
    """The loaded part of a log; the rest is read when it is needed."""

    def __init__(self, explored: Explored) -> None:
        self._rest = explored.repository.ops_log()
        self._known: list[Update] = []
        self._guard = Lock()

    def page(self, offset: int, limit: int) -> tuple[list[Update], bool]:
        """And whether there is more."""
        with self._guard:
            missing = offset + limit + 1 - len(self._known)
            self._known += islice(self._rest, max(missing, 0))
            return self._known[offset : offset + limit], len(self._known) > offset + limit


def operation_page(explored: Explored, offset: int, limit: int) -> dict[str, object]:
    try:
        log = explored.recall_of(explored.info(), "ops", lambda: _Log(explored))
        updates, more = log.page(offset, limit)
    except FormatError as error:
        if explored.repository.has_ops_log:
            raise
        return {"available": False, "reason": str(error), "offset": 0, "more": False, "at_us": []}
    return {
        "available": True,
        "offset": offset,
        "more": more,
        "at_us": [update.updated_at_us for update in updates],
        "operation": [_words(type(update.kind).__name__) for update in updates],
        "facts": [_facts(update) for update in updates],
    }


def _words(name: str) -> str:
    """`new commit` for NewCommit."""
    words = re.findall(r"GC|[A-Z][a-z]*", name)
    return " ".join(word if word.isupper() else word.lower() for word in words)


def _facts(update: Update) -> dict[str, str]:
    kind = update.kind
    return {name: _format_value(getattr(kind, name)) for name in type(kind).__slots__}


def _format_value(value: object) -> str:
    if isinstance(value, RepoStatus):
        return value.availability.label + (f": {value.reason}" if value.reason else "")
    return str(value)
