"""Spark Connect: the same reads, through a server that is started once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from frazil.spark.java import find_java
from tests.spark.repositories import make_weather

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]

pytest.importorskip("grpc", reason="Spark Connect needs the extra `connect`")

ROOT = Path(__file__).parents[2]


def test_a_client_of_connect_reads_all_that_others_read(tmp_path: Path) -> None:
    repository = make_weather(tmp_path / "weather")
    repository.create_tag("v1", repository.lookup_branch("main"))
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java(os.environ).home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    environment.pop("SPARK_REMOTE", None)
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_script", str(tmp_path / "weather")],
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
        cwd=tmp_path,  # Spark leaves things where it is started
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    band = 5 * 36
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "connect": "pyspark.sql.connect.session",
        "rows": 48 * band,
        "planned": 3,
        "sql": 12 * band - 3,  # which are NULL
        "read": 9 * 36,
        "chunks": 12,
        "history": ["weather", "Repository initialized"],
        "refs": ["main", "v1"],
        "view": 48,
        "mistake": True,
    }
