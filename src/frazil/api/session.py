"""A session and its store, with Icechunk's names and signatures."""

import pickle
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from frazil.api.values import Diff, SessionMode
from frazil.engine.refs.commit_metadata import require_message
from frazil.engine.session import session as engine
from frazil.format.config import RepositoryConfig
from frazil.format.records import Displayed, View, html_of
from frazil.lazy import lazy_module
from frazil.paths import NodePath
from frazil.twins import AsyncCloseableIterator, async_twin
from frazil.zarrstore.store import SessionStore

if TYPE_CHECKING:
    from frazil.api import conflicts, display
    from frazil.engine.session import fork
    from frazil.zarrstore import virtual_listing
else:  # most sessions need none of them
    conflicts = lazy_module("frazil.api.conflicts")
    display = lazy_module("frazil.api.display")
    fork = lazy_module("frazil.engine.session.fork")
    virtual_listing = lazy_module("frazil.zarrstore.virtual_listing")


class Session(Displayed):
    """A view of one snapshot and, if it is writable, the changes being made to it.

    Made by a Repository. Two of them are equal if they share their changes.
    """

    def __init__(self, session: engine.Session, config: RepositoryConfig) -> None:
        self._engine = session
        self._config = config

    def __reduce__(self) -> tuple[object, ...]:
        # Bytes, because schedulers look at every object of every task that they pickle.
        return _revive, (type(self), self._engine, pickle.dumps(self._config))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(read_only={self.read_only}, snapshot_id={self.snapshot_id!r},"
            f" branch={self.branch!r}, has_uncommitted_changes={self.has_uncommitted_changes})"
        )

    def __view__(self) -> View:
        """Shows the tree, and what is uncommitted."""
        changed = not self.read_only and self.has_uncommitted_changes
        view = display.session_view(
            type(self).__name__,
            read_only=self.read_only,
            snapshot_id=self.snapshot_id,
            branch=self.branch,
            has_uncommitted_changes=self.has_uncommitted_changes,
        )
        status = self.status().__view__() if changed else None
        return display.session_contents(view, self._engine, status)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Session) and self._engine == other._engine

    def __hash__(self) -> int:
        return hash(self._engine)

    @property
    def engine(self) -> engine.Session:
        """The engine's session: synchronous, typed, for frazil's own layers."""
        return self._engine

    @property
    def read_only(self) -> bool:
        return self._engine.read_only

    @property
    def mode(self) -> SessionMode:
        return SessionMode.of(self._engine.mode)

    @property
    def snapshot_id(self) -> str:
        """The snapshot the session is based on; after a commit, the new one."""
        return str(self._engine.snapshot_id)

    @property
    def branch(self) -> str | None:
        """The branch a commit would go to; None if the session is read-only."""
        return self._engine.branch

    @property
    def has_uncommitted_changes(self) -> bool:
        return self._engine.has_uncommitted_changes

    @property
    def config(self) -> RepositoryConfig:
        """A copy: changing it has no effect."""
        return deepcopy(self._config)

    @property
    def store(self) -> "IcechunkStore":
        """The hierarchy as a zarr Store."""
        store = IcechunkStore(self)
        store._is_open = True  # noqa: SLF001 -- zarr's flag, which only opening it would set
        return store

    def status(self) -> Diff:
        """Returns the changes that a commit would record."""
        return Diff.of(self._engine.status())

    def discard_changes(self) -> None:
        self._engine.discard_changes()

    # Commits: after each of these but `rebase` the session is read-only

    def commit(
        self,
        message: str,
        metadata: dict[str, Any] | None = None,
        *,
        rebase_with: "conflicts.ConflictSolver | None" = None,
        rebase_tries: int = 1_000,
        allow_empty: bool = False,
    ) -> str:
        """Commits the changes and returns the id of the new snapshot, the new tip of the branch.

        If the branch has moved, the changes are rebased by `rebase_with`, up to `rebase_tries`
        times; without it ConflictError is raised, and the changes are kept.
        """
        require_message(message)
        rebasing = conflicts.rebasing_of(rebase_with, rebase_tries)
        return str(
            self._engine.commit(message, metadata, allow_empty=allow_empty, rebasing=rebasing)
        )

    commit_async = async_twin(commit)

    def amend(
        self,
        message: str,
        *,
        metadata: dict[str, Any] | None = None,
        allow_empty: bool = False,
    ) -> str:
        """Replaces the branch's last snapshot by one with the changes of both; returns its id.

        Message and metadata are those given here. The first snapshot of a repository cannot be
        amended, and a branch that has moved cannot either: ConflictError.
        """
        require_message(message)
        return str(self._engine.amend(message, metadata, allow_empty=allow_empty))

    amend_async = async_twin(amend)

    def flush(self, message: str, *, metadata: dict[str, Any] | None = None) -> str:
        """Writes a snapshot on no branch, to be tagged or else collected; returns its id."""
        require_message(message)
        return str(self._engine.flush(message, metadata))

    flush_async = async_twin(flush)

    def rebase(self, solver: "conflicts.ConflictSolver") -> None:
        """Rebases the changes onto the commits to the branch since the session began.

        Raises RebaseFailedError, with all conflicts, at the first commit where the solver does
        not solve them all; the session is then based on the commit before that one.
        """
        self._engine.rebase(conflicts.policy_of(solver))

    rebase_async = async_twin(rebase)

    # Forks

    def fork(self) -> "ForkSession":
        """Returns a session that another process can write to, to be merged into this one.

        It can be pickled, has the contents of this session, and nothing is stored for it.
        """
        return ForkSession(fork.fork(self._engine), self._config)

    def merge(self, *others: "ForkSession") -> None:
        """Adds the changes of forks to those of this session: of all of them, or of none.

        Raises SessionStateError[merge-failed] if they contradict each other: if two wrote
        different bytes to one chunk, for example.
        """
        fork.merge(self._engine, [_require_session(other).engine for other in others])

    merge_async = async_twin(merge)

    # Nodes and chunks

    def get_node_id(self, path: str) -> str:
        return str(self._engine.node(NodePath(path)).id)

    get_node_id_async = async_twin(get_node_id)

    def move(self, from_path: str, to_path: str) -> None:
        """Moves a node to another path, with everything below it. Nothing is copied.

        Only in a session made by `Repository.rearrange_session`. There must be nothing at
        `to_path` yet, and a group above it.
        """
        self._engine.move(_parse_path(from_path), _parse_path(to_path))

    move_async = async_twin(move)

    def shift_array(self, array_path: str, chunk_offset: Iterable[int]) -> None:
        """Moves every chunk by so many chunks along each dimension. Nothing is copied.

        Chunks that leave the array are dropped; indices that none moves to become empty.
        """
        self._engine.shift_array(NodePath(array_path), chunk_offset)

    def reindex_array(
        self,
        array_path: str,
        forward: Callable[[Iterable[int]], Iterable[int] | None],
        backward: Callable[[Iterable[int]], Iterable[int] | None] | None = None,
    ) -> None:
        """Moves every chunk to the index that `forward` returns for its own; None: not at all.

        An index that a chunk has left keeps the old chunk too, unless there is `backward`: called
        with each such index it returns the index of the chunk that belongs there; if that is None
        or there is no such chunk, the index becomes empty.
        """
        self._engine.reindex_array(NodePath(array_path), forward, backward)

    def chunk_type(
        self, array_path: str, chunk_coordinates: Sequence[int]
    ) -> "virtual_listing.ChunkType":
        index = tuple(chunk_coordinates)
        return virtual_listing.chunk_type(self._engine.chunk_payload(NodePath(array_path), index))

    chunk_type_async = async_twin(chunk_type)

    def chunk_coordinates(
        self, array_path: str, batch_size: int = 1000
    ) -> AsyncIterator[tuple[int, ...]]:
        """Iterates over the indices of all chunks that exist."""
        return AsyncCloseableIterator(
            map(tuple, batch.tolist())
            for batch in virtual_listing.index_batches(
                self._engine, NodePath(array_path), batch_size=batch_size
            )
        )

    def all_virtual_chunk_locations(self) -> list[str]:
        """Lists one location per virtual chunk: that of a file as often as it has chunks."""
        return virtual_listing.virtual_locations(self._engine)

    def virtual_chunks(
        self, *, prefix: str | None = None, path: str = "/"
    ) -> "virtual_listing.VirtualChunkTable":
        """Lists virtual chunks in columns: array, index, location, offset, length, checksum.

        Only those in files whose location begins with `prefix`, of arrays at or below `path`.
        """
        return virtual_listing.virtual_chunks(self._engine, prefix=prefix, path=NodePath(path))

    virtual_chunks_async = async_twin(virtual_chunks)
    all_virtual_chunk_locations_async = async_twin(all_virtual_chunk_locations)


class ForkSession(Session):
    """A session made by `Session.fork`. It is writable and can be pickled, changes included.

    It belongs to no branch and cannot be committed: its changes reach the repository by way of
    `Session.merge`.
    """


def _revive(kind: type[Session], session: engine.Session, config: bytes) -> Session:
    return kind(session, _unpickle(config))


@lru_cache(maxsize=16)
def _unpickle(config: bytes) -> RepositoryConfig:
    """Unpickles a configuration; sessions share it, because they only return copies of it."""
    restored: RepositoryConfig = pickle.loads(config)  # noqa: S301 -- from a pickle
    return restored


def _require_session(other: object) -> Session:
    if not isinstance(other, Session):
        raise TypeError(f"only a ForkSession can be merged, got an instance of {type(other)}")
    return other


def _parse_path(path: str) -> NodePath:
    """Parses a path, with or without a slash at the end."""
    return NodePath(path[:-1] if len(path) > 1 and path.endswith("/") else path)


class IcechunkStore(SessionStore):
    """A session as a zarr Store, with Icechunk's ways to write and list chunk references.

    Paths of arrays may be given with or without a leading slash.
    """

    def __init__(
        self,
        session: Session,
        read_only: bool | None = None,  # noqa: FBT001 -- positional in the reference too
    ) -> None:
        super().__init__(session.engine, read_only)
        self._session = session

    def __repr__(self) -> str:
        return (
            f"IcechunkStore(read_only={self.read_only}, snapshot_id={self.session.snapshot_id!r},"
            f" branch={self.session.branch!r})"
        )

    def _repr_html_(self) -> str:
        view = display.session_view(
            "IcechunkStore",
            read_only=self.read_only,
            snapshot_id=self.session.snapshot_id,
            branch=self.session.branch,
        )
        return html_of(view)

    @property
    def session(self) -> Session:
        return self._session

    def with_read_only(
        self,
        read_only: bool = False,  # noqa: FBT001, FBT002 -- zarr's signature
    ) -> "IcechunkStore":
        return IcechunkStore(self._session, read_only)
