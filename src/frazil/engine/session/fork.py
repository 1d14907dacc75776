"""Sessions that work for another one, here or in other processes.

A fork sees what its parent saw when it was made, pending changes included: these travel with it
(columns, not files), so that forking stores nothing and leaves no garbage behind. What the fork
does itself is kept apart from that and can be merged into the parent, or into another fork.

    parent's snapshot  <-  layers of inherited changes  <-  the fork's own changes
"""

import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, reduce

from frazil.clock import Clock
from frazil.dataclass import dataclass
from frazil.engine.changes.change_set import ChangeSet
from frazil.engine.changes.pending import UNTOUCHED, ChunkChanges, Index, PendingChunks, Untouched
from frazil.engine.files.files import Files
from frazil.engine.merge.chunk_overlaps import bytes_comparer
from frazil.engine.merge.fork_merge import ForkChanges, merge_forks
from frazil.engine.refs.entries import files_of
from frazil.engine.session.session import Session
from frazil.engine.session.session_state import SessionMode
from frazil.errors import ReadOnlyError, SessionStateError
from frazil.format.chunk_refs import Payload
from frazil.format.nodes import Node, Nodes
from frazil.format.snapshot import Snapshot
from frazil.ids import NodeId
from frazil.paths import NodePath


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """The changes of a session at one moment, to be pickled: no larger than need be."""

    edited: Mapping[str, Node | None]
    created: frozenset[NodeId]
    updated: frozenset[NodeId]
    deleted: Mapping[NodeId, Node]
    chunks: Mapping[NodeId, tuple[NodePath, ChunkChanges]]
    has_moves: bool = False

    @classmethod
    def of(cls, changes: ChangeSet) -> "Layer":
        nodes = changes.known_nodes()
        chunks = {
            node_id: (nodes[node_id].path, _compact(pending.changes()))
            for node_id, pending in changes.chunks.items()
        }
        return cls(
            edited=dict(changes.edited),
            created=frozenset(changes.created),
            updated=frozenset(changes.updated),
            deleted=dict(changes.deleted),
            chunks=chunks,
            has_moves=bool(changes.moved),
        )

    @property
    def is_empty(self) -> bool:
        return not (self.edited or self.chunks or self.deleted)

    def nodes_over(self, base: Nodes) -> Nodes:
        removed = [NodePath(text) for text, node in self.edited.items() if node is None]
        return base.patched(remove=removed, put=[n for n in self.edited.values() if n is not None])

    def changes_over(self, base: Nodes) -> ChangeSet:
        """The ChangeSet that the layer was made from."""
        changes = ChangeSet(base)
        changes.edited.update(self.edited)
        changes.created.update(self.created)
        changes.updated.update(self.updated)
        changes.deleted.update(self.deleted)
        for node_id, (path, found) in self.chunks.items():
            changes.find_node(path)  # so that it can be found by its id too
            changes.chunks[node_id] = PendingChunks.of(found)
        return changes


class ForkedSession(Session):
    """Writable, but without a branch: its changes reach one by being merged."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        base: Snapshot,
        inherited: Sequence[Layer],
        inherited_chunks: Mapping[NodeId, PendingChunks],
    ) -> None:
        """`base` has the nodes of the layers already, `inherited_chunks` their chunks."""
        super().__init__(files, clock, base)
        self.inherited = tuple(inherited)
        self.inherited_chunks = inherited_chunks
        self._origin: bytes | None = None  # pickled once for all copies
        self._own: tuple[int, bytes] | None = None  # pickled after so many edits

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (self._pickled_origin(), self._pickled_own())

    def _pickled_origin(self) -> bytes:
        if self._origin is None:
            files, at = self.files, (self.snapshot_id, self.base.flushed_at_us)
            self._origin = pickle.dumps(
                (files.raw_store, files.settings, self.clock, at, self.inherited)
            )
        return self._origin

    def _pickled_own(self) -> bytes:
        """Pickles the own changes, and caches the bytes until the next edit.

        Task schedulers only pass forks on. They also visit every object that they pickle, and there
        are dozens in a layer.
        """
        with self._state:
            edits, known = self._edits, self._own
            if known is not None and known[0] == edits:
                return known[1]
            changes = self._changes.copy()
        own = Layer.of(changes)
        if own.chunks:
            # The process that unpickles it may commit references to chunks stored here.
            self.files.store.sync()
        data = pickle.dumps(own)
        self._own = edits, data
        return data

    def take_over(self, own: bytes) -> None:
        """The changes of a copy."""
        layer: Layer = pickle.loads(own)  # noqa: S301 -- from a pickle
        with self._writing:
            self.revise(lambda changes: layer.changes_over(changes.base))
            self._own = self._edits, own

    @property
    def read_only(self) -> bool:
        return False

    @property
    def mode(self) -> SessionMode:
        return SessionMode.WRITABLE

    def forked_changes(self) -> ForkChanges:
        """The changes to merge, and the state that they are relative to."""
        return ForkChanges(
            base=self.base.nodes,
            inherited={key: found.changes() for key, found in self.inherited_chunks.items()},
            changes=self.copy_changes(),
        )

    def _pending_payload(self, node: Node, index: Index) -> Payload | Untouched | None:
        found = super()._pending_payload(node, index)
        inherited = self.inherited_chunks.get(node.id)
        return found if found is not UNTOUCHED or inherited is None else inherited.find(index)

    def _pending_changes(self, node: Node) -> ChunkChanges | None:
        own, inherited = super()._pending_changes(node), self.inherited_chunks.get(node.id)
        if inherited is None:
            return own
        return inherited.changes() if own is None else own.over(inherited.changes())


def fork(session: Session) -> ForkedSession:
    """Stores nothing. The session may go on writing; the fork does not see it."""
    if session.read_only:
        raise SessionStateError(
            "cannot fork a read-only session: it can be pickled as it is",
            kind="cannot-fork-read-only-session",
        )
    snapshot, changes = session.moment()
    if changes.attached:
        raise SessionStateError(
            "cannot fork a session that manifests were attached to: commit it first",
            kind="cannot-fork-attached-manifests",
        )
    own = Layer.of(changes)
    above = session.inherited if isinstance(session, ForkedSession) else ()
    layers = above if own.is_empty else (*above, own)
    # A fork's base has the nodes it inherited already; the layers go over what is stored.
    stored = session.files.fetch_snapshot(snapshot)
    return _open_fork(session.files, session.clock, stored, layers)


def merge(session: Session, forks: Sequence[Session]) -> None:
    """Adds the changes of the forks to those of the session: of all, or of none.

    Raises SessionStateError[merge-failed] where two of them contradict each other.
    """
    if session.read_only:
        raise ReadOnlyError(
            "Read only sessions cannot modify the repository: this session is read-only"
        )
    others = [_require_fork(session, other) for other in forks if other is not session]
    inherited = session.forked_changes().inherited if isinstance(session, ForkedSession) else {}
    found = [other.forked_changes() for other in others]

    def merged(changes: ChangeSet) -> ChangeSet:
        for other in others:
            _require_fork(session, other)  # again: now no other thread can rebase the session
        return merge_forks(changes, inherited, found, same_bytes=bytes_comparer(session.files))

    session.revise(merged)


def _require_fork(session: Session, other: Session) -> ForkedSession:
    if not isinstance(other, ForkedSession):
        raise SessionStateError(
            "only forks can be merged, made by `Session.fork`", kind="merge-not-allowed"
        )
    if any(layer.has_moves for layer in other.inherited):
        raise SessionStateError(
            "the fork was made of a rearrange session that had moved nodes: what it did cannot be"
            " merged",
            kind="rearrange-session-only",
        )
    if other.snapshot_id != session.snapshot_id:
        raise SessionStateError(
            f"failed to merge sessions: the fork was made at snapshot {other.snapshot_id}, this"
            f" session is at {session.snapshot_id}; merge forks before rebasing",
            kind="merge-failed",
        )
    # Every repository begins with a snapshot of the same id; its time tells them apart.
    if other.base.flushed_at_us != session.base.flushed_at_us:
        raise SessionStateError(
            "failed to merge sessions: the fork was made in another repository",
            kind="merge-failed",
        )
    return other


def _reopen(origin: bytes, own: bytes) -> ForkedSession:
    """A fork as it was when it was pickled."""
    twin = _open_origin(origin, os.getpid())
    session = ForkedSession(
        twin.files, twin.clock, twin.base, twin.inherited, twin.inherited_chunks
    )
    session.take_over(own)
    return session


@lru_cache(maxsize=4)
def _open_origin(origin: bytes, process: int) -> ForkedSession:
    """Opens the part that copies of a fork share, once in each process.

    A worker gets a copy with every task; without this it would read the snapshot as often. `origin`
    has the time of the snapshot in it: another repository may have been created in the same place,
    with a first snapshot of the same id.
    """
    del process  # a forked child must not use its parent's threads, so it is part of the key
    store, settings, clock, at, layers = pickle.loads(origin)  # noqa: S301 -- from a pickle
    files = files_of(store, settings)
    snapshot = files.fetch_snapshot(at[0])
    if snapshot.flushed_at_us != at[1]:
        raise SessionStateError(
            "the fork was made in a repository that is no longer there: another one was created in"
            " its place",
            kind="merge-failed",
        )
    return _open_fork(files, clock, snapshot, layers)


def _open_fork(
    files: Files, clock: Clock, snapshot: Snapshot, layers: Sequence[Layer]
) -> ForkedSession:
    nodes = reduce(lambda nodes, layer: layer.nodes_over(nodes), layers, snapshot.nodes)
    base = replace(snapshot, nodes=nodes)
    return ForkedSession(files, clock, base, layers, _fold_chunks(layers))


def _fold_chunks(layers: Sequence[Layer]) -> dict[NodeId, PendingChunks]:
    """Chunk changes of all layers, later ones over earlier ones."""
    found: dict[NodeId, ChunkChanges] = {}
    for layer in layers:
        for node_id, (_, changes) in layer.chunks.items():
            older = found.get(node_id)
            found[node_id] = changes if older is None else changes.over(older)
    return {node_id: PendingChunks.of(changes) for node_id, changes in found.items()}


def _compact(changes: ChunkChanges) -> ChunkChanges:
    """The same without what decoded columns keep alive: their whole file."""
    return ChunkChanges(refs=changes.refs.compact(), deleted=changes.deleted)
