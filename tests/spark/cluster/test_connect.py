"""Spark Connect: a server that has a cluster, and a client that has neither Java nor executors."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.spark.java import find_java
from tests.servers.process import HOST, free_ports, start
from tests.spark.cluster import work
from tests.spark.cluster.conftest import EXECUTORS
from tests.spark.cluster.driver import PYTHONPATH, Drivers
from tests.spark.cluster.outcomes import assert_ingested, assert_written, create
from tests.spark.cluster.standalone import SPARK_CLASS, StandaloneCluster

pytest.importorskip("grpc", reason="Spark Connect needs the extra `connect`")

pytestmark = pytest.mark.spark


@pytest.fixture
def server_url(cluster: StandaloneCluster, drivers: Drivers, tmp_path: Path) -> Iterator[str]:
    drivers.stop()  # its executors would be in the way
    (port,) = free_ports(1)
    settings = {
        **EXECUTORS,
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.ui.enabled": "false",
        "spark.default.parallelism": "2",
    }
    command = [
        *(str(SPARK_CLASS), "org.apache.spark.deploy.SparkSubmit", "--master", cluster.url),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *(part for key, value in settings.items() for part in ("--conf", f"{key}={value}")),
        "spark-internal",
    ]
    environment = {
        "JAVA_HOME": str(find_java(os.environ).home),
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": PYTHONPATH,
    }
    server = start(
        command,
        environment=environment,
        folder=tmp_path / "server",
        ready=lambda: socket.create_connection((HOST, port), 1).close(),
    )
    yield f"sc://{HOST}:{port}"
    server.stop()


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
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
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
