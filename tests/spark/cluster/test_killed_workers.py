"""Workers that die by SIGKILL in the middle of a job: the result is that of any other run."""

from pathlib import Path

import pytest

from tests.spark.cluster import work
from tests.spark.cluster.driver import Driver
from tests.spark.cluster.gates import Arrival, GatedFolder, chunks_of_tasks, make_gate
from tests.spark.cluster.outcomes import assert_ingested, assert_written, create, stored
from tests.spark.cluster.standalone import HOSTS, StandaloneCluster, kill

pytestmark = pytest.mark.spark

STORED = 3  # chunks, at the moment of the kill


@pytest.fixture
def gated(tmp_path: Path) -> GatedFolder:
    """Tasks can store some chunks there, then they wait."""
    place = create(tmp_path / "repo")
    return GatedFolder(place.path, make_gate(tmp_path / "gate", free=STORED), chunks_of_tasks)


def kill_in_the_middle(cluster: StandaloneCluster, driver: Driver, gated: GatedFolder) -> Arrival:
    """Kills one of two workers, which both have a chunk to store, and lets the other go on."""
    victim = driver.reach(gated.gate, len(HOSTS))[0]
    assert stored(gated.path) >= STORED  # rows that a write staged are there as well
    kill(cluster.worker_of(victim.pid))
    gated.gate.open()
    return victim


def assert_done_again(gated: GatedFolder, victim: Arrival) -> None:
    """What the killed task was about to store was stored by another attempt."""
    others = [each for each in gated.gate.arrivals() if each.pid != victim.pid]
    assert victim.task in {each.task for each in others}


@pytest.mark.long
def test_a_worker_dies_while_an_ingest_stores_chunks(
    cluster: StandaloneCluster, driver: Driver, gated: GatedFolder, files: str
) -> None:
    driver.submit(work.ingest_files, files, gated)
    victim = kill_in_the_middle(cluster, driver, gated)
    assert driver.result().committed
    assert_done_again(gated, victim)
    assert_ingested(work.Folder(gated.path))


def test_a_worker_dies_while_a_write_stores_chunks(
    cluster: StandaloneCluster, driver: Driver, gated: GatedFolder
) -> None:
    driver.submit(work.write_shuffled, gated)
    victim = kill_in_the_middle(cluster, driver, gated)
    assert driver.result().committed
    assert_done_again(gated, victim)
    assert_written(work.Folder(gated.path))


@pytest.mark.long
def test_a_worker_dies_while_rows_are_put_aside(
    cluster: StandaloneCluster, driver: Driver, tmp_path: Path
) -> None:
    repo, gate = create(tmp_path / "repo"), make_gate(tmp_path / "gate")
    driver.submit(work.write_rows, repo, gate)
    kill(cluster.worker_of(driver.reach(gate, 1)[0].pid))
    driver.reach(gate, 2)  # the task is tried again
    gate.open()
    driver.result()
    assert_written(repo)
