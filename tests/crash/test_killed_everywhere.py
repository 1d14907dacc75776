"""Processes killed at every storage operation in turn: nothing is lost or half done.

Here some of the moments of every operation; with `-m long`, or `make reliability`, all of them.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from frazil.testing.fault_proxy import FaultProxy
from tests.crash.killed import MOMENTS, Kill, LocalPlace, Place, S3Place, attempt, rehearse
from tests.crash.operations import OPERATIONS
from tests.crash.suffering import every
from tests.servers.s3 import S3Server

LOCAL = {"commit": 8, "refs": 4, "expire_and_collect": 4}  # of each other: 2
ON_SERVER = {"commit": 5, "expire_and_collect": 2}


def assert_survives(place: Place, name: str, most: int | None) -> None:
    rehearsal = rehearse(place, name)
    numbers = list(every(rehearsal.calls, most))
    assert len(numbers) > 1
    # After one call is before the next: in turns, unless all are wanted.
    moments = [(number, MOMENTS[at % 2]) for at, number in enumerate(numbers)]
    if most is None:
        moments = [(number, moment) for number in numbers for moment in MOMENTS]
    trials = [attempt(place, name, rehearsal, Kill(*moment)) for moment in moments]
    assert [trial for trial in trials if trial.problem] == []
    assert not all(trial.survived for trial in trials)


def local(tmp_path: Path, name: str) -> LocalPlace:
    place = LocalPlace(tmp_path)
    place.prepare(OPERATIONS[name])
    return place


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_process_killed_on_a_local_disk_loses_nothing(tmp_path: Path, name: str) -> None:
    assert_survives(local(tmp_path, name), name, LOCAL.get(name, 2))


@pytest.mark.long
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_process_killed_at_every_system_call_loses_nothing(tmp_path: Path, name: str) -> None:
    assert_survives(local(tmp_path, name), name, None)


def on_server(
    server: S3Server, tmp_path: Path, fault_proxy: Callable[[str], FaultProxy], name: str
) -> S3Place:
    place = S3Place(server, fault_proxy(server.host), tmp_path)
    place.prepare(OPERATIONS[name])
    return place


@pytest.mark.parametrize("name", ON_SERVER)
def test_a_process_killed_while_it_talks_to_a_server_loses_nothing(
    s3_server: S3Server, tmp_path: Path, fault_proxy: Callable[[str], FaultProxy], name: str
) -> None:
    assert_survives(on_server(s3_server, tmp_path, fault_proxy, name), name, ON_SERVER[name])


@pytest.mark.long
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_process_killed_at_every_request_loses_nothing(
    s3_server: S3Server, tmp_path: Path, fault_proxy: Callable[[str], FaultProxy], name: str
) -> None:
    assert_survives(on_server(s3_server, tmp_path, fault_proxy, name), name, None)
