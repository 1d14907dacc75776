"""Logs of several commits as one commit would have recorded them."""

import numpy as np
import numpy.typing as npt

from frazil.engine.changes.transaction_logs import collapse_log, unite_logs
from frazil.format.transaction_log import Move, TransactionLog
from frazil.ids import NodeId, SnapshotId
from frazil.paths import NodePath

NEW, GONE, FLEETING, OTHER = (NodeId(bytes([number]) * 8) for number in (1, 2, 3, 4))
SNAPSHOT = SnapshotId(bytes(12))


def ids(*nodes: NodeId) -> npt.NDArray[np.uint8]:
    return np.frombuffer(b"".join(node.raw for node in nodes), dtype=np.uint8).reshape(-1, 8)


def test_each_node_is_in_one_list_and_what_came_and_went_in_none() -> None:
    index = np.zeros((1, 1), dtype=np.uint32)
    first = TransactionLog(
        id=SNAPSHOT,
        new_arrays=ids(NEW, FLEETING),
        updated_arrays=ids(GONE, OTHER),
        updated_chunks={NEW: index, FLEETING: index},
    )
    second = TransactionLog(
        id=SNAPSHOT,
        deleted_arrays=ids(GONE, FLEETING),
        updated_arrays=ids(NEW),
        moved=(
            Move(NodePath("/n"), NodePath("/m"), NEW, is_array=True),
            Move(NodePath("/o"), NodePath("/p"), OTHER, is_array=True),
        ),
    )
    log = collapse_log(unite_logs(SNAPSHOT, [first, second]))
    assert log.new_arrays.tolist() == ids(NEW).tolist()
    assert log.deleted_arrays.tolist() == ids(GONE).tolist()
    assert log.updated_arrays.tolist() == ids(OTHER).tolist()
    assert list(log.updated_chunks) == [NEW]
    assert [move.node_id for move in log.moved] == [OTHER]
