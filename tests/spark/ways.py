"""Ways to run Spark: commands, their environment, and what a session finds in a repository."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession

from frazil.spark.runtime.java import find_java
from tests.servers.process import HOST, free_ports, start
from tests.spark.connect_server import PYTHONPATH

JARS = Path(pyspark.__file__).parent / "jars"
PROGRAMS = str(Path(pyspark.__file__).parent / "bin") + os.sep
WHERE = "lat > 60 AND time < '2024-01-01 12:00'"
QUERY = "SELECT count(*), round(avg(t2m), 6) FROM {} WHERE lat > 60 AND time < '2024-01-01 12:00'"
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
PRUNED = "chunks: 3 of 48"  # in the plan of QUERY, if the native table has it


def environment(**more: str) -> dict[str, str]:
    """Of a program of Spark that knows where frazil is, and nothing else."""
    left_out = {"SPARK_HOME", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {
        **kept,
        "JAVA_HOME": str(find_java(os.environ).home),
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": PYTHONPATH,
        **more,
    }


def confs(settings: Mapping[str, str]) -> list[str]:
    return [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]


def run(command: Sequence[str], folder: Path, **more: str) -> str:
    """What a program printed, once it has ended well."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        cwd=folder,
        env=environment(**more),
    )
    (folder / "log").write_text(done.stderr)
    told = "\n".join(line for line in done.stderr.splitlines() if " INFO " not in line)
    assert done.returncode == 0, done.stdout[-2000:] + told[-4000:]
    return done.stdout


def other_spark(home: Path, version: str) -> Path:
    """The same Spark, which calls itself differently."""
    (home / "jars").mkdir(parents=True)
    for jar in JARS.glob("*.jar"):
        given = jar.name
        if jar.name.startswith("spark-core_"):
            given = f"{jar.name.partition('-')[0]}-core_2.13-{version}.jar"
        (home / "jars" / given).symlink_to(jar)
    return home


@contextmanager
def thrift_server(settings: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Its address, for JDBC. It keeps what it has to keep in `folder`."""
    (port,) = free_ports(1)
    listens = {"hive.server2.thrift.port": str(port), "hive.server2.thrift.bind.host": HOST}
    server = start(
        [
            *(f"{PROGRAMS}spark-submit", *confs(settings)),
            *("--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"),
            "spark-internal",
            *(part for key, value in listens.items() for part in ("--hiveconf", f"{key}={value}")),
        ],
        environment=environment(),
        folder=folder,
        ready=lambda: socket.create_connection((HOST, port), 1).close(),
    )
    try:
        yield f"jdbc:hive2://{HOST}:{port}"
    finally:
        server.stop()


def plan_of(frame: DataFrame, *, extended: bool = False) -> str:
    told = StringIO()
    with redirect_stdout(told):
        frame.explain(extended)
    return told.getvalue()


def look(spark: SparkSession, path: str, **options: str) -> tuple[int, float, bool]:
    """Rows, their mean, and whether the native table read them."""
    rows = spark.read.format("icechunk").options(**options).load(path)
    return look_at(rows.where(WHERE).selectExpr("count(*)", "round(avg(t2m), 6)"))


def look_at(found: DataFrame) -> tuple[int, float, bool]:
    ((count, mean),) = found.collect()
    return count, mean, PRUNED in plan_of(found)
