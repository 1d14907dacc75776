"""Transaction logs of a copy of some paths, which agree with its snapshots.

A log names nodes by id, and moves by path. To the copy, a node that moved into its paths is new,
with all its chunks, and one that moved out is deleted.

    before -> after    in the copy
    inside    inside   as in the source, moves included
    outside   inside   new
    inside    outside  deleted
    outside   outside  nothing
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

import numpy as np
import numpy.typing as npt

from frazil.engine.files.files import Files
from frazil.engine.merge.comparison import chunks_between, refs_reader
from frazil.errors import ObjectNotFoundError
from frazil.format.chunk_index import distinct
from frazil.format.nodes import Nodes, id_column
from frazil.format.repo_info import RepoInfo
from frazil.format.transaction_log import NODE_LISTS, TransactionLog
from frazil.ids import NodeId, SnapshotId
from frazil.maintenance.copying.rewrite_rules import Wants
from frazil.paths import NodePath

type Paths = Mapping[bytes, NodePath]
"""By node id, where nodes are."""

type AllChunks = Callable[[bytes], npt.NDArray[np.uint32] | None]
"""Indices of all chunks of an array, by its id; None if it is no array, or not there."""


def partial_logs(source: Files, info: RepoInfo, row: int, wants: Wants) -> list[TransactionLog]:
    """Logs between a snapshot and its parent, oldest first: its own is the last.

    The others are those of ancestors that were expired. Their ids are still those of the source.
    """
    own = info.snapshots.id(row)
    logs = []
    for snapshot in (*map(SnapshotId, info.snapshots.pruned_logs(row)), own):
        with suppress(ObjectNotFoundError):  # a first snapshot may have none
            logs.append(source.fetch_log(snapshot))
    if not logs:
        return []
    above = info.snapshots.parent(row)
    nodes = source.fetch_snapshot(own).nodes
    before = {} if above < 0 else _paths(source.fetch_snapshot(info.snapshots.id(above)).nodes)
    states = list(_states(logs, before, _paths(nodes)))
    chunks = partial(_all_chunks, source, nodes)
    return [
        rewrite_partial_log(log, states[at], states[at + 1], wants, chunks)
        for at, log in enumerate(logs)
    ]


def rewrite_partial_log(
    log: TransactionLog, before: Paths, after: Paths, wants: Wants, all_chunks: AllChunks
) -> TransactionLog:
    lists = {name: {raw.tobytes() for raw in ids} for name, ids in log.node_lists()}
    arrays = {move.node_id.raw for move in log.moved if move.is_array}
    arrays.update(raw for name, ids in lists.items() if name.endswith("arrays") for raw in ids)
    moved = {move.node_id.raw for move in log.moved}
    updated = {node.raw: index for node, index in log.updated_chunks.items()}
    stays = set[bytes]()
    for raw in moved.union(updated, *lists.values()):
        was, is_now = _is_inside(raw, before, wants), _is_inside(raw, after, wants)
        sort = "arrays" if raw in arrays else "groups"
        mentions = [name for name in NODE_LISTS if raw in lists[name]]
        if was and is_now:
            stays.add(raw)
            continue
        kept = f"new_{sort}" if is_now else f"deleted_{sort}" if was else ""
        if kept in mentions:  # it did not only come or go by a move
            continue
        for name in mentions:
            lists[name].discard(raw)
        updated.pop(raw, None)
        if kept:
            lists[kept].add(raw)
        if is_now and (index := all_chunks(raw)) is not None and len(index):
            updated[raw] = index
    return TransactionLog(
        id=log.id,
        **{name: id_column(sorted(ids), NodeId.size) for name, ids in lists.items()},
        updated_chunks={NodeId(raw): updated[raw] for raw in sorted(updated)},
        moved=tuple(move for move in log.moved if move.node_id.raw in stays),
    )


def _is_inside(raw: bytes, paths: Paths, wants: Wants) -> bool:
    path = paths.get(raw)
    return path is not None and wants(path)


def _states(logs: Sequence[TransactionLog], before: Paths, after: Paths) -> Iterator[Paths]:
    """Paths of nodes before the first log, and after each."""
    yield before
    paths = dict(before)
    for at, log in enumerate(logs[:-1]):
        for name, ids in log.node_lists():
            for raw in map(bytes, ids):
                if name.startswith("deleted"):
                    paths.pop(raw, None)
                elif name.startswith("new") and (path := _next_path(raw, logs[at + 1 :], after)):
                    paths[raw] = path
        paths.update((move.node_id.raw, move.to_path) for move in log.moved)
        yield dict(paths)
    yield after


def _next_path(raw: bytes, later: Sequence[TransactionLog], after: Paths) -> NodePath | None:
    """Path of a node until it moves; None if it is deleted before any log names its path."""
    for log in later:
        for move in log.moved:
            if move.node_id.raw == raw:
                return move.from_path
    return after.get(raw)


def _paths(nodes: Nodes) -> Paths:
    ids = nodes.table.struct("id").values
    return {ids[row].tobytes(): NodePath(nodes.path_text(row)) for row in range(len(nodes))}


def _all_chunks(source: Files, nodes: Nodes, raw: bytes) -> npt.NDArray[np.uint32] | None:
    ids = nodes.table.struct("id").values
    rows = np.flatnonzero((ids == np.frombuffer(raw, np.uint8)).all(axis=1))
    node = nodes.node(int(rows[0])) if len(rows) else None
    if node is None or node.array is None:
        return None
    return distinct(chunks_between(None, node, refs_reader(source)).index)
