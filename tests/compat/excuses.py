"""What frazil does otherwise on purpose, as docs/differences.md says: everything else is a bug."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.compat.driver import Plain
from tests.compat.sides import Answer
from tests.compat.test_rebase_reference import require_improvements

NODE_SETS = (
    *("new_groups", "new_arrays", "deleted_groups", "deleted_arrays"),
    *("updated_groups", "updated_arrays", "updated_chunks"),
)


def excuse_for_rebase(
    mine: Plain, theirs: Sequence[Plain], ours: Answer, reference: Answer
) -> None:
    """Fails unless the two answers to a rebase, or to a commit with one, may differ."""
    if any(change["moved_nodes"] for change in (mine, *theirs)):
        return
    together: dict[str, Any] = {
        name: [path for change in theirs for path in change[name]]  # type: ignore[attr-defined]  # lists
        for name in NODE_SETS
    }
    try:
        require_improvements(conflicts_of(ours), conflicts_of(reference), mine, together)
    except AssertionError as error:
        raise AssertionError(f"{ours}, {reference}; {mine}, {theirs}") from error


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
    assert reference.error is None, about
    if ours.error[1] == "rearrange-session-only":
        return
    assert ours.error == ("SessionStateError", "merge-failed"), about
    if fork.parent is not pair or pair.sessions[0].snapshot_id != fork.sessions[0].snapshot_id:
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
