"""The repository that is looked at, and what was worked out about it so far."""

from collections.abc import Callable, Hashable
from typing import Any

from frazil.describe.graph import Layout, layout_of_all
from frazil.errors import InvalidInputError, RefNotFoundError, SnapshotNotFoundError
from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId
from frazil.paths import NodePath
from frazil.repo import history
from frazil.repo.repository import Repository
from frazil.repo.session import Session
from frazil.repo.version import Branch, Exactly, Tag, Version, resolve
from frazil.web.chunk_columns import ChunkColumns, chunk_columns
from frazil.web.memory import Memory

MAX_LANES = 20
DEFAULT = "branch:main"


class Explored:
    """Safe to use from several threads. Every request sees the repository as it is then."""

    def __init__(self, repository: Repository, name: str) -> None:
        self.repository = repository
        self.name = name
        self._sessions: Memory[Session] = Memory(8)
        self._chunks: Memory[ChunkColumns] = Memory(4)
        self._worked_out: Memory[Any] = Memory(32)

    def recall[T](self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` returned last time; whoever uses a key always makes the same of it."""
        found: T = self._worked_out.recall(key, make)
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
    """Of what a URL names: `branch:NAME`, `tag:NAME`, the id of a snapshot, or a bare name."""
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
