"""Spark Connect: all that is done without it, through a server that is started once."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from frazil.api.repository import Repository
from frazil.api.storage_functions import local_filesystem_storage
from tests.spark.connect_server import client_environment, connect_server
from tests.spark.repositories import SHAPE, make_weather

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix, pytest.mark.timeout(1200)]

pytest.importorskip("grpc", reason="Spark Connect needs the extra `connect`")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("connect")


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    return run_script(folder, "some")


@pytest.fixture(scope="module")
def others(folder: Path) -> dict[str, Any]:
    return run_script(folder, "others")


def run_script(folder: Path, which: str) -> dict[str, Any]:
    """What the script found, which takes a while."""
    if not (folder / "weather").exists():
        repository = make_weather(folder / "weather")
        repository.create_tag("v1", repository.lookup_branch("main"))
    script = [sys.executable, "-m", "tests.spark.connect_script"]
    settings = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    with connect_server("local[2]", folder / f"server-{which}", settings) as url:
        done = subprocess.run(
            [*script, url, str(folder / "weather"), str(folder), which],
            capture_output=True,
            text=True,
            timeout=1100,
            check=False,
            cwd=folder,
            env=client_environment(),
        )
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def array(path: Path, name: str) -> Any:
    repository = Repository.open(local_filesystem_storage(str(path)))
    return zarr.open_array(repository.readonly_session("main").store, path=name, mode="r")[...]


def commits(path: Path) -> int:
    """Without the first, which every repository has."""
    repository = Repository.open(local_filesystem_storage(str(path)))
    return len(list(repository.ancestry(branch="main"))) - 1


def test_a_client_of_connect_reads_all_that_others_read(found: dict[str, Any]) -> None:
    band = 5 * 36
    expected = {
        "connect": "pyspark.sql.connect.session",
        "rows": 48 * band,
        "planned": 3,
        "sql": 12 * band - 3,  # which are NULL
        "version": 48,
        "read": 9 * 36,
        "chunks": 12,
        "history": ["weather", "Repository initialized"],
        "refs": ["main", "v1"],
        "view": 48,
        "mistake": True,
    }
    assert {name: found[name] for name in expected} == expected


def test_a_client_of_connect_writes(found: dict[str, Any], folder: Path) -> None:
    assert found["rows_by_spark"] == 12
    assert array(folder / "rows_by_spark", "v").tolist() == [[t, t + 0.5] for t in range(6)]
    assert commits(folder / "rows_by_spark") == 1
    assert found["rows_that_do_not_fit"] == "duplicate-rows"
    assert commits(folder / "rows_that_do_not_fit") == 0


@pytest.mark.long
def test_a_client_of_connect_streams(others: dict[str, Any], folder: Path) -> None:
    rows = [[t, t + 0.5] for t in range(6)]
    assert others["rows_by_frazil"] == [True, False]
    assert array(folder / "rows_by_frazil", "v").tolist() == rows
    assert others["stream_of_rows"] == [6, 12]
    assert array(folder / "stream_of_rows", "v").tolist() == rows
    assert commits(folder / "stream_of_rows") == 2


@pytest.mark.long
def test_a_client_of_connect_runs_pipelines(others: dict[str, Any], folder: Path) -> None:
    weather = array(folder / "weather", "t2m")
    assert others["rechunked"] is True
    np.testing.assert_array_equal(array(folder / "rechunked", "t2m"), weather)


@pytest.mark.long
def test_a_client_of_connect_has_all_the_rest(others: dict[str, Any], folder: Path) -> None:
    weather = array(folder / "weather", "t2m")
    assert others["chunk_rows"] == np.prod(SHAPE)
    np.testing.assert_array_equal(array(folder / "chunk_rows", "t2m"), weather)
    # but for three cells without a value
    assert others["stream_of_commits"] == [np.prod(SHAPE) - 3, "insert"]
    assert others["files"] == [True, False]
    assert array(folder / "files", "t").tolist() == [hour * 1.5 for hour in range(24)]
    assert others["reduced"] == [True, weather[0].size]
    means = np.nanmean(weather, axis=0, dtype="f8")
    np.testing.assert_allclose(array(folder / "reduced", "means/t2m"), means, rtol=1e-6)
    assert others["mapped"] is True
    np.testing.assert_array_equal(array(folder / "mapped", "twice"), weather * 2)
    assert others["cloned"] == weather.size
    assert others["exported"] == [2 * 48 + 3, True, 1]
    assert others["a_failing_function"] is True
    assert commits(folder / "a_failing_function") == 1  # which was there before
