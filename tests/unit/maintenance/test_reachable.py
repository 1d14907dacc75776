"""What snapshots lead to, against what the files say one by one."""

import numpy as np
import zarr

import frazil
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.format.chunk_refs import RefKind
from frazil.format.snapshot import ManifestFiles
from frazil.ids import format_ids
from frazil.maintenance.id_sets import IdSet
from frazil.maintenance.inventory import FileKind, Listing, StoredInventory, kind_of, list_files
from frazil.maintenance.reachable import (
    Budget,
    batches,
    chunks_of,
    ids_of_rows,
    manifests_of,
    reachable_rows,
    root_rows,
)
from frazil.objectstore.memory import MemoryStore


def with_history(version: int) -> frazil.Repository:
    """Three commits on main, one of them also on a branch with another, one not on any."""
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
    repository = frazil.Repository.create(frazil.in_memory_storage(), config, spec_version=version)
    for step in range(3):
        session = repository.writable_session("main")
        root = zarr.open_group(session.store, mode="a")
        array = root.create_array(f"a{step}", shape=(4,), chunks=(1,), dtype="i4")
        array[:] = np.arange(1, 5)
        session.commit(f"step {step}")
    tip = repository.lookup_branch("main")
    repository.create_branch("side", tip)
    session = repository.writable_session("side")
    zarr.open_array(session.store, path="a0")[:2] = 9
    lost = session.commit("to be forgotten")
    repository.reset_branch("side", tip)
    assert lost != tip
    return repository


def by_hand(engine: Repository) -> tuple[set[str], set[str], set[str]]:
    snapshots = {
        record.id for name in engine.branches() for record in engine.ancestry(Branch(name))
    }
    manifests, chunks = set[str](), set[str]()
    for snapshot in snapshots:
        for file in engine.files.fetch_snapshot(snapshot).manifest_files:
            manifests.add(str(file.id))
            for refs in engine.files.fetch_manifest(file.id).arrays.values():
                chunks |= set(format_ids(refs.chunk_id[refs.kind == RefKind.NATIVE]))
    return set(map(str, snapshots)), manifests, chunks


def check(version: int) -> None:
    engine = with_history(version).engine
    info = engine.repo_info()
    rows = reachable_rows(info, root_rows(info))
    snapshots = ids_of_rows(info, rows)
    manifests = manifests_of(engine.files, snapshots, budget=Budget(snapshots=2))
    chunks = chunks_of(engine.files, manifests, budget=Budget(compressed_bytes=1))
    expected = by_hand(engine)
    assert set(format_ids(snapshots)) == expected[0]
    assert format_ids(manifests.ids) == sorted(expected[1])
    assert format_ids(chunks.ids()) == sorted(expected[2])
    assert len(expected[0]) == 4
    assert len(expected[2]) >= 3  # as many as commits, or more if chunks are not packed


def test_branches_lead_to_their_files_in_version_2() -> None:
    check(2)


def test_branches_lead_to_their_files_in_version_1() -> None:
    check(1)


def test_a_store_is_listed_as_columns() -> None:
    store = MemoryStore()
    store.put("chunks/1CECHNKREP0F1RSTCMT0", b"12345")
    store.put("chunks/odd", b"1")
    store.put("chunks/1CECHNKREP0F1RSTCMTZ", b"1")  # another spelling of no id
    found = list_files(StoredInventory(store), FileKind.CHUNK)
    assert found.keys() == ["chunks/1CECHNKREP0F1RSTCMT0"]
    assert found.total_bytes == 5
    assert [each.key for each in StoredInventory(store).others("chunks/")] == [
        "chunks/1CECHNKREP0F1RSTCMTZ",
        "chunks/odd",
    ]
    assert len(Listing.none(FileKind.CHUNK)) == 0
    assert kind_of("snapshots/1CECHNKREP0F1RSTCMT0") is FileKind.SNAPSHOT
    assert kind_of("repo") is None


def test_batches_keep_to_the_budget_and_make_progress() -> None:
    count = 10
    manifests = ManifestFiles(
        np.zeros((count, 12), np.uint8),
        np.array([10, 10, 10, 0, 10, 10, 10, 10, 10, 1 << 30], np.uint64),
        np.ones(count, np.uint32),
    )
    parts = list(batches(manifests, Budget(compressed_bytes=25)))
    edges = [(0, 2), (2, 3), (3, 4), (4, 6), (6, 8), (8, 9), (9, 10)]
    assert parts == [range(*each) for each in edges]
    assert len(IdSet.of(manifests.ids)) == 1
