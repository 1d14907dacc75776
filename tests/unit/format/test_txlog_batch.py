"""Transaction logs that are decoded together are what each is alone."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.flatbuf.decode import decode_batch
from frazil.format.envelope import FileType, decode_envelope
from frazil.format.schemas import TRANSACTION_LOG
from frazil.format.txlog import Move, TransactionLog, decode_txlog, encode_txlog
from frazil.format.txlog_batch import decode_txlogs
from frazil.ids import NodeId, SnapshotId
from frazil.paths import NodePath
from tests.unit.format.samples import sample_log

node_ids = st.binary(min_size=8, max_size=8)
lists = st.sets(node_ids, max_size=3).map(
    lambda ids: np.frombuffer(b"".join(sorted(ids)), np.uint8).reshape(-1, 8)
)
names = st.sampled_from(["/a", "/b", "/b/é"])


@st.composite
def chunks(draw: st.DrawFn) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    ndim = draw(st.integers(0, 3))
    rows = draw(st.sets(st.tuples(*[st.integers(0, 2**32 - 1)] * ndim), max_size=4))
    return np.array(sorted(rows), dtype=np.uint32).reshape(len(rows), ndim)


moves = st.builds(
    Move,
    names.map(NodePath),
    names.map(NodePath),
    node_ids.map(NodeId),
    st.booleans(),
)
logs = st.builds(
    TransactionLog,
    st.binary(min_size=12, max_size=12).map(SnapshotId),
    *[lists] * 6,
    st.dictionaries(node_ids.map(NodeId), chunks(), max_size=3),
    st.lists(moves, max_size=2).map(tuple),
)


@given(st.lists(logs, max_size=5), st.sampled_from([1, 2]))
def test_together_they_are_what_each_is_alone(found: list[TransactionLog], version: int) -> None:
    kept = found if version == 2 else [replace(log, moved=()) for log in found]
    files = [encode_txlog(log, spec_version=version) for log in kept]
    together, alone = decode_txlogs(files), [decode_txlog(data) for data in files]
    assert len(together) == len(files)
    for one, other in zip(together, alone, strict=True):
        assert one.equals(other)
        assert [len(ids) for _, ids in one.node_lists()] == [len(i) for _, i in other.node_lists()]


def test_a_large_log_is_decoded_among_small_ones() -> None:
    index = np.random.default_rng(0).integers(0, 2**31, (50_000, 2)).astype(np.uint32)
    large = replace(sample_log(), updated_chunks={NodeId(b"abcdefgh"): index})
    files = [encode_txlog(each) for each in (sample_log(), large, sample_log())]
    assert len(files[1]) > 2**16
    assert all(
        one.equals(decode_txlog(data))
        for one, data in zip(decode_txlogs(files), files, strict=True)
    )


@given(st.data())
def test_damaged_files_are_refused_or_read(data: st.DataObject) -> None:
    payload = bytes(decode_envelope(encode_txlog(sample_log()), FileType.TRANSACTION_LOG).data)
    damaged = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    with suppress(FormatError):
        decode_batch([payload, bytes(damaged[:cut]), bytes(damaged)], TRANSACTION_LOG)


@pytest.mark.parametrize("damage", [b"", b"\0" * 7])
def test_what_is_too_short_to_be_a_buffer_is_refused(damage: bytes) -> None:
    payload = decode_envelope(encode_txlog(sample_log()), FileType.TRANSACTION_LOG).data
    with pytest.raises(FormatError):
        decode_batch([payload, damage], TRANSACTION_LOG)
