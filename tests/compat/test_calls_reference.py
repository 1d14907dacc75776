"""One call after the other, on a small repository: both answer alike, or refuse alike.

Calls to which frazil answers otherwise on purpose are in docs/differences.md and not here.
"""

import pickle
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.sync import sync

from tests.compat.driver import INITIAL_SNAPSHOT, OURS, REFERENCE, Engine
from tests.compat.sides import UNKNOWN_SNAPSHOT, known_name

type OnRepo = Callable[[Any, Any], object]  # module, repository
type OnSession = Callable[[Any], object]

PREFIXES = ("", "/", "a", "a/", "g", "g/s", "g/h")
GROUP = b'{"node_type":"group"}'
GRID = b'"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[1]}}'
SOME_DAY = datetime(2020, 1, 1, tzinfo=UTC)


def prepared(engine: Engine, version: int) -> Any:
    module = engine.module
    repo = module.Repository.create(module.in_memory_storage(), spec_version=version)
    session = repo.writable_session("main")
    group = zarr.create_group(session.store)
    group.create_group("g/h")
    group.create_array("a", shape=(8, 4), chunks=(2, 2), dtype="i4", compressors=None)[:4] = 1
    group.create_array("g/s", shape=(), dtype="i4")[...] = 3
    repo.create_tag("t", session.commit("x", {"k": 1}))
    repo.create_branch("dev", INITIAL_SNAPSHOT)
    return repo


def buffer(data: bytes) -> Buffer:
    return default_buffer_prototype().buffer.from_bytes(data)


def get(store: Any, key: str, wanted: ByteRequest | None = None) -> bytes | None:
    found: Buffer | None = sync(store.get(key, default_buffer_prototype(), wanted))
    return None if found is None else found.to_bytes()


def everything(items: AsyncIterator[Any]) -> list[Any]:
    async def collect() -> list[Any]:
        return sorted([item async for item in items])

    return sync(collect())


def in_session(call: OnSession) -> OnRepo:
    return lambda _, repo: call(repo.writable_session("main"))


def in_store(call: OnSession) -> OnRepo:
    return lambda _, repo: call(repo.writable_session("main").store)


def then_list(call: OnSession) -> OnRepo:
    def do(store: Any) -> object:
        call(store)
        return everything(store.list()), store.session.has_uncommitted_changes

    return in_store(do)


def put(key: str, data: bytes) -> OnRepo:
    def do(store: Any) -> object:
        sync(store.set(key, buffer(data)))
        return get(store, key)

    return in_store(do)


def u64(*numbers: int) -> npt.NDArray[np.uint64]:
    return np.array(numbers, dtype=np.uint64)


def virtual(key: str = "a/c/0/0", location: str = "s3://b/k", **how: Any) -> OnRepo:
    def do(store: Any) -> object:
        options = {"offset": 0, "length": 1, "validate_container": False, **how}
        store.set_virtual_ref(key, location, **options)
        return store.session.all_virtual_chunk_locations()

    return in_store(do)


def virtual_block(path: str, *arguments: Any, **how: Any) -> OnRepo:
    return in_store(
        lambda store: store.set_virtual_refs_arr(path, *arguments, validate_containers=False, **how)
    )


def virtual_specs(path: str, *indices: list[int]) -> OnRepo:
    def do(module: Any, repo: Any) -> object:
        store = repo.writable_session("main").store
        specs = [module.VirtualChunkSpec(index, "s3://b/k", 0, 1) for index in indices]
        return store.set_virtual_refs(path, specs, validate_containers=False)

    return do


def transaction_with_nothing(_: Any, repo: Any) -> None:
    with repo.transaction("main", message="m"):
        pass


def transaction_that_fails(_: Any, repo: Any) -> object:
    with suppress(ZeroDivisionError), repo.transaction("main", message="m") as store:
        zarr.open_group(store).create_group("n")
        _ = 1 / 0
    return [info.message for info in repo.ancestry(branch="main")]


def state(session: Any) -> object:
    return session.read_only, str(session.mode), session.branch, session.has_uncommitted_changes


def merge_sessions(*kinds: str) -> OnRepo:
    def do(module: Any, repo: Any) -> object:
        distributed = import_module(f"{module.__name__}.distributed")
        return distributed.merge_sessions(
            *(getattr(repo, f"{kind}_session")("main") for kind in kinds)
        )

    return do


REPOSITORY: dict[str, OnRepo] = {
    "create version 3": lambda m, _: m.Repository.create(m.in_memory_storage(), spec_version=3),
    "create version 0": lambda m, _: m.Repository.create(m.in_memory_storage(), spec_version=0),
    "create by text": lambda m, _: m.Repository.create(m.in_memory_storage(), spec_version="2"),
    "open nothing": lambda m, _: m.Repository.open(m.in_memory_storage()),
    "exists": lambda m, r: (
        m.Repository.exists(m.in_memory_storage()),
        m.Repository.exists(r.storage),
    ),
    "no version": lambda m, _: m.Repository.fetch_spec_version(m.in_memory_storage()),
    "no config": lambda m, _: m.Repository.fetch_config(m.in_memory_storage()),
    "default config": lambda m, r: m.Repository.fetch_config(r.storage),
    "create again": lambda m, r: m.Repository.create(r.storage),
    "odd default metadata": lambda _, r: r.set_default_commit_metadata({"a": object()}),
    "ancestry of nothing": lambda _, r: list(r.ancestry()),
    "ancestry of two": lambda _, r: list(r.ancestry(branch="main", tag="t")),
    "ancestry of a bad id": lambda _, r: list(r.ancestry(snapshot_id="x")),
    "graph of two": lambda _, r: r.ancestry_graph(branch="main", tag="t"),
    "graph of a missing branch": lambda _, r: r.ancestry_graph(branch="nope"),
    "graph of a missing tag": lambda _, r: r.ancestry_graph(tag="nope"),
    "manifests of the first": lambda _, r: r.list_manifest_files(INITIAL_SNAPSHOT),
    "diff from two": lambda _, r: r.diff(from_branch="main", from_tag="t", to_branch="main"),
    "diff from nothing": lambda _, r: r.diff(to_branch="main"),
    "diff to nothing": lambda _, r: r.diff(from_branch="main"),
    "diff from unknown": lambda _, r: r.diff(from_snapshot_id=UNKNOWN_SNAPSHOT, to_branch="main"),
    "as of a naive time": lambda _, r: r.readonly_session("main", as_of=datetime(2020, 1, 1)),  # noqa: DTZ001 -- what is tested
    "as of alone": lambda _, r: r.readonly_session(as_of=SOME_DAY),
    "transaction with nothing": transaction_with_nothing,
    "transaction that fails": transaction_that_fails,
    "inspect unknown": lambda _, r: r.inspect_snapshot(UNKNOWN_SNAPSHOT),
    "inspect an unknown manifest": lambda _, r: r.inspect_manifest(UNKNOWN_SNAPSHOT),
    "inspect an unknown log": lambda _, r: r.inspect_transaction_log(UNKNOWN_SNAPSHOT),
    "lower case id": lambda _, r: r.lookup_snapshot(INITIAL_SNAPSHOT.lower()).id,
    "id with look-alikes": lambda _, r: r.lookup_snapshot("ICECHNKREPOFIRSTCMTO").id,
    "id with spare bits": lambda _, r: r.lookup_snapshot(f"{INITIAL_SNAPSHOT[:-1]}1").id,
    "a tag named as a branch": lambda _, r: r.create_tag("main", INITIAL_SNAPSHOT),
    "branch at None": lambda _, r: r.create_branch("q", None),
    "branch named 5": lambda _, r: r.create_branch(5, INITIAL_SNAPSHOT),
    "merge no sessions": merge_sessions(),
    "merge what is no fork": merge_sessions("writable"),
    "pickled": lambda _, r: type(pickle.loads(pickle.dumps(r))).__name__,
}
SESSION: dict[str, OnRepo] = {
    "writable": in_session(state),
    "read-only": lambda _, r: state(r.readonly_session("main")),
    "equality": in_session(lambda s: (s == s, s.store == s.store, s.store.session == s)),  # noqa: PLR0124 -- what is tested
    "inequality": lambda _, r: r.writable_session("main") == r.writable_session("main"),
    "relative path": in_session(lambda s: s.get_node_id("a")),
    "id": in_session(lambda s: (len(s.get_node_id("/a")), len(s.get_node_id("/")))),
    "empty path": in_session(lambda s: s.get_node_id("")),
    "dots": in_session(lambda s: s.get_node_id("/g/../a")),
    "chunk types": in_session(
        lambda s: [int(s.chunk_type("/a", at)) for at in ([0, 0], [3, 1], [9, 9])]
    ),
    "chunk type in a group": in_session(lambda s: s.chunk_type("/g", [0])),
    "chunk type of a scalar": in_session(lambda s: int(s.chunk_type("/g/s", []))),
    "chunks": in_session(lambda s: [tuple(at) for at in everything(s.chunk_coordinates("/a"))]),
    "one by one": in_session(
        lambda s: [tuple(at) for at in everything(s.chunk_coordinates("/a", batch_size=1))]
    ),
    "chunks of nothing": in_session(lambda s: everything(s.chunk_coordinates("/no"))),
    "chunks of a group": in_session(lambda s: everything(s.chunk_coordinates("/g"))),
    "commit with a number": in_session(lambda s: s.commit(5, allow_empty=True)),
    "amend with a number": in_session(lambda s: s.amend(5, allow_empty=True)),
    "flush with a number": in_session(lambda s: s.flush(5)),
    "metadata that is a list": in_session(lambda s: s.commit("x", [1], allow_empty=True)),
    "metadata with numbers": in_session(lambda s: s.commit("x", {1: 2}, allow_empty=True)),
    "after a commit": in_session(lambda s: (bool(s.commit("", allow_empty=True)), state(s))),
    "after a flush": in_session(lambda s: (bool(s.flush("")), state(s))),
    "rebase onto the same": lambda m, r: r.writable_session("main").rebase(m.ConflictDetector()),
    "rebase read-only": lambda m, r: r.readonly_session("main").rebase(m.ConflictDetector()),
    "merge nothing": in_session(lambda s: s.merge()),
    "no virtual chunks": in_session(lambda s: s.all_virtual_chunk_locations()),
    "pickled store": in_store(pickle.dumps),
}
STORE: dict[str, OnRepo] = {
    "what it supports": in_store(
        lambda s: (s.supports_writes, s.supports_deletes, s.supports_listing, s.read_only)
    ),
    "set bytes": in_store(lambda s: sync(s.set("a/c/0/0", b"x"))),
    "get what is not there": in_store(
        lambda s: [get(s, key) for key in ("no/zarr.json", "no/c/0", "a/c/3/1", "a/c/9/9")]
    ),
    "get version 2": in_store(lambda s: [get(s, key) for key in (".zgroup", "a/.zarray")]),
    "set nothing": put("", b"x"),
    "set below zarr.json": put("a/zarr.json/", b"x"),
    "parts of chunks": in_store(
        lambda s: [
            get(s, "a/c/0/0", part)
            for part in (RangeByteRequest(0, 4), RangeByteRequest(3, 3), OffsetByteRequest(12))
        ]
    ),
    "end of a chunk": in_store(lambda s: get(s, "a/c/0/0", SuffixByteRequest(4))),
    "parts of metadata": in_store(lambda s: get(s, "zarr.json", RangeByteRequest(0, 4))),
    "what exists": in_store(
        lambda s: [
            sync(s.exists(key))
            for key in ("a/zarr.json", "a/c/0/0", "a/c/3/1", "no/zarr.json", "no/c/0", "g/s/c")
        ]
    ),
    "sizes": in_store(lambda s: [sync(s.getsize(key)) for key in ("a/c/0/0", "g/s/c")]),
    "set partial values": in_store(lambda s: sync(s.set_partial_values([("a/c/0/0", 0, b"x")]))),
    "made read-only": in_store(lambda s: [s.with_read_only(b).read_only for b in (True, False)]),
    "delete a missing node": then_list(lambda s: sync(s.delete("no/zarr.json"))),
    "delete outside the grid": then_list(lambda s: sync(s.delete("a/c/9/9"))),
    "delete a missing chunk": then_list(lambda s: sync(s.delete("a/c/3/1"))),
    "delete in a missing array": then_list(lambda s: sync(s.delete("no/c/0"))),
    "delete a chunk of a group": then_list(lambda s: sync(s.delete("g/c/0"))),
    "delete version 2": then_list(lambda s: sync(s.delete(".zgroup"))),
    "delete the root": then_list(lambda s: sync(s.delete("zarr.json"))),
    **{
        f"delete directory {name!r}": then_list(lambda s, name=name: sync(s.delete_dir(name)))  # type: ignore[misc]  # bound at once
        for name in ("", "a", "a/c", "a/c/", "a/c/0", "a/c/0/0", "a/c/3", "g", "/g/", "q/r")
    },
    "the same metadata again": then_list(
        lambda s: sync(s.set("a/zarr.json", buffer(get(s, "a/zarr.json") or b"")))
    ),
    "if it does not exist": then_list(
        lambda s: sync(s.set_if_not_exists("a/c/0/0", buffer(b"9" * 16)))
    ),
    "if it does not exist, new": then_list(
        lambda s: sync(s.set_if_not_exists("a/c/3/1", buffer(b"9" * 16)))
    ),
    **{
        f"list {prefix!r}": in_store(lambda s, p=prefix: everything(s.list_prefix(p)))  # type: ignore[misc]  # bound at once
        for prefix in PREFIXES
    },
    **{
        f"directory {prefix!r}": in_store(
            lambda s, p=prefix: [name.rstrip("/") for name in everything(s.list_dir(p))]  # type: ignore[misc]  # bound at once
        )
        for prefix in (*PREFIXES, "no", "a/c", "a/c/0", "a/zarr.json")
    },
    **{
        f"emptiness of {prefix!r}": in_store(lambda s, p=prefix: sync(s.is_empty(p)))  # type: ignore[misc]  # bound at once
        for prefix in (*PREFIXES, "no", "a/c")
    },
    "size of all": in_store(lambda s: sync(s.getsize_prefix(""))),
    "size of an array": in_store(lambda s: sync(s.getsize_prefix("a"))),
    "references of nothing": in_store(lambda s: list(s.array_chunk_iterator("no"))),
    "references of a group": in_store(lambda s: list(s.array_chunk_iterator("g"))),
    "references": in_store(
        lambda s: sorted(tuple(at) for b in s.array_chunk_iterator("/a") for at in b[0].tolist())
    ),
    "references one by one": in_store(
        lambda s: [len(b[0]) for b in s.array_chunk_iterator("a", batch_size=1)]
    ),
}
METADATA: dict[str, OnRepo] = {
    "more than a group needs": put("n/zarr.json", b'{"node_type":"group","zz":1}'),
    "a list": put("n/zarr.json", b"[]"),
    "another type": put("n/zarr.json", b'{"node_type":"x"}'),
    "no shape": put("n/zarr.json", b'{"node_type":"array",%b}' % GRID),
    "no grid": put("n/zarr.json", b'{"node_type":"array","shape":[1]}'),
    "another rank": put("n/zarr.json", b'{"node_type":"array","shape":[1,2],%b}' % GRID),
    "negative": put("n/zarr.json", b'{"node_type":"array","shape":[-1],%b}' % GRID),
    "fraction": put("n/zarr.json", b'{"node_type":"array","shape":[1.5],%b}' % GRID),
    "names that are numbers": put(
        "n/zarr.json", b'{"node_type":"array","shape":[1],"dimension_names":[1],%b}' % GRID
    ),
    "another grid": put(
        "n/zarr.json", b'{"node_type":"array","shape":[1],"chunk_grid":{"name":"hilbert"}}'
    ),
    "nothing": put("n/zarr.json", b""),
    "not a number": put("n/zarr.json", b'{"node_type":"group","attributes":{"a":NaN}}'),
    "infinite": put("n/zarr.json", b'{"node_type":"group","attributes":{"a":-Infinity}}'),
    "another encoding": put("n/zarr.json", '{"node_type":"group"}'.encode("utf-16")),
    "a path with dots": put("g/../x/zarr.json", GROUP),
    "an odd path": put(" x?%/zarr.json", GROUP),
}
VIRTUAL: dict[str, OnRepo] = {
    "metadata": virtual("a/zarr.json"),
    "no array": virtual("no/c/0"),
    "a group": virtual("g/c/0"),
    "outside": virtual("a/c/9/9"),
    "negative": virtual(offset=-1),
    "too large": virtual(offset=2**64),
    "fraction": virtual(offset=1.5),
    "empty": virtual(length=0),
    "naive time": virtual(checksum=datetime(2020, 1, 1)),  # noqa: DTZ001 -- what is tested
    "time": virtual(checksum=SOME_DAY),
    "number for a checksum": virtual(checksum=5),
    "specs outside": virtual_specs("a", [9, 9]),
    "specs of no array": virtual_specs("no", [0]),
    "specs of a group": virtual_specs("g", [0]),
    "no specs": virtual_specs("a"),
    "no specs of no array": virtual_specs("no"),
    "block of another size": virtual_block("a", (4, 1), ["s3://b/k"], u64(0), u64(1)),
    "block with too many offsets": virtual_block("a", (1, 1), ["s3://b/k"], u64(0, 1), u64(1)),
    "signed block": virtual_block("a", (1, 1), ["s3://b/k"], np.array([0]), np.array([1])),
    "block with another offset": virtual_block(
        "a", (1, 1), ["s3://b/k"], u64(0), u64(1), arr_offset=(1,)
    ),
    "block outside": virtual_block("a", (1, 1), ["s3://b/k"], u64(0), u64(1), arr_offset=(9, 9)),
    "skipped": virtual_block("a", (1, 1), [""], u64(0), u64(1)),
    "block of no array": virtual_block("no", (1, 1), ["s3://b/k"], u64(0), u64(1)),
    "block of nothing": virtual_block("a", (0, 1), [], u64(), u64()),
}
CALLS = {
    f"{group}: {name}": call
    for group, calls in (
        ("repository", REPOSITORY),
        ("session", SESSION),
        ("store", STORE),
        ("metadata", METADATA),
        ("virtual", VIRTUAL),
    )
    for name, call in calls.items()
}


def outcome(engine: Engine, call: OnRepo, version: int) -> object:
    try:
        found = call(engine.module, prepared(engine, version))
    except Exception as error:  # noqa: BLE001 -- whatever is raised is what is compared
        return known_name(error), getattr(error, "kind", None)
    return None if found == () else found


VERSIONS = [(name, 2) for name in CALLS] + [
    (name, 1) for name in CALLS if name.startswith(("repository", "session"))
]


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_a_call_is_answered_alike(name: str, version: int) -> None:
    ours, reference = (outcome(engine, CALLS[name], version) for engine in (OURS, REFERENCE))
    assert ours == reference
