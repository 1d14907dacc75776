"""Chunks that commits moved to other objects without changing a value: pack and unpack do that.

Such a commit names itself in its notes (`packed`, `unpacked`; a squash or an expiry may include
one), and its transaction log does not list the chunks that it moved. So a chunk whose reference
differs between such a commit and its parent, and which the log does not list, has the same bytes
at both places. Merge, cherry-pick and revert compare references as if it had never moved.
"""

from collections.abc import Iterable, Sequence
from dataclasses import field, replace

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.engine.changes.transaction_logs import unite_logs
from frazil.engine.files.files import Files
from frazil.engine.merge.chunk_overlaps import Canonical
from frazil.engine.merge.comparison import ReadRefs, chunks_between
from frazil.engine.merge.conflicts import rows_by_id
from frazil.engine.refs import ancestry as history
from frazil.engine.refs.ancestry import reachable_rows
from frazil.engine.refs.commit_metadata import moves_chunks, moves_chunks_upon
from frazil.errors import ObjectNotFoundError
from frazil.format.chunk_index import SortedKeys
from frazil.format.chunk_refs import ChunkRefs, RefKind
from frazil.format.nodes import Node
from frazil.format.repo_info import RepoInfo
from frazil.format.transaction_log import TransactionLog
from frazil.ids import NodeId, SnapshotId

type Places = npt.NDArray[np.uint8]  # (n, 28) object, offset and length of native chunks


@dataclass(frozen=True, slots=True)
class Move:
    """A commit that may have moved chunks, and the logs that list what it changed."""

    before: SnapshotId
    after: SnapshotId
    logs: tuple[SnapshotId, ...]


def find_moves(info: RepoInfo, snapshots: Sequence[SnapshotId], *, version: int) -> list[Move]:
    """Commits that moved chunks and are in the history of some of these snapshots.

    Those before the last snapshot that all of them descend from do not matter: where they put
    chunks is where all of them found them.
    """
    tips = [history.require_row(info, each) for each in snapshots]
    common = set.intersection(*({*history.ancestor_rows(info, row)} for row in tips))
    rows = set.union(*(reachable_rows(info, row) for row in tips)) - common
    found = (_find_move(info, row, version) for row in sorted(rows))
    return [move for move in found if move is not None]


def _find_move(info: RepoInfo, row: int, version: int) -> Move | None:
    parent = history.record_at(info, row).parent_id
    if parent is None:
        return None
    metadata, own = info.snapshots.metadata(row), history.snapshot_id(info, row)
    if version == 1:  # expiry gives a snapshot another parent and does not say so
        return Move(parent, own, (own,)) if moves_chunks_upon(metadata) == str(parent) else None
    expired = tuple(SnapshotId(raw) for raw in info.snapshots.pruned_logs(row))
    return Move(parent, own, (*expired, own)) if expired or moves_chunks(metadata) else None


@dataclass(frozen=True, slots=True, eq=False)
class MovedChunks:
    """Places of equal bytes by array, read when they are first asked for."""

    files: Files
    moves: Sequence[Move]
    read: ReadRefs
    _known: dict[NodeId, Canonical] = field(default_factory=dict)
    _logs: dict[Move, TransactionLog | None] = field(default_factory=dict)

    def canonical(self, node_id: NodeId) -> Canonical:
        if node_id not in self._known:
            pairs = [pair for move in self.moves for pair in self._pairs(move, node_id)]
            self._known[node_id] = canonical_places(pairs)
        return self._known[node_id]

    def _pairs(self, move: Move, node_id: NodeId) -> Iterable[tuple[Places, Places]]:
        """Places of the array's chunks before and after a commit that moved them."""
        log = self._log(move)
        if log is None:
            return
        before = _find_node(self.files, move.before, node_id)
        after = _find_node(self.files, move.after, node_id)
        if before is None or after is None or before.array is None or after.array is None:
            return
        if before.array.manifests == after.array.manifests:
            return
        now = chunks_between(before, after, self.read).refs
        listed = log.updated_chunks.get(node_id)
        if listed is not None and listed.shape[1] == now.ndim:
            now = now.take(np.flatnonzero(SortedKeys.of(listed).lookup(now.index) < 0))
        shared = {ref.id for ref in after.array.manifests}
        was = self.read(before, [ref for ref in before.array.manifests if ref.id not in shared])
        if was.ndim != now.ndim:
            return
        rows = was.lookup(now.index)
        was, now = was.take(rows[rows >= 0]), now.take(np.flatnonzero(rows >= 0))
        both = (was.kind == RefKind.NATIVE) & (now.kind == RefKind.NATIVE)
        same = np.flatnonzero(both & (was.length == now.length))
        if len(same):
            yield places_of(was.take(same)), places_of(now.take(same))

    def _log(self, move: Move) -> TransactionLog | None:
        """All that the commit changed; None if a log is gone, so that no one can tell."""
        if move not in self._logs:
            try:
                logs = self.files.fetch_logs(move.logs)
            except ObjectNotFoundError:
                self._logs[move] = None
            else:
                self._logs[move] = unite_logs(move.after, logs)
        return self._logs[move]


def _find_node(files: Files, snapshot: SnapshotId, node_id: NodeId) -> Node | None:
    try:
        nodes = files.fetch_snapshot(snapshot).nodes
    except ObjectNotFoundError:  # a merge's note keeps no snapshot from being collected
        return None
    row = rows_by_id(nodes, [node_id]).get(node_id)
    return None if row is None else nodes.node(row)


def places_of(refs: ChunkRefs) -> Places:
    numbers = np.stack([refs.offset, refs.length], axis=1).astype("<u8")
    return np.concatenate([refs.chunk_id, numbers.view(np.uint8)], axis=1)


def canonical_places(pairs: Sequence[tuple[Places, Places]]) -> Canonical:
    """Replaces each place by the one that stands for all that the pairs connect it with."""
    if not pairs:
        return lambda refs: refs
    one, two = (np.concatenate(side) for side in zip(*pairs, strict=True))
    keys, numbers = np.unique(_as_keys(np.concatenate([one, two])), return_inverse=True)
    left, right = numbers[: len(one)], numbers[len(one) :]
    group = np.arange(len(keys), dtype=np.int64)
    while True:  # as often as a chunk was moved
        least = np.minimum(group[left], group[right])
        new = group.copy()
        np.minimum.at(new, left, least)
        np.minimum.at(new, right, least)
        new = new[new]
        if np.array_equal(new, group):
            break
        group = new
    stands_for = keys[group].view(np.uint8).reshape(-1, 28)

    def canonical(refs: ChunkRefs) -> ChunkRefs:
        wanted = _as_keys(places_of(refs))
        rows = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        moved = np.flatnonzero((keys[rows] == wanted) & (refs.kind == RefKind.NATIVE))
        if not len(moved):
            return refs
        chosen = stands_for[rows[moved]]
        chunk_id, offset = refs.chunk_id.copy(), refs.offset.copy()
        chunk_id[moved] = chosen[:, :12]
        offset[moved] = np.ascontiguousarray(chosen[:, 12:20]).view("<u8").reshape(-1)
        return replace(refs, chunk_id=chunk_id, offset=offset)

    return canonical


def _as_keys(places: Places) -> npt.NDArray[np.bytes_]:
    """One comparable value for each place."""
    return np.ascontiguousarray(places).view("V28").reshape(-1)
