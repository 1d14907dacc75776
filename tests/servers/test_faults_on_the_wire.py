"""Throttling, refusals, stale answers, cut bodies and silence between frazil and a real server.

Answers that get lost are in test_lost_answers.py.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import zarr

from frazil import ConflictError, IcechunkError, Repository, Storage, StorageError
from frazil.objectstore.protocol import RemoteSettings
from frazil.testing.fault_proxy import FaultProxy
from frazil.testing.faults import (
    CutResponse,
    DelayResponse,
    DenyPermission,
    DropRequest,
    Fault,
    FillDisk,
    RandomFaults,
    Rule,
    Script,
    ServeStale,
    Throttle,
)
from tests.servers.s3 import S3Server

BRISK = RemoteSettings(max_tries=6, initial_backoff_ms=2, max_backoff_ms=20, read_timeout_ms=300)


@dataclass(frozen=True, slots=True)
class Line:
    """One repository with one commit, reached through the proxy and directly."""

    server: S3Server
    prefix: str
    proxy: FaultProxy

    def shaky(self) -> Repository:
        return Repository.open(Storage(self.server.at(self.proxy.url).store(self.prefix, BRISK)))

    def straight(self) -> Repository:
        return Repository.open(Storage(self.server.store(self.prefix)))

    def hit(self, fault: Fault, method: str, path: str, times: int | None = 1) -> None:
        self.proxy.choose = Script(Rule(fault, method=method, path=path, times=times))


@pytest.fixture
def line(s3_server: S3Server, fault_proxy: Callable[[str], FaultProxy]) -> Line:
    line = Line(s3_server, s3_server.new_prefix(), fault_proxy(s3_server.host))
    repo = Repository.create(Storage(s3_server.store(line.prefix)))
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", data=np.arange(2000.0), chunks=(1000,))
    session.commit("first")
    return line


def commit(repo: Repository, message: str) -> None:
    session = repo.writable_session("main")
    zarr.create_group(session.store, path=message)
    session.commit(message)


def messages(repo: Repository) -> list[str]:
    return [info.message for info in repo.ancestry(branch="main")][:-1]


def read(repo: Repository) -> float:
    array = zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")
    return float(np.asarray(array[:]).sum())


def test_a_throttled_commit_is_made_in_the_end(line: Line) -> None:
    repo = line.shaky()
    line.hit(Throttle(0), "PUT", "/", times=3)
    commit(repo, "patient")
    assert sum(isinstance(one.fault, Throttle) for one in line.proxy.seen) == 3
    assert messages(line.straight()) == ["patient", "first"]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Throttle(0), "answered 503 (SlowDown: "),
        (FillDisk(), "answered 507"),
        (DenyPermission(), "access was refused, check the credentials"),
        (DropRequest(reset=True), "cannot write"),
        (DelayResponse(1.0), "did not answer in time"),
    ],
)
def test_what_goes_on_failing_is_said_and_nothing_is_lost(
    line: Line, fault: Fault, said: str
) -> None:
    repo = line.shaky()
    line.hit(fault, "PUT", "/snapshots/", times=None)
    with pytest.raises(StorageError) as caught:
        commit(repo, "in vain")
    assert said in str(caught.value)
    assert caught.value.kind == ("throttled" if isinstance(fault, Throttle) else "object-store")
    line.hit(fault, "PUT", "nowhere")
    commit(repo, "later")  # the same repository, once the fault is gone
    found = line.straight()
    assert messages(found) == ["later", "first"]
    assert not found.verify().errors


def test_a_commit_onto_a_stale_read_is_refused(line: Line) -> None:
    repo = line.shaky()
    commit(line.straight(), "second")
    repo.lookup_branch("main")
    line.hit(ServeStale(), "GET", "/repo", times=5)
    assert messages(repo) == ["first"]  # so it goes to a reader
    with pytest.raises(ConflictError):
        commit(repo, "onto the past")
    assert line.proxy.count("PUT", "/repo") >= 1  # tried, and refused by the server
    assert messages(line.straight()) == ["second", "first"]


def test_a_body_that_ends_too_early_is_never_taken_for_the_data(line: Line) -> None:
    for place in ("/chunks/", "/manifests/", "/snapshots/", "/repo"):
        line.hit(CutResponse(10), "GET", place)
        assert read(line.shaky()) == sum(range(2000))
        line.hit(CutResponse(10), "GET", place, times=None)
        with pytest.raises(IcechunkError):
            read(line.shaky())
        assert line.proxy.count("GET", place) > 1


def test_in_throttling_weather_all_goes_on(line: Line) -> None:
    line.proxy.choose = RandomFaults([Throttle(0)], share=0.2, seed=5)
    repo = line.shaky()
    for number in range(4):
        commit(repo, str(number))
        assert read(repo) == sum(range(2000))
    assert messages(line.straight()) == ["3", "2", "1", "0", "first"]
