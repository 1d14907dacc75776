"""A view of one snapshot, and the changes being made to it.

Reading looks at the pending changes first and at the committed snapshot second. Chunk bytes are
stored as they are written; everything else stays in memory until the commit.
"""

from collections.abc import Buffer, Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from threading import RLock

import numpy as np
import numpy.typing as npt

from frazil.assets.files import Files
from frazil.assets.settings import Settings
from frazil.clock import Clock
from frazil.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NodeNotFoundError,
    ReadOnlyError,
    SessionStateError,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.payloads import Payload
from frazil.format.snapshot import ArrayData, Node, Snapshot
from frazil.ids import NodeId, SnapshotId
from frazil.objectstore.protocol import Data, ObjectStore
from frazil.paths import ROOT, NodePath
from frazil.ranges import ByteRange
from frazil.repo.amend import amend, flush
from frazil.repo.changes import ChangeSet
from frazil.repo.chunk_reads import fetch_found, fetch_payload
from frazil.repo.commit import CommitRequest, commit, transaction_log
from frazil.repo.commit_metadata import require_json
from frazil.repo.diff import Diff, paths_in, summarise
from frazil.repo.entries import entry_of
from frazil.repo.entry import EntryPoint
from frazil.repo.lookup import (
    current_refs,
    find_committed,
    is_at_hand,
    lookup_current,
)
from frazil.repo.moves import plan_move
from frazil.repo.pending import UNTOUCHED, ChunkChanges, Index, Untouched
from frazil.repo.rebase import Position, Rebasing, commit_rebasing, replay, with_attempts
from frazil.repo.reindex import Rule, reindexed, require_regular_grid, shifted
from frazil.repo.solver import Policy
from frazil.repo.writer import ChunkWriter
from frazil.repo.zarr_metadata import ArrayMetadata, parse_node_metadata


class SessionMode(StrEnum):
    READONLY = "readonly"
    WRITABLE = "writable"
    REARRANGE = "rearrange"  # moves nodes and does nothing else


class Session:
    """Safe to use from several threads. After its commit it is read-only, at the new snapshot."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        snapshot: Snapshot,
        *,
        branch: str | None = None,
        rearranges: bool = False,
        default_metadata: Mapping[str, Json] | None = None,
    ) -> None:
        self.files = files
        self._entry = entry_of(files, clock)
        self._base = snapshot
        self._branch = branch
        self._rearranges = rearranges
        self._default_metadata = dict(default_metadata or {})  # under that of each commit
        self._changes = ChangeSet(snapshot.nodes)
        self._lock = RLock()

    def __reduce__(self) -> tuple[object, ...]:
        if not self.read_only:
            raise ValueError(
                "a writable session cannot be pickled: changes made elsewhere would be lost."
                " Send a fork of it (Session.fork) and merge the fork that comes back"
                " (Session.merge)"
            )
        state = (self.files.store, self.files.settings, self._entry.clock, self.snapshot_id)
        return reopen, state

    @property
    def read_only(self) -> bool:
        return self._branch is None

    @property
    def mode(self) -> SessionMode:
        if self.read_only:
            return SessionMode.READONLY
        return SessionMode.REARRANGE if self._rearranges else SessionMode.WRITABLE

    @property
    def branch(self) -> str | None:
        return self._branch

    @property
    def snapshot_id(self) -> SnapshotId:
        """The snapshot the session started from."""
        return self._base.id

    @property
    def has_uncommitted_changes(self) -> bool:
        with self._lock:
            return not self._changes.is_empty

    @property
    def base(self) -> Snapshot:
        return self._base

    @property
    def clock(self) -> Clock:
        return self._entry.clock

    def copy_changes(self) -> ChangeSet:
        with self._lock:
            return self._changes.copy()

    def revise(self, revision: Callable[[ChangeSet], ChangeSet]) -> None:
        """Replaces the changes by what `revision` makes of them; if it raises, they stay."""
        with self._lock:
            self._require_writable()
            self._changes = revision(self._changes)

    # Nodes

    def find_node(self, path: NodePath) -> Node | None:
        with self._lock:
            return self._changes.find_node(path)

    def node(self, path: NodePath) -> Node:
        node = self.find_node(path)
        if node is None:
            raise NodeNotFoundError(f"node not found at `{path}`")
        return node

    def nodes(self, under: NodePath = ROOT) -> Iterator[Node]:
        """`under`, if it exists, and everything below it, by path, as of now."""
        with self._lock:
            return iter(list(self._changes.nodes(under)))

    def child_names(self, path: NodePath) -> list[str]:
        with self._lock:
            return self._changes.child_names(path)

    def set_node(self, path: NodePath, user_data: bytes) -> None:
        """Creates the node, or gives it other metadata; equal bytes change nothing."""
        version = self.files.settings.spec_version
        found = parse_node_metadata(user_data, only_regular=version < 2)
        with self._lock:
            self._require_writable()
            old = self._changes.find_node(path)
            if old is not None and old.user_data == user_data:
                return
            if old is None:
                self._require_no_array_above(path)
            array = None
            if isinstance(found, ArrayMetadata):
                array = ArrayData(
                    shape=found.shape,
                    num_chunks=found.num_chunks,
                    dimension_names=found.dimension_names,
                    manifests=() if old is None or old.array is None else old.array.manifests,
                )
            if old is not None and (old.array is None) != (array is None):
                kind = "a group" if old.array is None else "an array"
                raise AlreadyExistsError(f"there is {kind} at `{path}` already: delete it first")
            node_id = NodeId.random() if old is None else old.id
            self._changes.put_node(Node(id=node_id, path=path, user_data=user_data, array=array))

    def delete_node(self, path: NodePath) -> None:
        """And everything below it; nothing happens if there is no such node."""
        with self._lock:
            self._require_writable()
            self._changes.delete_nodes(path)

    def move(self, source: NodePath, target: NodePath) -> None:
        """Gives a node another path, with everything below it; only while rearranging."""
        with self._lock:
            self._require_not_read_only()
            if not self._rearranges:
                raise SessionStateError(
                    "to move nodes in the hierarchy, create a rearrange session"
                    " (Repository.rearrange_session); commit or abandon this one",
                    kind="non-rearrange-session",
                )
            self._changes.relocate(plan_move(self._changes, source, target))

    # Chunks

    def chunk_payload(self, path: NodePath, index: Index) -> Payload | None:
        """Where the chunk is; None if it was never written or lies outside the grid."""
        node, array = self._array(path)
        if not _in_grid(index, array):
            return None
        found = self._pending_payload(node, index)
        return find_committed(self.files, node, index) if found is UNTOUCHED else found

    def payload_at_hand(self, path: NodePath, index: Index) -> Payload | Untouched | None:
        """Like `chunk_payload`, but UNTOUCHED where a file would have to be read."""
        node, array = self._array(path)
        if not _in_grid(index, array):
            return None
        found = self._pending_payload(node, index)
        if found is UNTOUCHED and is_at_hand(self.files, node, index):
            return find_committed(self.files, node, index)
        return found

    def fetch_chunk(
        self, path: NodePath, index: Index, byte_range: ByteRange | None = None
    ) -> Data | None:
        payload = self.chunk_payload(path, index)
        return None if payload is None else fetch_payload(self.files, payload, byte_range)

    def fetch_chunks(self, path: NodePath, wanted: npt.NDArray[np.uint32]) -> list[Data | None]:
        """Bytes of each wanted chunk, (m, ndim), None where there is none."""
        node, array = self._array(path)
        if wanted.ndim != 2 or wanted.shape[1] != len(array.shape):
            raise _wrong_ndim(path, wanted.shape[-1], array)
        found = lookup_current(self.files, node, self._pending_changes(node), wanted)
        return fetch_found(self.files, found, len(wanted))

    def set_chunk(self, path: NodePath, index: Index, data: Buffer) -> None:
        """Stores the bytes at once; the reference waits for the commit."""
        self._require_writable()
        _, array = self._array(path)
        _require_in_grid(path, index, array)
        payload = self.chunk_writer().put_chunk(data)
        with self._lock:
            self._changes.pending(self._array(path)[0]).set(index, payload)

    def set_chunk_if_absent(self, path: NodePath, index: Index, data: Buffer) -> bool:
        """Whether the chunk was set; of several at once one is."""
        self._require_writable()
        node, array = self._array(path)
        _require_in_grid(path, index, array)
        if self.chunk_payload(path, index) is not None:
            return False
        payload = self.chunk_writer().put_chunk(data)
        with self._lock:  # what is committed does not change, so only the pending can have come
            if self._pending_payload(node, index) not in (UNTOUCHED, None):
                return False
            self._changes.pending(node).set(index, payload)
        return True

    def set_chunk_refs(self, path: NodePath, refs: ChunkRefs) -> None:
        """Many references at once: virtual ones, or those a ChunkWriter made."""
        with self._lock:
            self._require_writable()
            node, array = self._array(path)
            if refs.index.shape[1] != len(array.shape):
                raise _wrong_ndim(path, refs.index.shape[1], array)
            if len(refs) and len(refs.within(array.num_chunks)) != len(refs):
                last = tuple(stop - 1 for _, stop in refs.bounding_box())
                raise _outside(path, last, array)
            self._changes.pending(node).set_many(refs)

    def delete_chunk(self, path: NodePath, index: Index) -> None:
        """A change even if there was no such chunk; outside the grid nothing happens."""
        with self._lock:
            self._require_writable()
            node, array = self._array(path)
            if _in_grid(index, array):
                self._changes.pending(node).delete(index)

    def delete_chunks_under(self, path: NodePath, index_prefix: Index) -> None:
        """All chunks whose index starts so."""
        self._require_writable()
        prefix = np.array(index_prefix, dtype=np.uint32)
        doomed = [
            refs.index[(refs.index[:, : len(prefix)] == prefix).all(axis=1)]
            for refs in self.chunk_refs(path)
        ]
        with self._lock:
            pending = self._changes.pending(self._array(path)[0])
            for index in doomed:
                if len(index):
                    pending.delete_many(index)

    def shift_array(self, path: NodePath, offset: Iterable[int]) -> None:
        """Moves every chunk by so many places of the grid; those that leave it are dropped."""
        self._rearrange_chunks(path, lambda refs, grid: shifted(refs, offset, grid))

    def reindex_array(self, path: NodePath, forward: Rule, backward: Rule | None = None) -> None:
        """Moves every chunk to where `forward` says; see `reindexed`."""
        self._rearrange_chunks(path, lambda refs, grid: reindexed(refs, forward, backward, grid))

    def chunk_refs(self, path: NodePath) -> Iterator[ChunkRefs]:
        """All references of the array, in batches; changed ones come first."""
        node, _ = self._array(path)
        return current_refs(self.files, node, self._pending_changes(node))

    def chunk_writer(self) -> ChunkWriter:
        """Stores chunks for this session, here or in another process."""
        return ChunkWriter(self.files.store, self.files.settings.inline_threshold_bytes)

    # Transactions

    def commit(
        self,
        message: str,
        metadata: Mapping[str, Json] | None = None,
        *,
        allow_empty: bool = False,
        rebasing: Rebasing | None = None,
    ) -> SnapshotId:
        """Makes the changes the new tip of the branch.

        If the branch has moved since the session began, the changes are rebased, or if that is
        not wanted ConflictError is raised; the session and its changes stay as they are then.
        """
        given = self._commit_metadata(metadata)
        with self._lock:
            self._require_to_commit(allow_empty=allow_empty)
            if rebasing is None:
                return self._conclude(commit, message, given)
            return commit_rebasing(
                lambda attempts: self._conclude(commit, message, with_attempts(given, attempts)),
                self.rebase,
                rebasing,
            )

    def amend(
        self,
        message: str,
        metadata: Mapping[str, Json] | None = None,
        *,
        allow_empty: bool = False,
    ) -> SnapshotId:
        """Puts a snapshot with these changes too in the place of the branch's tip."""
        given = self._commit_metadata(metadata)
        with self._lock:
            self._require_to_commit(allow_empty=allow_empty)
            return self._conclude(amend, message, given)

    def flush(self, message: str, metadata: Mapping[str, Json] | None = None) -> SnapshotId:
        """Makes the changes a snapshot, and leaves the branch where it is."""
        given = self._commit_metadata(metadata)
        with self._lock:
            self._require_to_commit(allow_empty=True)
            return self._conclude(flush, message, given)

    def rebase(self, policy: Policy) -> None:
        """Carries the changes over what was committed since; as far as it got, if it fails."""
        with self._lock:
            branch = self._require_to_commit(allow_empty=True)
            start = Position(self._base, self._changes)
            for reached in replay(self.files, self._entry.fetch(), branch, start, policy):
                self._base, self._changes = reached.base, reached.changes

    def discard_changes(self) -> None:
        with self._lock:
            self._require_not_read_only()
            self._changes = ChangeSet(self._base.nodes)

    def status(self) -> Diff:
        """What a commit would record."""
        with self._lock:
            changes = self._changes
            gone = changes.deleted.values()
            path_of = paths_in((n for n in changes.edited.values() if n is not None), gone)
            log = transaction_log(self.snapshot_id, changes)
            return summarise([log], lambda node_id: path_of(node_id) or changes.path_of(node_id))

    # Shared parts

    def _commit_metadata(self, metadata: Mapping[str, Json] | None) -> dict[str, Json]:
        return require_json({**self._default_metadata, **(metadata or {})})

    def _require_to_commit(self, *, allow_empty: bool) -> str:
        """The branch."""
        if self._branch is None:
            raise SessionStateError(
                "commits are not allowed on read-only or forked sessions:"
                " merge a fork into the session it was made of",
                kind="commit-not-allowed",
            )
        if self._changes.is_empty and not allow_empty:
            raise SessionStateError(
                "cannot commit, no changes made to the session"
                " (use `allow_empty=True` to commit anyway)",
                kind="no-changes-to-commit",
            )
        return self._branch

    def _conclude(
        self,
        write: Callable[[Files, EntryPoint, CommitRequest], SnapshotId],
        message: str,
        metadata: Mapping[str, Json],
    ) -> SnapshotId:
        """Read-only from then on, at the new snapshot."""
        request = CommitRequest(
            branch=self._require_to_commit(allow_empty=True),
            base=self._base,
            changes=self._changes,
            message=message,
            metadata=metadata,
            rearranges=self._rearranges,
        )
        new_id = write(self.files, self._entry, request)
        self._base = self.files.fetch_snapshot(new_id)
        self._changes = ChangeSet(self._base.nodes)
        self._branch = None
        return new_id

    def _array(self, path: NodePath) -> tuple[Node, ArrayData]:
        node = self.node(path)
        if node.array is None:
            raise InvalidInputError(f"the node at `{path}` is not an array", kind="not-an-array")
        return node, node.array

    def _pending_payload(self, node: Node, index: Index) -> Payload | Untouched | None:
        with self._lock:
            pending = self._changes.chunks.get(node.id)
            return UNTOUCHED if pending is None else pending.find(index)

    def _pending_changes(self, node: Node) -> ChunkChanges | None:
        with self._lock:
            pending = self._changes.chunks.get(node.id)
            return None if pending is None else pending.changes()

    def _rearrange_chunks(
        self, path: NodePath, change: Callable[[ChunkRefs, tuple[int, ...]], ChunkChanges]
    ) -> None:
        self._require_writable()
        node, array = self._array(path)
        require_regular_grid(node)
        refs = ChunkRefs.concat([ChunkRefs.empty(len(array.shape)), *self.chunk_refs(path)])
        # Not under the lock: `change` may call the user's functions, and these the session.
        changes = change(refs, array.num_chunks)
        with self._lock:
            self._require_writable()
            if len(changes.index):
                self._changes.pending(self._array(path)[0]).change_many(changes)

    def _require_writable(self) -> None:
        self._require_not_read_only()
        if self._rearranges:
            raise SessionStateError(
                "this session was created to rearrange the hierarchy and can only move nodes:"
                " commit or abandon it, and create a writable session",
                kind="rearrange-session-only",
            )

    def _require_not_read_only(self) -> None:
        if self.read_only:
            raise ReadOnlyError("cannot write to a read-only session")

    def _require_no_array_above(self, path: NodePath) -> None:
        for above in path.ancestors:
            node = self._changes.find_node(above)
            if node is not None and node.array is not None:
                raise InvalidInputError(
                    f"cannot create `{path}`: `{above}` is an array", kind="not-a-group"
                )


def reopen(store: ObjectStore, settings: Settings, clock: Clock, snapshot: SnapshotId) -> Session:
    """A read-only session, as it was before it was pickled."""
    files = Files(store, settings)
    return Session(files, clock, files.fetch_snapshot(snapshot))


def _in_grid(index: Index, array: ArrayData) -> bool:
    return len(index) == len(array.num_chunks) and all(
        0 <= position < count for position, count in zip(index, array.num_chunks, strict=True)
    )


def _require_in_grid(path: NodePath, index: Index, array: ArrayData) -> None:
    if len(index) != len(array.num_chunks):
        raise _wrong_ndim(path, len(index), array)
    if not _in_grid(index, array):
        raise _outside(path, index, array)


def _wrong_ndim(path: NodePath, ndim: int, array: ArrayData) -> InvalidInputError:
    return InvalidInputError(
        f"chunk index has {ndim} coordinates, the array at `{path}` has {len(array.shape)}",
        kind="invalid-chunk-index",
    )


def _outside(path: NodePath, index: Index, array: ArrayData) -> InvalidInputError:
    return InvalidInputError(
        f"chunk {list(index)} is outside the grid of the array at `{path}`, which is"
        f" {list(array.num_chunks)} chunks",
        kind="invalid-chunk-index",
    )
