"""Moves of nodes as the source of a revert, a cherry-pick or a merge, and in their way."""

from collections.abc import Callable
from itertools import groupby

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from frazil.engine.history.history_editing import Edit, Edited, cherry_pick, merge, revert
from frazil.engine.history.squash import SquashRequest, squash
from frazil.engine.merge.solver import Policy
from frazil.engine.refs.repo_settings import MOVE_NODE
from frazil.engine.repository import Repository
from frazil.errors import ConflictType, IcechunkError, RebaseFailedError
from frazil.ids import SnapshotId
from frazil.objectstore.memory import MemoryStore
from frazil.paths import ROOT, NodePath
from tests.examples_count import scaled
from tests.unit.engine.conftest import GROUP, array_metadata
from tests.unit.engine.some_changes import (
    BASE,
    Change,
    Contents,
    Define,
    Delete,
    Move,
    Shift,
    Write,
    apply,
    contents,
    edits,
    moves,
)

MAIN, SIDE = Edit(branch="main"), Edit(branch="side")
MOVE, NEW, GROUPLESS = (
    ConflictType.MoveOperationCannotBeRebased,
    ConflictType.NewNodeConflictsWithExistingNode,
    ConflictType.NewNodeInInvalidGroup,
)


def commit(repository: Repository, branch: str, *changes: Change) -> SnapshotId:
    """One commit, whatever is moved and edited in it."""
    start = repository.lookup_branch(branch)
    ids: list[SnapshotId] = []
    for rearranges, group in groupby(changes, key=lambda change: isinstance(change, Move)):
        session = (
            repository.rearrange_session(branch)
            if rearranges
            else repository.writable_session(branch)
        )
        for change in group:
            apply(session, change)
        ids.append(session.commit("a change", allow_empty=True))
    if len(ids) < 2:
        return ids[0] if ids else start
    done = squash(repository, SquashRequest(branch=branch, first=ids[0], message="changes"))
    assert done.snapshot is not None
    return done.snapshot


def made(*changes: Change) -> Repository:
    """Branches `main` and `side` at a commit of these changes upon the base."""
    repository = Repository.create(MemoryStore())
    commit(repository, "main", *BASE)
    repository.create_branch("side", commit(repository, "main", *changes))
    return repository


def outcome(operation: Callable[[Edit], Edited], edit: Edit) -> Edited | None:
    """What a dry run said, which is what the run then does; None if there were conflicts."""
    planned = operation(Edit(branch=edit.branch, policy=edit.policy, dry_run=True))
    if not planned.solved:
        with pytest.raises(RebaseFailedError) as caught:
            operation(edit)
        assert tuple(caught.value.conflicts) == planned.conflicts
        return None
    done = operation(edit)
    assert planned.conflicts == done.conflicts
    assert planned.applied.moved == done.applied.moved
    assert planned.applied.new_arrays == done.applied.new_arrays
    return done


def merged(here: list[Change], there: list[Change]) -> Contents:
    repository = made()
    commit(repository, "side", *there)
    commit(repository, "main", *here)
    assert outcome(lambda edit: merge(repository, "side", edit), MAIN)
    assert_the_tree_is_sound(repository)
    return contents(repository, "main")


def assert_the_tree_is_sound(repository: Repository) -> None:
    """Each node has a group above it, and the log tells the moves that there were."""
    tip = repository.lookup_branch("main")
    found = contents(repository, tip)
    assert len({node for node, _, _ in found.values()}) == len(found)
    for text in found.keys() - {"/"}:
        above = NodePath(text).parent
        assert above is not None
        assert b'"array"' not in found[above.text][1]
    parent = repository.lookup_snapshot(tip).parent_id
    assert parent is not None
    before = {node: text for text, (node, _, _) in contents(repository, parent).items()}
    moved = {
        (before[node], text)
        for text, (node, _, _) in found.items()
        if before.get(node, text) != text
    }
    diff = repository.diff(parent, tip)
    assert {(move.from_path.text, move.to_path.text) for move in diff.moved} == moved


def test_a_moved_group_takes_what_they_added_and_wrote() -> None:
    found = merged(
        [Define("/g/n", 2), Write("/g/n", 0), Write("/g/x", 3, 5), Define("/g/h", 0, 1)],
        [Move("/g", "/e/k")],
    )
    assert set(found) == {"/", "/b", "/e", "/e/k", "/e/k/h", "/e/k/n", "/e/k/x"}
    assert found["/e/k/x"][2] == {0: b"\t", 1: b"\t", 2: b"\t", 3: b"\x05"}
    assert found["/e/k/n"][2] == {0: b"\x01"}
    assert found["/e/k/h"][1] == GROUP + b" "


def test_edits_go_where_the_branch_moved_the_node() -> None:
    found = merged(
        [Move("/g", "/k"), Move("/b", "/k/b")],
        [Write("/g/x", 3, 5), Define("/g/n", 2), Delete("/g/h"), Define("/b", 4, 1)],
    )
    assert set(found) == {"/", "/e", "/k", "/k/b", "/k/n", "/k/x"}
    assert found["/k/x"][2][3] == b"\x05"
    assert found["/k/b"][1] == array_metadata(8, k=1)


def test_a_node_is_moved_and_edited_in_one_commit() -> None:
    found = merged(
        [Write("/b", 0, 5)], [Move("/b", "/c"), Write("/c", 1, 6), Define("/c", 5), Shift("/b", 1)]
    )
    assert found["/c"][1:] == (array_metadata(10, k=0), {0: b"\x05", 1: b"\x06", 2: b"\t"})
    assert "/b" not in found


def test_moves_of_both_sides_are_carried() -> None:
    found = merged([Move("/g/x", "/x"), Move("/b", "/e/b")], [Move("/g", "/k"), Move("/e", "/f")])
    assert set(found) == {"/", "/f", "/f/b", "/k", "/k/h", "/x"}


def test_the_same_move_on_both_sides_is_no_conflict() -> None:
    repository = made()
    commit(repository, "side", Move("/g", "/k"), Write("/k/x", 3, 5))
    commit(repository, "main", Move("/g", "/k"))
    done = outcome(lambda edit: merge(repository, "side", edit), MAIN)
    assert done
    assert done.applied.moved == ()
    assert contents(repository, "main") == contents(repository, "side")


def test_nodes_that_took_each_others_places_can_be_picked() -> None:
    swap = [Move("/g", "/aside"), Move("/b", "/g"), Move("/aside", "/b")]
    found = merged([Write("/b", 3, 5), Define("/g/n")], [*swap, Write("/b/x", 3, 6)])
    assert set(found) == {"/", "/b", "/b/h", "/b/n", "/b/x", "/e", "/g"}
    assert found["/g"][2][3] == b"\x05"
    assert found["/b/x"][2][3] == b"\x06"


def test_a_new_node_takes_the_place_of_a_moved_one() -> None:
    found = merged([Write("/b", 3, 5)], [Move("/b", "/c"), Define("/b", 2), Write("/b", 0)])
    assert found["/c"][2][3] == b"\x05"
    assert found["/b"][2] == {0: b"\x01"}


def test_a_group_that_was_emptied_by_moves_is_deleted() -> None:
    found = merged(
        [Define("/g/h/n"), Write("/g/x", 3, 5)],
        [Move("/g/x", "/x"), Move("/g/h", "/e/h"), Delete("/g")],
    )
    assert set(found) == {"/", "/b", "/e", "/e/h", "/e/h/n", "/x"}
    assert found["/x"][2][3] == b"\x05"


CLASHES: list[tuple[list[Change], list[Change], list[tuple[ConflictType, str]]]] = [
    ([Move("/b", "/d")], [Move("/b", "/c")], [(MOVE, "/b")]),
    ([Delete("/b")], [Move("/b", "/c")], [(MOVE, "/b")]),
    ([Move("/b", "/c")], [Delete("/b")], [(MOVE, "/b")]),
    ([Move("/g/x", "/x")], [Delete("/g")], [(MOVE, "/g/x")]),
    ([Define("/c", 2)], [Move("/b", "/c")], [(NEW, "/c")]),
    ([Move("/b", "/c")], [Define("/c", 2)], [(NEW, "/c")]),
    ([Move("/b", "/c")], [Move("/e", "/c")], [(NEW, "/c")]),
    ([Define("/c"), Define("/c/n")], [Move("/b", "/c")], [(NEW, "/c")]),
    ([Move("/b", "/g/n")], [Define("/g/n"), Move("/g", "/k")], [(NEW, "/k/n")]),
    ([Delete("/e")], [Move("/b", "/e/b")], [(GROUPLESS, "/e")]),
    ([Move("/b", "/e/b")], [Delete("/e")], [(MOVE, "/b")]),
    ([Move("/g", "/e/g")], [Move("/e", "/g/e")], [(MOVE, "/e")]),
    ([Move("/g", "/k")], [Move("/g", "/e/g"), Write("/e/g/x", 0)], [(MOVE, "/g")]),
]


@pytest.mark.parametrize(("here", "there", "expected"), CLASHES)
def test_places_that_contradict_each_other_are_conflicts(
    here: list[Change], there: list[Change], expected: list[tuple[ConflictType, str]]
) -> None:
    repository = made()
    picked = commit(repository, "side", *there)
    tip = commit(repository, "main", *here)
    operations: list[Callable[[Edit], Edited]] = [
        lambda edit: merge(repository, "side", edit),
        lambda edit: cherry_pick(repository, picked, edit),
    ]
    for operation in operations:
        assert outcome(operation, MAIN) is None
        planned = operation(Edit(branch="main", dry_run=True))
        assert [(each.conflict_type, each.path) for each in planned.conflicts] == expected
    assert repository.lookup_branch("main") == tip


def test_a_node_that_they_added_to_a_deleted_group_goes_if_told_to() -> None:
    repository = made()
    commit(repository, "side", Move("/g/h", "/h"), Move("/g", "/e/g"), Delete("/e/g"))
    commit(repository, "main", Define("/g/n"), Define("/g/h/n"))
    edit = Edit(branch="main", policy=Policy(delete_updated_groups=True))
    assert outcome(lambda e: merge(repository, "side", e), edit)
    assert set(contents(repository, "main")) == {"/", "/b", "/e", "/h", "/h/n"}


def test_a_move_is_reverted_with_what_was_written_since() -> None:
    repository = made()
    moved = commit(repository, "main", Move("/g", "/k"))
    commit(repository, "main", Write("/k/x", 3, 5), Define("/k/n"), Define("/other"))
    assert revert(repository, moved, MAIN).snapshot
    found = contents(repository, "main")
    assert set(found) == {"/", "/b", "/e", "/g", "/g/h", "/g/n", "/g/x", "/other"}
    assert found["/g/x"][2][3] == b"\x05"


def test_a_move_is_not_reverted_onto_a_node_that_came_since() -> None:
    repository = made()
    moved = commit(repository, "main", Move("/b", "/c"))
    commit(repository, "main", Define("/b", 2))
    planned = revert(repository, moved, Edit(branch="main", dry_run=True))
    assert [(each.conflict_type, each.path) for each in planned.conflicts] == [(NEW, "/b")]


def test_where_moves_are_disabled_none_is_made() -> None:
    repository = made()
    commit(repository, "side", Move("/b", "/c"))
    commit(repository, "main", Write("/g/x", 3))
    repository.set_flag(MOVE_NODE, False)
    before = repository.lookup_branch("main")
    with pytest.raises(IcechunkError):
        merge(repository, "side", MAIN)
    assert repository.lookup_branch("main") == before


# Properties

some_changes = st.lists(moves | moves | edits, min_size=1, max_size=4)
few = settings(max_examples=scaled(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@few
@given(first=some_changes, changes=some_changes)
@example(first=[], changes=[Move("/g", "/n"), Delete("/n")])
@example(first=[], changes=[Move("/b", "/n"), Define("/b")])
def test_a_revert_right_after_a_commit_restores_everything(
    first: list[Change], changes: list[Change]
) -> None:
    repository = made(*first)
    before = contents(repository, "main")
    changed = commit(repository, "main", *changes)
    after = contents(repository, "main")
    done = outcome(lambda edit: revert(repository, changed, edit), MAIN)
    assert done is not None
    assert contents(repository, "main") == before
    if done.snapshot is not None:
        revert(repository, done.snapshot, MAIN)
        assert contents(repository, "main") == after


@few
@given(first=some_changes, changes=some_changes)
def test_a_commit_picked_onto_its_own_parent_is_the_same_commit(
    first: list[Change], changes: list[Change]
) -> None:
    repository = made(*first)
    picked = commit(repository, "side", *changes)
    parent = repository.lookup_branch("main")
    assert outcome(lambda edit: cherry_pick(repository, picked, edit), MAIN)
    assert contents(repository, "main") == contents(repository, picked)
    new = repository.lookup_branch("main")
    if new != parent:
        done, was = (repository.diff(parent, each) for each in (new, picked))
        assert set(done.moved) <= set(was.moved)  # a node that was moved and deleted is in `was`
        assert (done.new_arrays, done.new_groups) == (was.new_arrays, was.new_groups)


@few
@given(here=some_changes, there=some_changes)
@example(here=[Move("/g", "/e/g")], there=[Move("/e", "/g/h/n")])
@example(here=[Define("/n"), Move("/b", "/n/b")], there=[Define("/n"), Move("/g/x", "/n/x")])
@example(here=[Move("/g/h", "/n")], there=[Move("/g", "/e/g"), Define("/e/g/n")])
@example(here=[Move("/g/h", "/n")], there=[Move("/g", "/e/g"), Define("/e/g/n"), Delete("/e/g")])
def test_merges_come_out_alike_in_both_directions(here: list[Change], there: list[Change]) -> None:
    repository = made()
    commit(repository, "main", *here)
    commit(repository, "side", *there)
    tips = [repository.lookup_branch(name) for name in ("main", "side")]
    one = outcome(lambda edit: merge(repository, "side", edit), MAIN)
    found = contents(repository, "main")
    repository.reset_branch("main", tips[0])
    other = outcome(lambda edit: merge(repository, "main", edit), SIDE)
    assert (one is None) == (other is None)
    if one is None or one.snapshot is None or one.fast_forward:
        return
    mirrored = contents(repository, "side")
    assert {text: rest for text, (_, *rest) in found.items()} == {
        text: rest for text, (_, *rest) in mirrored.items()
    }  # groups that both made have either id
    repository.reset_branch("main", one.snapshot)
    assert_the_tree_is_sound(repository)
    assert ROOT.text in found
