"""History of a repository: lists, pictures and contents of files; revert, merge, squash."""

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any

from frazil.api.values import Diff, SnapshotInfo
from frazil.dataclass import dataclass
from frazil.engine.refs import ancestry as history
from frazil.engine.refs.ancestry import SnapshotBlock
from frazil.engine.refs.version import Version, resolve
from frazil.engine.repository import Repository
from frazil.errors import Conflict
from frazil.format.records import View, html_of
from frazil.format.records import text_of as record_text
from frazil.ids import SnapshotId
from frazil.lazy import lazy_module
from frazil.twins import AsyncCloseableIterator

if TYPE_CHECKING:
    from frazil.api import conflicts, display
    from frazil.describe import graph
    from frazil.engine.history import history_editing, squash
    from frazil.engine.merge import solver as solvers
else:  # listing the ancestry needs none of them
    conflicts, display = lazy_module("frazil.api.conflicts"), lazy_module("frazil.api.display")
    graph = lazy_module("frazil.describe.graph")
    history_editing = lazy_module("frazil.engine.history.history_editing")
    squash = lazy_module("frazil.engine.history.squash")
    solvers = lazy_module("frazil.engine.merge.solver")

# Lists


def snapshot_infos(
    blocks: Iterable[tuple[SnapshotBlock, int]],
) -> AsyncCloseableIterator[SnapshotInfo]:
    infos = (map(SnapshotInfo, repeat(block), range(size)) for block, size in blocks)
    return History("Ancestry", infos)


class History[T](AsyncCloseableIterator[T]):
    """A history, shown as its next entries, which stay to be taken."""

    def __init__(self, title: str, batches: Iterable[Iterable[T]]) -> None:
        super().__init__(batches)
        self._title = title

    def __view__(self) -> View:
        most = display.SHOWN_ENTRIES
        entries = self.peek(most + 1)
        title, more = f"frazil.{self._title}", len(entries) > most
        return display.entries_view(title, entries[:most], more=more)

    def __repr__(self) -> str:
        return record_text(self.__view__())

    def _repr_html_(self) -> str:
        return html_of(self.__view__())


def defer[T](work: Callable[[], Iterator[T]]) -> Iterator[T]:
    """Begins the work when the first item is asked for."""
    yield from work()


def diff_between(repository: Repository, start: Version, end: Version) -> Diff:
    info = repository.repo_info()
    first, last = (history.snapshot_id(info, resolve(info, each)) for each in (start, end))
    return Diff.of(repository.diff(first, last))


# Pictures and contents of files


class AncestryGraph:
    """A picture of a history: text when printed, SVG in a notebook."""

    def __init__(self, drawn: "graph.Graph", *, plain: bool) -> None:
        self._graph = drawn
        self._plain = plain

    def __str__(self) -> str:
        # colours are for terminals: not for files, pipes and logs
        return graph.text_of(self._graph, plain=self._plain or not sys.stdout.isatty())

    def __repr__(self) -> str:
        return str(self)

    def _repr_svg_(self) -> str:
        return graph.svg_of(self._graph)


# Edits. frazil's own, not in Icechunk


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEdit:
    """Result of a revert, a cherry-pick or a merge.

    `snapshot_id` is the new tip of the branch, None after a dry run and where there was nothing to
    do. `conflicts` are those that were met; in a dry run `solved` is True if the solver would solve
    them, otherwise an error is raised if it does not.
    """

    snapshot_id: str | None
    applied: Diff
    conflicts: list[Conflict]
    solved: bool
    fast_forward: bool

    @classmethod
    def of(cls, edited: "history_editing.Edited") -> "HistoryEdit":
        return cls(
            snapshot_id=None if edited.snapshot is None else str(edited.snapshot),
            applied=Diff.of(edited.applied),
            conflicts=list(edited.conflicts),
            solved=edited.solved,
            fast_forward=edited.fast_forward,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Squash:
    """A range of history that became, or in a dry run would become, one commit.

    `snapshot_id` is that commit and `tip` the new tip of the branch, both None after a dry run.
    `squashed` are the old ids of the range, `followers` those of the commits after it, which were
    recreated on top; oldest first.
    """

    snapshot_id: str | None
    tip: str | None
    squashed: list[str]
    followers: list[str]
    applied: Diff


def edit_of(
    branch: str,
    message: str | None,
    metadata: dict[str, Any] | None,
    solver: "conflicts.ConflictSolver | None",
    *,
    dry_run: bool,
) -> "history_editing.Edit":
    return history_editing.Edit(
        branch=branch,
        message=message,
        metadata=metadata or {},
        policy=solvers.Policy() if solver is None else conflicts.policy_of(solver),
        dry_run=dry_run,
    )


def squash_range(
    repository: Repository,
    first_snapshot_id: str,
    last_snapshot_id: str | None,
    *,
    branch: str,
    message: str,
    metadata: dict[str, Any] | None,
    dry_run: bool,
) -> Squash:
    request = squash.SquashRequest(
        branch=branch,
        first=SnapshotId.parse(first_snapshot_id),
        last=None if last_snapshot_id is None else SnapshotId.parse(last_snapshot_id),
        message=message,
        metadata=metadata or {},
        dry_run=dry_run,
    )
    done = squash.squash(repository, request)
    return Squash(
        snapshot_id=None if done.snapshot is None else str(done.snapshot),
        tip=None if done.tip is None else str(done.tip),
        squashed=[str(snapshot) for snapshot in done.squashed],
        followers=[str(snapshot) for snapshot in done.followers],
        applied=Diff.of(done.applied),
    )
