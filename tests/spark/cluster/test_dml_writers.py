"""Statements of several writers on one table: the history is what their isolation allows."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from tests.spark.cluster.dml_writers import make_table, write_with_icechunk, write_with_spark
from tests.spark.cluster.driver import Driver
from tests.spark.dml_history import History
from tests.spark.preloading import PRELOADED

pytestmark = [pytest.mark.spark, pytest.mark.long]

TABLES = int(os.environ.get("FRAZIL_DML_TABLES", "6"))
WRITERS = 3  # beside icechunk
STATEMENTS = 8  # of each, on a table
PAUSE_S = 6.0  # at most, of icechunk, inside of a session and between them
CONFIG = {"spark.ui.enabled": "false", "spark.scheduler.mode": "FAIR"}


@pytest.mark.timeout(4 * 3600)
def test_statements_of_several_writers_are_isolated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PRELOADED), prepend=os.pathsep)
    monkeypatch.setenv("FRAZIL_TEST_BOX_BYTES", "200")
    statements, commits, conflicts, rebased = 0, 0, 0, 0
    driver = Driver(f"local[{WRITERS}]", tmp_path, CONFIG, answer_s=3600)
    try:
        for seed in range(700, 700 + TABLES):
            table = driver.run(make_table, tmp_path, seed)
            start, stop = table.snapshots()[-1], Event()
            with ThreadPoolExecutor(1) as pool:
                other = pool.submit(write_with_icechunk, table, seed, stop, PAUSE_S)
                try:
                    done = driver.run(write_with_spark, table, seed, WRITERS, STATEMENTS)
                finally:
                    stop.set()
            (tmp_path / f"done{seed}").write_bytes(pickle.dumps([*done, other.result()]))
            history = History(table, start, [*done, other.result()])
            history.require_explained()
            everything = [each for writer in history.writers for each in writer]
            statements += len(everything)
            conflicts += sum(each.is_conflict for each in everything)
            commits += len(history.snapshots) - 1
            rebased += history.count_rebased()
            print(seed, statements, commits, conflicts, rebased, flush=True)  # noqa: T201
    finally:
        driver.stop()
    assert conflicts, "nothing was tried"
