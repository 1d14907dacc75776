import pickle
from collections.abc import Buffer, Callable, Iterable, Iterator
from pathlib import Path

import pytest

from frazil.clock import system_clock
from frazil.engine.repository import Repository
from frazil.errors import InvalidInputError, ObjectNotFoundError, ReadOnlyError
from frazil.objectstore import (
    ABSENT,
    ALWAYS,
    Counting,
    LocalStore,
    MemoryStore,
    ObjectStore,
    Prefixed,
    ReadOnly,
    Request,
)
from frazil.objectstore.protocol import Blob, Capabilities, ObjectInfo, Precondition
from frazil.objectstore.reads import Parts
from frazil.objectstore.wrappers import Overlay, WrappedStore
from frazil.ranges import ByteRange, Last, Range
from frazil.testing.hooked_store import HookedStore
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


def public_names(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


# What each wrapper leaves to `WrappedStore`, or to the defaults on its own methods, and why.
COUNTING = {"writable", "far", "capabilities", "directory", "place", "with_settings"}  # no requests
KEYLESS = {"writable", "far", "capabilities", "with_settings", "sync", "collect_leftovers"}


@pytest.mark.parametrize(
    ("kind", "inherited"),
    [
        (WrappedStore, set[str]()),
        (Counting, COUNTING | {"collect_leftovers"}),
        (HookedStore, COUNTING | {"collect_leftovers"}),
        (Prefixed, KEYLESS),
    ],
)
def test_a_wrapper_forwards_everything(kind: type[ObjectStore], inherited: set[str]) -> None:
    """A new method of ObjectStore must not be forgotten in any of them."""
    assert public_names(ObjectStore) - public_names(kind) == inherited


def test_a_wrapped_store_can_do_what_the_store_can(tmp_path: Path) -> None:
    local = LocalStore(tmp_path, fsync=False)
    for store in (Counting(local), Prefixed(local, "p"), HookedStore(local), Counting(local)):
        assert store.capabilities == local.capabilities
        store.put("a/b", b"0123456789")
        assert store.link("a/b", "a/c")
        store.put_pieces("a/d", [b"01", b"23"])
        target = memoryview(bytearray(3))
        parts = Parts("a/", ["b", "c"], [0, 1, 3], [0, 2, 5], [3, 2, 2], [target, None, None])
        first, *others = store.read_parts(parts)
        assert first is target
        assert [bytes(part) for part in (first, *others)] == [b"012", b"23", b"56"]
        assert [info.key for info in store.list_range("a/c", None)] == ["a/c", "a/d"]
        assert store.delete_older(["a/b"], before_us=0) == ("a/b",)
        store.delete(["a/b", "a/c", "a/d"])
    assert Prefixed(local, "p/q").directory == str(tmp_path / "p" / "q")
    assert Counting(local).directory == str(tmp_path)


def test_parts_are_counted_by_object(tmp_path: Path) -> None:
    store = Counting(LocalStore(tmp_path, fsync=False))
    store.put("a/b", b"0123456789")
    store.put("a/c", b"0123456789")
    store.clear()
    store.read_parts(Parts("a/", ["b", "c"], [0, 1, 3], [0, 2, 8], [3, 2, 5], [None] * 3))
    assert store.requests == [
        Request("get", "a/b", (Range(0, 3),), 3),
        Request("get_ranges", "a/c", (Range(2, 4), Range(8, 13)), 4),
    ]
    with pytest.raises(ObjectNotFoundError):
        store.read_parts(Parts("a/", ["none"], [0, 1], [0], [3], [None]))
    assert store.requests[-1] == Request("get", "a/none", (Range(0, 3),), 0)


def test_a_store_that_is_five_methods_has_all_the_others() -> None:
    class Few(ObjectStore):
        """The least that a store can be."""

        def __init__(self) -> None:
            memory = MemoryStore()
            self._methods = memory.get, memory.head, memory.list, memory.put, memory.delete

        def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
            return self._methods[0](key, byte_range)

        def head(self, key: str) -> ObjectInfo:
            return self._methods[1](key)

        def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
            return self._methods[2](prefix)

        def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
            return self._methods[3](key, data, when=when)

        def delete(self, keys: Iterable[str]) -> int:
            return self._methods[4](keys)

    repository = Repository.create(Few())
    assert repository.branches().keys() == {"main"}
    store = repository.store
    assert (store.directory, store.place, store.capabilities) == (None, None, Capabilities())
    store.put("a/b", b"0123456789")
    assert [bytes(p) for p in store.get_ranges("a/b", [Range(8, 20), Range(0, 2)])] == [
        b"89",
        b"01",
    ]
    parts = Parts("a/", ["b"], [0, 2], [0, 5], [2, 9], [None, None])
    assert [bytes(part) for part in store.read_parts(parts)] == [b"01", b"56789"]
    assert not store.link("a/b", "a/c")
    assert [info.key for info in store.list_range("a", "b")] == ["a/b"]


def test_an_overlay_reads_from_both_also_again(tmp_path: Path) -> None:
    def later() -> int:
        return system_clock() + 10_000_000  # files count as old at once

    above, below = (LocalStore(tmp_path / name, clock=later) for name in ("above", "below"))
    store = Overlay(above, below)
    above.put("both", b"above")
    below.put("both", b"below")
    below.put("low", b"only below")
    for key, expected in (("both", b"above"), ("low", b"only below")):
        cached = store.reread(key, None)
        assert bytes(cached.data) == content(store, key) == expected
        assert store.reread(key, cached) is cached
        parts = store.read_parts(Parts("", [key], [0, 1], [0], [3], [None]))
        assert [bytes(part) for part in parts] == [expected[:3]]
    above.delete(["both"])
    assert bytes(store.reread("both", None).data) == b"below"
    with pytest.raises(ObjectNotFoundError):
        store.reread("none", None)
    assert keys(store) == ["both", "low"]
    with pytest.raises(ReadOnlyError):
        store.put("new", b"")
