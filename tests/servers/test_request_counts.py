"""How many requests things take, counted before a real server: what people pay for and wait for."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import zarr

from frazil import Repository, Storage
from frazil.objectstore import Counting
from frazil.objectstore.protocol import RemoteSettings
from frazil.objectstore.remote import RemoteStore
from frazil.ranges import Range
from frazil.testing.fault_proxy import FaultProxy
from frazil.testing.faults import DelayResponse, Rule, Script
from tests.servers.s3 import S3Server

MIB = 1024 * 1024
CHUNKS = 40


@dataclass(frozen=True, slots=True)
class Line:
    """A part of a bucket behind a proxy that counts."""

    server: S3Server
    prefix: str
    proxy: FaultProxy

    def store(self, settings: RemoteSettings | None = None) -> RemoteStore:
        return self.server.at(self.proxy.url).store(self.prefix, settings)

    def asked(self) -> dict[str, int]:
        """How many requests since the last look, by method and what is at the top of the prefix."""
        counts = dict[str, int]()
        for one in self.proxy.seen:
            what = one.path.partition(f"/{self.prefix}/")[2].partition("/")[0] or "bucket"
            name = f"{one.method} {what.partition('?')[0]}"
            counts[name] = counts.get(name, 0) + 1
        self.proxy.clear()
        return counts

    def slow_down(self, method: str, seconds: float = 0.1) -> None:
        self.proxy.choose = Script(Rule(DelayResponse(seconds), method=method, times=None))


@pytest.fixture
def line(hot_s3_server: S3Server, fault_proxy: Callable[[str], FaultProxy]) -> Line:
    return Line(hot_s3_server, hot_s3_server.new_prefix(), fault_proxy(hot_s3_server.endpoint))


@pytest.fixture
def repository(line: Line) -> Repository:
    """With an array of many chunks, none of them inline, each an object."""
    repo = Repository.create(Storage(line.store()))
    session = repo.writable_session("main")
    array = zarr.create_array(
        session.store,
        name="a",
        shape=(CHUNKS * 1000,),
        chunks=(1000,),
        dtype="f8",
        compressors=None,
    )
    for start in range(0, CHUNKS * 1000, 1000):  # of one assignment they would share an object
        array[start : start + 1000] = np.arange(start, start + 1000)
    session.commit("array")
    line.proxy.clear()
    return repo


def test_creating_a_repository(line: Line) -> None:
    Repository.create(Storage(line.store()))
    assert line.asked() == {
        "GET bucket": 1,  # that there is nothing yet
        "PUT snapshots": 1,
        "PUT transactions": 1,
        "PUT repo": 1,
    }


@pytest.mark.usefixtures("repository")
def test_opening_a_repository_and_a_session(line: Line) -> None:
    counting = Counting(line.store())
    repo = Repository.open(Storage(counting))
    assert line.asked() == {"GET repo": 1}
    session = repo.readonly_session("main")
    assert line.asked() == {"GET repo": 1, "GET snapshots": 1}
    zarr.open_array(session.store, path="a", mode="r")
    assert line.asked() == {}
    assert len(counting.requests) == 3  # what the wrapper counts, and the server sees


def test_reading_chunks(line: Line, repository: Repository) -> None:
    session = Repository.open(repository.storage).readonly_session("main")
    array = zarr.open_array(session.store, path="a", mode="r")
    line.asked()
    line.slow_down("GET")
    found = array[:]
    most = line.proxy.most_at_once
    assert line.asked() == {"GET manifests": 1, "GET chunks": CHUNKS}
    assert 3 <= most <= 64
    np.testing.assert_array_equal(np.asarray(found), np.arange(CHUNKS * 1000))
    array[:3000]
    assert line.asked() == {"GET chunks": 3}


def test_committing_chunks(line: Line, repository: Repository) -> None:
    session = repository.writable_session("main")
    line.asked()
    zarr.open_array(session.store, path="a")[:10_000] = 1.0
    assert line.asked() == {"PUT chunks": 1}  # all ten in one object
    session.commit("ten chunks")
    assert line.asked() == {
        "GET repo": 2,  # whether it is online, before and after the files are written
        "PUT manifests": 1,
        "PUT snapshots": 1,
        "PUT transactions": 1,
        "HEAD snapshots": 1,  # the server's clock
        "PUT overwritten": 1,
        "PUT repo": 1,
    }


def test_ranges_of_one_object(line: Line) -> None:
    store = line.store()
    whole = np.random.default_rng(1).bytes(30 * MIB)
    store.put("object", whole)
    line.asked()
    near = [Range(start, start + 100) for start in range(0, MIB, MIB // 100)]
    assert [bytes(part) for part in store.get_ranges("object", near)] == [
        whole[one.start : one.stop] for one in near
    ]
    assert line.asked() == {"GET object": 1}
    line.slow_down("GET")
    far = [Range(start, start + 100) for start in range(0, 30 * MIB, 3 * MIB)]
    assert [bytes(part) for part in store.get_ranges("object", far)] == [
        whole[one.start : one.stop] for one in far
    ]
    most = line.proxy.most_at_once
    assert line.asked() == {"GET object": 10}
    assert most >= 3


def test_large_objects_go_in_parts_and_at_once(line: Line) -> None:
    settings = RemoteSettings(
        request_bytes=5 * MIB, multipart_bytes=10 * MIB, max_requests_for_object=4
    )
    store = line.store(settings)
    whole = np.random.default_rng(2).bytes(32 * MIB)
    line.slow_down("PUT")
    store.put("object", whole)
    most = line.proxy.most_at_once
    assert line.asked() == {"POST object": 2, "PUT object": 7}  # begin, parts, complete
    assert 2 <= most <= 4
    line.slow_down("GET")
    assert bytes(store.get("object").data) == whole
    most = line.proxy.most_at_once
    assert line.asked() == {"GET object": 7}
    assert 2 <= most <= 4
    store.put("small", whole[: 9 * MIB])
    assert line.asked() == {"PUT small": 1}


def test_deleting_and_listing(line: Line) -> None:
    store = line.store()
    for number in range(30):
        store.put(f"n/{number}", b"x")
    line.asked()
    assert len(list(store.list("n/"))) == 30
    assert line.asked() == {"GET bucket": 1}
    store.delete(f"n/{number}" for number in range(30))
    assert line.asked() == {"POST bucket": 1}
