"""The store beside the reference: missing keys, prefixes, flags and refused writes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from tests.compat.driver import OURS, REFERENCE, Engine

ENGINES = [OURS, REFERENCE]
GROUP = b'{"zarr_format": 3, "node_type": "group", "attributes": {}}'
both = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
versions = pytest.mark.parametrize("version", [1, 2])


def buffer(value: bytes) -> Any:
    return default_buffer_prototype().buffer.from_bytes(value)


def create(engine: Engine, version: int = 2) -> Any:
    storage = engine.module.in_memory_storage()
    return engine.module.Repository.create(storage, spec_version=version)


def put_array(store: Any, path: str) -> None:
    """An array without a group above it: zarr itself would make one."""
    made: dict[str, Any] = {}
    zarr.create_array(zarr.storage.MemoryStore(made), shape=(4,), chunks=(2,), dtype="i4")
    sync(store.set(f"{path}/zarr.json", made["zarr.json"]))
    zarr.open_array(store, path=path, mode="r+")[...] = 7


def list_all(keys: Any) -> list[str]:
    async def gather() -> list[str]:
        return sorted([key async for key in keys])

    return asyncio.run(gather())


@both
@versions
@pytest.mark.parametrize("missing", ["a/zarr.json", "zarr.json", "a/x/zarr.json"])
def test_deleting_metadata_that_is_not_there_does_nothing(
    engine: Engine, version: int, missing: str
) -> None:
    repo = create(engine, version)
    session = repo.writable_session("main")
    put_array(session.store, "a/b")
    session.commit("an array without groups above it")
    session = repo.writable_session("main")
    sync(session.store.delete(missing))
    assert not session.has_uncommitted_changes
    assert np.array_equal(zarr.open_array(session.store, path="a/b", mode="r")[:], [7] * 4)


@both
def test_deleting_metadata_that_is_not_there_keeps_pending_nodes(engine: Engine) -> None:
    session = create(engine).writable_session("main")
    put_array(session.store, "q/r")
    sync(session.store.delete("zarr.json"))
    sync(session.store.delete("q/zarr.json"))
    session.commit("still there")
    assert np.array_equal(zarr.open_array(session.store, path="q/r", mode="r")[:], [7] * 4)


@pytest.mark.parametrize("commits", [0, 1])
@pytest.mark.parametrize("prefix", ["foo", "foo/", "foo/bar", "", "foo-bar", "deep/er"])
def test_a_node_as_prefix_lists_that_node_and_those_below(prefix: str, commits: int) -> None:
    def listed(engine: Engine) -> list[str]:
        session = create(engine).writable_session("main")
        for path in ("foo", "foo-bar", "deep", "deep/er", "deep/erest", "foobar"):
            sync(session.store.set(f"{path}/zarr.json", buffer(GROUP)))
        put_array(session.store, "foo/bar")
        if commits:
            session.commit("all")
        return list_all(session.store.list_prefix(prefix))

    assert listed(OURS) == listed(REFERENCE)


def raised(call: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- whichever it is, is compared
        call()
    return caught.value


@pytest.mark.parametrize(
    ("key", "name", "kind"),
    [
        ("foo", "InvalidInputError", "invalid-key"),
        ("nope/zarr.json", "NodeNotFoundError", "node-not-found"),
        ("nope/c/0", "NodeNotFoundError", "node-not-found"),
    ],
)
def test_the_size_of_what_is_not_there_is_an_error_of_the_reference(
    key: str, name: str, kind: str
) -> None:
    for engine in ENGINES:
        store = create(engine).writable_session("main").store
        error = raised(lambda store=store: sync(store.getsize(key)))  # type: ignore[misc]  # bound at once
        assert isinstance(error, getattr(engine.module, name))
        assert getattr(error, "kind", None) == kind
        assert engine is REFERENCE or isinstance(error, FileNotFoundError)


def test_the_size_of_a_missing_chunk_is_an_error_of_both_kinds() -> None:
    store = create(OURS).writable_session("main").store
    zarr.create_array(store, name="a", shape=(4,), chunks=(2,), dtype="i4")
    error = raised(lambda: sync(store.getsize("a/c/0")))
    assert isinstance(error, FileNotFoundError)
    assert isinstance(error, OURS.module.IcechunkError)
    assert error.kind == "chunk-not-found"


@both
def test_flags_that_zarr_keeps_agree_with_the_session(engine: Engine) -> None:
    repo = create(engine)
    session = repo.writable_session("main")
    assert (session.store._read_only, session.store._is_open) == (False, True)
    put_array(session.store, "a")
    session.commit("one")
    for store in (session.store, repo.readonly_session("main").store):
        assert (store._read_only, store._is_open) == (True, True)


WRITES: dict[str, Callable[[Any], Awaitable[object]]] = {
    "set": lambda store: store.set("a/c/0", buffer(b"12345678")),
    "set_if_not_exists": lambda store: store.set_if_not_exists("b/zarr.json", buffer(GROUP)),
    "set_virtual_ref": lambda store: store.set_virtual_ref_async(
        "a/c/0", "s3://bucket/x", offset=0, length=8
    ),
    "delete_dir": lambda store: store.delete_dir("a"),
}


@both
@pytest.mark.parametrize("name", WRITES)
def test_a_read_only_store_says_so_in_words_that_programs_look_for(
    engine: Engine, name: str
) -> None:
    repo = create(engine)
    session = repo.writable_session("main")
    put_array(session.store, "a")
    session.commit("one")
    store = repo.readonly_session("main").store
    error = raised(lambda: asyncio.run(_await(WRITES[name](store))))
    assert "cannot write to read-only store" in str(error)


async def _await(what: Awaitable[object]) -> object:
    return await what


def test_a_value_that_is_no_buffer_is_refused_with_the_sentence_of_zarr() -> None:
    texts = {
        str(raised(lambda store=store: sync(store.set("a/c/0", 5))))  # type: ignore[misc]  # bound at once
        for store in _stores(ENGINES)
    }
    assert len(texts) == 1
    assert texts.pop() == (
        "IcechunkStore.set(): `value` must be a Buffer instance."
        " Got an instance of <class 'int'> instead."
    )


def _stores(engines: Iterable[Engine]) -> list[Any]:
    return [create(engine).writable_session("main").store for engine in engines]
