"""Edited histories, read and continued by the reference."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import frazil
from frazil.api.history import HistoryEdit, Squash
from tests.compat.driver import OURS, REFERENCE, assert_same, contents, diff_between, history_of

pytestmark = pytest.mark.skipif(
    OURS.name != OURS.module.__name__, reason="the reference cannot edit history"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Written by the reference: branches `main` and `side`, which parted."""
    repo = REFERENCE.create(tmp_path)
    commit(repo, "main", base)
    repo.create_branch("side", repo.lookup_branch("main"))
    commit(repo, "main", lambda group: put(group["a"], slice(0, 2), 10))
    commit(repo, "side", change_side)
    return tmp_path


def base(group: zarr.Group) -> None:
    for name in ("a", "b", "gone", "g/c"):
        array = group.create_array(name, shape=(8,), chunks=(2,), dtype="i4")
        array[:] = np.arange(8)


def change_side(group: zarr.Group) -> None:
    put(group["a"], slice(4, 8), 20)
    put(group.create_array("new", shape=(1000,), chunks=(500,), dtype="f8"), slice(0, 900), 7)
    group["g"].attrs["side"] = True
    del group["gone"]
    array = group["b"]
    assert isinstance(array, zarr.Array)
    array.resize((12,))
    put(array, slice(8, 12), 30)


def put(array: object, where: slice, value: float) -> None:
    assert isinstance(array, zarr.Array)
    array[where] = value


def commit(repo: Any, branch: str, change: Callable[[zarr.Group], None]) -> str:
    session = repo.writable_session(branch)
    change(zarr.open_group(session.store, mode="a"))
    return str(session.commit(f"on {branch}"))


def assert_the_reference_agrees(root: Path) -> Any:
    """Every snapshot of every branch, and each diff; returns the reference's repository."""
    ours, theirs = OURS.open(root), REFERENCE.open(root)
    assert_same(history_of(ours), history_of(theirs), "history")
    for branch in theirs.list_branches():
        ids = [info.id for info in theirs.ancestry(branch=branch)]
        for snapshot in ids:
            assert_same(
                contents(ours.readonly_session(snapshot_id=snapshot).store),
                contents(theirs.readonly_session(snapshot_id=snapshot).store),
                snapshot,
            )
        for newer, older in pairwise(ids):
            assert_same(diff_between(ours, older, newer), diff_between(theirs, older, newer), newer)
    return theirs


def values(repo: Any, name: str) -> list[float]:
    array = zarr.open_group(repo.readonly_session("main").store, mode="r")[name]
    assert isinstance(array, zarr.Array)
    return [float(value) for value in np.asarray(array[...])]


def tip(root: Path, branch: str) -> str:
    return str(REFERENCE.open(root).lookup_branch(branch))


def edit(root: Path) -> frazil.Repository:
    return frazil.Repository.open(frazil.local_filesystem_storage(str(root)))


def test_a_merge_is_a_commit_to_the_reference(root: Path) -> None:
    merged = tip(root, "side")
    result = edit(root).merge("side", into="main", metadata={"by": "me"})
    assert isinstance(result, HistoryEdit)
    theirs = assert_the_reference_agrees(root)
    assert values(theirs, "a") == [10, 10, 2, 3, 20, 20, 20, 20]
    assert values(theirs, "b") == [*range(8), 30, 30, 30, 30]
    assert values(theirs, "new")[:901] == [7] * 900 + [0]
    info = next(iter(theirs.ancestry(branch="main")))
    assert info.id == result.snapshot_id
    assert info.metadata == {"by": "me", "frazil": {"merged": [merged], "branch": "side"}}
    commit(theirs, "main", lambda group: put(group["new"], slice(0, 1), 1))
    assert_the_reference_agrees(root)


def test_a_picked_commit_equals_the_one_the_reference_made(root: Path) -> None:
    picked = tip(root, "side")
    edit(root).cherry_pick(picked, branch="main")
    theirs = assert_the_reference_agrees(root)
    ids = [info.id for info in theirs.ancestry(branch="main")]
    there = [info.id for info in theirs.ancestry(snapshot_id=picked)]
    assert_same(
        diff_between(theirs, ids[1], ids[0]), diff_between(theirs, there[1], there[0]), "diffs"
    )


def test_a_revert_undoes_what_the_reference_did(root: Path) -> None:
    reverted = tip(root, "side")
    repo = edit(root)
    commit(REFERENCE.open(root), "side", lambda group: put(group["a"], slice(0, 2), 5))
    repo.revert(reverted, branch="side")
    theirs = assert_the_reference_agrees(root)
    theirs.reset_branch("main", theirs.lookup_branch("side"))
    assert values(theirs, "a") == [5, 5, *range(2, 8)]
    assert values(theirs, "b") == values(theirs, "gone") == list(range(8))
    commit(theirs, "side", change_side)  # everything can be done again
    assert_the_reference_agrees(root)


def test_a_squashed_history_goes_on(root: Path) -> None:
    repo = edit(root)
    repo.merge("side", into="main")
    theirs = REFERENCE.open(root)
    commit(theirs, "main", lambda group: put(group["b"], slice(0, 2), 1))
    commit(theirs, "main", lambda group: put(group["b"], slice(2, 4), 2))
    ids = [info.id for info in theirs.ancestry(branch="main")][::-1]
    before = contents(theirs.readonly_session("main").store)
    result = repo.squash(ids[1], ids[3], branch="main", message="squashed")
    assert isinstance(result, Squash)
    assert result.squashed == ids[1:4]
    assert result.followers == ids[4:]
    theirs = assert_the_reference_agrees(root)
    assert [info.message for info in theirs.ancestry(branch="main")][::-1] == [
        "Repository initialized", "squashed", "on main", "on main",
    ]  # fmt: skip
    assert contents(theirs.readonly_session("main").store) == before
    commit(theirs, "main", lambda group: put(group["b"], slice(4, 6), 3))
    session = theirs.writable_session("main")
    put(zarr.open_group(session.store)["a"], slice(0, 2), 9)
    session.amend("amended")
    assert_the_reference_agrees(root)


def test_the_reference_collects_what_was_squashed_away(root: Path) -> None:
    repo = edit(root)
    repo.squash([info.id for info in repo.ancestry(branch="side")][1], branch="side", message="s")
    repo.reset_branch("main", repo.lookup_branch("side"))
    before = contents(repo.readonly_session("side").store)
    theirs = REFERENCE.open(root)
    newest = max(info.written_at for info in theirs.ancestry(branch="side"))
    theirs.garbage_collect(newest.replace(year=newest.year + 1))
    assert contents(REFERENCE.open(root).readonly_session("side").store) == before
    assert_the_reference_agrees(root)


def test_a_fast_forward_moves_the_branch(root: Path) -> None:
    theirs = REFERENCE.open(root)
    theirs.create_branch("ahead", theirs.lookup_branch("main"))
    ahead = commit(theirs, "ahead", lambda group: put(group["a"], slice(2, 4), 1))
    assert edit(root).merge("ahead", into="main").fast_forward
    assert REFERENCE.open(root).lookup_branch("main") == ahead
    assert_the_reference_agrees(root)


def move(repo: Any, branch: str, *moves: tuple[str, str]) -> str:
    session = repo.rearrange_session(branch)
    for source, target in moves:
        session.move(source, target)
    return str(session.commit("moved"))


def test_moves_by_the_reference_are_merged_with_edits(root: Path) -> None:
    theirs = REFERENCE.open(root)
    move(theirs, "side", ("/g", "/k"), ("/b", "/k/b"))
    commit(theirs, "main", lambda group: put(group["g/c"], slice(0, 2), 40))
    commit(theirs, "main", lambda group: put(group["b"], slice(0, 2), 50))
    move(theirs, "main", ("/a", "/g/a"))
    edit(root).merge("side", into="main")
    theirs = assert_the_reference_agrees(root)
    assert values(theirs, "k/c") == [40, 40, *range(2, 8)]
    assert values(theirs, "k/b") == [50, 50, *range(2, 8), 30, 30, 30, 30]
    assert values(theirs, "k/a") == [10, 10, 2, 3, 20, 20, 20, 20]
    commit(theirs, "main", lambda group: put(group["k/a"], slice(0, 1), 1))
    move(theirs, "main", ("/k", "/g"))
    session = theirs.rearrange_session("main")
    session.move("/g/a", "/a")
    session.amend("amended")
    assert_the_reference_agrees(root)


def test_a_move_by_the_reference_is_reverted_and_picked(root: Path) -> None:
    theirs = REFERENCE.open(root)
    moved = move(theirs, "main", ("/g", "/k"), ("/a", "/k/a"))
    commit(theirs, "main", lambda group: put(group["k/a"], slice(2, 4), 60))
    repo = edit(root)
    repo.revert(moved, branch="main")
    theirs = assert_the_reference_agrees(root)
    assert values(theirs, "a") == [10, 10, 60, 60, *range(4, 8)]
    assert values(theirs, "g/c") == list(range(8))
    repo.cherry_pick(moved, branch="side")
    theirs = assert_the_reference_agrees(root)
    group = zarr.open_group(theirs.readonly_session("side").store, mode="r", path="k")
    assert sorted(group.keys()) == ["a", "c"]
    ids = [info.id for info in theirs.ancestry(branch="side")]
    there = [info.id for info in theirs.ancestry(snapshot_id=moved)]
    assert_same(
        diff_between(theirs, ids[1], ids[0]), diff_between(theirs, there[1], there[0]), "diffs"
    )


def test_shifted_chunks_are_reverted(root: Path) -> None:
    theirs = REFERENCE.open(root)
    session = theirs.writable_session("main")
    session.shift_array("/a", (1,))
    shifted = session.commit("shifted")
    commit(theirs, "main", lambda group: put(group["b"], slice(0, 2), 5))
    edit(root).revert(shifted, branch="main")
    assert values(assert_the_reference_agrees(root), "a") == [10, 10, *range(2, 8)]


def add_group(name: str, group: zarr.Group) -> None:
    group.create_group(name)


@pytest.mark.parametrize("spec_version", [1, 2])
def test_after_an_expiration_a_commit_is_not_taken_for_all_before_it(
    tmp_path: Path, spec_version: int
) -> None:
    storage = REFERENCE.module.local_filesystem_storage(str(tmp_path))
    theirs = REFERENCE.module.Repository.create(storage, spec_version=spec_version)
    for name in ("one", "two", "three"):
        commit(theirs, "main", partial(add_group, name))
    last = next(iter(theirs.ancestry(branch="main")))
    theirs.expire_snapshots(last.written_at - timedelta(microseconds=1))
    repo = edit(tmp_path)
    assert len(list(repo.ancestry(branch="main"))) == 2
    for operation in (repo.revert, repo.cherry_pick):
        with pytest.raises(frazil.SessionStateError, match="was expired"):
            operation(last.id, branch="main")
    commit(theirs, "main", partial(add_group, "four"))
    repo.revert(tip(tmp_path, "main"), branch="main")
    group = zarr.open_group(REFERENCE.open(tmp_path).readonly_session("main").store, mode="r")
    assert sorted(group.keys()) == ["one", "three", "two"]


def test_conflicts_leave_the_repository_as_it_was(root: Path) -> None:
    theirs = REFERENCE.open(root)
    commit(theirs, "main", lambda group: put(group["a"], slice(4, 5), 1))
    before = history_of(REFERENCE.open(root))
    repo = edit(root)
    with pytest.raises(frazil.RebaseFailedError) as caught:
        repo.merge("side", into="main")
    assert [(each.path, each.conflicted_chunks) for each in caught.value.conflicts] == [
        ("/a", [[2]])
    ]
    assert not repo.merge("side", into="main", dry_run=True).solved
    assert history_of(REFERENCE.open(root)) == before
    repo.merge("side", into="main", solver=frazil.BasicConflictSolver())
    assert values(assert_the_reference_agrees(root), "a")[4:] == [20] * 4


async def test_each_has_its_twin(root: Path) -> None:
    repo = edit(root)
    picked = await repo.cherry_pick_async(tip(root, "side"), branch="main")
    assert picked.snapshot_id is not None
    reverted = await repo.revert_async(picked.snapshot_id, branch="main")
    assert reverted.snapshot_id is not None
    squashed = await repo.squash_async(picked.snapshot_id, branch="main", message="no effect")
    assert squashed.squashed == [picked.snapshot_id, reverted.snapshot_id]
    assert (await repo.merge_async("side", into="main", dry_run=True)).snapshot_id is None
    assert_the_reference_agrees(root)
