"""A fault at one request, or at one system call, of what a repository does.

Nothing is lost, a reader sees a state that some step leaves, and the error says what happened.
All operations with all faults at every request: `make reliability`.
"""

from pathlib import Path

import pytest

from tests.crash.suffering import ERRNOS, KINDS, Suffered, Victim, every

MANY = {"commit": 3, "refs": 2}  # requests that are hit, of each kind


@pytest.fixture(scope="module", params=MANY)
def victim(request: pytest.FixtureRequest) -> Victim:
    return Victim(request.param)


def assert_nothing_lost(outcomes: list[Suffered]) -> None:
    assert [each for each in outcomes if each.problem] == []
    assert any(each.hit for each in outcomes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_of_the_store_loses_nothing(victim: Victim, kind: str) -> None:
    hit = every(victim.requests, MANY[victim.name])
    outcomes = [victim.suffer(KINDS[kind], number) for number in hit]
    assert_nothing_lost(outcomes)
    if kind == "slow":
        assert not any(each.error for each in outcomes)


@pytest.mark.parametrize("times", [1, 10**6], ids=["once", "from then on"])
@pytest.mark.parametrize("name", ERRNOS)
def test_an_error_of_the_disk_loses_nothing(tmp_path: Path, name: str, times: int) -> None:
    victim = Victim("commit", tmp_path)
    code, says = ERRNOS[name]
    hit = every(victim.count_calls(), 3)
    outcomes = [victim.suffer_locally(code, says, number, times=times) for number in hit]
    assert_nothing_lost(outcomes)
    assert any(each.error for each in outcomes)
    # What could not be written is not left behind.
    assert not list(tmp_path.rglob(".frazil-tmp*"))
