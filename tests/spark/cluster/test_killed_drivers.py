"""Tasks that run twice at once; drivers that die by SIGKILL when all is done but the commit."""

import time
from pathlib import Path

import pytest

from tests.spark.cluster import work
from tests.spark.cluster.driver import Driver
from tests.spark.cluster.outcomes import assert_ingested, assert_written, create, history

pytestmark = pytest.mark.spark

WAIT_S = 120.0


def wait_for(marker: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while not marker.exists():
        assert time.monotonic() < deadline, f"no {marker.name}"
        time.sleep(0.02)


def test_tasks_that_run_twice_at_once_do_no_harm(doomed_driver: Driver, tmp_path: Path) -> None:
    repo, gate = create(tmp_path / "repo"), work.make_gate(tmp_path / "gate")
    doomed_driver.submit(work.write_rows, repo, gate)
    wait_for(gate.folder / "arrival-1")  # Spark's copy of the task that takes so long
    gate.open()  # and now both write
    doomed_driver.result()
    assert_written(repo)


def test_a_driver_dies_before_the_commit_and_a_rerun_succeeds_once(
    driver: Driver, doomed_driver: Driver, files: str, tmp_path: Path
) -> None:
    repo, marker = create(tmp_path / "repo"), tmp_path / "all but the commit"
    before = (repo.open().lookup_branch("main"), repo.open().list_branches())
    doomed_driver.submit(work.do_but_hang_before_commit, marker, work.ingest_files, files, repo)
    wait_for(marker)
    doomed_driver.kill()
    assert (repo.open().lookup_branch("main"), repo.open().list_branches()) == before
    assert history(repo) == []
    assert any((Path(repo.path) / "chunks").iterdir())  # it was that far

    assert driver.run(work.ingest_files, files, repo).committed
    assert not driver.run(work.ingest_files, files, repo).committed
    assert_ingested(repo)
