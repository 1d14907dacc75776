"""Ingests and batches of streams while garbage is collected, every task in this process.

As tests/unit/maintenance/test_reuse.py: a collection runs between any two storage requests.
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.maintenance.executor import Task, ThreadExecutor
from frazil.objectstore.local import LocalStore
from frazil.objectstore.protocol import ObjectStore
from frazil.paths import NodePath
from frazil.spark.ingestion.ingest import _write  # all of an ingest but its commit
from frazil.spark.ingestion.ingest_run import Combine, IngestMode, OnError, Request, forget
from frazil.spark.runtime import jobs
from frazil.spark.runtime.commits import CommitNote, commit_once
from frazil.spark.runtime.stored_refs import BLOCKS, RefsSink, Stored, Written, gather_blocks
from frazil.spark.runtime.workers import TaskFailedError
from frazil.spark.sources.source_search import find_sources
from frazil.spark.writing import sink as streams
from frazil.spark.writing import sink as writer
from frazil.spark.writing.options import parse_write_options
from frazil.spark.writing.sink import RowsMessage, RowsStreamWriter
from frazil.zarrstore.arrays import open_array
from tests.examples_count import scaled
from tests.spark.writing_cases import table_of
from tests.unit.maintenance.between import (
    AgingStore,
    Case,
    Clock,
    Watched,
    WatchedDirectory,
    count_requests,
    sweep,
)

KINDS: dict[str, type[Watched]] = {"bucket": Watched, "directory": WatchedDirectory}
DAYS, HOURS, PLACES = 3, 24, 40


def clock_of(store: ObjectStore) -> Clock:
    return store.inner.clock if isinstance(store, Watched) else Clock()


def opened(store: ObjectStore) -> Repository:
    return Repository.open(store, clock=clock_of(store))


def values(store: ObjectStore, name: str) -> Any:
    session = Repository.open(store).readonly_session(Branch("main"))
    return np.asarray(open_array(session, NodePath(f"/{name}"))[...])


# ---- Ingests -------------------------------------------------------------------------------------


class OneProcess(ThreadExecutor):
    """Runs the tasks of an ingest without a cluster between them and the driver."""

    parallelism = 1


def run_here(
    sink: RefsSink, task: Task[Iterable[Written]], count: int, doing: str, **_: object
) -> Stored:
    """Takes what the tasks stored, as the driver does."""
    written = (one for some in sink.executor.run(task, count, doing) for one in some)
    blocks = gather_blocks(written, sink.targets, by_cell=False)
    return sink.set_refs(pa.Table.from_batches(blocks, BLOCKS))


def temperatures(day: int) -> Any:
    """Too much for a reference, and not to be compressed: a chunk that is stored."""
    return np.random.default_rng(day).normal(size=(HOURS, PLACES))


def write_day(folder: Path, day: int) -> None:
    time_ = np.datetime64("2024-03-01", "ns") + (HOURS * day + np.arange(HOURS)) * np.timedelta64(
        1, "h"
    )
    made = xr.Dataset({"t": (("time", "x"), temperatures(day))}, coords={"time": time_})
    encoding = {"time": {"units": "hours since 2024-01-01", "dtype": "i4"}}
    made.to_netcdf(folder / f"{day}.nc", engine="h5netcdf", encoding=encoding)


def ingest_here(store: ObjectStore, folder: Path, *, commits: bool = True) -> None:
    """As `ingest` does it, from the session on."""
    repository = opened(store)
    request = Request(
        repository=repository,
        group=NodePath("/"),
        dims=("time",),
        combine=Combine.CONCAT,
        chunks={"time": HOURS},
        branch="main",
        mode=IngestMode.CREATE,
        virtual=False,
        on_error=OnError.FAIL,
        variables=None,
        source_group=None,
        key=None,
        resume=True,
    )
    with (
        patch.object(RefsSink, "run", run_here),
        patch.object(jobs, "MIN_TASK_BYTES", 1),
        patch.object(jobs, "MAX_TASK_BYTES", 8 * HOURS * PLACES),
    ):
        session = repository.writable_session("main")
        found = find_sources(folder)
        executor: Any = OneProcess(repository.files)
        written, _ = _write(executor, request, session, found)
    if commits:
        note = CommitNote(operation="ingest", application="here")
        commit_once(repository, session, note, "days", branch="main")
        forget(request, written)


def require_days(store: ObjectStore) -> None:
    expected = np.concatenate([temperatures(day) for day in range(DAYS)])
    np.testing.assert_array_equal(values(store, "t"), expected)


def ingest_case(*, resumed: bool) -> Case:
    folder = Path(mkdtemp())
    for day in range(DAYS):
        write_day(folder, day)
    clock = Clock()
    store = AgingStore(clock)
    Repository.create(store, clock=clock)
    if resumed:
        ingest_here(store, folder, commits=False)
    clock.pass_days(2)
    return Case(store, lambda place: ingest_here(place, folder), require_days)


# ---- Streams -------------------------------------------------------------------------------------

SCHEMA = StructType([StructField(n, t) for n, t in (("t", LongType()), ("v", DoubleType()))])
ROWS = 3000  # more than travels in the message itself


def batch_here(store: ObjectStore, number: int) -> None:
    """A batch of a stream as Spark does it: its tasks, then the commit."""

    def open_here(*_: object) -> Repository:
        return opened(store)

    rows = [{"t": ROWS * number + i, "v": float(i % 97)} for i in range(ROWS)]
    with (
        patch.object(streams, "open_repository", open_here),
        patch.object(writer, "open_repository", open_here),
    ):
        options = parse_write_options(
            {"path": "/nowhere", "dims": "t", "chunks": '{"t": 2000}', "mode": "append"}
        )
        sink = RowsStreamWriter(options, SCHEMA)
        staged = sink.write(iter(table_of(SCHEMA, rows).to_batches())).pieces
        sink.commit([RowsMessage(staged, "query")], number)


def require_rows(store: ObjectStore) -> None:
    np.testing.assert_array_equal(values(store, "t"), np.arange(2 * ROWS))
    np.testing.assert_array_equal(values(store, "v"), np.tile(np.arange(ROWS) % 97, 2))


def stream_case(*, resumed: bool) -> Case:
    """The second batch; an earlier try of it has died before its commit."""
    clock = Clock()
    store = AgingStore(clock)
    Repository.create(store, clock=clock)
    batch_here(store, 0)
    if resumed:
        with patch.object(streams.RowsStreamWriter, "commit", lambda *_: None):
            batch_here(store, 1)
    clock.pass_days(2)
    return Case(store, lambda place: batch_here(place, 1), require_rows, (TaskFailedError,))


# ---- Collections in between ----------------------------------------------------------------------

CASES = {
    "ingest": lambda: ingest_case(resumed=False),
    "ingest resumed": lambda: ingest_case(resumed=True),
    "stream": lambda: stream_case(resumed=False),
    "stream resumed": lambda: stream_case(resumed=True),
}


@cache
def made(name: str) -> Case:
    return CASES[name]()


@cache
def requests_of(name: str, kind: str) -> int:
    return count_requests(made(name), KINDS[kind])


@settings(max_examples=scaled(12))
@given(
    st.sampled_from(sorted(CASES)),
    st.sampled_from(sorted(KINDS)),
    st.floats(0, 1),
    st.one_of(st.just(0.0), st.floats(0, 1)),
)
def test_a_collection_during_an_ingest_or_a_batch_takes_nothing_that_is_committed(
    name: str, kind: str, begins: float, lasts: float
) -> None:
    count = requests_of(name, kind)
    first = round(begins * count)
    last = first + round(lasts * (count - first))
    sweep(made(name), [(first, last)], KINDS[kind], whole_seconds=True)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_a_collection_between_any_two_requests_takes_nothing_that_is_committed(
    name: str, kind: str
) -> None:
    moments = range(requests_of(name, kind) + 1)
    assert len(moments) > 5
    for whole_seconds in (False, True):
        outcome = sweep(
            made(name), ((at, at) for at in moments), KINDS[kind], whole_seconds=whole_seconds
        )
        assert outcome.failed == 0
        assert "resumed" not in name or outcome.deleted > 0


def test_the_sweep_notices_chunks_that_are_reused_as_they_are() -> None:
    """A control: references to the chunks of the earlier run, in place of copies."""
    case = made("ingest resumed")
    with patch("frazil.spark.ingestion.tasks.copy_chunks", lambda _, refs, __: refs):
        count = count_requests(case)
        with pytest.raises(AssertionError, match="gone"):
            sweep(case, ((at, at) for at in range(count // 2, count + 1)))


def test_a_directory_gives_a_chunk_a_second_name_instead_of_a_copy(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    Repository.create(store)
    folder = Path(mkdtemp())
    write_day(folder, 0)
    ingest_here(store, folder, commits=False)
    ingest_here(store, folder)
    links = sorted(one.stat().st_nlink for one in (tmp_path / "chunks").iterdir())
    assert links == [2, 2]
