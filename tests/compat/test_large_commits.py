"""Commits whose transaction log is at the limit of the format, here a small one."""

import re
from pathlib import Path

import hypothesis.strategies as st
import icechunk
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

import frazil
from frazil.engine.files.files import Files
from frazil.errors import FormatError
from frazil.format import transaction_log
from frazil.format.chunk_index import ChunkSet, distinct
from frazil.format.envelope import FileType, decode_envelope
from frazil.format.transaction_log import (
    TransactionLog,
    decode_txlog,
    encode_txlog_stream,
    require_log_fits,
)
from frazil.ids import NodeId, SnapshotId
from frazil.objectstore.local import LocalStore
from tests.examples_count import scaled

SIDE = 110  # more than 10,000 chunks: from there on logs are written as a stream


def payload_bytes(index: np.ndarray) -> int:
    """Size of the log of a commit that changed these chunks of one array."""
    log = TransactionLog(SnapshotId(bytes(12)), updated_chunks={NodeId(bytes(8)): index})
    file = encode_txlog_stream(log, {})
    return len(decode_envelope(file, FileType.TRANSACTION_LOG).data)


SIZE = payload_bytes(np.argwhere(np.ones((SIDE, SIDE))).astype(np.uint32))
TOO_SMALL = SIZE - 1000  # for the chunks alone


def changed(repo: frazil.Repository) -> frazil.Session:
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(SIDE, SIDE), chunks=(1, 1), dtype="u1")
    session.commit("array")
    session = repo.writable_session("main")
    session.store.set_virtual_refs_arr(
        "a",
        (SIDE, SIDE),
        ["s3://bucket/file"] * SIDE**2,
        np.arange(SIDE**2, dtype=np.uint64),
        np.ones(SIDE**2, dtype=np.uint64),
        validate_containers=False,
    )
    return session


def limit(session: frazil.Session, max_bytes: int) -> None:
    session._engine.files.max_log_bytes = max_bytes


def test_the_reference_reads_a_log_that_just_fits(tmp_path: Path) -> None:
    repo = frazil.Repository.create(frazil.Storage(LocalStore(tmp_path, fsync=False)))
    session = changed(repo)
    limit(session, SIZE)
    before = session.snapshot_id
    tip = session.commit("chunks")
    there = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path)))
    theirs = there.diff(from_snapshot_id=before, to_snapshot_id=tip).updated_chunks
    ours = repo.diff(from_snapshot_id=before, to_snapshot_id=tip).updated_chunks
    assert {path: sorted(chunks) for path, chunks in theirs.items()} == {
        "/a": [[i, j] for i in range(SIDE) for j in range(SIDE)]
    }
    assert {path: sorted(map(list, chunks)) for path, chunks in ours.items()} == {
        path: sorted(chunks) for path, chunks in theirs.items()
    }


def test_a_commit_that_cannot_fit_writes_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, fsync=False)
    repo = frazil.Repository.create(frazil.Storage(store))
    session = changed(repo)
    limit(session, TOO_SMALL)
    before = {info.key for info in store.list()}
    with pytest.raises(FormatError, match=f"{SIDE**2:,} changed chunks.*several commits") as error:
        session.commit("too many")
    assert {info.key for info in store.list()} == before
    most = re.search(r"up to ([\d,]+) such chunks", str(error.value))
    assert most is not None
    assert SIDE**2 * 0.99 < int(most[1].replace(",", "")) < SIDE**2
    with pytest.raises(FormatError, match="several commits"):
        session.amend("too many")
    assert {info.key for info in store.list()} == before
    assert session.has_uncommitted_changes
    limit(session, SIZE)
    session.commit("now they fit")


def test_an_amendment_that_cannot_fit_writes_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, fsync=False)
    repo = frazil.Repository.create(frazil.Storage(store))
    changed(repo).commit("chunks")
    session = repo.writable_session("main")
    data = default_buffer_prototype().buffer.from_bytes(b"x")
    sync(session.store.set("a/c/0/0", data))
    before = {info.key for info in store.list()}
    limit(session, TOO_SMALL)
    with pytest.raises(FormatError, match="several commits"):
        session.amend("more")
    assert {info.key for info in store.list()} == before


def test_commits_that_do_not_fit_into_one_are_not_squashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path, fsync=False)
    repo = frazil.Repository.create(frazil.Storage(store))
    session = changed(repo)
    first = session.snapshot_id
    tip = session.commit("chunks")
    before = {info.key for info in store.list()}
    monkeypatch.setattr(Files, "max_log_bytes", TOO_SMALL)
    with pytest.raises(FormatError, match="several commits"):
        repo.squash(first, tip, branch="main", message="both")
    assert {info.key for info in store.list()} == before
    monkeypatch.undo()
    repo.squash(first, tip, branch="main", message="both")


def test_the_limit_of_the_format_is_known_without_chunks() -> None:
    require_log_fits([(89_000_000, 2)])
    require_log_fits([(107_000_000, 1)])
    with pytest.raises(FormatError, match=r"100,000,000 changed chunks.*up to 89,24"):
        require_log_fits([(100_000_000, 2)])


@settings(max_examples=scaled(60))
@given(st.data())
def test_a_log_with_stripes_says_what_was_encoded(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    indices = {}
    for node in range(data.draw(st.integers(1, 3))):
        ndim = data.draw(st.integers(1, 5))
        side = round(20_000 ** (1 / ndim)) + 1
        count = data.draw(st.sampled_from([1, 40, 4_200, 4_800, 6_000, 20_000]))
        index = distinct(rng.integers(0, side, (count, ndim)).astype("u4"))
        indices[NodeId(bytes([node] * 8))] = index
    log = TransactionLog(id=SnapshotId(bytes(12)), updated_chunks=indices)
    file = encode_txlog_stream(log, {})
    assert decode_txlog(file).equals(log)
    sets = {node: [ChunkSet.of(index)] for node, index in indices.items()}
    assert encode_txlog_stream(TransactionLog(id=log.id), sets) == file


def test_large_logs_of_the_reference_are_decoded_by_the_shorter_way(tmp_path: Path) -> None:
    repo = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path)))
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(300, 200), chunks=(1, 1), dtype="u1")
    refs = [
        icechunk.VirtualChunkSpec([i, j], "s3://bucket/file", 0, 1)
        for i in range(300)
        for j in range(200)
    ]
    session.store.set_virtual_refs("a", refs, validate_containers=False)
    tip = session.commit("chunks")
    data = (tmp_path / "transactions" / tip).read_bytes()
    payload = decode_envelope(data, FileType.TRANSACTION_LOG).data
    assert len(payload) > transaction_log._LARGE_BYTES
    chunks = transaction_log._EvenRows(payload).find_all()
    assert chunks is not None
    assert np.array_equal(chunks[0], np.argwhere(np.ones((300, 200))))
