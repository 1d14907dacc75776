"""Virtual chunks, read by Spark's workers."""

import json
from pathlib import Path

import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.objectstore.credentials import LocalFileSystemAccess
from frazil.virtual import VirtualChunkAccess, VirtualReads


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for day in range(4):
        (folder / f"{day}.bin").write_bytes(
            b"head" + np.arange(3, dtype="<i4").tobytes() * (day + 1)
        )
    return folder


@pytest.fixture
def repository(files: Path, tmp_path: Path) -> frazil.Repository:
    """Four days of three values, each day in a file of its own."""
    prefix = f"file://{files}/"
    config = frazil.RepositoryConfig()
    store = frazil.ObjectStoreConfig.LocalFileSystem(str(files))
    config.set_virtual_chunk_container(frazil.VirtualChunkContainer(prefix, store))
    storage = frazil.local_filesystem_storage(tmp_path / "repository")
    repository = frazil.Repository.create(storage, config, {prefix: LocalFileSystemAccess()})
    session = repository.writable_session("main")
    zarr.create_array(
        session.store, name="v", shape=(4, 3), chunks=(1, 3), dtype="<i4", filters=None,
        compressors=None, dimension_names=("day", "x"),
    )  # fmt: skip
    session.store.set_virtual_refs(
        "v", [frazil.VirtualChunkSpec([day, 0], f"{prefix}{day}.bin", 4, 12) for day in range(4)]
    )
    session.commit("virtual")
    return repository


def test_workers_may_read_what_the_repository_may(
    spark: SparkSession, repository: frazil.Repository
) -> None:
    rows = frazil.spark.read(spark, repository).collect()
    assert sorted(tuple(row) for row in rows) == [(d, x, x) for d in range(4) for x in range(3)]
    found = frazil.spark.sql(spark, "SELECT sum(v) AS v FROM t", tables={"t": repository}).collect()
    assert found[0].v == 12


def test_more_than_credentials_reaches_the_workers(
    spark: SparkSession, repository: frazil.Repository
) -> None:
    given = repository.authorized_virtual_container_prefixes
    access = VirtualChunkAccess(
        dict.fromkeys(given, LocalFileSystemAccess()), reads=VirtualReads(max_gap_bytes=0)
    )
    again = repository.reopen(authorize_virtual_chunk_access=access)
    assert frazil.spark.read(spark, again).count() == 12


def test_the_option_gives_leave_in_words(
    spark: SparkSession, repository: frazil.Repository, files: Path, tmp_path: Path
) -> None:
    reader = spark.read.format("icechunk").option("path", str(tmp_path / "repository"))
    with pytest.raises(Exception, match="authorize the virtual chunk container"):
        reader.load().collect()
    assert repository.virtual_chunks("main").locations[0].startswith("file://")
    given = json.dumps({f"file://{files}": "local"})
    assert reader.option("authorize", given).load().count() == 12
