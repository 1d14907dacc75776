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
LARGE = 32 * SIDE * SIDE  # bytes of rows with a vtable each
SMALL = 24 * SIDE * SIDE  # and with one for all


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


@pytest.mark.parametrize("max_bytes", [LARGE + 1000, LARGE - 1, SMALL + 1000])
def test_the_reference_reads_a_log_that_just_fits(tmp_path: Path, max_bytes: int) -> None:
    repo = frazil.Repository.create(frazil.Storage(LocalStore(tmp_path, fsync=False)))
    session = changed(repo)
    limit(session, max_bytes)
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
    limit(session, SMALL - 1)
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
    limit(session, SMALL + 1000)
    session.commit("now they fit")


def test_an_amendment_that_cannot_fit_writes_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, fsync=False)
    repo = frazil.Repository.create(frazil.Storage(store))
    changed(repo).commit("chunks")
    session = repo.writable_session("main")
    data = default_buffer_prototype().buffer.from_bytes(b"x")
    sync(session.store.set("a/c/0/0", data))
    before = {info.key for info in store.list()}
    limit(session, SMALL - 1)
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
    monkeypatch.setattr(Files, "max_log_bytes", SMALL - 1)
    with pytest.raises(FormatError, match="several commits"):
        repo.squash(first, tip, branch="main", message="both")
    assert {info.key for info in store.list()} == before
    monkeypatch.undo()
    repo.squash(first, tip, branch="main", message="both")


def test_the_limit_of_the_format_is_known_without_chunks() -> None:
    require_log_fits([(89_000_000, 2)])
    require_log_fits([(107_000_000, 1)])
    with pytest.raises(FormatError, match=r"100,000,000 changed chunks.*up to 89,478,4"):
        require_log_fits([(100_000_000, 2)])


@settings(max_examples=scaled(60))
@given(st.data())
def test_a_log_whose_rows_share_a_vtable_says_the_same(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    indices = {
        NodeId(bytes([node] * 8)): distinct(
            rng.integers(0, 9, (int(rng.integers(1, 300)), int(rng.integers(1, 5)))).astype("u4")
        )
        for node in range(data.draw(st.integers(1, 4)))
    }
    log = TransactionLog(id=SnapshotId(bytes(12)), updated_chunks=indices)
    plain = encode_txlog_stream(log, {})
    shared = sum(24 + 20 + len(index) * (16 + 4 * index.shape[1]) for index in indices.values())
    dense = encode_txlog_stream(log, {}, max_bytes=shared + 300)
    assert decode_txlog(plain).equals(log)
    assert decode_txlog(dense).equals(log)
    sets = {node: [ChunkSet.of(index)] for node, index in indices.items()}
    as_sets = encode_txlog_stream(TransactionLog(id=log.id), sets, max_bytes=shared + 300)
    assert as_sets == dense


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
    chunks = transaction_log._EvenRows(np.frombuffer(payload, np.uint8)).find_all()
    assert chunks is not None
    assert np.array_equal(chunks[0], np.argwhere(np.ones((300, 200))))
