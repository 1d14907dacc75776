"""Each size of the caching configuration does what it says; reopening keeps what is in memory."""

from collections.abc import Callable

import numpy as np
import pytest

from frazil import CachingConfig, Repository, RepositoryConfig, Storage
from frazil.engine import repository as engine
from frazil.engine.files.files import Files
from frazil.engine.files.settings import Settings
from frazil.engine.refs.version import Branch
from frazil.engine.session.session import Session
from frazil.format.config import CompressionConfig, ManifestConfig, ManifestPreloadConfig
from frazil.ids import ChunkId
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.wrappers import Counting
from frazil.paths import NodePath
from frazil.ranges import Range
from tests.unit.engine.conftest import GROUP, array_metadata

NO_PRELOAD = ManifestConfig(preload=ManifestPreloadConfig(max_total_refs=0))
# Of the repository below: nodes of its snapshot, references of each manifest, changes of each log.
NODES, REFS, CHANGES = 3, 4, (6, 5)


def config(**sizes: int) -> RepositoryConfig:
    return RepositoryConfig(caching=CachingConfig(**sizes), manifest=NO_PRELOAD)


@pytest.fixture
def store() -> Counting:
    """Two arrays of four chunk objects each, committed one after the other."""
    store = Counting(MemoryStore())
    repository = engine.Repository.create(store)
    for number, name in enumerate(["/a", "/b"]):
        session = repository.writable_session("main")
        if number == 0:
            session.set_node(NodePath("/"), GROUP)
        session.set_node(NodePath(name), array_metadata(8))
        for index in range(4):
            session.set_chunk(NodePath(name), (index,), bytes([index]) * 1000)
        session.commit(name)
    store.clear()
    return store


def opened(store: Counting, **sizes: int) -> engine.Repository:
    repository = engine.Repository.open(store, config(**sizes))
    store.clear()
    return repository


@pytest.mark.parametrize(("size", "requests"), [(0, 2), (NODES - 1, 2), (NODES, 1), (99, 1)])
def test_snapshots_are_kept_by_their_nodes(store: Counting, size: int, requests: int) -> None:
    repository = opened(store, num_snapshot_nodes=size)
    for _ in range(2):
        repository.writable_session("main")
    assert store.count("get", "snapshots/") == requests


@pytest.mark.parametrize(("size", "requests"), [(0, 4), (NODES - 1, 3), (NODES + 1, 2), (99, 2)])
def test_names_of_nodes_are_kept_by_their_nodes(store: Counting, size: int, requests: int) -> None:
    repository = opened(store, num_snapshot_nodes=size)
    tip, *_, first = repository.ancestry(Branch("main"))
    for _ in range(2):
        found = repository.diff(first.id, tip.id)
        assert found.new_arrays.texts == {"/a", "/b"}
    assert store.count("get", "snapshots/") == requests


@pytest.mark.parametrize(
    ("size", "requests"), [(0, 4), (REFS - 1, 4), (REFS, 4), (2 * REFS, 2), (99, 2)]
)
def test_manifests_are_kept_by_their_references(store: Counting, size: int, requests: int) -> None:
    """Two of them are read in turn, so that there must be room for both."""
    session = opened(store, num_chunk_refs=size).writable_session("main")
    for path in (NodePath("/a"), NodePath("/b")) * 2:
        assert session.chunk_payload(path, (0,)) is not None
    assert store.count("get", "manifests/") == requests


@pytest.mark.parametrize(("size", "requests"), [(0, 4), (4, 4), (sum(CHANGES), 2), (99, 2)])
def test_transaction_logs_are_kept_by_their_changes(
    store: Counting, size: int, requests: int
) -> None:
    repository = opened(store, num_transaction_changes=size)
    newest, _, first = repository.ancestry(Branch("main"))
    for _ in range(2):
        repository.diff(first.id, newest.id)
    assert store.count("get", "transactions/") == requests


@pytest.mark.parametrize(("size", "requests"), [(0, 8), (999, 8), (4000, 4), (10_000, 4)])
@pytest.mark.parametrize("in_bulk", [False, True])
def test_chunks_are_kept_by_their_bytes(
    store: Counting, size: int, requests: int, *, in_bulk: bool
) -> None:
    """Four of a thousand bytes, read in turn, twice."""
    repository = opened(store, num_bytes_chunks=size)
    session = repository.writable_session("main")
    for _ in range(2):
        assert read(session, in_bulk=in_bulk) == [bytes([index]) * 1000 for index in range(4)]
    assert store.count("get", "chunks/") == requests


def read(session: Session, *, in_bulk: bool) -> list[bytes]:
    path = NodePath("/a")
    if in_bulk:
        found = session.fetch_chunks(path, np.arange(4, dtype=np.uint32).reshape(-1, 1))
    else:
        found = [session.fetch_chunk(path, (index,)) for index in range(4)]
    return [bytes(each or b"") for each in found]


def test_no_chunk_is_kept_unless_asked_for(store: Counting) -> None:
    session = opened(store).writable_session("main")
    for _ in range(2):
        read(session, in_bulk=True)
    assert store.count("get", "chunks/") == 8


def test_another_part_of_a_chunk_is_another_thing(store: Counting) -> None:
    session = opened(store, num_bytes_chunks=10_000).writable_session("main")
    path = NodePath("/a")
    for wanted in (Range(0, 10), Range(10, 20), Range(0, 10)):
        assert session.fetch_chunk(path, (1,), wanted) == b"\x01" * 10
    assert store.count("get", "chunks/") == 2


def test_parts_of_one_object_are_kept_part_by_part() -> None:
    """As packs of chunks have them."""
    store = Counting(MemoryStore())
    files = Files(store, Settings.of(config(num_bytes_chunks=100)))
    pack = ChunkId.random()
    store.put(f"chunks/{pack}", bytes(range(100)))
    ids = np.frombuffer(pack.raw * 3, dtype=np.uint8).reshape(3, 12)
    lengths = np.array([10, 10, 10], dtype=np.uint64)

    def fetch(*offsets: int) -> list[bytes]:
        store.clear()
        at = np.array(offsets, dtype=np.uint64)
        return [bytes(each) for each in files.chunks.fetch_many(ids, at, lengths)]

    assert fetch(0, 20, 40) == [bytes(range(n, n + 10)) for n in (0, 20, 40)]
    assert store.count("get_ranges") == 1
    assert fetch(40, 0, 20) == [bytes(range(n, n + 10)) for n in (40, 0, 20)]
    assert store.requests == []
    assert fetch(0, 60, 60) == [bytes(range(n, n + 10)) for n in (0, 60, 60)]
    assert [one.ranges for one in store.requests] == [(Range(60, 70),)]


# Reopening


@pytest.fixture
def warm(store: Counting) -> Repository:
    """One that has read everything."""
    repository = Repository.open(Storage(store), config(num_bytes_chunks=10_000))
    read(repository.readonly_session("main").engine, in_bulk=True)
    store.clear()
    return repository


def requests_of(store: Counting, repository: Repository) -> set[str]:
    """What has to be read again, but for the entry point."""
    store.clear()
    read(repository.readonly_session("main").engine, in_bulk=True)
    return {one.key.partition("/")[0] for one in store.requests} - {"repo"}


@pytest.mark.parametrize(
    ("change", "read_again"),
    [
        (lambda: None, set()),
        (lambda: RepositoryConfig(inline_chunk_threshold_bytes=0), set()),
        (lambda: RepositoryConfig(compression=CompressionConfig(level=9)), set()),
        (lambda: RepositoryConfig(caching=CachingConfig(num_bytes_chunks=10_000)), set()),
        (lambda: RepositoryConfig(caching=CachingConfig(num_bytes_chunks=9_999)), {"chunks"}),
        (lambda: RepositoryConfig(caching=CachingConfig(num_chunk_refs=99)), {"manifests"}),
        (lambda: RepositoryConfig(caching=CachingConfig(num_snapshot_nodes=99)), {"snapshots"}),
    ],
)
def test_reopening_keeps_what_was_read_unless_its_cache_is_another_size(
    store: Counting,
    warm: Repository,
    change: Callable[[], RepositoryConfig | None],
    read_again: set[str],
) -> None:
    reopened = warm.reopen(change())
    assert requests_of(store, reopened) == read_again
    assert requests_of(store, warm) == set()  # which keeps its own


def test_what_a_reopened_repository_reads_the_first_one_has_too(
    store: Counting, warm: Repository
) -> None:
    cold = Repository.open(Storage(store), config(num_bytes_chunks=10_000))
    assert requests_of(store, cold.reopen()) == {"snapshots", "manifests", "chunks"}
    assert requests_of(store, cold) == set()
    del warm


async def test_reopening_asynchronously_keeps_it_too(store: Counting, warm: Repository) -> None:
    assert requests_of(store, await warm.reopen_async()) == set()
