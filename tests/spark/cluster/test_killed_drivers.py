"""Tasks that run twice at once; drivers that die by SIGKILL when all is done but the commit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster import work
from tests.spark.cluster.driver import Driver, Drivers
from tests.spark.cluster.gates import (
    GatedFolder,
    chunks_of_the_first_task,
    commits,
    make_gate,
)
from tests.spark.cluster.outcomes import assert_ingested, assert_written, create, history, stored

pytestmark = pytest.mark.spark


@pytest.mark.long  # tests/spark/cluster/test_killed_workers.py kills tasks in CI
def test_tasks_that_put_rows_aside_twice_at_once_do_no_harm(driver: Driver, tmp_path: Path) -> None:
    repo, gate = create(tmp_path / "repo"), make_gate(tmp_path / "gate")
    driver.submit(work.write_rows, repo, gate)
    driver.reach(gate, 2)  # Spark's copy of the task that takes so long
    gate.open()  # and now both write
    driver.result()
    assert_written(repo)


@pytest.mark.long
def test_tasks_that_store_chunks_twice_at_once_do_no_harm(driver: Driver, tmp_path: Path) -> None:
    repo, gate = create(tmp_path / "repo"), make_gate(tmp_path / "gate")
    driver.submit(work.write_shuffled, GatedFolder(repo.path, gate, chunks_of_the_first_task))
    one, other = driver.reach(gate, 2)
    assert one.pid != other.pid
    assert one.task == other.task
    gate.open()
    assert driver.result().committed
    assert_written(repo)


@pytest.mark.long
def test_tasks_that_ingest_twice_at_once_do_no_harm(
    driver: Driver, files: str, tmp_path: Path
) -> None:
    repo, gate = create(tmp_path / "repo"), make_gate(tmp_path / "gate")
    gated = GatedFolder(repo.path, gate, chunks_of_the_first_task)
    driver.submit(work.ingest_files, files, gated)
    driver.reach(gate, 2)
    gate.open()
    assert driver.result().committed
    assert_ingested(repo)


def die_before_the_commit_and_run_again(
    drivers: Drivers, folder: Path, job: Callable[..., Any], *args: object
) -> work.Folder:
    repo, gate = create(folder / "repo"), make_gate(folder / "gate")
    before = (repo.open().lookup_branch("main"), repo.open().list_branches())
    doomed = drivers.idle()
    doomed.submit(job, *args, GatedFolder(repo.path, gate, commits))
    doomed.reach(gate, 1)
    assert stored(repo.path)  # all of it
    doomed.kill()
    assert (repo.open().lookup_branch("main"), repo.open().list_branches()) == before
    assert history(repo) == []

    assert drivers.idle().run(job, *args, repo).committed
    assert not drivers.idle().run(job, *args, repo).committed
    return repo


@pytest.mark.long  # tests/spark/test_ingest_resumed.py kills a driver in CI
def test_an_ingest_whose_driver_dies_before_the_commit_is_done_once_by_a_rerun(
    drivers: Drivers, files: str, tmp_path: Path
) -> None:
    assert_ingested(
        die_before_the_commit_and_run_again(drivers, tmp_path, work.ingest_files, files)
    )


@pytest.mark.long
def test_a_write_whose_driver_dies_before_the_commit_is_done_once_by_a_rerun(
    drivers: Drivers, tmp_path: Path
) -> None:
    assert_written(die_before_the_commit_and_run_again(drivers, tmp_path, work.write_shuffled))
