"""The first page: what a repository is about, what is in it, and when it changed."""

from functools import partial
from itertools import islice
from math import prod
from typing import Any

import numpy as np

from frazil.engine.refs import ancestry as history
from frazil.errors import IcechunkError
from frazil.format.nodes import Node
from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId
from frazil.web.commits import HEADLINE
from frazil.web.explored import DEFAULT, Explored
from frazil.web.trees import attributes_of, data_type_of

MOST = 200  # arrays that are listed
_MAX_NODES = 20_000  # that are looked at
_ABOUT = ("title", "summary", "description", "institution", "source", "references", "license")


def overview(explored: Explored, snapshot: SnapshotId) -> dict[str, object]:
    """Arrays with their names, units and sizes; coordinates, which name a dimension, come last."""
    info = explored.info()
    make = partial(_overview, explored, info, snapshot)
    return explored.recall_of(info, ("overview", snapshot), make)


def _overview(explored: Explored, info: RepoInfo, snapshot: SnapshotId) -> dict[str, object]:
    session = explored.session(snapshot)
    nodes = list(islice(session.nodes(), _MAX_NODES))
    groups = [node for node in nodes if not node.is_array]
    arrays = [node for node in nodes if node.is_array]
    arrays.sort(key=lambda node: (_is_coordinate(node), _rank(node), node.path.text))
    record = history.record_at(info, history.require_row(info, snapshot))
    about = _about(groups)
    return {
        "snapshot": str(snapshot),
        "about": about,
        "groups": len(groups),
        "arrays": [_facts(node) for node in arrays[:MOST]],
        "total": len(arrays),
        "is_partial": len(nodes) == _MAX_NODES,
        "bytes": sum(_size_bytes(node) for node in arrays),
        "at_us": record.flushed_at_us,
        "message": record.message[:HEADLINE],
        "snapshots": len(info.snapshots),
        "branches": len(info.branches),
        "tags": len(info.tags),
    }


def _about(groups: list[Node]) -> dict[str, str]:
    """Title and so on of the first group that has any, from the root down."""
    for node in sorted(groups, key=lambda each: (each.path.text.count("/"), each.path.text))[:50]:
        attributes = attributes_of(node)
        known: dict[str, Any] = {str(key).lower(): each for key, each in attributes.items()}
        found = {key: known[key][:1000] for key in _ABOUT if isinstance(known.get(key), str)}
        if found:
            return found
    return {}


def _is_coordinate(node: Node) -> bool:
    names = node.array.dimension_names if node.array is not None else None
    return names == (node.path.name,)


def _rank(node: Node) -> int:
    """Maps before curves before numbers."""
    return -min(len(node.array.shape), 2) if node.array is not None else 0


def _size_bytes(node: Node) -> int:
    """Bytes of the values without compression, as far as the data type tells."""
    if node.array is None:
        return 0
    try:
        item = np.dtype(data_type_of(node) or "u1").itemsize
    except TypeError:
        item = 1
    return prod(node.array.shape) * max(item, 1)


def _facts(node: Node) -> dict[str, object]:
    attributes = attributes_of(node)
    texts = {key: attributes.get(key) for key in ("long_name", "standard_name", "units")}
    array = node.array
    return {
        "path": node.path.text,
        "shape": () if array is None else array.shape,
        "dimension_names": None if array is None else array.dimension_names,
        "data_type": data_type_of(node),
        "bytes": _size_bytes(node),
        "is_coordinate": _is_coordinate(node),
        **{key: each[:200] if isinstance(each, str) else "" for key, each in texts.items()},
    }


def summary(explored: Explored) -> dict[str, object]:
    """One repository in a list of them: what can be told without reading arrays."""
    try:
        found = overview(explored, explored.snapshot(DEFAULT))
    except IcechunkError as error:
        return {"name": explored.name, "problem": str(error)[:500]}
    arrays = [each["path"] for each in found["arrays"]]  # type: ignore[attr-defined]  # a list
    return {"name": explored.name, **found, "arrays": arrays[:8]}
