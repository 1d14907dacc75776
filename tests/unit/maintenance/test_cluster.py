"""Actions whose chunk ids stay with the workers of a cluster do what threads of a process do."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from frazil.api import Repository, Storage
from frazil.clock import from_datetime
from frazil.errors import ObjectNotFoundError, StorageError
from frazil.format.chunk_refs import ChunkRefs
from frazil.ids import parse_ids
from frazil.maintenance.copying.bundle import plan_export
from frazil.maintenance.copying.clone import clone, plan_clone
from frazil.maintenance.executor import Executor, ThreadExecutor, quiet_files, split_shares
from frazil.maintenance.gc import GCRequest, collect_garbage, plan_gc
from frazil.maintenance.inventory import FileKind
from frazil.maintenance.relocate import random_ids
from frazil.maintenance.summaries import GCSummary
from frazil.maintenance.verify.verify_store import unopened_files, verify
from frazil.objectstore.memory import MemoryStore
from frazil.paths import NodePath
from tests.unit.maintenance.local_cluster import LocalCluster
from tests.unit.maintenance.moved import commit, made, opened, seen
from tests.unit.maintenance.test_collect import on, with_garbage
from tests.verify.damage import Damage, copied, healthy
from tests.verify.damages import FILES, MANIFEST


def keys(store: MemoryStore, prefix: str = "") -> dict[str, bytes]:
    return {info.key: bytes(store.get(info.key).data) for info in store.list(prefix)}


def cluster_of(repo: Repository) -> LocalCluster:
    return LocalCluster(quiet_files(repo.engine))


def test_ids_are_divided_by_their_first_byte() -> None:
    ids = random_ids(1000)
    rows = []
    for share, some in split_shares(ids):
        assert set(ids[some, 0].tolist()) == {share}
        rows += some.tolist()
    assert sorted(rows) == list(range(1000))
    assert not list(split_shares(ids[:0]))


# Garbage collection


def collect(
    repo: Repository, executor: Executor, cutoff_us: int, *, incremental: bool
) -> GCSummary:
    request = GCRequest(cutoff_us=cutoff_us, incremental=incremental)
    plan = plan_gc(repo.engine, request, executor)
    done = collect_garbage(repo.engine, plan, executor)
    assert done == plan.summary()
    return done


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("version", [1, 2])
def test_the_same_garbage_goes(version: int, *, incremental: bool) -> None:
    kept, stores = with_garbage(version), (MemoryStore(), MemoryStore())
    kept.store.put("chunks/1CECHNKREP0F1RSTCMT0", b"an orphan of a job that died")
    one, two = (on(store, kept) for store in stores)
    cutoff = one.engine.clock() + 1_000_000
    threads = ThreadExecutor(quiet_files(one.engine))
    here = collect(one, threads, cutoff, incremental=incremental)
    there = collect(two, cluster_of(two), cutoff, incremental=incremental)
    assert there == replace(here, peak_memory_bytes=there.peak_memory_bytes)
    assert there.peak_memory_bytes <= here.peak_memory_bytes
    assert here.chunks_deleted == 3 + (not incremental)
    assert keys(stores[0], "chunks/") == keys(stores[1], "chunks/")
    assert keys(stores[0], "manifests/") == keys(stores[1], "manifests/")


def test_a_chunk_that_a_commit_refers_to_since_the_plan_stays() -> None:
    kept = with_garbage()
    kept.store.put("chunks/1CECHNKREP0F1RSTCMT0", b"eight by")
    engine, executor = kept.repository.engine, cluster_of(kept.repository)
    request = GCRequest(cutoff_us=from_datetime(kept.later(days=1)))
    plan = plan_gc(engine, request, executor)
    assert len(plan.garbage[FileKind.CHUNK]) == 4
    session = engine.writable_session("main")
    path = next(node.path for node in session.nodes() if node.array is not None)
    ids, _ = parse_ids(["1CECHNKREP0F1RSTCMT0"])
    nothing, ndim = np.zeros(1, np.uint64), len(session.node(path).array.shape)  # type: ignore[union-attr]
    refs = ChunkRefs.native(np.zeros((1, ndim), np.uint32), ids, nothing, nothing + 8)
    session.set_chunk_refs(NodePath(path.text), refs)
    session.commit("it is of use after all")
    assert collect_garbage(engine, plan, executor).chunks_deleted == 3
    assert "chunks/1CECHNKREP0F1RSTCMT0" in kept.keys("chunks/")


# Verification


@cache
def once(spec_version: int) -> MemoryStore:
    return healthy(spec_version)


def require_same_report(store: MemoryStore) -> int:
    here = verify(store)
    there = verify(store, LocalCluster(unopened_files(store)))
    assert list(map(str, there.problems)) == list(map(str, here.problems))
    assert (there.refs, there.files, there.total_bytes) == (here.refs, here.files, here.total_bytes)
    assert there.unreferenced == here.unreferenced
    return len(here.problems)


@pytest.mark.parametrize(
    "damage", [*FILES, *MANIFEST], ids=lambda one: f"v{one.spec_version} {one.name}"
)
def test_the_same_damage_is_found(damage: Damage) -> None:
    store = copied(once(damage.spec_version))
    damage.plant(store)
    assert require_same_report(store)


def test_nothing_is_found_where_nothing_is() -> None:
    store = copied(once(2))
    store.put("chunks/1CECHNKREP0F1RSTCMT0", b"garbage")
    assert require_same_report(store) == 0


def test_many_missing_and_short_chunks_are_found() -> None:
    store = copied(once(2))
    chunks = sorted(keys(store, "chunks/"))
    store.delete(chunks[::2])
    for key in chunks[1::2]:
        store.put(key, b"?")
    assert require_same_report(store) >= len(chunks)


# Copies


@pytest.mark.parametrize("spec_version", [1, 2])
def test_a_copy_is_the_same_and_later_gets_only_what_is_new(spec_version: int) -> None:
    source, here, there = (
        made(MemoryStore(), spec_version=spec_version),
        MemoryStore(),
        MemoryStore(),
    )
    for step in range(3):
        local = clone(plan_clone(source.engine, here))
        plan = plan_clone(source.engine, there, cluster_of(source))
        assert plan.chunks is not None
        assert not len(plan.missing[0])  # no chunk is here
        done = clone(plan, cluster_of(source), check_contents=True)
        assert done == replace(local, seconds=done.seconds)
        assert keys(there, "chunks/") == keys(here, "chunks/")
        assert seen(opened(there)) == seen(source)
        if step:
            commit(source, "main", 8 + step)
    assert done.copied > 0


def test_damage_at_the_target_is_repaired_and_found_if_asked() -> None:
    source, target = made(MemoryStore()), MemoryStore()

    def copy(*, check: bool = False) -> int:
        plan = plan_clone(source.engine, target, cluster_of(source))
        return clone(plan, cluster_of(source), check_contents=check).copied

    copy()
    short, same, lost = sorted(keys(target, "chunks/"))[:3]
    target.put(short, b"cut off")
    target.delete([lost])
    assert copy() == 2
    target.put(same, bytes(len(target.get(same).data)))
    assert copy() == 0
    with pytest.raises(StorageError, match=same):
        copy(check=True)


def test_nothing_is_published_if_an_object_is_missing_or_did_not_arrive() -> None:
    source = made(store := MemoryStore())

    class Forgetful(MemoryStore):
        def put(self, key: str, data: Any, **options: Any) -> str:
            return super().put(key, b"" if key.startswith("chunks/") else data, **options)

    target = Forgetful()
    with pytest.raises(StorageError, match=r"chunks/.* did not arrive"):
        clone(plan_clone(source.engine, target, cluster_of(source)), cluster_of(source))
    assert not Repository.exists(Storage(target))
    lost = min(keys(store, "chunks/"))
    store.delete([lost])
    with pytest.raises(ObjectNotFoundError, match=lost):
        plan_clone(source.engine, MemoryStore(), cluster_of(source))


def test_what_the_receiver_has_is_left_out() -> None:
    source = made(MemoryStore())
    basis = [source.engine.lookup_branch("main")]
    commit(source, "main", 9)
    here = plan_export(source.engine, basis=basis)
    there = plan_export(source.engine, cluster_of(source), basis=basis)
    assert (there.objects, there.bytes) == (here.objects, here.bytes)
    assert there.result() == here.result()
    assert there.objects < plan_export(source.engine).objects
