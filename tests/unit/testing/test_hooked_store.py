"""A store with hooks is as good as the one below it."""

from pathlib import Path

import pytest

from frazil.errors import StorageError
from frazil.objectstore import LocalStore, MemoryStore, ObjectStore
from frazil.objectstore.reads import Parts
from frazil.objectstore.wrappers import Verb
from frazil.testing.hooked_store import HookedStore, no_hook
from frazil.testing.objectstore import ObjectStoreContract, keys


class TestWithoutHooks(ObjectStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return HookedStore(LocalStore(tmp_path, fsync=False))


def test_hooks_are_called_around_each_request(tmp_path: Path) -> None:
    calls: list[str] = []
    store = HookedStore(
        LocalStore(tmp_path, fsync=False),
        before=lambda verb, key: calls.append(f"before {verb} {key}"),
        after=lambda verb, key: calls.append(f"after {verb} {key}"),
    )
    store.put("a/b", b"0123")
    assert calls == ["before put a/b", "after put a/b"]
    store.after = no_hook
    calls.clear()
    store.link("a/b", "a/c")
    store.reread("a/b", None)
    store.read_parts(Parts("a/", ["b", "c"], [0, 1, 2], [0, 0], [1, 1], [None, None]))
    store.put_pieces("a/d", [b"1", b"2"])
    list(store.list_range("a", "b"))
    store.refresh("a/b")
    store.delete_older(["a/b", "a/c"], before_us=0)
    store.sync()
    assert calls == [
        "before put a/c",
        "before get a/b",
        "before get_ranges a/b a/c",
        "before put a/d",
        "before list a",
        "before refresh a/b",
        "before delete a/b a/c",
        "before sync ",
    ]


def test_a_hook_may_fail_the_request() -> None:
    def refuse(verb: Verb, key: str) -> None:
        raise StorageError(f"no {verb} of {key}")

    store = HookedStore(MemoryStore(), before=refuse)
    with pytest.raises(StorageError, match="no put of a"):
        store.put("a", b"")
    assert keys(store.inner) == []
    assert not store.link("a", "b")  # a store without links is not asked for one
