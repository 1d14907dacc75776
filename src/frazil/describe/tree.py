"""The groups and arrays of a version: drawn as a tree, as rows of a table, as JSON."""

import json
import re
from collections.abc import Mapping
from math import prod
from typing import Any

from frazil.describe.units import format_size
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
    text = f"{node.path.name}  ({sizes}) {facts['data_type']}"
    if node.array.shape:
        text += f", chunks {_chunks(facts)}"
    if facts["size_bytes"] is not None:
        text += f", {format_size(facts['size_bytes'])}"
    return "  ".join(filter(None, [text, describe(facts["attributes"])]))


def describe(attributes: Mapping[str, Any]) -> str:
    """Long name and units: `2 metre temperature [K]`."""
    name = attributes.get("long_name") or attributes.get("standard_name")
    units = attributes.get("units")
    return " ".join(filter(None, [str(name or ""), f"[{units}]" if units else ""]))


def _chunks(facts: Mapping[str, Any]) -> str:
    return "x".join(map(str, facts["chunk_shape"])) or "1"


HEADERS = ("name", "type", "shape", "data type", "chunk shape", "size", "description")


def node_as_row(node: Node) -> tuple[str, ...]:
    """Cells under HEADERS."""
    if node.array is None:
        attributes = node_as_json(node)["attributes"]
        return f"{node.path.name}/", "group", "", "", "", "", str(attributes.get("title", ""))
    facts = node_as_json(node)
    names = node.array.dimension_names or (None,) * len(node.array.shape)
    shape = ", ".join(
        str(size) if name is None else f"{name}: {size}"
        for name, size in zip(names, node.array.shape, strict=True)
    )
    size = "" if facts["size_bytes"] is None else format_size(facts["size_bytes"])
    about = describe(facts["attributes"])
    return (
        node.path.name, "array", f"({shape})", str(facts["data_type"]), _chunks(facts), size, about,
    )  # fmt: skip


def node_as_json(node: Node) -> dict[str, Any]:
    metadata = json.loads(node.user_data)
    facts: dict[str, Any] = {"path": str(node.path), "node_id": str(node.id)}
    if node.array is None:
        return facts | {"type": "group", "attributes": metadata.get("attributes", {})}
    return facts | {
        "type": "array",
        "shape": node.array.shape,
        "chunk_shape": _chunk_shape(metadata),
        "num_chunks": node.array.num_chunks,
        "dimension_names": node.array.dimension_names,
        "data_type": _data_type(metadata.get("data_type")),
        "size_bytes": _size_bytes(metadata),
        "attributes": metadata.get("attributes", {}),
    }


def _chunk_shape(metadata: Mapping[str, Any]) -> list[int]:
    """Shape of the chunks; of the inner ones, if the array has shards."""
    for codec in metadata.get("codecs") or ():
        if isinstance(codec, dict) and codec.get("name") == "sharding_indexed":
            return list(codec.get("configuration", {}).get("chunk_shape", ()))
    grid = metadata.get("chunk_grid") or {}
    found: list[int] = list(grid.get("configuration", {}).get("chunk_shape", metadata["shape"]))
    return found


def _size_bytes(metadata: Mapping[str, Any]) -> int | None:
    """Bytes of all values, uncompressed; None for types of no fixed size."""
    name = _data_type(metadata.get("data_type"))
    bits = re.fullmatch(r"(?:u?int|float|complex|r)(\d+)", name)
    if name != "bool" and bits is None:
        return None
    count: int = prod(metadata["shape"])
    return count * (1 if bits is None else int(bits[1]) // 8)


def _data_type(stored: object) -> str:
    """The name of a Zarr data type, which is a string or an object with a name."""
    return str(stored["name"] if isinstance(stored, dict) else stored)
