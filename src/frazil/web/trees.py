"""Groups and arrays at a snapshot: children by the page, and one node in full."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

import numpy as np

from frazil.engine.refs.ancestry import SnapshotChain
from frazil.errors import NodeNotFoundError
from frazil.format.nodes import Node
from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId
from frazil.paths import NodePath
from frazil.web.commits import HEADLINE
from frazil.web.explored import Explored
from frazil.web.http import readable_document

MAX_SHOWN = 2**16  # letters of a document that are sent as text


@dataclass(frozen=True, slots=True)
class Paths:
    """All paths of a snapshot, in ascending order of their text."""

    texts: list[str]

    def under(self, path: NodePath) -> range:
        """Places of everything below `path`."""
        prefix = path.descendant_prefix
        start = bisect_right(self.texts, prefix)
        after = prefix[:-1] + "0"  # the letter that follows the slash
        return range(start, bisect_left(self.texts, after, lo=start))

    def child_names(self, path: NodePath) -> list[str]:
        """Also of groups that exist only as part of a path; the last have a slash behind."""
        prefix = path.descendant_prefix
        names: dict[str, bool] = {}
        for place in self.under(path):
            name, slash, _ = self.texts[place][len(prefix) :].partition("/")
            names[name] = names.get(name, False) or bool(slash)
        return sorted(names)


def paths_at(explored: Explored, snapshot: SnapshotId) -> Paths:
    def make() -> Paths:
        names = explored.repository.files.fetch_node_names(snapshot)
        return Paths(sorted(cast("list[str]", names.paths.to_texts())))

    return explored.recall(("paths", snapshot), make)


def child_page(
    explored: Explored, snapshot: SnapshotId, path: NodePath, offset: int, limit: int
) -> dict[str, object]:
    session = explored.session(snapshot)
    names = paths_at(explored, snapshot).child_names(path)
    if not names and session.find_node(path) is None and path.text != "/":
        raise NodeNotFoundError(f"node not found at `{path}`")
    page = names[offset : offset + limit]
    children = [path.child(name) for name in page]
    nodes = [session.find_node(child) for child in children]
    return {
        "snapshot": str(snapshot),
        "path": path.text,
        "total": len(names),
        "offset": offset,
        "name": page,
        "child": [child.text for child in children],
        "kind": [_kind(node) for node in nodes],
        "shape": [
            None if node is None or node.array is None else node.array.shape for node in nodes
        ],
        "data_type": [None if node is None else data_type_of(node) for node in nodes],
    }


def node_facts(explored: Explored, snapshot: SnapshotId, path: NodePath) -> dict[str, object]:
    node = explored.session(snapshot).find_node(path)
    children = len(paths_at(explored, snapshot).child_names(path))
    facts: dict[str, object] = {
        "snapshot": str(snapshot),
        "path": path.text,
        "kind": _kind(node),
        "children": children,
        "attributes": {},
        "document": None,
    }
    if node is None:
        if path.text != "/" and not children:
            raise NodeNotFoundError(f"node not found at `{path}`")
        return facts
    document = readable_document(node.user_data) or {}
    facts |= {
        "id": str(node.id),
        "attributes": document.get("attributes") or {},
        "document": node.user_data[:MAX_SHOWN].decode(errors="replace"),
        "document_bytes": len(node.user_data),
    }
    return facts if node.array is None else facts | _array_facts(node, document)


def _array_facts(node: Node, document: dict[str, Any]) -> dict[str, object]:
    array = node.array
    if array is None:
        return {}
    return {
        "shape": array.shape,
        "grid": array.num_chunks,
        "dimension_names": array.dimension_names,
        "data_type": data_type_of(node),
        "chunk_grid": document.get("chunk_grid"),
        "fill_value": document.get("fill_value"),
        "codecs": document.get("codecs") or [],
        "manifests": len(array.manifests),
    }


def data_type_of(node: Node) -> str | None:
    """The name of a Zarr data type, which is a string or an object with a name."""
    if node.array is None:
        return None
    document = readable_document(node.user_data) or {}
    stored = document.get("data_type")
    return str(stored.get("name") if isinstance(stored, dict) else stored)


def _kind(node: Node | None) -> str:
    """A group that is only part of a path is a group like others."""
    return "group" if node is None or node.array is None else "array"


# Path of a node in an earlier snapshot: a node that is moved keeps its id.


def path_before(explored: Explored, start: SnapshotId, end: SnapshotId, path: NodePath) -> NodePath:
    """The path at `start` of what is at `path` in `end`; the same one if it is in only one."""
    node = explored.session(end).find_node(path)
    if node is None:
        return path
    names = explored.repository.files.fetch_node_names(start)
    rows = np.flatnonzero((names.ids == np.frombuffer(node.id.raw, np.uint8)).all(axis=1))
    text = names.paths.text(int(rows[0])) if len(rows) else None
    return path if text is None else NodePath(text)


# The metadata of a node in two snapshots, to be laid beside each other.


def metadata_change(
    explored: Explored, start: SnapshotId, end: SnapshotId, path: NodePath
) -> dict[str, object]:
    """`path` is that of the later snapshot. Raises if the node is in only one of them."""
    sides = {
        "before": node_facts(explored, start, path_before(explored, start, end, path)),
        "after": node_facts(explored, end, path),
    }
    return {
        side: {name: facts[name] for name in ("path", "document")} for side, facts in sides.items()
    }


# Search: paths, commits and refs that contain a text.

MOST = 50  # of each kind
_MAX_WANTED = 500
_MAX_LABELLED = 50_000


def search(explored: Explored, snapshot: SnapshotId, wanted: str) -> dict[str, object]:
    """Upper and lower case are the same; `total` counts those that are not listed too."""
    text = wanted.strip()[:_MAX_WANTED].casefold()
    info = explored.info()
    if not text:
        return {"query": wanted, "snapshot": str(snapshot), "refs": [], "paths": [], "commits": []}
    labels = labels_at(explored, snapshot)
    paths = [
        each for each in paths_at(explored, snapshot).texts
        if text in each.casefold() or text in labels.get(each, "").casefold()
    ]  # fmt: skip
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
        "about": [labels.get(each, "") for each in paths[:MOST]],
        "commits": commits[:MOST],
        "totals": {"refs": len(refs), "paths": len(paths), "commits": len(commits)},
    }


def labels_at(explored: Explored, snapshot: SnapshotId) -> dict[str, str]:
    """Long name and units of each node that has any, by path; of the first nodes, if very many."""

    def make() -> dict[str, str]:
        nodes = islice(explored.session(snapshot).nodes(), _MAX_LABELLED)
        found = {node.path.text: _label(node) for node in nodes}
        return {path: label for path, label in found.items() if label}

    return explored.recall(("labels", snapshot), make)


def _label(node: Node) -> str:
    if b"long_name" not in node.user_data and b"units" not in node.user_data:
        return ""
    attributes = attributes_of(node)
    parts = [attributes.get(key) for key in ("long_name", "units")]
    long_name, units = (each[:HEADLINE] if isinstance(each, str) else "" for each in parts)
    return f"{long_name} [{units}]".strip() if units else long_name


def attributes_of(node: Node) -> dict[str, Any]:
    document = readable_document(node.user_data)
    found = document.get("attributes") if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


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
