"""A repository as a metadata table sees it, on the driver and on executors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from frazil.errors import InvalidInputError, NodeNotFoundError, RefNotFoundError
from frazil.format.nodes import Node
from frazil.ids import SnapshotId
from frazil.paths import NodePath
from frazil.repo.repository import Repository
from frazil.repo.session import Session
from frazil.repo.version import Exactly, find_ref


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """What a table was asked for, beside its version. Not all tables heed all of it."""

    group: str = "/"
    variables: tuple[str, ...] | None = None
    as_of_us: int | None = None
    start: str | None = None  # the option `from`
    end: str | None = None  # the option `to`
    partition_bytes: int
    batch_rows: int


class TableContext:
    """A repository, at a snapshot if the table is of one."""

    def __init__(
        self, repository: Repository, snapshot: SnapshotId | None, request: TableRequest
    ) -> None:
        self.repository = repository
        self.request = request
        self._snapshot = snapshot

    @property
    def snapshot(self) -> SnapshotId:
        if self._snapshot is None:
            raise InvalidInputError("this table is of no snapshot")
        return self._snapshot

    @cached_property
    def session(self) -> Session:
        return self.repository.readonly_session(Exactly(self.snapshot))

    def nodes(self) -> Iterator[Node]:
        """At or below the group that was asked for."""
        path = NodePath(self.request.group)
        self.session.node(path)  # raises if there is none
        return self.session.nodes(path)

    def arrays(self) -> list[Node]:
        """Of those, the arrays that `variables` name: by path, or by path below the group."""
        found = [node for node in self.nodes() if node.array is not None]
        wanted = self.request.variables
        if wanted is None:
            return found
        group = NodePath(self.request.group)
        paths = [_path_in(group, name) for name in wanted]
        by_path = {node.path: node for node in found}
        missing = [str(path) for path in paths if path not in by_path]
        if missing:
            raise NodeNotFoundError(
                f"no array at {', '.join(missing)} in group {self.request.group!r}"
            )
        return [by_path[path] for path in dict.fromkeys(paths)]


def _path_in(group: NodePath, name: str) -> NodePath:
    return NodePath(name if name.startswith("/") else f"{str(group).rstrip('/')}/{name}")


def find_version(repository: Repository, name: str) -> SnapshotId:
    """The snapshot of that id, or of the branch or tag of that name; see `find_ref`."""
    found = find_ref(repository.branches(), repository.tags(), name)
    if found is not None:
        return found
    try:
        snapshot = SnapshotId.parse(name)
    except InvalidInputError:
        raise RefNotFoundError(f"no tag, branch or snapshot {name!r}") from None
    repository.lookup_snapshot(snapshot)
    return snapshot


def pack[T](items: Sequence[tuple[T, int]], limit: int) -> list[tuple[T, ...]]:
    """Items in order, in groups whose weights add up to `limit` at most, or of one item."""
    groups: list[list[T]] = []
    weight = limit
    for item, own in items:
        if weight + own > limit or not groups:
            groups.append([])
            weight = 0
        groups[-1].append(item)
        weight += own
    return [tuple(group) for group in groups]
