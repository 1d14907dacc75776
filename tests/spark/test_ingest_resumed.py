"""An ingest that failed or was killed: a rerun stores only the rest, and the result is the same."""

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import h5py
import icechunk
import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil
from frazil.engine.files.object_keys import CHUNKS, chunk_key
from frazil.errors import FormatError
from frazil.format.chunk_refs import ChunkRefs, Inline, Native, Payload
from frazil.ids import ChunkId
from frazil.objectstore import LocalStore
from frazil.spark.ingestion import tasks as record_rules
from frazil.spark.ingestion.ingest import ingest
from frazil.spark.ingestion.tasks import Records
from frazil.spark.runtime import jobs
from tests.servers.http_files import HttpServer
from tests.sources.places import on_the_web
from tests.spark.test_ingest import concatenated, stored, tip

DAYS, HOURS = 4, 24
ROOT = Path(__file__).parents[2]


def write_day(folder: Path, day: int, seed: int = 0) -> Path:
    """One chunk of 12 kB for each day, which is stored as an object."""
    time_ = np.datetime64("2024-03-01", "ns") + (HOURS * day + np.arange(HOURS)) * np.timedelta64(
        1, "h"
    )
    values = np.random.default_rng(100 * seed + day).normal(280, 9, (HOURS, 8, 16)).astype("f4")
    made = xr.Dataset({"t": (("time", "y", "x"), values)}, coords={"time": time_})
    encoding: dict[str, dict[str, Any]] = {
        "time": {"units": "hours since 2024-01-01", "dtype": "i4"},
        "t": {"zlib": True, "chunksizes": (HOURS, 8, 16)},
    }
    path = folder / f"{day}.nc"
    made.to_netcdf(path, engine="h5netcdf", encoding=encoding)
    return path


def objects(repo: frazil.Repository) -> set[str]:
    """Chunks, and records beside them."""
    return {info.key for info in repo.engine.store.list(CHUNKS)}


def referred(repo: frazil.Repository) -> set[str]:
    session = repo.readonly_session("main").engine
    return {
        chunk_key(ChunkId(row.tobytes()))
        for node in session.nodes()
        if node.array is not None
        for refs in session.chunk_refs(node.path)
        for row in refs.chunk_id
        if row.any()
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "files"
    made.mkdir()
    for day in range(DAYS):
        write_day(made, day)
    return made


@pytest.fixture
def repo(tmp_path: Path) -> frazil.Repository:
    return frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))


OPTIONS: dict[str, Any] = {"concat_dim": "time", "chunks": {"time": HOURS}, "progress": False}


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task for each day."""
    monkeypatch.setattr(jobs, "MIN_TASK_BYTES", 1)
    monkeypatch.setattr(jobs, "MAX_TASK_BYTES", 4 * HOURS * 8 * 16)


class Killed(BaseException):
    pass


def fail_before_the_commit(
    spark: SparkSession, folder: Path, repo: frazil.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(sys.modules["frazil.spark.ingestion.ingest"], "commit_once", die)
        with pytest.raises(Killed):
            ingest(spark, folder, repo, **OPTIONS)


# ---- with Spark ----------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.usefixtures("small_tasks")
def test_what_a_failed_run_stored_is_not_stored_again(
    spark: SparkSession, folder: Path, repo: frazil.Repository
) -> None:
    bad = folder / "3.nc"
    good = bad.read_bytes()
    with h5py.File(bad) as file:
        where = file["t"].id.get_chunk_info(0)
    bad.write_bytes(
        good[: where.byte_offset] + bytes(where.size) + good[where.byte_offset + where.size :]
    )
    with pytest.raises(FormatError, match=r"3\.nc"):
        ingest(spark, folder, repo, **OPTIONS)
    left = objects(repo)
    bad.write_bytes(good)

    result = ingest(spark, folder, repo, **OPTIONS)

    xr.testing.assert_identical(stored(repo), concatenated(sorted(folder.glob("*.nc"))))
    assert 0 < result.reused_chunks < DAYS
    assert referred(repo) <= objects(repo) - left  # what is reused has a name of this run
    assert len(objects(repo) - referred(repo)) == result.reused_chunks  # and no record is left


@pytest.mark.spark
@pytest.mark.usefixtures("small_tasks")
def test_a_changed_file_is_read_again_and_others_are_not(
    spark: SparkSession,
    folder: Path,
    repo: frazil.Repository,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fail_before_the_commit(spark, folder, repo, monkeypatch)
    before = tip(repo)
    left = objects(repo)
    write_day(folder, 1, seed=1)

    result = ingest(spark, folder, repo, **OPTIONS)

    xr.testing.assert_identical(stored(repo), concatenated(sorted(folder.glob("*.nc"))))
    assert result.reused_chunks == DAYS - 1
    assert len(objects(repo) - left) == DAYS  # the times are in the reference
    assert len(list(repo.ancestry(branch="main"))) == 2
    assert before != tip(repo)


@pytest.mark.spark
@pytest.mark.usefixtures("small_tasks")
def test_chunks_that_were_collected_as_garbage_are_stored_again(
    spark: SparkSession,
    folder: Path,
    repo: frazil.Repository,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fail_before_the_commit(spark, folder, repo, monkeypatch)
    sizes = {info.key: info.size_bytes for info in repo.engine.store.list(CHUNKS)}
    chunks = sorted(sizes, key=lambda key: sizes[key])[-DAYS:]
    repo.engine.store.delete(chunks[:1])

    result = ingest(spark, folder, repo, **OPTIONS)

    assert result.reused_chunks == DAYS - 1
    xr.testing.assert_identical(stored(repo), concatenated(sorted(folder.glob("*.nc"))))


@pytest.mark.spark
@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("engine", [frazil, icechunk], ids=["frazil", "icechunk"])
def test_what_is_reused_stays_if_garbage_is_collected_before_the_commit(
    spark: SparkSession,
    folder: Path,
    repo: frazil.Repository,
    monkeypatch: pytest.MonkeyPatch,
    engine: Any,
) -> None:
    """With the latest cutoff that is allowed: the start of the run. In between at every request:
    tests/spark/test_reuse_here.py."""
    fail_before_the_commit(spark, folder, repo, monkeypatch)
    place = folder.parent / "repo"
    for one in (place / "chunks").iterdir():
        os.utime(one, (time.time() - 3600,) * 2)
    started = datetime.now(UTC) - timedelta(seconds=1)  # clocks of filesystems are coarse
    module = sys.modules["frazil.spark.ingestion.ingest"]
    commit, deleted = module.commit_once, list[int]()

    def collect_first(*args: Any, **options: Any) -> Any:
        there = engine.Repository.open(engine.local_filesystem_storage(str(place)))
        deleted.append(there.garbage_collect(started).chunks_deleted)
        return commit(*args, **options)

    monkeypatch.setattr(module, "commit_once", collect_first)
    result = ingest(spark, folder, repo, **OPTIONS)

    assert result.reused_chunks == DAYS
    assert len(deleted) == 1
    assert objects(repo) >= referred(repo)
    xr.testing.assert_identical(stored(repo), concatenated(sorted(folder.glob("*.nc"))))


@pytest.mark.spark
@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("engine", [frazil, icechunk], ids=["frazil", "icechunk"])
def test_to_garbage_collection_records_are_garbage(
    spark: SparkSession,
    folder: Path,
    repo: frazil.Repository,
    monkeypatch: pytest.MonkeyPatch,
    engine: Any,
) -> None:
    fail_before_the_commit(spark, folder, repo, monkeypatch)
    place = str(folder.parent / "repo")
    collecting = engine.Repository.open(engine.local_filesystem_storage(place))
    told = collecting.garbage_collect(datetime.now(UTC) + timedelta(hours=1))
    assert told.chunks_deleted == 2 * DAYS
    assert objects(repo) == set()

    result = ingest(spark, folder, repo, **OPTIONS)

    assert result.reused_chunks == 0
    xr.testing.assert_identical(stored(repo), concatenated(sorted(folder.glob("*.nc"))))


@pytest.mark.spark
@pytest.mark.usefixtures("small_tasks")
def test_other_work_does_not_take_what_is_on_record(
    spark: SparkSession,
    folder: Path,
    repo: frazil.Repository,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fail_before_the_commit(spark, folder, repo, monkeypatch)

    others: list[dict[str, Any]] = [
        {"chunks": {"time": 6}},
        {"group": "other"},
        {"resume": False},
        {"idempotency_key": "k"},
    ]
    for number, options in enumerate(others):
        result = ingest(spark, folder, repo, **{"group": f"g{number}", **OPTIONS, **options})
        assert result.reused_chunks == 0


@pytest.mark.spark
def test_references_found_in_sources_elsewhere_are_not_looked_for_again(
    spark: SparkSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HttpServer(folder) as server:
        place = on_the_web(folder, server)
        virtual = place.repository(tmp_path / "virtual")
        urls = [f"{place.prefix}{day}.nc" for day in range(DAYS)]
        asked: dict[str, Any] = {"concat_dim": "time", "virtual": True, "progress": False}

        def die(*_: object, **__: object) -> None:
            raise Killed

        with monkeypatch.context() as patched:
            patched.setattr(sys.modules["frazil.spark.ingestion.ingest"], "commit_once", die)
            with pytest.raises(Killed):
                ingest(spark, urls, virtual, **asked)
        first = server.count()
        on_record = objects(virtual)
        result = ingest(spark, urls, virtual, **asked)
        second = server.count() - first

        assert len(on_record) == DAYS
        assert objects(virtual) == set()
        assert result.virtual_chunks > 0
        assert second < first
        found = stored(virtual)
    xr.testing.assert_identical(found, concatenated(sorted(folder.glob("*.nc"))))


SCRIPT = """
import sys
from pathlib import Path

from frazil.engine.repository import Repository
from frazil.spark.runtime import jobs
from frazil.spark.ingestion.ingest import ingest
from frazil.spark.spark_session import session
from tests.spark.test_ingest_resumed import OPTIONS, HeldStore

folder, place = sys.argv[1:]
jobs.MIN_TASK_BYTES, jobs.MAX_TASK_BYTES = 1, 4 * 24 * 8 * 16
log = Path(place + ".log")
spark = session(app_name="doomed", master="local[1]", short_lived=True, log_path=log)
ingest(spark, folder, Repository.open(HeldStore(place)), **OPTIONS)
"""


class HeldStore(LocalStore):
    """Takes two chunks and their records; whoever stores more waits for the end."""

    def put(self, key: str, data: Any, **when: Any) -> str:
        if key.startswith(CHUNKS) and len(list(self.list(CHUNKS))) >= 4:
            time.sleep(600)
        return super().put(key, data, **when)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.usefixtures("small_tasks")
def test_a_driver_that_is_killed_in_the_middle_leaves_the_rest_to_a_rerun(
    spark: SparkSession, folder: Path, repo: frazil.Repository, tmp_path: Path
) -> None:
    before = tip(repo)
    doomed = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), str(tmp_path / "repo")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
        start_new_session=True,
        stdin=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 300
        while len(objects(repo)) < 4:
            assert doomed.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        os.killpg(doomed.pid, signal.SIGKILL)
        doomed.wait()
    assert tip(repo) == before
    left = objects(repo)

    result = ingest(spark, folder, repo, **OPTIONS)

    assert result.reused_chunks == 2
    assert objects(repo) - left == referred(repo)
    assert len(objects(repo) - referred(repo)) == 2  # the originals of what was reused
    xr.testing.assert_identical(stored(repo), concatenated(sorted(folder.glob("*.nc"))))


# ---- records, without Spark ----------------------------------------------------------------------


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(LocalStore(str(tmp_path / "store")), "scope")


def refs_to(records: Records, *, size: int = 600) -> ChunkRefs:
    chunk = ChunkId.random()
    records.store.put(chunk_key(chunk), bytes(size))
    payloads: list[Payload] = [Native(chunk_id=chunk, offset=0, length=600), Inline(b"small")]
    return ChunkRefs.from_payloads(np.array([[0, 1], [2, 3]], np.uint32), payloads)


def test_a_record_says_what_was_put(records: Records) -> None:
    refs, name = refs_to(records), records.name("task", 1)
    assert records.find_refs(name, 2) is None
    records.put_refs(name, refs)
    found = records.find_refs(name, 2)
    assert found is not None
    assert found.payload(1) == refs.payload(1)
    copy, original = found.payload(0), refs.payload(0)
    assert isinstance(copy, Native)
    assert isinstance(original, Native)
    assert (copy.offset, copy.length) == (original.offset, original.length)
    assert copy.chunk_id != original.chunk_id  # which a collection may be about to delete
    assert bytes(records.store.get(chunk_key(copy.chunk_id)).data) == bytes(600)
    np.testing.assert_array_equal(found.index, refs.index)
    assert records.name("task", 2) != name
    assert Records(records.store, "another").name("task", 1) != name
    records.delete([name, records.name("never put")])
    assert records.find_refs(name, 2) is None


def test_records_of_chunks_that_are_gone_or_short_are_not_used(records: Records) -> None:
    gone, short = refs_to(records), refs_to(records, size=599)
    records.put_refs(records.name("gone"), gone)
    records.put_refs(records.name("short"), short)
    records.store.delete([chunk_key(ChunkId(gone.chunk_id[0].tobytes()))])
    assert records.find_refs(records.name("gone"), 2) is None
    assert records.find_refs(records.name("short"), 2) is None


def test_old_records_are_not_used(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    name = records.name("old")
    records.put_refs(name, refs_to(records))
    later = time.time() + record_rules.MAX_AGE_S
    monkeypatch.setattr("frazil.spark.ingestion.tasks.time.time", lambda: later)
    assert records.find_refs(name, 2) is None


@pytest.mark.parametrize("damage", [b"", b"rubbish", bytes(1000)])
def test_damaged_records_are_not_used(records: Records, damage: bytes) -> None:
    name = records.name("damaged")
    records.put_refs(name, refs_to(records))
    whole = bytes(records.store.get(chunk_key(name)).data)
    for content in (damage, whole[: len(whole) // 2], whole[:40] + damage + whole[60:]):
        records.store.put(chunk_key(name), content)
        assert records.find_refs(name, 2) is None
