"""Groups and arrays at a snapshot: children by the page, and one node in full."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any, cast

from frazil.errors import NodeNotFoundError
from frazil.format.snapshot import Node
from frazil.ids import SnapshotId
from frazil.paths import NodePath
from frazil.web.answers import readable_document
from frazil.web.explored import Explored

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
