"""A Spark Connect server, as a process of its own; its clients need no Java."""

import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from frazil.spark.runtime.java import find_java
from tests.servers.process import HOST, free_ports, start
from tests.spark.preloading import PRELOADED

ROOT = Path(__file__).parents[2]
# Of server, executors and clients.
PYTHONPATH = os.pathsep.join(map(str, (PRELOADED, ROOT / "src", ROOT)))
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"

SETTINGS = {
    "spark.connect.grpc.binding.address": HOST,
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.ui.enabled": "false",
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
}


@contextmanager
def connect_server(master: str, folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """Its address. What it says is in `folder`."""
    (port,) = free_ports(1)
    given = {**SETTINGS, **settings, "spark.connect.grpc.binding.port": str(port)}
    command = [
        *(str(SPARK_CLASS), "org.apache.spark.deploy.SparkSubmit", "--master", master),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *(part for key, value in given.items() for part in ("--conf", f"{key}={value}")),
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
        folder=folder,
        ready=lambda: socket.create_connection((HOST, port), 1).close(),
    )
    try:
        yield f"sc://{HOST}:{port}"
    finally:
        server.stop()


def client_environment() -> dict[str, str]:
    """Of a process that knows the server only."""
    left_out = {"SPARK_REMOTE", "JAVA_HOME", "SPARK_HOME"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "PYTHONPATH": PYTHONPATH}
