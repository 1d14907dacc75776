"""Several transaction logs as one: what expired snapshots leave to their successor."""

from collections.abc import Sequence

import numpy as np

from frazil.format.index_keys import distinct
from frazil.format.txlog import NODE_LISTS, Move, TransactionLog
from frazil.ids import NodeId


def composite(logs: Sequence[TransactionLog]) -> TransactionLog:
    """The sum of `logs`, oldest first, under the name of the newest.

    A node may be new, updated and deleted at once. One that was moved several times has gone from
    its first place to its last.
    """
    nodes = sorted({node for log in logs for node in log.updated_chunks})
    return TransactionLog(
        id=logs[-1].id,
        **{
            name: np.unique(np.concatenate([getattr(log, name) for log in logs]), axis=0)
            for name in NODE_LISTS
        },
        updated_chunks={
            node: distinct(
                np.concatenate(
                    [log.updated_chunks[node] for log in logs if node in log.updated_chunks]
                )
            )
            for node in nodes
        },
        moved=_composed([move for log in logs for move in log.moved]),
    )


def _composed(moves: list[Move]) -> tuple[Move, ...]:
    journeys: dict[NodeId, Move] = {}
    for move in moves:
        start = journeys.get(move.node_id, move).from_path
        journeys[move.node_id] = Move(start, move.to_path, move.node_id, move.is_array)
    return tuple(sorted(journeys.values(), key=lambda move: move.to_path.segments))
