"""Verification of snapshots that are larger than its cache."""

import pytest
import zarr

import frazil
from frazil.maintenance.verify import file_checks
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.wrappers import Counting


def test_each_snapshot_is_read_once_however_many_nodes_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A log is compared with the snapshots before and after it, and both are known by then."""
    monkeypatch.setattr(file_checks, "_CACHED_NODES", 1)
    store = Counting(MemoryStore())
    repo = frazil.Repository.create(frazil.Storage(store))
    for i in range(6):
        session = repo.writable_session("main")
        zarr.create_array(session.store, name=f"a{i}", shape=(4,), chunks=(1,), dtype="i4")[:] = i
        session.commit(f"{i}")
    store.clear()
    report = frazil.Repository.open(frazil.Storage(store)).verify()
    assert not report.problems
    snapshots = len(list(store.inner.list("snapshots/")))
    assert snapshots == 7
    assert store.count("get", "snapshots/") == snapshots


def test_a_parent_that_is_not_known_any_more_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(file_checks, "_CACHED_NODES", 1)
    monkeypatch.setattr(file_checks, "_FEWEST_CACHED", 1)
    store = MemoryStore()
    repo = frazil.Repository.create(frazil.Storage(store))
    for i in range(4):
        session = repo.writable_session("main")
        group = zarr.open_group(session.store)
        array = group.create_array(f"a{i}", shape=(4, 4), chunks=(1, 2), dtype="i4")
        array[:] = i
        if i == 3:
            del group["a0"]
        session.commit(f"{i}")
    assert not frazil.Repository.open(frazil.Storage(store)).verify().problems
