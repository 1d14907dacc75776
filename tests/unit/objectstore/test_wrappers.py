import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from frazil.clock import system_clock
from frazil.errors import InvalidInputError, ObjectNotFoundError, ReadOnlyError
from frazil.objectstore import (
    ABSENT,
    Counting,
    LocalStore,
    MemoryStore,
    ObjectStore,
    Prefixed,
    ReadOnly,
    Request,
)
from frazil.ranges import Last, Range
from frazil.testing.objectstore import content, keys


def test_every_request_is_counted_once() -> None:
    store = Counting(MemoryStore())
    store.put("a/b", b"0123456789")
    store.get("a/b")
    store.get("a/b", Last(3))
    store.get_ranges("a/b", [Range(0, 2), Range(5, 99)])
    store.head("a/b")
    list(store.list("a/"))
    store.copy("a/b", "c")
    store.delete(["c", "missing"])
    store.sync()
    assert store.requests == [
        Request("put", "a/b", (), 10),
        Request("get", "a/b", (), 10),
        Request("get", "a/b", (Last(3),), 3),
        Request("get_ranges", "a/b", (Range(0, 2), Range(5, 99)), 7),
        Request("head", "a/b"),
        Request("list", "a/"),
        Request("copy", "a/b"),
        Request("delete", "c"),
        Request("delete", "missing"),
        Request("sync", ""),
    ]
    assert [one.size_bytes for one in store.reads] == [10, 3, 7]
    assert (store.count("get"), store.count("get", "a/"), store.count("get", "b")) == (2, 2, 0)
    store.clear()
    assert store.reads == ()


def test_what_is_still_the_same_is_not_counted_as_read(tmp_path: Path) -> None:
    local = LocalStore(tmp_path, clock=lambda: system_clock() + 10_000_000)
    store = Counting(ReadOnly(Prefixed(local, "repos")))
    local.put("repos/a", b"0123456789")
    known = store.reread("a", None)
    assert store.reread("a", known) is known
    with pytest.raises(ObjectNotFoundError):
        store.reread("missing", known)
    assert [one.size_bytes for one in store.reads] == [10, 0, 0]


def test_a_request_that_failed_is_counted_too() -> None:
    store = Counting(MemoryStore())
    for fails in (store.get, store.head, lambda key: store.get_ranges(key, [Range(0, 1)])):
        with pytest.raises(ObjectNotFoundError):
            fails("missing")
    assert [one.verb for one in store.requests] == ["get", "head", "get_ranges"]


def test_a_prefix_is_a_fence() -> None:
    inner = MemoryStore()
    store = Prefixed(inner, "mine")
    inner.put("mine2/a", b"")
    inner.put("other", b"")
    store.put("a", b"x")
    assert keys(store) == ["a"]
    assert keys(inner) == ["mine/a", "mine2/a", "other"]
    for key in ("../other", "..", "/other"):
        with pytest.raises(InvalidInputError):
            store.get(key)
    with pytest.raises(InvalidInputError):
        list(store.list("../"))
    with pytest.raises(InvalidInputError):
        Prefixed(inner, "trailing/")


def test_a_read_only_store_refuses_every_change() -> None:
    inner = MemoryStore()
    inner.put("a", b"0123")
    store = ReadOnly(inner)
    changes: list[Callable[[], object]] = [
        lambda: store.put("b", b""),
        lambda: store.put("b", b"", when=ABSENT),
        lambda: store.delete(["a"]),
        lambda: store.copy("a", "b"),
    ]
    for change in changes:
        with pytest.raises(ReadOnlyError):
            change()
    assert not store.writable
    store.sync()
    assert content(store, "a") == b"0123"
    assert store.head("a").size_bytes == 4
    assert [bytes(part) for part in store.get_ranges("a", [Range(1, 3)])] == [b"12"]
    assert keys(store) == keys(inner) == ["a"]


def test_wrappers_are_as_writable_as_what_they_wrap() -> None:
    inner = MemoryStore()
    assert Counting(inner).writable
    assert Prefixed(inner, "p").writable
    assert not Counting(ReadOnly(inner)).writable
    assert not Prefixed(ReadOnly(inner), "p").writable


def test_wrappers_pickle_with_their_store(tmp_path: Path) -> None:
    store: ObjectStore = Prefixed(ReadOnly(LocalStore(tmp_path)), "p")
    LocalStore(tmp_path).put("p/a", b"x")
    assert content(pickle.loads(pickle.dumps(store)), "a") == b"x"
