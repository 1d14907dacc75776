"""Several transaction logs as one."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from frazil.format.chunk_index import distinct
from frazil.format.transaction_log import NODE_LISTS, Move, TransactionLog
from frazil.ids import NodeId, SnapshotId
from frazil.paths import NodePath


def unite_logs(snapshot: SnapshotId, logs: Sequence[TransactionLog]) -> TransactionLog:
    """All that `logs`, oldest first, say has changed: a node may be new and updated and deleted."""
    return TransactionLog(
        id=snapshot,
        **{name: _all_ids([getattr(log, name) for log in logs]) for name in NODE_LISTS},
        updated_chunks=_all_chunks(logs),
        moved=_net_moves([move for log in logs for move in log.moved]),
    )


def collapse_log(log: TransactionLog) -> TransactionLog:
    """The same as one commit records it: each node in one list, and what came and went in none."""
    new = ids_in(log.new_groups, log.new_arrays)
    gone = ids_in(log.deleted_groups, log.deleted_arrays)
    both = new | gone
    lists = {
        name: _exclude_nodes(ids, both if name.startswith("updated") else new & gone)
        for name, ids in log.node_lists()
    }
    return TransactionLog(
        id=log.id,
        **lists,
        updated_chunks={
            node: index for node, index in log.updated_chunks.items() if node not in gone
        },
        moved=tuple(move for move in log.moved if move.node_id not in both),
    )


def _exclude_nodes(ids: npt.NDArray[np.uint8], left_out: set[NodeId]) -> npt.NDArray[np.uint8]:
    kept = [NodeId(raw.tobytes()) not in left_out for raw in ids]
    return ids[np.array(kept, dtype=np.bool_)]


def ids_in(*columns: npt.NDArray[np.uint8]) -> set[NodeId]:
    """The nodes that (n, 8) columns list."""
    return {NodeId(raw.tobytes()) for column in columns for raw in column}


def _all_ids(columns: list[npt.NDArray[np.uint8]]) -> npt.NDArray[np.uint8]:
    """Every row of (n, 8) columns, once, in ascending order."""
    rows = np.concatenate([np.zeros((0, NodeId.size), dtype=np.uint8), *columns])
    keys = np.ascontiguousarray(rows).view(">u8").astype(np.uint64).reshape(-1)
    return np.unique(keys).astype(">u8").view(np.uint8).reshape(-1, NodeId.size)


def _all_chunks(logs: Sequence[TransactionLog]) -> dict[NodeId, npt.NDArray[np.uint32]]:
    """Every chunk once, by node; where the number of dimensions differs, the newest log counts."""
    parts: dict[NodeId, list[npt.NDArray[np.uint32]]] = {}
    for log in logs:
        for node_id, index in log.updated_chunks.items():
            known = parts.setdefault(node_id, [])
            if known and known[-1].shape[1] != index.shape[1]:
                known.clear()
            known.append(index)
    return {
        node_id: known[0] if len(known) == 1 else distinct(np.concatenate(known))
        for node_id, known in parts.items()
    }


def _net_moves(moves: list[Move]) -> tuple[Move, ...]:
    """One move for each node, from its first path to its last, unless both are the same."""
    first: dict[NodeId, NodePath] = {}
    last: dict[NodeId, Move] = {}
    for move in moves:
        first.setdefault(move.node_id, move.from_path)
        last[move.node_id] = move
    return tuple(
        Move(first[node_id], move.to_path, node_id, move.is_array)
        for node_id, move in last.items()
        if first[node_id] != move.to_path
    )
