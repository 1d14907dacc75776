"""Transaction logs that are decoded together are what each is alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.flatbuf.decode import decode_batch
from frazil.format.envelope import FileType, decode_envelope, encode_envelope
from frazil.format.manifest import encode_manifest
from frazil.format.projections import decode_chunk_ids, decode_manifest_files, decode_storage_refs
from frazil.format.schemas import TRANSACTION_LOG
from frazil.format.snapshot import encode_snapshot
from frazil.format.transaction_log import (
    Move,
    TransactionLog,
    decode_txlog,
    decode_txlogs,
    encode_txlog,
)
from frazil.ids import NodeId, SnapshotId
from frazil.paths import NodePath
from tests.examples_count import scaled
from tests.unit.format.samples import sample_log, sample_manifest, sample_snapshot

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


@st.composite
def damaged_payloads(draw: st.DrawFn, payload: bytes) -> bytes:
    """Some bytes replaced, by offsets that may point far ahead, and perhaps the end cut off."""
    damaged = bytearray(payload)
    for _ in range(draw(st.integers(1, 4))):
        size = draw(st.sampled_from([1, 2, 4]))
        at = size * draw(st.integers(0, len(damaged) // size - 1))
        old = int.from_bytes(damaged[at : at + size], "little")
        further = st.just((old + -(-len(payload) // 8) * 8) % 256**size)  # the next file's place
        number = draw(further | st.integers(0, 256**size - 1))
        damaged[at : at + size] = number.to_bytes(size, "little")
    return bytes(damaged[: draw(st.just(len(damaged)) | st.integers(8, len(damaged)))])


def enclose(payload: bytes, kind: FileType) -> bytes:
    return bytes(encode_envelope([payload], kind))


@settings(max_examples=scaled(40))
@given(st.data())
def test_a_damaged_log_never_reads_the_bytes_of_its_neighbours(data: st.DataObject) -> None:
    """It is refused, or is exactly what it is alone; and so are the logs beside it."""
    files = [encode_txlog(log) for log in data.draw(st.lists(logs, min_size=2, max_size=5))]
    place = data.draw(st.integers(0, len(files) - 1))
    payload = bytes(decode_envelope(files[place], FileType.TRANSACTION_LOG).data)
    files[place] = enclose(data.draw(damaged_payloads(payload)), FileType.TRANSACTION_LOG)
    try:
        together = decode_txlogs(files)
    except FormatError:
        return
    for one, file in zip(together, files, strict=True):
        assert one.equals(decode_txlog(file))


@settings(max_examples=scaled(40))
@given(st.data())
def test_a_damaged_manifest_never_reads_the_bytes_of_its_neighbours(data: st.DataObject) -> None:
    """Garbage collection would take the chunks of the one for those of the other."""
    files = [encode_manifest(sample_manifest()) for _ in range(3)]
    payload = bytes(decode_envelope(files[1], FileType.MANIFEST).data)
    files[1] = enclose(data.draw(damaged_payloads(payload)), FileType.MANIFEST)
    for decode_files in (decode_chunk_ids, lambda many: decode_storage_refs(many).chunk_id):
        try:
            together = decode_files(files)
        except FormatError:
            continue
        alone = np.concatenate([decode_files([file]) for file in files])
        np.testing.assert_array_equal(together, alone)


@settings(max_examples=scaled(40))
@given(st.data())
def test_a_damaged_snapshot_never_reads_the_bytes_of_its_neighbours(data: st.DataObject) -> None:
    files = [encode_snapshot(sample_snapshot()) for _ in range(3)]
    payload = bytes(decode_envelope(files[1], FileType.SNAPSHOT).data)
    files[1] = enclose(data.draw(damaged_payloads(payload)), FileType.SNAPSHOT)
    try:
        together = decode_manifest_files(files)
    except FormatError:
        return
    for one, file in zip(together, files, strict=True):
        np.testing.assert_array_equal(one.ids, decode_manifest_files([file])[0].ids)


def test_the_end_of_a_log_is_not_the_beginning_of_the_next() -> None:
    """Every offset of a log, in turn, is made one that leads into the log behind it."""
    payload = bytes(decode_envelope(encode_txlog(sample_log()), FileType.TRANSACTION_LOG).data)
    refused = 0
    for at in range(0, len(payload) - 4, 4):
        damaged = bytearray(payload)
        offset = int.from_bytes(payload[at : at + 4], "little") + -(-len(payload) // 8) * 8
        damaged[at : at + 4] = (offset & 0xFFFFFFFF).to_bytes(4, "little")
        file = enclose(bytes(damaged), FileType.TRANSACTION_LOG)
        try:
            alone = decode_txlog(file)
        except FormatError:
            refused += 1
            with pytest.raises(FormatError):
                decode_txlogs([file, encode_txlog(sample_log())])
        else:
            assert decode_txlogs([file, encode_txlog(sample_log())])[0].equals(alone)
    assert refused > 10


@pytest.mark.parametrize("damage", [b"", b"\0" * 7])
def test_what_is_too_short_to_be_a_buffer_is_refused(damage: bytes) -> None:
    payload = decode_envelope(encode_txlog(sample_log()), FileType.TRANSACTION_LOG).data
    with pytest.raises(FormatError):
        decode_batch([payload, damage], TRANSACTION_LOG)
