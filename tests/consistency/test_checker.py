"""The checker itself: a sound history has nothing wrong, and each kind of wrong is named."""

from dataclasses import replace

import pytest

from tests.consistency.checker import Logged, Model, check
from tests.consistency.events import Event

START = Model(tip="s0", values=(0, 0))
FIRST = Event(
    actor="w", kind="commit", start_ns=10, end_ns=20, snapshot="s1", base="s0", began_ns=5,
    wrote={"0": 1},
)  # fmt: skip
SECOND = replace(
    FIRST, start_ns=30, end_ns=40, snapshot="s2", base="s1", began_ns=25, wrote={"0": 2}
)
READ = Event(actor="r", kind="read", start_ns=32, end_ns=50, snapshot="s2", values=[2, 0])
TAG = Event(actor="t", kind="create_tag", start_ns=41, end_ns=45, name="x", snapshot="s2")
LOG = [Logged("NewCommit", "s1"), Logged("NewCommit", "s2"), Logged("TagCreated", "x")]
SOUND = [FIRST, SECOND, READ, TAG]


def wrong(events: list[Event], log: list[Logged] = LOG) -> list[str]:
    return check(events, log, START).wrong


def test_a_sound_history_has_nothing_wrong() -> None:
    assert wrong(SOUND) == []
    early = replace(READ, snapshot="s1", values=[1, 0])  # while the second commit was under way
    assert wrong([FIRST, SECOND, early, TAG]) == []
    refused = replace(TAG, start_ns=60, end_ns=70, error="tag-already-exists")
    assert wrong([*SOUND, refused]) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (READ, replace(READ, snapshot="s1", values=[1, 0], start_ns=41), "not the tip"),
        (READ, replace(READ, snapshot="s2", end_ns=29, start_ns=25), "not the tip"),
        (READ, replace(READ, values=[2, 1]), "read [2, 1]"),
        (SECOND, replace(SECOND, wrote={"0": 1}), "an update is lost"),
        (SECOND, replace(SECOND, wrote={"0": 1}, rebases=True), "an update is lost"),
        (SECOND, replace(SECOND, base="s0", began_ns=5), "when s1 was the tip"),
        (SECOND, replace(SECOND, base="s0"), "not the tip then"),
        (SECOND, replace(SECOND, start_ns=1, end_ns=4), "is before what preceded"),
        (TAG, replace(TAG, error="tag-already-exists"), "without a reason"),
        (TAG, replace(TAG, error="object-store"), "without a reason"),
        (FIRST, replace(FIRST, error="commit-conflict"), "nobody reported NewCommit s1"),
    ],
)
def test_what_cannot_be_explained_is_named(old: Event, new: Event, said: str) -> None:
    events = [new if each is old else each for each in SOUND]
    assert any(said in text for text in wrong(events)), wrong(events)


def test_a_commit_that_the_log_has_not_is_lost() -> None:
    assert wrong(SOUND, [LOG[0], LOG[2]])[0] == "lost: NewCommit s2 by w"


def test_a_tag_is_created_once() -> None:
    again = replace(TAG, start_ns=60, end_ns=70)
    assert "tag x was created twice" in wrong([*SOUND, again], [*LOG, LOG[2]])
