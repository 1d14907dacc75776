"""The repository that is looked at, and what was worked out about it so far."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import IntEnum
from math import prod
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.describe.graph import Layout, layout_of_all
from frazil.engine.refs import ancestry as history
from frazil.engine.refs.version import Branch, Exactly, Tag, Version, resolve
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError, RefNotFoundError, SnapshotNotFoundError
from frazil.format.chunk_refs import ChunkRefs, RefKind
from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId
from frazil.paths import NodePath

# A small cache of results that took work.


class Memory[T]:
    """The results used last, `most` of them. Two who ask for the same at once wait for one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, T] = OrderedDict()
        self._making: dict[Hashable, Lock] = {}
        self._guard = Lock()

    def recall(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns the cached value of `key`, else the result of `make`; nothing is cached if that
        raises.
        """
        with self._guard:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            making = self._making.setdefault(key, Lock())
        with making:
            with self._guard:
                if key in self._kept:
                    return self._kept[key]
            try:
                made = make()
            finally:
                with self._guard:
                    self._making.pop(key, None)
            with self._guard:
                self._kept[key] = made
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
            return made


# The chunks of one array at one snapshot, as columns, and where each of them is.


class ChunkKind(IntEnum):
    """Packed chunks share an object with others."""

    MISSING = 0
    INLINE = 1
    NATIVE = 2
    PACKED = 3
    VIRTUAL = 4

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True, eq=False)
class ChunkColumns:
    """`refs` ascend by index; those of chunks that were never written are not there."""

    grid: tuple[int, ...]  # chunks along each dimension
    refs: ChunkRefs
    kind: npt.NDArray[np.uint8]  # (n,) a ChunkKind, never MISSING

    @property
    def total(self) -> int:
        """Chunks that the array has room for."""
        return prod(self.grid)

    def counts(self) -> dict[str, int]:
        """Chunks of each kind, the missing ones included."""
        found = np.bincount(self.kind, minlength=len(ChunkKind)).tolist()
        found[ChunkKind.MISSING] = self.total - len(self.kind)
        return {kind.label: found[kind] for kind in ChunkKind}

    def sizes(self) -> dict[str, int]:
        """Bytes of each kind, as the references state them."""
        length = self.refs.length
        return {
            kind.label: int(length[self.kind == kind].sum(dtype=np.uint64))
            for kind in ChunkKind
            if kind is not ChunkKind.MISSING
        }


def chunk_columns(session: Session, path: NodePath) -> ChunkColumns:
    array = session.node(path).array
    if array is None:
        raise InvalidInputError(f"there is not an array at `{path}`", kind="not-an-array")
    parts = list(session.chunk_refs(path))
    match parts:
        case []:
            refs = ChunkRefs.empty(len(array.shape))
        case [only]:
            refs = only
        case _:
            refs = ChunkRefs.concat(parts)
    return ChunkColumns(grid=array.num_chunks, refs=refs, kind=kinds_of(refs))


def kinds_of(refs: ChunkRefs) -> npt.NDArray[np.uint8]:
    kinds = np.zeros(len(refs), np.uint8)
    kinds[refs.kind == RefKind.INLINE] = ChunkKind.INLINE
    kinds[refs.kind == RefKind.VIRTUAL] = ChunkKind.VIRTUAL
    native = np.flatnonzero(refs.kind == RefKind.NATIVE)
    kinds[native] = ChunkKind.NATIVE
    kinds[native[_is_packed(refs, native)]] = ChunkKind.PACKED
    return kinds


def _is_packed(refs: ChunkRefs, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """True for each row whose object also holds another chunk: by its id, or by its offset."""
    # Ids are random: eight of their twelve bytes tell them apart.
    ids = np.ascontiguousarray(refs.chunk_id[rows, :8]).view("<u8").reshape(-1)
    order = np.argsort(ids, kind="stable")
    same = ids[order][1:] == ids[order][:-1]
    shared = np.zeros(len(rows), np.bool_)
    shared[order[1:][same]] = True
    shared[order[:-1][same]] = True
    return shared | (refs.offset[rows] > 0)


MAX_LANES = 20
DEFAULT = "branch:main"


class Explored:
    """Safe to use from several threads. Every request sees the repository as it is then."""

    def __init__(self, repository: Repository, name: str) -> None:
        self.repository = repository
        self.name = name
        self._sessions: Memory[Session] = Memory(8)
        self._chunks: Memory[ChunkColumns] = Memory(4)
        self._worked_out: Memory[Any] = Memory(64)
        self._pictures: Memory[Any] = Memory(8)  # megabytes each

    def recall[T](self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns the cached result of `make`; a key always stands for the same value."""
        found: T = self._worked_out.recall(key, make)
        return found

    def recall_picture[T](self, key: Hashable, make: Callable[[], T]) -> T:
        """The same for values of pictures, of which few are kept."""
        found: T = self._pictures.recall(key, make)
        return found

    def recall_of[T](self, info: RepoInfo, what: Hashable, make: Callable[[], T]) -> T:
        """The same about one state of the repository."""
        # It is kept beside the result, so that no other object gets its identity.
        return self.recall((what, id(info)), lambda: (info, make()))[1]

    def info(self) -> RepoInfo:
        return self.repository.repo_info()

    def layout(self, info: RepoInfo) -> Layout:
        return self.recall_of(info, "layout", lambda: layout_of_all(info, max_lanes=MAX_LANES))

    def snapshot(self, at: str) -> SnapshotId:
        info = self.info()
        return history.snapshot_id(info, row_of(info, at))

    def session(self, snapshot: SnapshotId) -> Session:
        return self._sessions.recall(
            snapshot, lambda: self.repository.readonly_session(Exactly(snapshot))
        )

    def chunks(self, snapshot: SnapshotId, path: NodePath) -> ChunkColumns:
        return self._chunks.recall(
            (snapshot, path), lambda: chunk_columns(self.session(snapshot), path)
        )


def row_of(info: RepoInfo, at: str) -> int:
    """Returns the row of a version in a URL: `branch:NAME`, `tag:NAME`, a snapshot id, or a bare
    name.
    """
    for version in _meanings(at):
        try:
            return resolve(info, version)
        except (RefNotFoundError, SnapshotNotFoundError):
            continue
    raise RefNotFoundError(f"there is no branch, tag or snapshot {at!r}")


def _meanings(at: str) -> list[Version]:
    kind, _, name = at.partition(":")
    if kind == "branch" and name:
        return [Branch(name)]
    if kind == "tag" and name:
        return [Tag(name)]
    found: list[Version] = [Branch(at), Tag(at)]
    try:
        return [Exactly(SnapshotId.parse(at)), *found]
    except InvalidInputError:
        return found
