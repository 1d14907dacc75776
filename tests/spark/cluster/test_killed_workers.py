"""Workers that die by SIGKILL in the middle of a job: the result is that of any other run."""

import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.spark.cluster import work
from tests.spark.cluster.driver import Driver
from tests.spark.cluster.files import FILES, HOURS
from tests.spark.cluster.outcomes import assert_ingested, assert_written, create
from tests.spark.cluster.standalone import StandaloneCluster, kill

pytestmark = pytest.mark.spark

WAIT_S = 120.0
POLL_S = 0.002
CHUNKS_INGESTED = FILES * HOURS // 4
CHUNKS_WRITTEN = 12 * 2 * 2


def kill_when_chunks_are_stored(cluster: StandaloneCluster, repo: work.Folder, count: int) -> int:
    """Kills a worker once some chunks are there; how many there were.

    All workers stand still meanwhile, so that none can finish the job.
    """
    deadline = time.monotonic() + WAIT_S
    chunks = Path(repo.path) / "chunks"
    while not chunks.exists() or sum(1 for _ in chunks.iterdir()) < count:
        assert time.monotonic() < deadline, "no chunk was stored"
        time.sleep(POLL_S)
    for process in [each for worker in cluster.workers for each in worker.tree()]:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    stored = sum(1 for _ in chunks.iterdir())
    victim, *others = cluster.workers
    kill(victim)
    for worker in others:
        for process in worker.tree():
            process.resume()
    return stored


def test_a_worker_dies_while_an_ingest_stores_chunks(
    cluster: StandaloneCluster, driver: Driver, tmp_path: Path, files: str
) -> None:
    repo = create(tmp_path / "repo")
    driver.run(work.executors_that_work)  # both are up, with Python running
    driver.submit(work.ingest_files, files, repo)
    assert kill_when_chunks_are_stored(cluster, repo, 2) < CHUNKS_INGESTED
    assert not driver.finished(0)
    assert driver.result().committed
    assert_ingested(repo)


def test_a_worker_dies_while_a_write_stores_chunks(
    cluster: StandaloneCluster, driver: Driver, tmp_path: Path
) -> None:
    repo = create(tmp_path / "repo")
    driver.run(work.executors_that_work)
    driver.submit(work.write_shuffled, repo)
    assert kill_when_chunks_are_stored(cluster, repo, 2) < CHUNKS_WRITTEN
    assert not driver.finished(0)
    assert driver.result().committed
    assert_written(repo)


def test_a_worker_dies_while_rows_are_put_aside(
    cluster: StandaloneCluster, driver: Driver, tmp_path: Path
) -> None:
    repo = create(tmp_path / "repo")
    gate = work.make_gate(tmp_path / "gate")
    driver.submit(work.write_rows, repo, gate)
    kill(cluster.worker_of(gate.arrivals()[0]))
    driver.result()
    assert len(gate.arrivals()) > 1  # the task was tried again
    assert_written(repo)
