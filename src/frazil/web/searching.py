"""Paths, commits and refs that contain what somebody is looking for."""

from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId
from frazil.repo.snapshot_chain import SnapshotChain
from frazil.web.commits import HEADLINE
from frazil.web.explored import Explored
from frazil.web.trees import paths_at

MOST = 50  # of each kind
_MAX_WANTED = 500


def search(explored: Explored, snapshot: SnapshotId, wanted: str) -> dict[str, object]:
    """Upper and lower case are the same; `total` counts those that are not listed too."""
    text = wanted.strip()[:_MAX_WANTED].casefold()
    info = explored.info()
    if not text:
        return {"query": wanted, "snapshot": str(snapshot), "refs": [], "paths": [], "commits": []}
    paths = [each for each in paths_at(explored, snapshot).texts if text in each.casefold()]
    paths.sort(key=lambda path: (not _name(path).casefold().startswith(text), len(path), path))
    refs = [
        {"kind": kind, "name": name, "id": str(info.snapshots.id(row))}
        for kind, names in (("branch", info.branches), ("tag", info.tags))
        for name, row in sorted(names.items())
        if text in name.casefold()
    ]
    commits = _commits(explored, info, text)
    return {
        "query": wanted,
        "snapshot": str(snapshot),
        "refs": refs[:MOST],
        "paths": paths[:MOST],
        "commits": commits[:MOST],
        "totals": {"refs": len(refs), "paths": len(paths), "commits": len(commits)},
    }


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _commits(explored: Explored, info: RepoInfo, text: str) -> list[dict[str, object]]:
    """Newest first, by message or by the beginning of the id."""
    rows = explored.layout(info).rows
    messages = _messages(explored, info)
    ids = info.snapshots
    return [
        {"id": str(ids.id(row)), "message": messages[row][:HEADLINE], "at_us": ids.flushed_at(row)}
        for row in rows
        if text in messages[row].casefold() or str(ids.id(row)).casefold().startswith(text)
    ]


def _messages(explored: Explored, info: RepoInfo) -> list[str]:
    def make() -> list[str]:
        if isinstance(info.snapshots, SnapshotChain):
            return [info.snapshots.message(row) for row in range(len(info.snapshots))]
        return [text or "" for text in info.snapshots.table.string("message").to_texts()]

    return explored.recall_of(info, "messages", make)
