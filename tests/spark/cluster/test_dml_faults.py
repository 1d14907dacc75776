"""Statements give what DuckDB has, although tasks fail and straggle, and executors die."""

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.spark.cluster.conftest import EXECUTORS, SPECULATION
from tests.spark.cluster.dml_faults import IN_TASKS, OUTSIDE, change_under_faults
from tests.spark.cluster.driver import Driver
from tests.spark.preloading import PRELOADED

pytestmark = [pytest.mark.spark, pytest.mark.long]

TABLES = int(os.environ.get("FRAZIL_DML_TABLES", "10"))
STATEMENTS = 8  # of each
CONFIG = {
    **EXECUTORS,
    **SPECULATION,
    "spark.speculation.task.duration.threshold": "2s",  # of stages of one task
    "spark.task.maxFailures": "10",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.python.unix.domain.socket.enabled": "true",
}


@pytest.mark.timeout(4 * 3600)
def test_statements_do_what_they_say_whatever_happens_to_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PRELOADED), prepend=os.pathsep)
    monkeypatch.setenv("FRAZIL_TEST_BOX_BYTES", "200")
    counts = Counter[str]()
    driver = Driver("local-cluster[2,1,1024]", tmp_path, CONFIG, answer_s=3600)
    try:
        for seed in range(500, 500 + TABLES):
            counts += driver.run(change_under_faults, tmp_path, seed, STATEMENTS)
            print(seed, dict(counts), flush=True)  # noqa: T201 -- it takes long
    finally:
        driver.stop()
    for kind in IN_TASKS[1:]:
        assert counts[f"a task {kind}"], counts
    for kind in OUTSIDE[1:]:
        assert counts[kind], counts
