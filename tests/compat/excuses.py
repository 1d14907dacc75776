"""What frazil does otherwise on purpose, as docs/differences.md says: everything else is a bug."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.compat.driver import Plain
from tests.compat.sides import Answer
from tests.compat.test_rebase_reference import (
    NEW_NODE_CONFLICTS,
    NEW_NODE_IN_INVALID_GROUP,
    Conflicts,
    require_improvements,
)

MOVED, NO_PATH = 11, ""  # MoveOperationCannotBeRebased, and the path that the reference gives
NODE_SETS = (
    *("new_groups", "new_arrays", "deleted_groups", "deleted_arrays"),
    *("updated_groups", "updated_arrays", "updated_chunks"),
)


def excuse_for_rebase(
    mine: Plain, theirs: Sequence[Plain], ours: Answer, reference: Answer
) -> None:
    """Fails unless the two answers to a rebase, or to a commit with one, may differ."""
    try:
        if moves_in(mine):
            excuse_for_moves_of_mine(mine, theirs, ours, reference)
        elif any(map(moves_in, theirs)):
            excuse_for_moves_of_theirs(mine, theirs, ours, reference)
        else:
            found = conflicts_of(ours), conflicts_of(reference)
            if not is_past_a_mistake(mine, theirs, ours, reference):
                require_improvements(*without_twice_new(*found, mine, theirs), mine, sum_of(theirs))
    except AssertionError as error:
        raise AssertionError(f"{error}: {ours}, {reference}; {mine}, {theirs}") from error


def sum_of(changes: Sequence[Plain]) -> dict[str, Any]:
    return {
        name: [path for change in changes for path in change[name]]  # type: ignore[attr-defined]  # lists
        for name in NODE_SETS
    }


def is_past_a_mistake(
    mine: Plain, theirs: Sequence[Plain], ours: Answer, reference: Answer
) -> bool:
    """The reference stopped at a conflict that is none; frazil went on, and met a later one.

    What frazil met must be about nodes that both changed.
    """
    if not ours.failed or not reference.failed or snapshot_of(ours) == snapshot_of(reference):
        return False
    deleted = mine["deleted_arrays"]
    mistaken = {
        path
        for kind, path, _ in conflicts_of(reference)
        if kind == NEW_NODE_IN_INVALID_GROUP and path in deleted  # type: ignore[operator]  # a list
    }
    changed = touched(sum_of(theirs))
    return bool(mistaken) and all(
        any(is_near(path, other) for other in changed) for _, path, _ in conflicts_of(ours)
    )


def snapshot_of(answer: Answer) -> object:
    return answer.value["snapshot"] if isinstance(answer.value, dict) else None


def without_twice_new(
    ours: Conflicts, reference: Conflicts, mine: Plain, theirs: Sequence[Plain]
) -> tuple[Conflicts, Conflicts]:
    """The reference may leave out that a node is new on both sides, if it has another conflict."""
    new, others = (
        {*change["new_groups"], *change["new_arrays"]}  # type: ignore[misc]  # lists
        for change in (mine, sum_of(theirs))
    )
    extra = [
        conflict
        for conflict in ours - reference
        if reference and conflict[0] == NEW_NODE_CONFLICTS and conflict[1] in new & others
    ]
    return ours - Counter(extra), reference


def excuse_for_moves_of_theirs(
    mine: Plain, theirs: Sequence[Plain], ours: Answer, reference: Answer
) -> None:
    """The reference has one conflict without a path; frazil one for each node concerned, or none.

    docs/differences.md, "they moved nodes".
    """
    expected = [concerned(mine, change) for change in theirs]
    found = {path for kind, path, _ in conflicts_of(ours) if kind == MOVED}
    if found:
        assert found == next(paths for paths in expected if paths), "moved nodes"
    elif not ours.failed:
        assert not any(expected), "a node that was moved is not in conflict"
    if any(kind == MOVED for kind, _, _ in conflicts_of(reference)):
        assert conflicts_of(reference) == Counter([(MOVED, NO_PATH, "None")]), "one, without a path"
    else:  # an earlier commit has stopped the reference
        assert reference.failed, "the reference rebases over moves"
    changed = touched(sum_of(theirs)) | ends_of(theirs)
    for kind, path, _ in conflicts_of(ours):
        assert kind == MOVED or any(is_near(path, other) for other in changed), "an edit elsewhere"


def concerned(mine: Plain, change: Plain) -> set[str]:
    """Paths of ours in what was moved, or where it was moved to, and what we delete above these."""
    ends = ends_of([change])
    gone = {*mine["deleted_groups"], *mine["deleted_arrays"]}  # type: ignore[misc]  # lists
    return {
        path
        for path in touched(mine)
        if path in ends
        or any(is_above(end, path) for end in ends)
        or (path in gone and any(is_above(path, end) for end in ends))
    }


def excuse_for_moves_of_mine(
    mine: Plain, theirs: Sequence[Plain], ours: Answer, reference: Answer
) -> None:
    """Only what is in the way is a conflict: docs/differences.md, "rebase of a move"."""
    changed = touched(sum_of(theirs)) | ends_of([mine, *theirs])
    for kind, path, _ in conflicts_of(ours):
        assert kind in {NEW_NODE_CONFLICTS, NEW_NODE_IN_INVALID_GROUP, MOVED}, "of another kind"
        assert any(is_near(path, other) for other in changed), "an edit elsewhere"
    if reference.error is not None and reference.error[0] == "RebaseFailedError":
        assert set(conflicts_of(reference)) == {(MOVED, NO_PATH, "None")}, "one, without a path"


def moves_in(change: Plain) -> list[tuple[str, str]]:
    return [(str(source), str(target)) for source, target in change["moved_nodes"]]  # type: ignore[attr-defined]  # a list


def conflicts_of(answer: Answer) -> Counter[tuple[int, str, str]]:
    if answer.error is None:
        return Counter()
    assert answer.error == ("RebaseFailedError", "rebase-failed"), answer
    assert isinstance(answer.value, dict)
    return Counter(tuple(conflict) for conflict in answer.value["conflicts"])


def excuse_for_merge(
    pair: Any, fork: Any, statuses: Sequence[Plain], ours: Answer, reference: Answer
) -> None:
    """Fails unless the answers to a merge may differ: frazil refuses what would be lost."""
    about = f"{ours}, {reference}; {statuses}"
    if fork.was_dirty and reference.error == ("SessionStateError", "merge-failed"):
        return
    assert ours.error is not None, about
    is_elsewhere = pair.sessions[0].snapshot_id != fork.sessions[0].snapshot_id
    if reference.error == ("SessionStateError", "rearrange-session-only"):
        # Both refuse: frazil looks for the snapshot first, and at what was moved, not at the kind.
        assert ours.error == ("SessionStateError", "merge-failed"), about
        assert is_elsewhere, about
        return
    assert reference.error is None, about
    if ours.error[1] == "rearrange-session-only":
        return
    assert ours.error == ("SessionStateError", "merge-failed"), about
    if fork.parent is not pair or is_elsewhere:
        return
    first, second = (touched(status) for status in statuses)
    assert any(is_near(one, other) for one in first for other in second), about


def touched(status: Plain) -> set[str]:
    return {path for name in NODE_SETS for path in status[name]}  # type: ignore[attr-defined]  # lists


def is_near(one: str, other: str) -> bool:
    """Whether they are one path, or one is above the other."""
    return one == other or is_above(one, other) or is_above(other, one)


def is_above(one: str, other: str) -> bool:
    return other.startswith(one if one == "/" else f"{one}/")


def ends_of(changes: Sequence[Plain]) -> set[str]:
    """Where nodes were moved from, and where to."""
    return {path for change in changes for move in moves_in(change) for path in move}
