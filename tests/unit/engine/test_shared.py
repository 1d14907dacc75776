"""Snapshots that are decoded once."""

import gc
import secrets
from collections.abc import Buffer
from dataclasses import replace

import pytest

import frazil
from frazil.engine.files import caches
from frazil.engine.files.caches import SharedDecoded
from frazil.engine.refs.entry import initial_snapshot
from frazil.format.snapshot import Snapshot, decode_snapshot, encode_snapshot


def test_equal_files_are_one_snapshot_while_it_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "_KEPT_BYTES", 0)
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


def test_the_last_small_ones_are_kept_for_the_next_use() -> None:
    decoded = list[bytes]()

    def decode(data: Buffer, *, max_size: int) -> Snapshot:
        decoded.append(bytes(data))
        return decode_snapshot(data, max_size=max_size)

    shared = SharedDecoded(decode)
    files = [encode_snapshot(initial_snapshot(now_us)) for now_us in range(6)]
    large = encode_snapshot(replace(initial_snapshot(9), message=secrets.token_hex(1 << 18)))
    for data in (*files, large, *files[::-1], large):
        shared.decode(data)
        gc.collect()
    assert decoded == [*files, large, files[1], files[0], large]


def test_a_repository_opened_twice_has_its_nodes_once() -> None:
    storage = frazil.in_memory_storage()
    frazil.Repository.create(storage)
    one, other = (frazil.Repository.open(storage).readonly_session("main") for _ in range(2))
    assert one.engine.base is other.engine.base
