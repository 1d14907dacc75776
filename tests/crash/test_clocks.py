"""Clocks that are wrong, or go backwards: commits stay in order, or are refused and told why."""

import pytest

from frazil.clock import Clock
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import FormatError
from frazil.objectstore.memory import MemoryStore
from frazil.paths import ROOT, NodePath
from frazil.testing.clocks import LeapingClock, SkewedClock
from tests.unit.spec.written import GROUP

MAIN = Branch("main")


def commit(repository: Repository, name: str) -> None:
    session = repository.writable_session("main")
    session.set_node(ROOT, GROUP)
    session.set_node(NodePath(f"/{name}"), GROUP)
    session.commit(name)


@pytest.mark.parametrize(
    "clock",
    [SkewedClock(-300), SkewedClock(300), LeapingClock([0, -60, 60, -120])],
    ids=["behind", "ahead", "leaping"],
)
def test_commits_and_the_ops_log_stay_in_order(clock: Clock) -> None:
    store = MemoryStore()
    Repository.create(store)
    wrong, right = Repository.open(store, clock=clock), Repository.open(store)
    for number in range(4):
        commit(wrong, f"wrong{number}")
        commit(right, f"right{number}")
    history = list(right.ancestry(MAIN))
    names = [info.message for info in history][:-1]
    assert names == [f"{who}{number}" for number in (3, 2, 1, 0) for who in ("right", "wrong")]
    for times in (
        [info.flushed_at_us for info in history],
        [update.updated_at_us for update in right.ops_log()],
    ):
        assert times == sorted(set(times), reverse=True)


def test_a_clock_that_is_far_ahead_is_said_to_be() -> None:
    store = MemoryStore()
    Repository.create(store)
    wrong = Repository.open(store, clock=SkewedClock(3600))
    with pytest.raises(FormatError, match="please verify if the machine clock has drifted"):
        commit(wrong, "refused")
    right = Repository.open(store)
    commit(right, "later")
    assert next(info.message for info in right.ancestry(MAIN)) == "later"


def test_a_clock_that_is_far_behind_is_said_to_be_or_corrected() -> None:
    """Times of commits only grow: right after another commit, the time is that one's."""
    store = MemoryStore()
    Repository.create(store)
    behind = Repository.open(store, clock=SkewedClock(-3600))
    commit(behind, "corrected")
    there = MemoryStore(clock=SkewedClock(3600))
    with pytest.raises(FormatError, match="please verify if the machine clock has drifted"):
        commit(Repository.create(there), "refused")
