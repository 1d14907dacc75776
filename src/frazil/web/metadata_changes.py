"""The metadata of a node in two snapshots, to be laid beside each other."""

from frazil.ids import SnapshotId
from frazil.paths import NodePath
from frazil.web.explored import Explored
from frazil.web.moves import path_before
from frazil.web.trees import node_facts


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
