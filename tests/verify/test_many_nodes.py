"""Verification of snapshots that are larger than its cache."""

from collections.abc import Buffer
from dataclasses import replace

import pytest
import zarr

import frazil
from frazil.format.envelope import Envelope, FileType, decode_envelope
from frazil.maintenance.verify import file_checks, file_reader
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


class Payload(bytes):
    """Counts those that are in memory."""

    live = most = 0

    def __init__(self, *_: object) -> None:
        Payload.live += 1
        Payload.most = max(Payload.most, Payload.live)

    def __del__(self) -> None:
        Payload.live -= 1


def test_one_large_snapshot_and_one_log_are_in_memory_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repo = frazil.Repository.create(frazil.in_memory_storage())
    for i in range(9):
        session = repo.writable_session("main")
        zarr.create_array(session.store, name=f"a{i}", shape=(4,), chunks=(1,), dtype="i4")[:] = i
        session.commit(f"{i}")
    checked = list[str]()

    def decode(data: Buffer, expected: FileType) -> Envelope:
        checked.append(expected.name)
        found = decode_envelope(data, expected)
        is_counted = expected in {FileType.SNAPSHOT, FileType.TRANSACTION_LOG}
        return replace(found, data=Payload(found.data)) if is_counted else found

    monkeypatch.setattr(file_reader, "_BYTES_TOGETHER", 0)
    monkeypatch.setattr(file_checks, "_SNAPSHOT_BYTES_AT_ONCE", 1)
    monkeypatch.setattr(file_reader, "decode_envelope", decode)
    assert not repo.verify().problems
    assert (checked.count("SNAPSHOT"), checked.count("TRANSACTION_LOG")) == (10, 10)
    assert (Payload.most, Payload.live) == (2, 0)
