"""Spark reads and writes repositories of generations before version 1."""

from pathlib import Path

import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession

from frazil.api import Repository, local_filesystem_storage
from frazil.api.values import AlphaVersion
from frazil.spark import read, read_table, write

pytestmark = pytest.mark.spark


def made(place: Path, version: AlphaVersion) -> Repository:
    repository = Repository.create(local_filesystem_storage(str(place)), spec_version=version)
    session = repository.writable_session("main")
    group = zarr.group(session.store)
    for name, factor in (("t", 1), ("x", 2)):
        array = group.create_array(
            name, shape=(40,), chunks=(10,), dtype="int64", dimension_names=["t"]
        )
        array[:] = np.arange(40) * factor
    session.commit("forty")
    return repository


@pytest.mark.parametrize("version", ["alpha2", "alpha1"])
def test_rows_and_tables_are_read(
    spark: SparkSession, tmp_path: Path, version: AlphaVersion
) -> None:
    repository = made(tmp_path, version)
    rows = read(spark, repository).where("t >= 38").orderBy("t").collect()
    assert [(row.t, row.x) for row in rows] == [(38, 76), (39, 78)]
    by_path = spark.read.format("icechunk").load(str(tmp_path))
    assert by_path.count() == 40
    messages = [row.message for row in read_table(spark, repository, "history").collect()]
    assert "forty" in messages
    refs = read_table(spark, repository, "chunk_refs").collect()
    assert len(refs) == 8


def test_rows_are_appended(spark: SparkSession, tmp_path: Path) -> None:
    repository = made(tmp_path, "alpha2")
    more = spark.createDataFrame([(40, 80), (41, 82)], "t bigint, x bigint")
    write(more, repository, mode="append", dims=["t"])
    again = Repository.open(repository.storage)
    assert again.generation == "A2e"
    found = zarr.open_array(again.readonly_session("main").store, path="x", mode="r")
    np.testing.assert_array_equal(found[:], np.arange(42) * 2)
