"""Statements of several writers at once, and the history of the branch that they must explain.

Which commit a statement made is not known, nor the snapshot that it read. But a writer does one
statement after the other, each between two tips of the branch. The history is explained if its
commits can be dealt out to the statements in the order of each writer, so that

- a statement that ended well has one commit, or none if it changes nothing; one that failed, none;
- the commit changes the cells that the statement changes on some snapshot since it began (the
  base), and no others;
- no commit between base and commit wrote a chunk, or the shape of an array, that it wrote.

A MERGE that only inserts is an INSERT to Spark: its rows are those that it did not find in the
base, and it is planned on the tip. It writes to empty cells whatever was committed meanwhile, and
is refused if one of its cells has got a value.

That is the isolation that docs/design/034 promises.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import icechunk

from tests.spark.dml_oracle import Cells, RefusedError, Statement, Table, Twin

CONFLICTS = ("expected parent", "Rebase failed")
NOT_EMPTY = "inserting never overwrites"
_EMPTY = (None, None)
# what rows at new coordinates are told, where others have removed some and added others
MISPLACED = ("it would no longer be in order", "which is outside the grid")


@dataclass(frozen=True, slots=True, eq=False)
class Done:
    """A statement, with the tips of the branch before and after it. Without one: of icechunk."""

    before: str
    after: str
    statement: Statement | None = None
    error: str = ""
    base: str = ""  # of icechunk: it is known there
    changes: Cells | None = None  # the same
    made: str = ""  # the same

    @property
    def only_inserts(self) -> bool:
        return self.statement is not None and self.statement.only_inserts

    @property
    def is_conflict(self) -> bool:
        found_late = self.only_inserts and NOT_EMPTY in self.error
        return found_late or any(text in self.error for text in CONFLICTS)


@dataclass(frozen=True, slots=True)
class Effects:
    cells: Cells
    replaces: bool = False  # all cells, with these


class History:
    """The snapshots of a branch since the table was made, and the statements of writers."""

    def __init__(self, table: Table, start: str, writers: Sequence[Sequence[Done]]) -> None:
        self.table = table
        self.writers = writers
        snapshots = table.snapshots()
        self.snapshots = snapshots[snapshots.index(start) :]
        self.number = {snapshot: k for k, snapshot in enumerate(self.snapshots)}
        self.twin = Twin(table)
        storage = icechunk.local_filesystem_storage(table.path)
        self.repository = icechunk.Repository.open(storage)
        self.cells = cache(self._cells)
        self.written = cache(self._written)
        self.effects = cache(self._effects)
        self.explains = cache(self._explains)

    def require_explained(self) -> None:
        states = {(0,) * len(self.writers)}
        for k in range(1, len(self.snapshots)):
            after = {state for before in states for state in self._moves(before, k)}
            assert after, f"no statement explains {self._describe(states, k)}"
            states = after
        left = [
            [d for done, k in zip(self.writers, state, strict=True) for d in done[k:]]
            for state in states
        ]
        assert any(all(map(self._needs_no_commit, each)) for each in left), (
            f"no commit of {left[0]}"
        )

    def count_rebased(self) -> int:
        """Commits that no statement explains if it read the snapshot just before the commit."""
        return sum(
            not any(self._gives(d, k - 1, k) for done in self.writers for d in done if not d.error)
            for k in range(1, len(self.snapshots))
        )

    def _cells(self, k: int) -> Cells:
        return self.table.read(self.snapshots[k])

    def _written(self, k: int) -> frozenset[tuple[object, ...]]:
        """Chunks that a commit wrote, and arrays whose metadata it changed."""
        diff = self.repository.diff(
            from_snapshot_id=self.snapshots[k - 1], to_snapshot_id=self.snapshots[k]
        )
        chunks = {(path, *index) for path, found in diff.updated_chunks.items() for index in found}
        arrays = diff.updated_arrays | diff.new_arrays | diff.deleted_arrays
        return frozenset(chunks | {(path,) for path in arrays})

    def _effects(self, done: Done, base: int) -> Effects | str:
        """Cells that a statement changes on a snapshot; why, if it is refused there."""
        if done.statement is None:
            return Effects(done.changes or {})
        before = self.cells(base)
        self.twin.load_cells(before)
        try:
            self.twin.apply(done.statement)
        except RefusedError as error:
            return str(error)
        after = self.twin.cells()
        if done.statement.kind == "overwrite":
            return Effects(after, replaces=True)
        none = object()
        return Effects({at: x for at, x in after.items() if before.get(at, none) != x})

    def _explains(self, done: Done, k: int) -> bool:
        if done.error or not self.number[done.before] < k <= self.number[done.after]:
            return False
        if done.made:
            base = self.number[done.base]
            return done.made == self.snapshots[k] and self._gives(done, base, k)
        first = self.number[done.before]
        return any(self._gives(done, base, k) for base in range(k - 1, first - 1, -1))

    def _gives(self, done: Done, base: int, k: int) -> bool:
        effects, before = self.effects(done, base), self.cells(k - 1)
        if isinstance(effects, str):
            return False
        if done.only_inserts:  # cells that others filled since are none of its own
            mine = {at: x for at, x in effects.cells.items() if x != _EMPTY or at not in before}
            effects = replace(effects, cells=mine)
        if _changed(before, effects) != self.cells(k):
            return False
        between = frozenset[tuple[object, ...]]().union(*map(self.written, range(base + 1, k)))
        if done.only_inserts:
            return all(before.get(at, _EMPTY) == _EMPTY for at in effects.cells)
        if effects.replaces:
            return not between
        return not self.written(k) & between

    def _moves(self, state: tuple[int, ...], k: int) -> Iterator[tuple[int, ...]]:
        """The statements that may be next after one of them made the commit."""
        for writer, done in enumerate(self.writers):
            for position in range(state[writer], len(done)):
                if self.explains(done[position], k):
                    yield (*state[:writer], position + 1, *state[writer + 1 :])
                if not self._needs_no_commit(done[position]):
                    break

    def _needs_no_commit(self, done: Done) -> bool:
        """True if it failed as it should, or changes nothing."""
        first, last = self.number[done.before], self.number[done.after]
        if done.is_conflict:
            return last > first  # or there was nothing to be in conflict with
        if done.error:
            reasons = [self.effects(done, base) for base in range(first, last + 1)]
            refused = any(isinstance(why, str) and why in done.error for why in reasons)
            misplaced = any(text in done.error for text in MISPLACED) and any(
                self._lacks_coordinates(done, base) for base in range(first, last + 1)
            )
            return refused or misplaced
        return any(self.effects(done, base) == Effects({}) for base in range(first, last + 1))

    def _lacks_coordinates(self, done: Done, base: int) -> bool:
        """True if a row of the statement is at a coordinate that is not there."""
        rows = done.statement.rows if done.statement is not None else ()
        along = [set(values) for values in zip(*self.cells(base), strict=True)]
        known = dict(zip(self.table.dims, along, strict=True))
        return any(row[dim] not in known[dim] for row in rows for dim in known)

    def _describe(self, states: set[tuple[int, ...]], k: int) -> str:
        before, after = self.cells(k - 1), self.cells(k)
        different = {
            at: (before.get(at), after.get(at))
            for at in before.keys() | after.keys()
            if before.get(at) != after.get(at)
        }
        info = next(iter(self.repository.ancestry(snapshot_id=self.snapshots[k])))
        next_up = [
            [f"{d.statement or d.changes} {d.error[:500]}" for d in done[at : at + 3]]
            for state in states
            for done, at in zip(self.writers, state, strict=True)
        ]
        return f"commit {k}, {info.message}, {different}; next were {next_up}"


def _changed(before: Cells, effects: Effects) -> Cells:
    if effects.replaces:
        return effects.cells
    if effects.cells.keys() <= before.keys():
        return {**before, **effects.cells}
    known = {**before, **effects.cells}
    grid = product(*(sorted(set(values)) for values in zip(*known, strict=True)))
    return {at: known.get(at, _EMPTY) for at in grid}
