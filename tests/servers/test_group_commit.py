"""Group commit on a real server: the reference reads it all; faults lose and repeat nothing."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

import frazil
from frazil import ConflictDetector, Repository, Storage
from frazil.engine.refs.repo_settings import GROUP_COMMIT
from frazil.testing.fault_proxy import FaultProxy
from frazil.testing.faults import DropResponse, RandomFaults, Rule, Script
from tests.compat.driver import OURS, REFERENCE, assert_same, history_of, plain_update
from tests.servers.azure import AzureServer
from tests.servers.s3 import S3Server
from tests.servers.test_lost_answers import FAULTS, Line

WRITERS, EACH = 6, 4


@pytest.fixture(params=["hot_s3_server", "azure_server"])
def line(request: pytest.FixtureRequest, fault_proxy: Callable[[str], FaultProxy]) -> Line:
    server: S3Server | AzureServer = request.getfixturevalue(request.param)
    line = Line(server, server.new_prefix(), fault_proxy(server.host))
    repo = Repository.create(line.straight)
    repo.update_metadata({GROUP_COMMIT: True})
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(WRITERS, EACH), chunks=(1, 1), dtype="i4",
                      fill_value=-1)  # fmt: skip
    session.commit("array")
    return line


def write(storage: Storage, writer: int) -> dict[str, str]:
    """Message and snapshot of each commit, as they were reported."""
    repo, done = Repository.open(storage), dict[str, str]()
    for number in range(EACH):
        session = repo.writable_session("main")
        array = zarr.open_array(session.store, path="a", mode="r+")
        array[writer, number] = writer * EACH + number
        message = f"{writer}-{number}"
        done[message] = session.commit(
            message, {"writer": writer}, rebase_with=ConflictDetector(), rebase_tries=200
        )
    return done


def write_all(storage: Callable[[], Storage]) -> dict[str, str]:
    with ThreadPoolExecutor(WRITERS) as pool:
        told = pool.map(lambda writer: write(storage(), writer), range(WRITERS))
        return {message: snapshot for part in told for message, snapshot in part.items()}


def assert_told_is_done(line: Line, told: dict[str, str]) -> None:
    repo = Repository.open(line.straight)
    found = [(info.message, info.id) for info in repo.ancestry(branch="main")][:-2]
    assert sorted(found) == sorted(told.items())
    kinds = [type(entry.kind).__name__ for entry in repo.ops_log()]
    assert kinds.count("NewCommit") == len(told) + 1
    assert repo.verify().errors == []
    array = zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")
    assert np.array_equal(np.asarray(array[:]), np.arange(WRITERS * EACH).reshape(WRITERS, EACH))


def values_at(repo: Any, snapshot: str) -> np.ndarray[Any, Any]:
    session = repo.readonly_session(snapshot_id=snapshot)
    return np.asarray(zarr.open_array(session.store, path="a", mode="r")[:])


def test_the_reference_reads_all_that_was_carried(line: Line) -> None:
    told = write_all(lambda: line.straight)
    assert_told_is_done(line, told)
    ours, reference = Repository.open(line.straight), line.reference()
    expected, found = history_of(ours), history_of(reference)
    del expected["ops log"], found["ops log"]  # compared below, without the names of backups
    assert_same(expected, found, f"{OURS.name} and {REFERENCE.name}")
    logs = [
        [{**plain_update(each), "backup_path": None} for each in repo.ops_log()]
        for repo in (ours, reference)
    ]
    assert logs[0] == logs[1]
    swaps = sum(info.key.startswith("overwritten/") for info in line.straight.store.list())
    assert swaps < len(told) + 2, "no two commits were made by one swap"
    for info in reference.ancestry(branch="main"):
        if info.message not in told:
            continue
        writer = int(info.message.partition("-")[0])
        assert info.id == told[info.message]
        assert info.metadata["writer"] == writer
        values = [values_at(repo, info.id) for repo in (ours, reference)]
        assert np.array_equal(values[0], values[1])
        own = writer, int(info.message.partition("-")[2])
        assert values[0][own] == writer * EACH + own[1]


def test_the_reference_goes_on_from_what_was_carried(line: Line) -> None:
    told = write_all(lambda: line.straight)
    session = line.reference().writable_session("main")
    zarr.create_group(session.store, path="theirs")
    session.commit("theirs", rebase_with=icechunk.ConflictDetector())
    more = write(line.straight, 0)
    messages = [info.message for info in Repository.open(line.straight).ancestry(branch="main")]
    assert messages[:EACH] == list(more)[::-1]
    assert messages[EACH] == "theirs"
    assert len(messages) == len(told) + len(more) + 3
    assert line.reference().metadata[GROUP_COMMIT] is True
    assert frazil.Repository.open(line.straight).verify().errors == []


@pytest.mark.parametrize("seed", [1, 2])
def test_what_writers_are_told_is_what_was_done_in_bad_weather(line: Line, seed: int) -> None:
    line.proxy.choose = RandomFaults(FAULTS, share=0.15, seed=seed, methods=["PUT", "GET", "HEAD"])
    told = write_all(lambda: line.shaky)
    assert sum(one.fault is not None for one in line.proxy.seen) > 20
    assert_told_is_done(line, told)


@pytest.mark.parametrize("path", ["/repo", "/staged/", "/snapshots/"])
def test_lost_replies_of_one_kind_of_write(line: Line, path: str) -> None:
    rule = Rule(DropResponse(), method="PUT", path=f"/{line.prefix}{path}", times=6)
    line.proxy.choose = Script(rule)
    told = write_all(lambda: line.shaky)
    assert_told_is_done(line, told)
