"""A session and its store, with Icechunk's names and signatures."""

import asyncio
import pickle
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from copy import deepcopy
from functools import lru_cache

from frazil.api.display import session_view
from frazil.api.references import ReferencingStore
from frazil.api.transactions import Transactions
from frazil.api.values import Diff, SessionMode
from frazil.errors import SessionStateError
from frazil.format.config import RepositoryConfig
from frazil.format.records import Displayed, View, html_of
from frazil.paths import NodePath
from frazil.repo import fork
from frazil.repo import session as engine
from frazil.zarrstore import keys as listing
from frazil.zarrstore.store import AsyncCloseableIterator
from frazil.zarrstore.virtual_listing import (
    ChunkBatch,
    ChunkType,
    VirtualChunkTable,
    chunk_batches,
    chunk_type,
    index_batches,
    virtual_chunks,
    virtual_locations,
)


class Session(Transactions, Displayed):
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
        return session_view(
            type(self).__name__,
            read_only=self.read_only,
            snapshot_id=self.snapshot_id,
            branch=self.branch,
            has_uncommitted_changes=self.has_uncommitted_changes,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Session) and self._engine == other._engine

    def __hash__(self) -> int:
        return hash(self._engine)

    @property
    def engine(self) -> engine.Session:
        """What does the work: synchronous, typed, for frazil's own layers."""
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
        """A copy: changing it changes nothing."""
        return deepcopy(self._config)

    @property
    def store(self) -> "IcechunkStore":
        """The hierarchy as a zarr Store."""
        store = IcechunkStore(self)
        store._is_open = True  # noqa: SLF001 -- zarr's flag, which only opening it would set
        return store

    def status(self) -> Diff:
        """What a commit would record."""
        return Diff.of(self._engine.status())

    def discard_changes(self) -> None:
        self._engine.discard_changes()

    def fork(self) -> "ForkSession":
        """A session that can be pickled and written to elsewhere, then merged into this one.

        It sees what this session sees now, and nothing is stored for it.
        """
        return ForkSession(fork.fork(self._engine), self._config)

    def merge(self, *others: "ForkSession") -> None:
        """Adds the changes of forks to those of this session: of all of them, or of none.

        Raises SessionStateError[merge-failed] if they contradict each other: if two wrote
        different bytes to one chunk, for example.
        """
        fork.merge(self._engine, [_require_session(other).engine for other in others])

    async def merge_async(self, *others: "ForkSession") -> None:
        await asyncio.to_thread(self.merge, *others)

    def get_node_id(self, path: str) -> str:
        return str(self._engine.node(NodePath(path)).id)

    async def get_node_id_async(self, path: str) -> str:
        return self.get_node_id(path)

    def move(self, from_path: str, to_path: str) -> None:
        """Gives a node another path, with everything below it. Nothing is copied.

        Only in a session made by `Repository.rearrange_session`. There must be nothing at
        `to_path` yet, and a group above it.
        """
        self._engine.move(_moved_path(from_path), _moved_path(to_path))

    async def move_async(self, from_path: str, to_path: str) -> None:
        await asyncio.to_thread(self.move, from_path, to_path)

    def shift_array(self, array_path: str, chunk_offset: Iterable[int]) -> None:
        """Moves every chunk by so many chunks along each dimension. Nothing is copied.

        Chunks that leave the array are dropped; places that none moves to become empty.
        """
        self._engine.shift_array(NodePath(array_path), chunk_offset)

    def reindex_array(
        self,
        array_path: str,
        forward: Callable[[Iterable[int]], Iterable[int] | None],
        backward: Callable[[Iterable[int]], Iterable[int] | None] | None = None,
    ) -> None:
        """Moves every chunk to the index that `forward` gives for its own; None leaves it.

        A place that was left keeps its old chunk too, unless there is `backward`: called with
        the index of each such place it names the chunk that belongs there; if that is None or
        does not exist, the place becomes empty.
        """
        self._engine.reindex_array(NodePath(array_path), forward, backward)

    def chunk_type(self, array_path: str, chunk_coordinates: Sequence[int]) -> ChunkType:
        index = tuple(chunk_coordinates)
        return chunk_type(self._engine.chunk_payload(NodePath(array_path), index))

    async def chunk_type_async(
        self, array_path: str, chunk_coordinates: Sequence[int]
    ) -> ChunkType:
        return await asyncio.to_thread(self.chunk_type, array_path, chunk_coordinates)

    def chunk_coordinates(
        self, array_path: str, batch_size: int = 1000
    ) -> AsyncIterator[tuple[int, ...]]:
        """Index of every chunk there is, each once."""
        return AsyncCloseableIterator(
            map(tuple, batch.tolist())
            for batch in index_batches(self._engine, NodePath(array_path), batch_size=batch_size)
        )

    def all_virtual_chunk_locations(self) -> list[str]:
        """One per virtual chunk, those of one file as often as it has chunks."""
        return virtual_locations(self._engine)

    def virtual_chunks(self, *, prefix: str | None = None, path: str = "/") -> VirtualChunkTable:
        """Where virtual chunks are, as columns: array, index, location, offset, length, checksum.

        Only those in files whose location begins with `prefix`, of arrays at or below `path`.
        """
        return virtual_chunks(self._engine, prefix=prefix, path=NodePath(path))

    async def virtual_chunks_async(
        self, *, prefix: str | None = None, path: str = "/"
    ) -> VirtualChunkTable:
        return await asyncio.to_thread(self.virtual_chunks, prefix=prefix, path=path)

    async def all_virtual_chunk_locations_async(self) -> list[str]:
        return await asyncio.to_thread(self.all_virtual_chunk_locations)


class ForkSession(Session):
    """A session made by `Session.fork`. It is writable and can be pickled, changes included.

    It belongs to no branch and cannot be committed: its changes reach the repository by way of
    `Session.merge`.
    """


def _revive(kind: type[Session], session: engine.Session, config: bytes) -> Session:
    return kind(session, _unpickled(config))


@lru_cache(maxsize=16)
def _unpickled(config: bytes) -> RepositoryConfig:
    """Shared by all sessions that have the same: it is handed out as copies only."""
    found: RepositoryConfig = pickle.loads(config)  # noqa: S301 -- from a pickle
    return found


def _require_session(other: object) -> Session:
    if not isinstance(other, Session):
        raise TypeError(f"only a ForkSession can be merged, got an instance of {type(other)}")
    return other


def _moved_path(path: str) -> NodePath:
    """A slash at the end means nothing."""
    return NodePath(path[:-1] if len(path) > 1 and path.endswith("/") else path)


class IcechunkStore(ReferencingStore):
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
        view = session_view(
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

    def sync_clear(self) -> None:
        self._check_writable()
        listing.delete_below(self.engine, "")

    async def set_partial_values(
        self, key_start_values: Iterable[tuple[str, int, bytes | bytearray | memoryview]]
    ) -> None:
        """Always an error: chunks are replaced as a whole."""
        del key_start_values
        raise SessionStateError(
            "store method `set_partial_values` is not implemented by Icechunk",
            kind="unimplemented",
        )

    def array_chunk_iterator(
        self, array_path: str, batch_size: int = 100_000
    ) -> AsyncCloseableIterator[ChunkBatch]:
        """All chunk references of an array, in columns; nothing if there is no such array."""
        path = NodePath.from_key_prefix(array_path)
        batches = chunk_batches(self.engine, path, batch_size=batch_size)
        return AsyncCloseableIterator([batch] for batch in batches)
