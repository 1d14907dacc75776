"""Manifests that are fetched before they are asked for."""

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.engine.files.caches import SingleFlight
from frazil.engine.files.object_keys import manifest_key
from frazil.engine.files.settings import (
    DEFAULT_CONDITION,
    PreloadPlan,
    PreloadRules,
    matches_preload_condition,
    plan_preload,
)
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import StorageError
from frazil.format.conditions import Bound, ManifestPreloadCondition, PreloadNumRefs
from frazil.format.config import ManifestConfig, ManifestPreloadConfig, RepositoryConfig
from frazil.format.snapshot import Snapshot
from frazil.objectstore.local import LocalStore
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.pool import BETWEEN_FORKS, Background
from frazil.objectstore.protocol import ObjectStore
from frazil.objectstore.wrappers import Counting, Verb
from frazil.paths import NodePath
from frazil.testing.hooked_store import HookedStore

ANY = ManifestPreloadCondition.true()
NAMES = {"lat": 2, "lon": 3, "t2m": 5, "time": 1}  # arrays, and how many chunks they have
PATIENCE_S = 120


def array_of(num_chunks: int) -> bytes:
    grid = {"name": "regular", "configuration": {"chunk_shape": [1]}}
    document = {"zarr_format": 3, "node_type": "array", "shape": [num_chunks], "chunk_grid": grid}
    return json.dumps(document).encode()


def filled(store: ObjectStore, sizes: dict[str, int]) -> Snapshot:
    """A repository with such arrays."""
    repository = Repository.create(store)
    session = repository.writable_session("main")
    for name, num_chunks in sizes.items():
        path = NodePath(f"/{name}")
        session.set_node(path, array_of(num_chunks))
        for index in range(num_chunks):
            session.set_chunk(path, (index,), b"chunk")
    session.commit("arrays")
    return session.base


def names_of(snapshot: Snapshot, plan: PreloadPlan) -> list[str]:
    """Arrays whose manifests these are."""
    name = {ref.id: node.path.name for node in snapshot.nodes for ref in node.array.manifests}  # type: ignore[union-attr]  # only arrays
    return [name[manifest] for manifest in plan.manifests]


def config(preload: ManifestPreloadConfig | None) -> RepositoryConfig:
    return RepositoryConfig(manifest=ManifestConfig(preload=preload))


# The plan


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return filled(MemoryStore(), NAMES)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (PreloadRules(), ["lat", "lon", "time"]),
        (PreloadRules(ANY), ["lat", "lon", "t2m", "time"]),
        (PreloadRules(ANY, max_arrays=2), ["lat", "lon"]),
        (PreloadRules(ANY, max_arrays=0), []),
        (PreloadRules(ANY, max_total_refs=5), ["lat", "lon"]),
        (PreloadRules(ANY, max_total_refs=6), ["lat", "lon", "time"]),
        (PreloadRules(ANY, max_total_refs=0), []),
        (PreloadRules(ManifestPreloadCondition.false()), []),
        (PreloadRules(ManifestPreloadCondition.num_refs(2, 5)), ["lat", "lon"]),
        (PreloadRules(ManifestPreloadCondition.name_matches("t")), ["lat", "t2m", "time"]),
        (PreloadRules(ManifestPreloadCondition.path_matches("^/t")), ["t2m", "time"]),
        (PreloadRules(ManifestPreloadCondition.name_matches("(")), []),
    ],
)
def test_the_first_arrays_that_fit_are_chosen_while_there_is_room(
    snapshot: Snapshot, rules: PreloadRules, expected: list[str]
) -> None:
    assert names_of(snapshot, plan_preload(snapshot, rules)) == expected


def test_a_manifest_of_two_arrays_is_chosen_once(snapshot: Snapshot) -> None:
    """The reference writes one for each array; the format allows more."""
    first, *others = snapshot.nodes
    assert first.array is not None
    shared = [
        replace(node, array=replace(first.array, shape=node.array.shape))
        for node in others
        if node.array is not None
    ]
    nodes = snapshot.nodes.patched(remove=[], put=[first, *shared])
    plan = plan_preload(replace(snapshot, nodes=nodes), PreloadRules(ANY))
    assert plan.manifests == (first.array.manifests[0].id,)


def test_a_manifest_that_the_snapshot_does_not_list_is_not_chosen(snapshot: Snapshot) -> None:
    assert plan_preload(replace(snapshot, manifest_files=()), PreloadRules(ANY)).manifests == ()


@pytest.mark.parametrize(
    "name", ["t", "time", "hour1", "level", "depth", "y", "nlat", "lat", "xlon"]
)
def test_coordinates_of_moderate_size_are_wanted_by_default(name: str) -> None:
    assert matches_preload_condition(DEFAULT_CONDITION, f"/some/{name}", 1000)
    assert not matches_preload_condition(DEFAULT_CONDITION, f"/some/{name}", 1001)
    assert not matches_preload_condition(DEFAULT_CONDITION, f"/{name}/temperature", 1)


def test_what_a_configuration_leaves_open_is_the_default() -> None:
    assert PreloadRules.of(None) == PreloadRules()
    assert PreloadRules.of(ManifestPreloadConfig(max_total_refs=3)) == PreloadRules(
        max_total_refs=3
    )
    assert PreloadRules.of(ManifestPreloadConfig(0, ANY, 0)) == PreloadRules(ANY, 0, 0)


bounds = st.none() | st.builds(Bound, st.integers(0, 5), included=st.booleans())


@given(bounds, bounds, st.integers(0, 6))
def test_ends_of_ranges_are_in_them_or_not(
    start: Bound | None, stop: Bound | None, number: int
) -> None:
    low = 0 if start is None else start.value + (not start.included)
    high = 99 if stop is None else stop.value - (not stop.included)
    assert matches_preload_condition(PreloadNumRefs(start, stop), "/a", number) == (
        low <= number <= high
    )
    assert matches_preload_condition(PreloadNumRefs(start, stop), "/a", None)


# What comes of it


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def idle(repository: Repository) -> bool:
    return repository._files.caches.background._running == 0


@pytest.mark.parametrize(
    "open_session", [Repository.writable_session, Repository.rearrange_session]
)
def test_reading_what_was_preloaded_makes_no_request_for_manifests(
    open_session: Callable[[Repository, str], Session],
) -> None:
    store = Counting(MemoryStore())
    base = filled(store, NAMES)
    repository = Repository.open(store)
    store.clear()
    session = open_session(repository, "main")
    wait_until(lambda: store.count("get", "manifests/") == 3 and idle(repository))
    fetched = {one.key for one in store.requests if one.key.startswith("manifests/")}
    assert fetched == {manifest_key(one) for one in plan_preload(base, PreloadRules()).manifests}
    store.clear()
    for name in ("lat", "lon", "time"):
        assert session.fetch_chunk(NodePath(f"/{name}"), (0,)) == b"chunk"
    assert store.requests == []
    assert session.fetch_chunk(NodePath("/t2m"), (0,)) == b"chunk"
    assert store.count("get", "manifests/") == 1


def test_a_second_session_finds_them_in_memory() -> None:
    store = Counting(MemoryStore())
    filled(store, NAMES)
    repository = Repository.open(store)
    first = repository.writable_session("main")
    wait_until(lambda: store.count("get", "manifests/") == 3 and idle(repository))
    store.clear()
    second = repository.writable_session("main")
    wait_until(lambda: idle(repository))
    assert store.count("get", "manifests/") == 0
    del first, second


@pytest.mark.parametrize(
    "preload",
    [
        ManifestPreloadConfig(max_total_refs=0),
        ManifestPreloadConfig(max_arrays_to_scan=0),
        ManifestPreloadConfig(preload_if=ManifestPreloadCondition.false()),
    ],
)
def test_preloading_can_be_switched_off(preload: ManifestPreloadConfig) -> None:
    store = Counting(MemoryStore())
    filled(store, NAMES)
    repository = Repository.open(store, config(preload))
    store.clear()
    session = repository.writable_session("main")
    assert idle(repository)
    assert store.count("get", "manifests/") == 0
    assert session.fetch_chunk(NodePath("/lat"), (0,)) == b"chunk"


class Slow(HookedStore[ObjectStore]):
    """Answers about manifests when it may."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner, before=self._wait)
        self.asked, self.may_answer = Event(), Event()
        self.failing = False

    def _wait(self, verb: Verb, key: str) -> None:
        if verb == "get" and key.startswith("manifests/"):
            self.asked.set()
            assert self.may_answer.wait(PATIENCE_S)
            if self.failing:
                raise StorageError("not now")


@pytest.fixture
def counted() -> Counting:
    return Counting(MemoryStore())


@pytest.fixture
def slow(counted: Counting) -> Iterator[Slow]:
    filled(counted, NAMES)
    made = Slow(counted)
    yield made
    made.may_answer.set()


def test_opening_does_not_wait_and_reading_joins_in(slow: Slow, counted: Counting) -> None:
    repository = Repository.open(slow)
    counted.clear()
    session = repository.writable_session("main")
    assert slow.asked.wait(PATIENCE_S)
    pool = repository._files.pool
    names = ["lat", "lon", "time"] * 3

    def read(name: str) -> bytes:
        if name == "time":
            slow.may_answer.set()
        return bytes(session.fetch_chunk(NodePath(f"/{name}"), (0,)) or b"")

    assert pool.map(read, names) == [b"chunk"] * 9
    wait_until(lambda: idle(repository))
    assert counted.count("get", "manifests/") == 3


def test_what_fails_in_the_background_is_met_again_by_the_reader(
    slow: Slow, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="frazil")
    repository = Repository.open(slow)
    slow.failing = True
    slow.may_answer.set()
    session = repository.writable_session("main")
    wait_until(lambda: "not now" in caplog.text)
    with pytest.raises(StorageError, match="not now"):
        session.fetch_chunk(NodePath("/lat"), (0,))
    slow.failing = False
    assert session.fetch_chunk(NodePath("/lat"), (0,)) == b"chunk"


def test_nothing_more_is_fetched_for_a_session_that_is_gone(slow: Slow, counted: Counting) -> None:
    preload = ManifestPreloadConfig(preload_if=ANY)
    repository = Repository.open(slow, config(preload))
    repository._files.caches.background._width = 1
    counted.clear()
    session = repository.writable_session("main")
    assert slow.asked.wait(PATIENCE_S)
    del session
    gc.collect()
    slow.may_answer.set()
    wait_until(lambda: idle(repository))
    assert counted.count("get", "manifests/") == 1  # that which was under way


# How


def test_a_background_does_its_work_in_order_and_forgets_what_is_too_much() -> None:
    background, done, go = Background(width=1, waiting=3), [], Event()
    began = Event()

    def first() -> None:
        began.set()
        go.wait(PATIENCE_S)

    background.submit(first)
    assert began.wait(PATIENCE_S)
    for number in range(5):
        background.submit(lambda number=number: done.append(number))  # type: ignore[misc]  # inferred
    go.set()
    wait_until(lambda: len(done) == 3)
    assert done == [2, 3, 4]


def test_a_child_of_a_fork_begins_with_no_work_and_no_lock_taken() -> None:
    background = Background()
    background._running = 4
    background._process = os.getpid() - 1
    done = Event()
    background.submit(done.set)
    assert done.wait(PATIENCE_S)
    wait_until(lambda: not BETWEEN_FORKS.locked())


FORKING = """
import os, sys, threading, time
from frazil.objectstore.local import LocalStore
from frazil.paths import NodePath
from frazil.engine.repository import Repository

repository = Repository.open(LocalStore(sys.argv[1]))
for _ in range(20):
    repository = repository.__reduce__()[0](*repository.__reduce__()[1])  # with nothing in memory
    session = repository.writable_session("main")  # begins to preload
    child = os.fork()
    if child == 0:
        threading.Timer(20, lambda: os._exit(3)).start()
        read = [session.fetch_chunk(NodePath("/" + name), (0,)) for name in ("lat", "lon", "time")]
        os._exit(0 if read == [b"chunk"] * 3 else 4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_a_process_can_be_forked_while_it_preloads(tmp_path: Path) -> None:
    filled(LocalStore(tmp_path), NAMES)
    command = [sys.executable, "-W", "ignore", "-c", FORKING, str(tmp_path)]
    subprocess.run(command, check=True, timeout=60)


def test_whoever_waits_for_a_load_that_fails_loads_for_themselves() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    tries: list[int] = []
    going, may_fail = Event(), Event()
    background = Background()

    def fail(_: str) -> int:
        going.set()
        may_fail.wait(PATIENCE_S)
        raise StorageError("no")

    background.submit(lambda: flights.load("a", fail))
    assert going.wait(PATIENCE_S)
    background.submit(lambda: tries.append(flights.load("a", lambda _: 1)))
    may_fail.set()
    wait_until(lambda: tries == [1])
    assert flights.load("a", lambda _: 2) == 2  # nothing is remembered
