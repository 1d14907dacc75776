"""Spark's declarative pipelines: repositories are sources of tables, and sinks."""

import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import zarr

import frazil
from frazil.spark.native.install import with_jar
from tests.servers.process import HOST
from tests.spark.change_cases import create
from tests.spark.ways import PROGRAMS, SETTINGS, confs, run

# long: it starts two Connect servers, one after the other
pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix, pytest.mark.long]
pytestmark.append(pytest.mark.timeout(1200))

pytest.importorskip("grpc", reason="declarative pipelines need the extra `connect`")
pytest.importorskip("yaml", reason="declarative pipelines need PyYAML")

SPEC = """
name: weather
storage: {storage}
libraries:
  - glob:
      include: flows/**
"""

TABLES = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()


@dp.materialized_view
def means():
    table = spark.read.format("icechunk").load("{source}")
    return table.groupBy("day").agg({{"t": "avg"}}).toDF("day", "mean")


@dp.table
def seen():
    stream = spark.readStream.format("icechunk").option("changes", "true").load("{source}")
    return stream.select("day", "x", "t", "_change_type")
"""

SINK = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
dp.create_sink("copy", "icechunk", {{"path": "{copy}", "mode": "upsert", "dims": "day,x"}})


@dp.append_flow(target="copy")
def follow():
    return spark.readStream.format("icechunk").load("{source}")
"""


def write_days(repository: frazil.Repository, first: int, value: float) -> None:
    """Two more days, in one commit."""
    with repository.transaction("main", message=f"day {first}") as store:
        group = zarr.open_group(store, mode="a")
        if "t" not in group:
            dims = ["day", "x"]
            create(group, "day", [0], [8], dtype="i8", dimension_names=["day"])
            create(group, "x", [3], [3], dtype="i8", dimension_names=["x"])[:] = np.arange(3)
            create(group, "t", [0, 3], [2, 3], dtype="f8", dimension_names=dims, fill_value=np.nan)
        for name, values in (("day", np.arange(first, first + 2)), ("t", np.full((2, 3), value))):
            group[name].append(values)  # type: ignore[union-attr]  # an array


def rows_in(folder: Path, table: str) -> list[tuple[object, ...]]:
    found = pq.read_table(folder / "run" / "spark-warehouse" / table).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def test_tables_and_a_sink_follow_a_repository_once(tmp_path: Path) -> None:
    source, copy = (
        frazil.Repository.create(frazil.local_filesystem_storage(tmp_path / name))
        for name in ("source", "copy")
    )
    (tmp_path / "flows").mkdir()
    paths = {"source": tmp_path / "source", "copy": tmp_path / "copy"}
    (tmp_path / "flows" / "tables.py").write_text(TABLES.format(**paths))
    (tmp_path / "flows" / "sink.py").write_text(SINK.format(**paths))
    storage = (tmp_path / "storage").as_uri()
    (tmp_path / "spec.yaml").write_text(SPEC.format(storage=storage))

    # the server that the program starts does not get the settings of the command line
    defaults = tmp_path / "conf"
    defaults.mkdir()
    (defaults / "spark-defaults.conf").write_text(f"spark.connect.grpc.binding.address {HOST}\n")

    def update() -> None:
        own = {"spark.python.authenticate.socketTimeout": "120s"}  # of a busy machine
        given = with_jar({**SETTINGS, **own})
        settings = {name: text for name, text in given.items() if name != "spark.master"}
        command = [f"{PROGRAMS}spark-pipelines", "run", "--spec", str(tmp_path / "spec.yaml")]
        environment = {"PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_CONF_DIR": str(defaults)}
        run([*command, *confs(settings)], tmp_path / "run", **environment)

    write_days(source, 0, 1.0)
    write_days(source, 2, 2.0)
    update()
    assert rows_in(tmp_path, "means") == [(0, 1.0), (1, 1.0), (2, 2.0), (3, 2.0)]
    assert len(rows_in(tmp_path, "seen")) == 12
    assert {row[-1] for row in rows_in(tmp_path, "seen")} == {"insert"}
    made = len(list(copy.ancestry(branch="main")))
    # a catalog in memory has forgotten its tables, whose files are there
    (tmp_path / "flows" / "tables.py").unlink()
    write_days(source, 4, 3.0)
    update()
    stored = zarr.open_array(copy.readonly_session("main").store, path="t", mode="r")[:]
    assert np.asarray(stored).tolist() == [[v] * 3 for v in (1.0, 1.0, 2.0, 2.0, 3.0, 3.0)]
    assert len(list(copy.ancestry(branch="main"))) == made + 1
