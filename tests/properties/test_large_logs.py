"""Large transaction logs are decoded by a shorter way, with the same result as by the usual one."""

import tracemalloc
from contextlib import suppress
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from frazil.errors import FormatError
from frazil.flatbuf.decode import decode
from frazil.format import transaction_log
from frazil.format.chunk_index import distinct
from frazil.format.envelope import FileType, decode_envelope, encode_envelope
from frazil.format.schemas import TRANSACTION_LOG
from frazil.format.transaction_log import (
    TransactionLog,
    decode_log_of,
    decode_log_root,
    decode_txlog,
    encode_txlog,
    encode_txlog_stream,
)
from frazil.ids import NodeId, SnapshotId
from tests.examples_count import scaled


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_log, "_LARGE_BYTES", 0)
    monkeypatch.setattr(transaction_log, "_MANY_BYTES", 1)


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """Logs in each of the layouts that there are."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    indices = {
        NodeId(bytes([node] * 8)): distinct(
            rng.integers(0, 9, (int(rng.integers(1, 40)), int(rng.integers(0, 4)))).astype("u4")
        )
        for node in range(draw(st.integers(0, 4)))
    }
    new = rng.integers(0, 256, (draw(st.integers(0, 3)), 8)).astype("u1")
    log = TransactionLog(id=SnapshotId(bytes(12)), new_arrays=new, updated_chunks=indices)
    data = encode_txlog(log) if draw(st.booleans()) else encode_txlog_stream(log, {})
    return bytes(decode_envelope(data, FileType.TRANSACTION_LOG).data)


@settings(max_examples=scaled(150))
@given(payload=payloads())
def test_a_large_log_says_what_it_says_to_the_usual_decoder(payload: bytes) -> None:
    expected = decode_log_of(decode(payload, TRANSACTION_LOG))
    assert decode_log_of(decode_log_root(payload)).equals(expected)
    file = encode_envelope([payload], FileType.TRANSACTION_LOG, level=1)
    assert decode_txlog(file).equals(expected)


@settings(max_examples=scaled(400))
@given(payload=payloads(), data=st.data())
def test_a_damaged_log_is_never_read_otherwise(payload: bytes, data: st.DataObject) -> None:
    damaged = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.sampled_from([len(damaged), len(damaged) // 2]))]
    file = encode_envelope([bytes(damaged)], FileType.TRANSACTION_LOG, level=1)
    try:
        found = decode_log_of(decode_log_root(bytes(damaged)))
    except FormatError:
        with pytest.raises(FormatError):
            decode_txlog(file)
        return
    with suppress(FormatError):  # moves may be damaged
        assert replace(decode_txlog(file), moved=()).equals(found)
    try:
        expected = decode_log_of(decode(bytes(damaged), TRANSACTION_LOG))
    except FormatError:
        return  # what the usual decoder refuses, such as gaps that do not matter here
    assert found.equals(expected)


def test_rows_that_are_stored_evenly_are_recognised() -> None:
    """Whatever wrote them: else each chunk costs four times its size in memory."""
    index = np.argwhere(np.ones((60, 70))).astype("u4")
    log = TransactionLog(id=SnapshotId(bytes(12)), updated_chunks={NodeId(bytes(8)): index})

    for data in (
        encode_txlog(log),
        encode_txlog_stream(log, {}),
    ):
        payload = decode_envelope(data, FileType.TRANSACTION_LOG).data
        chunks = transaction_log._EvenRows(payload).find_all()
        assert chunks is not None
        assert np.array_equal(chunks[0], index)


def test_a_large_log_that_is_decoded_takes_what_its_indices_take() -> None:
    """It may stay in a cache, and its file is twice as large."""
    index = np.argwhere(np.ones((500, 700))).astype("u4")
    log = TransactionLog(id=SnapshotId(bytes(12)), updated_chunks={NodeId(bytes(8)): index})
    data = encode_txlog_stream(log, {})
    tracemalloc.start()
    try:
        found = decode_txlog(data)
        kept_bytes, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.equals(log)
    assert kept_bytes < 1.2 * index.nbytes
    assert peak_bytes < 6 * index.nbytes  # 20 bytes a row and an offset to it, and the index
