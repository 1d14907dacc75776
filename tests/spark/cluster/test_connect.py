"""Spark Connect: a server that has a cluster, and a client that has neither Java nor executors."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.cluster import work
from tests.spark.cluster.conftest import EXECUTORS
from tests.spark.cluster.driver import Drivers
from tests.spark.cluster.outcomes import assert_ingested, assert_written, create
from tests.spark.cluster.standalone import StandaloneCluster
from tests.spark.connect_server import client_environment, connect_server

pytest.importorskip("grpc", reason="Spark Connect needs the extra `connect`")

pytestmark = pytest.mark.spark


@pytest.fixture
def server_url(cluster: StandaloneCluster, drivers: Drivers, tmp_path: Path) -> Iterator[str]:
    drivers.stop()  # its executors would be in the way
    with connect_server(cluster.url, tmp_path / "server", EXECUTORS) as url:
        yield url


def test_a_client_of_connect_writes_reads_and_ingests_on_a_cluster(
    server_url: str, files: str, tmp_path: Path
) -> None:
    written, ingested = create(tmp_path / "written"), create(tmp_path / "ingested")
    places = [server_url, written.path, ingested.path, files]
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.cluster.connect_client", *places],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        cwd=tmp_path,
        env=client_environment(),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "connect": "pyspark.sql.connect.session",
        "written": True,
        "rows": work.CELLS,
        "ingested": True,
    }
    assert_written(written)
    assert_ingested(ingested)
