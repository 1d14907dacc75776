"""Rebase, amend and flush beside the reference: the same calls, the same outcome.

Where frazil does better on purpose (docs/differences.md), the difference must be one of those.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from tests.compat.driver import (
    OURS,
    REFERENCE,
    Contents,
    Engine,
    apply_edit,
    assert_same,
    contents,
    plain_diff,
)
from tests.compat.steps import (
    ArraySpec,
    CreateArray,
    CreateGroup,
    Delete,
    Edit,
    Resize,
    SetAttributes,
    Write,
)
from tests.examples_count import scaled

SPEC = ArraySpec(
    dtype="int32", shape=(8,), chunks=(2,), shards=None, compressed=False, dimension_names=None
)
GROUPS = ("g", "g/h")
ARRAYS = ("a", "b", "g/x", "g/h/y")
SOLVABLE = {6, 9, 10}
NEW_NODE_CONFLICTS, NEW_NODE_IN_INVALID_GROUP, DELETE_OF_UPDATED_GROUP = 1, 2, 10

type Conflicts = Counter[tuple[int, str, str]]  # type, path, chunks
type Edits = tuple[Edit, ...]


def write(path: str, *chunks: int, seed: int = 1) -> Edits:
    return tuple(Write(path, ((2 * i, 2 * i + 2),), seed) for i in chunks)


def update(path: str, value: int = 1) -> Edits:
    return (SetAttributes(path, {"k": value}),)


def group(path: str) -> Edits:
    return (CreateGroup(path, {}),)


def array(path: str, *, overwrite: bool = False) -> Edits:
    return (CreateArray(path, SPEC, overwrite),)


def delete(path: str) -> Edits:
    return (Delete(path),)


def replaced(path: str) -> Edits:
    return (*delete(path), *array(path))


def begin(repo: Any) -> Any:
    """A repository with a few groups, and arrays with all their chunks."""
    session = repo.writable_session("main")
    edits = [*group(""), *(edit for path in GROUPS for edit in group(path))]
    for path in ARRAYS:
        edits += [*array(path), *write(path, 0, 1, 2, 3, seed=0)]
    for edit in edits:
        apply_edit(session.store, edit)
    session.commit("base")
    return repo


@cache
def in_memory(engine: Engine) -> Any:
    """Made once: every pair of sessions works on a branch of its own."""
    return begin(engine.module.Repository.create(engine.module.in_memory_storage()))


SOLVERS: dict[str, Callable[[Any], Any]] = {
    "detector": lambda module: module.ConflictDetector(),
    "ours": lambda module: module.BasicConflictSolver(),
    "theirs": lambda module: module.BasicConflictSolver(
        on_chunk_conflict=module.VersionSelection.UseTheirs
    ),
    "chunks-fail": lambda module: module.BasicConflictSolver(
        on_chunk_conflict=module.VersionSelection.Fail
    ),
    "arrays-fail": lambda module: module.BasicConflictSolver(fail_on_delete_of_updated_array=True),
    "groups-fail": lambda module: module.BasicConflictSolver(fail_on_delete_of_updated_group=True),
}
EVERY_SOLVER = pytest.mark.parametrize("solver", SOLVERS)


def rebase(engine: Engine, session: Any, solver: str) -> Conflicts:
    """The conflicts it failed for; none if it succeeded."""
    try:
        session.rebase(SOLVERS[solver](engine.module))
    except engine.module.RebaseFailedError as error:
        return Counter(
            (int(conflict.conflict_type), conflict.path, repr(conflict.conflicted_chunks))
            for conflict in error.conflicts
        )
    return Counter()


# Every kind of conflict

SAME: dict[str, tuple[Edits, Edits]] = {
    "1 both create a group": (group("n"), group("n")),
    "1 a group and an array": (group("n"), array("n")),
    "1 below a new group of both": (group("n/m"), group("n")),
    "2 in what is an array now": (group("n/m/o"), array("n")),
    "2 in a group that became an array": (group("g/new"), (*delete("g"), *array("g"))),
    "3 array": (update("a"), update("a")),
    "3 array, equal content": (update("a"), update("a", 2)),
    "3 group": (update("g"), update("g")),
    "3 root": (update(""), update("")),
    "4": (update("a"), delete("a")),
    "4 and 7": ((*update("a"), *write("a", 0)), delete("a")),
    "4 deleted and made again": (update("a"), replaced("a")),
    "5": (update("g"), delete("g")),
    "6": (write("a", 0, 1, 2, seed=2), write("a", 2, 0)),
    "6 one of us erases": (write("a", 0, 1), (Write("a", ((0, 4),), None),)),
    "6 we shrink": ((Resize("a", (4,)),), write("a", 3)),
    "7": (write("a", 0), delete("a")),
    "7 deleted and made again": (write("a", 0), replaced("a")),
    "8": (write("a", 0), update("a")),
    "8 they append": (write("a", 0), ((Resize("a", (12,)),))),
    "8 and 6": (write("a", 0, 1), (*update("a"), *write("a", 0, seed=2))),
    "3, 8 and 6": ((*update("a"), *write("a", 0)), (*update("a", 2), *write("a", 0, seed=2))),
    "9 metadata": (delete("a"), update("a")),
    "9 chunks": (delete("a"), write("a", 0)),
    "9 we made it again": (replaced("a"), write("a", 0)),
    "10": (delete("g"), update("g")),
    "10 and 9": (delete("g"), (*update("g"), *write("g/x", 0), *update("g/h/y"))),
    "many": (
        (*group("n"), *update("a"), *update("b"), *write("a", 0), *delete("g")),
        (*group("n"), *update("a"), *write("a", 0), *write("b", 0), *update("g"), *write("g/x", 1)),
    ),
    "none: chunks of one array": (write("a", 0, 2), write("a", 1, 3, seed=2)),
    "none: our metadata, their chunks": (update("a"), write("a", 0)),
    "none: we append, they write": (((Resize("a", (12,)), *write("a", 5))), write("a", 0)),
    "none: elsewhere": ((*group("n"), *write("a", 0)), (*array("m"), *write("b", 0))),
    "none: both delete": (delete("a"), delete("a")),
    "none: both delete, one more": (delete("g"), delete("g/x")),
    "none: deleted, they made it again": (delete("a"), replaced("a")),
    "none: we made it again": (replaced("a"), delete("a")),
}


@EVERY_SOLVER
@pytest.mark.parametrize("scenario", SAME)
def test_conflicts_and_outcome_are_those_of_the_reference(scenario: str, solver: str) -> None:
    mine, theirs = SAME[scenario]
    pair = Pair.start(mine)
    assert pair.step(theirs, solver) is not Verdict.DIFFERENT
    if not scenario.startswith("none") and solver == "detector":
        assert pair.failed
        kinds = {str(kind) for kind, _, _ in pair.failed}
        assert kinds >= {word for word in scenario.replace(",", "").split() if word.isdigit()}


IMPROVED: dict[str, tuple[Edits, Edits]] = {
    "they add to a group that we delete": (delete("g"), group("g/new")),
    "we add to a group that they delete": (group("g/h/new"), delete("g/h")),
    "both delete an array and make another": (replaced("a"), replaced("a")),
    "our group in the place of our array": ((*delete("a"), *group("a/m")), write("b", 0)),
}


@pytest.mark.parametrize("scenario", IMPROVED)
def test_improvements_are_those_that_are_documented(scenario: str) -> None:
    mine, theirs = IMPROVED[scenario]
    assert Pair.start(mine).step(theirs, "detector") is Verdict.DIFFERENT


# Any changes at all


class Verdict:
    """How two outcomes of a rebase compare, if they are not simply wrong."""

    SAME = "same"
    FAILED = "failed"  # both, for the same reasons
    DIFFERENT = "different"  # in a way that is documented


@dataclass(slots=True)
class Pair:
    """One session of each engine, with the same changes."""

    repos: tuple[Any, Any]
    branch: str
    sessions: tuple[Any, Any]
    failed: Conflicts

    @classmethod
    def start(cls, edits: Sequence[Edit]) -> "Pair":
        repos, branch = (in_memory(OURS), in_memory(REFERENCE)), uuid4().hex
        for repo in repos:
            repo.create_branch(branch, repo.lookup_branch("main"))
        sessions = (repos[0].writable_session(branch), repos[1].writable_session(branch))
        apply_to_both(sessions, edits)
        return cls(repos, branch, sessions, Counter())

    def step(self, theirs: Sequence[Edit], solver: str) -> str:
        """A commit by somebody else, over which both rebase."""
        first, second = (repo.writable_session(self.branch) for repo in self.repos)
        others = (first, second)
        apply_to_both(others, theirs)
        if not others[0].has_uncommitted_changes:
            return Verdict.SAME
        changed = plain_diff(others[0].status())
        mine = plain_diff(self.sessions[0].status())
        for other in others:
            other.commit("theirs")
        ours = rebase(OURS, self.sessions[0], solver)
        reference = rebase(REFERENCE, self.sessions[1], solver)
        if ours != reference:
            require_improvements(ours, reference, mine, changed)
            return Verdict.DIFFERENT
        if ours:
            self.failed = ours
            return Verdict.FAILED
        seen = [visible(session.store) for session in self.sessions]
        if seen[0] != seen[1]:
            assert_same(seen[0], without_orphans(seen[1]), "contents")
            return Verdict.DIFFERENT
        return Verdict.SAME

    def conclude(self) -> None:
        if not self.sessions[0].has_uncommitted_changes:
            assert not self.sessions[1].has_uncommitted_changes
            return
        for session in self.sessions:
            session.commit("ours")
        seen = [contents(repo.readonly_session(self.branch).store) for repo in self.repos]
        assert_same(seen[0], seen[1], "contents")


def apply_to_both(sessions: tuple[Any, Any], edits: Sequence[Edit]) -> None:
    """Those of the edits that are possible where they stand."""
    for edit in edits:
        keys = visible(sessions[1].store)
        if possible(edit, keys):
            for session in sessions:
                apply_edit(session.store, edit)


def visible(store: Store) -> Contents:
    """Like `contents`; the reference lists chunks outside the grid that it does not show."""

    async def collect() -> Contents:
        keys = [key async for key in store.list()]
        found = {key: await store.get(key, default_buffer_prototype()) for key in keys}
        return {key: data.to_bytes() for key, data in found.items() if data is not None}

    return sync(collect())


def possible(edit: Edit, keys: Contents) -> bool:
    def kind(path: str) -> str | None:
        data = keys.get(f"{path}/zarr.json".lstrip("/"))
        return None if data is None else "array" if b'"array"' in data else "group"

    match edit:
        case CreateGroup(path) | CreateArray(path):
            parts = path.split("/")
            above = ["/".join(parts[:i]) for i in range(1, len(parts))]
            return kind(path) is None and "array" not in map(kind, above)
        case Write(path, region, _):
            stop = region[0][1]
            data = keys.get(f"{path}/zarr.json", b"")
            shapes = {f'"shape": [\n    {n}\n  ]'.encode(): n for n in (4, 8, 12)}
            shape = next((n for text, n in shapes.items() if text in data), 0)
            return kind(path) == "array" and stop <= shape
        case Resize(path):
            return kind(path) == "array"
        case SetAttributes(path) | Delete(path):
            return kind(path) is not None
        case _:
            return False


def require_improvements(ours: Conflicts, reference: Conflicts, mine: Any, theirs: Any) -> None:
    """Every conflict that only one side sees is one that docs/differences.md explains.

    A failure lists conflicts that the solver would have solved, too.
    """
    gone = [*mine["deleted_arrays"], *mine["deleted_groups"]]
    new = [*theirs["new_arrays"], *theirs["new_groups"]]

    def is_better(kind: int, path: str) -> bool:
        return (
            (kind == NEW_NODE_CONFLICTS and path in gone and path in new)
            or (kind == NEW_NODE_IN_INVALID_GROUP and path in theirs["deleted_groups"])
            or (kind == DELETE_OF_UPDATED_GROUP and any(one.startswith(f"{path}/") for one in new))
        )

    def is_mistaken(kind: int, path: str) -> bool:
        return kind == NEW_NODE_IN_INVALID_GROUP and path in mine["deleted_arrays"]

    for only, other, is_explained in (
        (ours - reference, reference, is_better),
        (reference - ours, ours, is_mistaken),
    ):
        rest = {kind for kind, path, _ in only if not is_explained(kind, path)}
        assert rest <= (set() if other else SOLVABLE), f"{ours} and {reference}"
        assert not rest or len(rest) < len(only)


def without_orphans(keys: Contents) -> Contents:
    """Without what is below a group that is not there."""

    def is_orphan(key: str) -> bool:
        parts = key.split("/")
        above = ["/".join([*parts[:i], "zarr.json"]) for i in range(len(parts) - 1)]
        return any(node not in keys for node in above)

    return {key: data for key, data in keys.items() if not is_orphan(key)}


PATHS = (*ARRAYS, *GROUPS, "n", "g/n", "g/h/n", "a/n")


def edits() -> st.SearchStrategy[Edits]:
    arrays, paths = st.sampled_from(ARRAYS), st.sampled_from(PATHS)
    chunk = st.integers(0, 5)
    one = st.one_of(
        st.builds(lambda path, i, seed: write(path, i, seed=seed), arrays, chunk, st.just(7)),
        st.builds(lambda path, i: write(path, i, seed=8), arrays, chunk),
        st.builds(update, paths, st.integers(0, 2)),
        st.builds(delete, paths),
        st.builds(group, paths),
        st.builds(array, paths),
        st.builds(lambda path, n: (Resize(path, (n,)),), arrays, st.sampled_from([4, 8, 12])),
    )
    return st.lists(one, min_size=1, max_size=4).map(lambda parts: sum(parts, ()))


@settings(
    max_examples=scaled(40),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    mine=edits(),
    theirs=st.lists(edits(), min_size=1, max_size=2),
    solver=st.sampled_from([*SOLVERS]),
)
def test_any_two_sets_of_changes_come_out_alike(
    mine: Edits, theirs: list[Edits], solver: str
) -> None:
    pair = Pair.start(mine)
    for commit in theirs:
        if pair.step(commit, solver) is not Verdict.SAME:
            return
    pair.conclude()
