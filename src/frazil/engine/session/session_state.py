"""State of a session, and the locks that guard it.

Two locks, taken in this order:

    writing   for changes of the session; a commit keeps it until the storage has answered
    state     the snapshot and its changes, which belong together; for work in memory only

So a reader never waits for storage, nor does an event loop that reads: while a commit is under way
it sees what there was before. A writer waits for the commit to end, and finds a read-only session
then, or, if the commit failed, the changes as they were.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from threading import RLock

from frazil.clock import Clock
from frazil.engine.changes.change_set import ChangeSet
from frazil.engine.files.files import Files
from frazil.engine.refs.entries import entry_of
from frazil.errors import (
    InvalidInputError,
    NodeNotFoundError,
    ReadOnlyError,
    SessionStateError,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.nodes import ArrayData, Node
from frazil.format.snapshot import Snapshot
from frazil.ids import SnapshotId
from frazil.paths import NodePath


class SessionMode(StrEnum):
    READONLY = "readonly"
    WRITABLE = "writable"
    REARRANGE = "rearrange"  # moves nodes and does nothing else


class SessionState:
    """The part of a Session that the others stand on."""

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
        self._opening: bytes | None = None  # pickled once: what it takes to read the files
        self._edits = 0  # grows with every change
        self._writing = RLock()
        self._state = RLock()

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
        """The snapshot the session is based on: where it began, or what its commit made."""
        return self._base.id

    @property
    def has_uncommitted_changes(self) -> bool:
        with self._state:
            return not self._changes.is_empty

    @property
    def base(self) -> Snapshot:
        return self._base

    @property
    def clock(self) -> Clock:
        return self._entry.clock

    def copy_changes(self) -> ChangeSet:
        return self.moment()[1]

    def moment(self) -> tuple[SnapshotId, ChangeSet]:
        """The snapshot, and a copy of the changes relative to it."""
        with self._state:
            return self._base.id, self._changes.copy()

    @contextmanager
    def unless_busy(self) -> Iterator[bool]:
        """Yields True if no other thread is changing the session; none can until the block ends.

        Never waits. For event loops: writing waits for a commit that is under way.
        """
        free = self._writing.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                self._writing.release()

    # For the other parts

    @contextmanager
    def _editing(self) -> Iterator[ChangeSet]:
        """The changes of a writable session, for edits in memory."""
        with self._writing, self._state:
            self._require_writable()
            self._edits += 1
            yield self._changes

    def _find_array(self, path: NodePath) -> tuple[Node, ArrayData]:
        """The array as it is now; hold the state if more is read of the session."""
        with self._state:
            node = self._changes.find_node(path)
        if node is None:
            raise NodeNotFoundError(f"node not found at `{path}`")
        if node.array is None:
            raise InvalidInputError(f"there is not an array at `{path}`", kind="not-an-array")
        return node, node.array

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
            raise ReadOnlyError(
                "Read only sessions cannot modify the repository: this session is read-only"
            )
