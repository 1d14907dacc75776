"""The groups and arrays of a version, drawn as a tree and as JSON."""

import json

from frazil.engine.session.session import Session
from frazil.format.nodes import Node
from frazil.paths import NodePath


def nodes_below(session: Session, top: NodePath, depth: int | None = None) -> list[Node]:
    """`top` and what is at most so many levels below it. Raises NodeNotFoundError."""
    if top.text != "/":
        session.node(top)  # raises if there is none
    limit = None if depth is None else len(top.segments) + depth
    nodes = sorted(session.nodes(top), key=lambda node: node.path.segments)
    return [node for node in nodes if limit is None or len(node.path.segments) <= limit]


def tree_lines(nodes: list[Node], top: NodePath) -> list[str]:
    """One line per node, drawn below `top`; orphans hang from their nearest ancestor."""
    known = {node.path for node in nodes}
    children: dict[NodePath, list[Node]] = {}
    for node in sorted(nodes, key=lambda node: node.path.segments):
        above = next((each for each in node.path.ancestors if each in known), top)
        children.setdefault(above, []).append(node)

    lines = list[str]()
    pending = [(node, "", node is children[top][-1]) for node in reversed(children.get(top, []))]
    while pending:
        node, indent, last = pending.pop()
        lines.append(f"{indent}{'└── ' if last else '├── '}{_label(node)}")
        below = children.get(node.path, [])
        deeper = indent + ("    " if last else "│   ")
        pending += [(child, deeper, child is below[-1]) for child in reversed(below)]
    return lines


def _label(node: Node) -> str:
    if node.array is None:
        return f"{node.path.name}/"
    facts = node_as_json(node)
    names = node.array.dimension_names or (None,) * len(node.array.shape)
    sizes = ", ".join(
        str(size) if name is None else f"{name}: {size}"
        for name, size in zip(names, node.array.shape, strict=True)
    )
    grid = "x".join(map(str, node.array.num_chunks)) or "1"
    chunks = "1 chunk" if grid == "1" else f"{grid} chunks"
    return f"{node.path.name}  ({sizes}) {facts['data_type']}, {chunks}"


def node_as_row(node: Node) -> tuple[str, str, str, str, str]:
    """Name, type, shape, data type, chunks."""
    if node.array is None:
        return f"{node.path.name}/", "group", "", "", ""
    facts = node_as_json(node)
    names = node.array.dimension_names or (None,) * len(node.array.shape)
    shape = ", ".join(
        str(size) if name is None else f"{name}: {size}"
        for name, size in zip(names, node.array.shape, strict=True)
    )
    grid = "x".join(map(str, node.array.num_chunks)) or "1"
    return node.path.name, "array", f"({shape})", str(facts["data_type"]), grid


def node_as_json(node: Node) -> dict[str, object]:
    metadata = json.loads(node.user_data)
    facts: dict[str, object] = {"path": str(node.path), "id": str(node.id)}
    if node.array is None:
        return facts | {"type": "group", "attributes": metadata.get("attributes", {})}
    return facts | {
        "type": "array",
        "shape": node.array.shape,
        "num_chunks": node.array.num_chunks,
        "dimension_names": node.array.dimension_names,
        "data_type": _data_type(metadata.get("data_type")),
        "attributes": metadata.get("attributes", {}),
    }


def _data_type(stored: object) -> str:
    """The name of a Zarr data type, which is a string or an object with a name."""
    return str(stored["name"] if isinstance(stored, dict) else stored)
