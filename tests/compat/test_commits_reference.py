"""Commits that rebase, amended commits and detached snapshots, with two engines in one place."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zarr

from frazil.format.transaction_log import NODE_LISTS
from tests.compat.driver import (
    INITIAL_SNAPSHOT,
    OURS,
    REFERENCE,
    Engine,
    apply_edit,
    assert_same,
    contents,
    diff_between,
    plain_snapshot,
)
from tests.compat.test_rebase_reference import (
    Edits,
    array,
    begin,
    delete,
    group,
    rebase,
    update,
    write,
)

WHO_AND_WHO = pytest.mark.parametrize(
    ("engine", "other"),
    [(OURS, REFERENCE), (REFERENCE, OURS), (OURS, OURS)],
    ids=["frazil-over-icechunk", "icechunk-over-frazil", "frazil-over-frazil"],
)


def commit(engine: Engine, root: Path, edits: Edits) -> str:
    session = engine.open(root).writable_session("main")
    for edit in edits:
        apply_edit(session.store, edit)
    return str(session.commit("theirs"))


def begun(engine: Engine, root: Path, edits: Edits) -> Any:
    session = engine.open(root).writable_session("main")
    for edit in edits:
        apply_edit(session.store, edit)
    return session


def assert_both_see_the_same(root: Path, *, diffs_too: bool = True) -> None:
    seen = [engine.open(root) for engine in (OURS, REFERENCE)]
    ours, reference = (contents(repo.readonly_session("main").store) for repo in seen)
    assert_same(ours, reference, "contents")
    mine, theirs = (
        [plain_snapshot(info) for info in repo.ancestry(branch="main")] for repo in seen
    )
    assert_same(mine, theirs, "history")
    if not diffs_too:
        return
    tip, parent = mine[0]["id"], mine[1]["id"]
    diffs = [diff_between(repo, str(parent), str(tip)) for repo in seen]
    assert_same(diffs[0], diffs[1], "diff")


@WHO_AND_WHO
def test_either_rebases_over_the_other(engine: Engine, other: Engine, tmp_path: Path) -> None:
    begin(other.create(tmp_path))
    mine = (*write("a", 0, seed=5), *update("b"), *array("n"), *write("n", 1), *delete("g/h"))
    session = begun(engine, tmp_path, mine)
    commit(other, tmp_path, (*write("a", 1), *write("b", 2), *group("m")))
    commit(other, tmp_path, (*write("g/x", 1), *update("g")))
    session.commit("ours", rebase_with=engine.module.ConflictDetector())
    assert_both_see_the_same(tmp_path)
    store = REFERENCE.open(tmp_path).readonly_session("main").store
    assert set(zarr.open_group(store, mode="r").keys()) == {"a", "b", "g", "m", "n"}
    assert zarr.open_array(store, path="b", mode="r").attrs["k"] == 1


@WHO_AND_WHO
def test_either_sees_the_conflicts_with_the_other(
    engine: Engine, other: Engine, tmp_path: Path
) -> None:
    begin(other.create(tmp_path))
    session = begun(engine, tmp_path, (*write("a", 0, 1), *update("b"), *delete("g")))
    commit(other, tmp_path, (*write("a", 1), *update("b", 2), *write("g/x", 0)))
    assert set(rebase(engine, session, "ours")) == {
        (6, "/a", "[[1]]"),
        (3, "/b", "None"),
        (9, "/g/x", "None"),
    }


def test_a_repository_of_version_1_is_rebased_alike(tmp_path: Path) -> None:
    for engine in (OURS, REFERENCE):
        root = tmp_path / engine.name
        begin(engine.module.Repository.create(engine.storage(root), spec_version=1))
        session = begun(engine, root, write("a", 0, 1, seed=5))
        commit(engine, root, write("a", 1))
        assert set(rebase(engine, session, "detector")) == {(6, "/a", "[[1]]")}
        session.commit("ours", rebase_with=engine.module.BasicConflictSolver())
        assert_both_see_the_same(root)
    seen = [
        contents(REFERENCE.open(tmp_path / engine.name).readonly_session("main").store)
        for engine in (OURS, REFERENCE)
    ]
    assert_same(seen[0], seen[1], "contents")


@WHO_AND_WHO
def test_a_commit_with_nothing_left_of_it_is_still_one(
    engine: Engine, other: Engine, tmp_path: Path
) -> None:
    """All its chunks were given up: its log names the array, and none of its chunks.

    A diff of the reference then lists the array without chunks, one of frazil does not.
    """
    begin(other.create(tmp_path))
    session = begun(engine, tmp_path, write("a", 0, seed=5))
    commit(other, tmp_path, write("a", 0))
    module = engine.module
    solver = module.BasicConflictSolver(on_chunk_conflict=module.VersionSelection.UseTheirs)
    session.commit("ours", rebase_with=solver)
    assert_both_see_the_same(tmp_path, diffs_too=False)
    repo = OURS.open(tmp_path)
    assert [info.message for info in repo.ancestry(branch="main")][:2] == ["ours", "theirs"]


# Their moves


def moved(root: Path, source: str, target: str) -> None:
    session = REFERENCE.open(root).rearrange_session("main")
    session.move(source, target)
    session.commit("moved")


UNRELATED: tuple[Edits, ...] = (
    write("a", 0, seed=5),
    update("b"),
    update(""),
    (*array("n"), *write("n", 1)),
    delete("b"),
)


@pytest.mark.parametrize("edits", UNRELATED, ids=["chunk", "array", "root", "new", "delete"])
def test_an_edit_is_carried_over_a_move_of_something_else(tmp_path: Path, edits: Edits) -> None:
    begin(REFERENCE.create(tmp_path))
    session = begun(OURS, tmp_path, edits)
    alone = contents(session.store)
    moved(tmp_path, "/g", "/moved")
    session.rebase(OURS.module.ConflictDetector())
    session.commit("ours")
    assert_both_see_the_same(tmp_path)
    after = contents(REFERENCE.open(tmp_path).readonly_session("main").store)
    renamed = {
        f"moved{key[1:]}" if key.startswith("g/") else key: data for key, data in alone.items()
    }
    assert_same(after, renamed, "contents")


RELATED: dict[str, tuple[Edits, str]] = {
    "chunks of a moved array": (write("g/x", 0), "/g/x"),
    "metadata of a moved group": (update("g"), "/g"),
    "a node in a moved group": (group("g/new"), "/g/new"),
    "a node where one was moved to": (group("moved"), "/moved"),
    "a deleted group that was moved": (delete("g/h"), "/g/h"),
}


@pytest.mark.parametrize("name", RELATED)
def test_an_edit_of_what_was_moved_is_a_conflict(tmp_path: Path, name: str) -> None:
    edits, path = RELATED[name]
    begin(REFERENCE.create(tmp_path))
    session = begun(OURS, tmp_path, edits)
    moved(tmp_path, "/g", "/moved")
    conflicts = rebase(OURS, session, "ours")
    assert (11, path, "None") in conflicts
    assert not {kind for kind, _, _ in conflicts} - {1, 2, 11}


# What a commit notes, and what it refuses


type Call = Callable[[Engine, Any], object]
CALLS: dict[str, Call] = {
    "no rebase needed": lambda engine, s: s.commit(
        "x", {"k": 1}, rebase_with=engine.module.ConflictDetector()
    ),
    "metadata is kept": lambda engine, s: s.commit(
        "x", {"__icechunk": {"z": 1}}, rebase_with=engine.module.ConflictDetector()
    ),
    "metadata is replaced": lambda engine, s: s.commit(
        "x", {"__icechunk": 5}, rebase_with=engine.module.ConflictDetector(), rebase_tries=1
    ),
    "no tries": lambda engine, s: s.commit(
        "x", rebase_with=engine.module.ConflictDetector(), rebase_tries=0
    ),
    "too few": lambda engine, s: s.commit(
        "x", rebase_with=engine.module.ConflictDetector(), rebase_tries=-1
    ),
    "too many": lambda engine, s: s.commit(
        "x", rebase_with=engine.module.ConflictDetector(), rebase_tries=65536
    ),
    "no solver": lambda _, s: s.commit("x", rebase_tries=5),
    "not a solver": lambda _, s: s.rebase(5),
    "amend": lambda _, s: s.amend("x", metadata={"k": 1}),
    "flush": lambda _, s: s.flush("x", metadata={"k": 1}),
}
STATES: dict[str, tuple[Edits, Edits]] = {
    "fresh": (write("a", 0), ()),
    "stale": (write("a", 0), write("a", 1)),
    "clean": ((), ()),
    "clean and stale": ((), write("a", 1)),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("call", CALLS)
def test_a_call_ends_as_with_the_reference(tmp_path: Path, call: str, state: str) -> None:
    outcomes = []
    for engine in (OURS, REFERENCE):
        root = tmp_path / engine.name
        begin(engine.create(root))
        mine, theirs = STATES[state]
        session = begun(engine, root, mine)
        if theirs:
            commit(engine, root, theirs)
        outcomes.append(outcome(engine, root, session, CALLS[call]))
    assert_same(outcomes[0], outcomes[1], f"{call} / {state}")


def outcome(engine: Engine, root: Path, session: Any, call: Call) -> object:
    try:
        call(engine, session)
    except (engine.module.IcechunkError, TypeError, OverflowError) as error:
        return (
            type(error).__name__,
            getattr(error, "kind", None),
            session.read_only,
            session.has_uncommitted_changes,
        )
    repo = engine.open(root)
    ancestry = [info.message for info in repo.ancestry(branch="main")]
    record = repo.lookup_snapshot(session.snapshot_id)
    updates = [type(update.kind).__name__ for update in repo.ops_log()]
    return ancestry, record.message, record.metadata, updates, session.read_only, session.branch


@WHO_AND_WHO
def test_either_amends_what_the_other_committed(
    engine: Engine, other: Engine, tmp_path: Path
) -> None:
    begin(other.create(tmp_path))
    commit(other, tmp_path, (*array("n"), *write("n", 0), *write("a", 0), *update("b")))
    edits = (*write("n", 1), *delete("g"), *update("a"), *write("b", 1))
    session = begun(engine, tmp_path, edits)
    new = session.amend("better")
    assert_both_see_the_same(tmp_path)
    messages = [info.message for info in REFERENCE.open(tmp_path).ancestry(branch="main")]
    assert messages == ["better", "base", "Repository initialized"]
    for reader in (OURS, REFERENCE):
        update_kind = next(iter(reader.open(tmp_path).ops_log())).kind
        assert type(update_kind).__name__ == "CommitAmended"
        assert (update_kind.branch, update_kind.new_snap_id) == ("main", new)


def test_logs_of_amended_commits_say_the_same(tmp_path: Path) -> None:
    """In that of the reference a node may be new and updated, or updated and deleted."""
    first = (*array("n"), *write("n", 0), *update("a"), *write("a", 0), *update("g"))
    second = (*update("n"), *write("n", 1), *delete("a"), *delete("g"), *array("a"))
    logs = []
    for engine in (OURS, REFERENCE):
        root = tmp_path / engine.name
        begin(engine.create(root))
        commit(engine, root, first)
        session = begun(engine, root, second)
        new = session.amend("better")
        logs.append(REFERENCE.open(root).inspect_transaction_log(new))
    assert in_two_lists(logs[0]) == set()
    assert len(in_two_lists(logs[1])) == 3
    assert_same(without_repetition(logs[0]), without_repetition(logs[1]), "log")


def in_two_lists(log: dict[str, Any]) -> set[str]:
    listed = [each for name in NODE_LISTS for each in log[name]]
    return {each for each in listed if listed.count(each) > 1}


def without_repetition(log: dict[str, Any]) -> dict[str, object]:
    """How many nodes are in each list, and which chunks are listed of nodes that are still there.

    Nodes that are new or deleted are not counted as updated.
    """
    twice = in_two_lists(log)
    counts: dict[str, object] = {
        name: len(set(log[name]) - twice if name.startswith("updated") else log[name])
        for name in NODE_LISTS
    }
    there = [each for each in log["updated_chunks"] if each["node_id"] not in log["deleted_arrays"]]
    return counts | {"updated_chunks": sorted(str(each["chunks"]) for each in there)}


def test_the_first_snapshot_is_not_amended_by_either(tmp_path: Path) -> None:
    for engine in (OURS, REFERENCE):
        root = tmp_path / engine.name
        session = engine.create(root).writable_session("main")
        apply_edit(session.store, group("")[0])
        with pytest.raises(engine.module.SessionStateError) as caught:
            session.amend("x")
        assert caught.value.kind == "no-amend-for-initial-commit"


@WHO_AND_WHO
def test_either_adopts_what_the_other_flushed(
    engine: Engine, other: Engine, tmp_path: Path
) -> None:
    begin(engine.create(tmp_path))
    session = begun(engine, tmp_path, (*write("a", 0, seed=5), *group("n")))
    expected = contents(session.store)
    new = session.flush("aside")
    repo = other.open(tmp_path)
    assert next(info.message for info in repo.ancestry(branch="main")) == "base"
    repo.reset_branch("main", new)
    assert_both_see_the_same(tmp_path)
    assert contents(repo.readonly_session("main").store) == expected
    history = [info.id for info in repo.ancestry(branch="main")]
    assert (history[0], history[-1]) == (new, INITIAL_SNAPSHOT)
