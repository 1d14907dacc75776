"""Snapshots that are decoded once."""

import gc
from collections.abc import Buffer

import frazil
from frazil.engine.files.caches import SharedDecoded
from frazil.engine.refs.entry import initial_snapshot
from frazil.format.snapshot import Snapshot, decode_snapshot, encode_snapshot


def test_equal_files_are_one_snapshot_while_somebody_has_it() -> None:
    decoded = list[int]()

    def decode(data: Buffer, *, max_size: int) -> Snapshot:
        decoded.append(len(memoryview(data)))
        return decode_snapshot(data, max_size=max_size)

    shared = SharedDecoded(decode)
    one, other = (encode_snapshot(initial_snapshot(now_us)) for now_us in (1, 2))
    first = shared.decode(one)
    assert shared.decode(bytes(one)) is first
    assert shared.decode(other).flushed_at_us == 2  # of the same name, and another
    assert len(decoded) == 2
    del first
    gc.collect()
    shared.decode(one)
    assert len(decoded) == 3


def test_a_repository_opened_twice_has_its_nodes_once() -> None:
    storage = frazil.in_memory_storage()
    frazil.Repository.create(storage)
    one, other = (frazil.Repository.open(storage).readonly_session("main") for _ in range(2))
    assert one.engine.base is other.engine.base
