"""Where a node of one snapshot was in an earlier one: a node that is moved keeps its id."""

import numpy as np

from frazil.ids import SnapshotId
from frazil.paths import NodePath
from frazil.web.explored import Explored


def path_before(explored: Explored, start: SnapshotId, end: SnapshotId, path: NodePath) -> NodePath:
    """The path at `start` of what is at `path` in `end`; the same one if it is in only one."""
    node = explored.session(end).find_node(path)
    if node is None:
        return path
    names = explored.repository.files.fetch_node_names(start)
    rows = np.flatnonzero((names.ids == np.frombuffer(node.id.raw, np.uint8)).all(axis=1))
    text = names.paths.text(int(rows[0])) if len(rows) else None
    return path if text is None else NodePath(text)
