"""Each fault does to a request of a store what its name says."""

import time

import pytest

from frazil.errors import StorageError
from frazil.objectstore import Absent, Matches
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ObjectStore
from frazil.ranges import Range
from frazil.testing.clocks import LeapingClock, SkewedClock
from frazil.testing.faults import (
    AnswerWith,
    CutResponse,
    DelayRequest,
    DelayResponse,
    DenyPermission,
    DropRequest,
    DropResponse,
    Fault,
    FillDisk,
    RefuseWith,
    Rule,
    Script,
    ServeStale,
    Throttle,
)
from frazil.testing.faulty_store import FaultyStore
from frazil.testing.objectstore import ObjectStoreContract

REFUSED = [DropRequest(), RefuseWith(500), Throttle(3), FillDisk(), DenyPermission()]


class TestWithoutFaults(ObjectStoreContract):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return FaultyStore(MemoryStore())


def faulty(fault: Fault, method: str, *, times: int | None = None) -> FaultyStore:
    store = FaultyStore(MemoryStore(), timeout_s=0.02)
    store.put("key", b"old")
    store.put("key", b"content")
    store.choose = Script(Rule(fault, method=method, times=times))
    return store


@pytest.mark.parametrize("fault", REFUSED)
def test_what_is_refused_is_not_done(fault: Fault) -> None:
    store = faulty(fault, "put")
    with pytest.raises(StorageError, match="cannot put 'key'"):
        store.put("key", b"new")
    assert bytes(store.get("key").data) == b"content"
    assert [one.fault for one in store.happened] == [fault]


@pytest.mark.parametrize("fault", [DropResponse(), AnswerWith(503)])
def test_what_is_not_heard_of_is_done(fault: Fault) -> None:
    store = faulty(fault, "put")
    with pytest.raises(StorageError):
        store.put("new", b"new", when=Absent())
    assert bytes(store.get("new").data) == b"new"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Throttle(1), "throttled"),
        (RefuseWith(429), "throttled"),
        (RefuseWith(500), "object-store"),
    ],
)
def test_throttling_is_told_apart(fault: Fault, kind: str) -> None:
    with pytest.raises(StorageError) as caught:
        faulty(fault, "list").list()
    assert caught.value.kind == kind


def test_a_body_is_cut() -> None:
    store = faulty(CutResponse(3), "get")
    assert bytes(store.get("key").data) == b"con"
    store = faulty(CutResponse(3), "get_ranges")
    found = store.get_ranges("key", [Range(0, 2), Range(1, 7)])
    assert [bytes(part) for part in found] == [b"co", b"ont"]


def test_a_stale_read_is_of_what_was_there_before_and_cannot_be_replaced() -> None:
    store = faulty(ServeStale(), "get")
    stale = store.get("key")
    assert bytes(stale.data) == b"old"
    assert bytes(store.get("key", Range(1, 3)).data) == b"ld"
    with pytest.raises(StorageError, match="refused"):
        store.put("key", b"new", when=Matches(stale.version))


def test_a_delay_is_waited_for_or_is_a_timeout() -> None:
    store = faulty(DelayResponse(0.01), "put")
    began = time.monotonic()
    store.put("key", b"slow")
    assert time.monotonic() - began >= 0.01
    for fault in (DelayRequest(0.05), DelayResponse(0.05)):
        store = faulty(fault, "put")
        with pytest.raises(StorageError, match="in time"):
            store.put("key", b"late")
        done = bytes(store.inner.get("key").data)
        assert done == (b"late" if isinstance(fault, DelayResponse) else b"content")
        store.settle()
        assert bytes(store.inner.get("key").data) == b"late"


def test_clocks_are_wrong_as_asked() -> None:
    assert SkewedClock(-2, lambda: 10_000_000)() == 8_000_000
    leaping = LeapingClock([0, -1], lambda: 5_000_000)
    assert [leaping() for _ in range(4)] == [5_000_000, 4_000_000] * 2
