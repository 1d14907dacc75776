"""Rows written over virtual chunks: what a chunk held is read first, where the chunk is made."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import frazil
import frazil.spark
from frazil.errors import InvalidInputError
from frazil.objectstore.credentials import LocalFileSystemAccess
from tests.servers.s3 import S3Server

pytestmark = pytest.mark.spark

DAYS, X = 4, 3
UNAUTHORIZED = "authorize the virtual chunk container"


def create(storage: Any, prefix: str, store: Any, access: Any) -> frazil.Repository:
    """Four days of three values, each day a chunk in a file of its own."""
    config = frazil.RepositoryConfig()
    config.set_virtual_chunk_container(frazil.VirtualChunkContainer(prefix, store))
    repository = frazil.Repository.create(storage, config, access)
    session = repository.writable_session("main")
    zarr.create_array(
        session.store, name="v", shape=(DAYS, X), chunks=(1, X), dtype="<i4", filters=None,
        compressors=None, dimension_names=("day", "x"),
    )  # fmt: skip
    session.store.set_virtual_refs(
        "v", [frazil.VirtualChunkSpec([day, 0], f"{prefix}{day}.bin", 4, 12) for day in range(DAYS)]
    )
    session.commit("virtual")
    return repository


def content(day: int) -> bytes:
    return b"head" + (np.arange(X, dtype="<i4") + 10 * day).tobytes()


def expected() -> list[list[int]]:
    return [[x + 10 * day for x in range(X)] for day in range(DAYS)]


def values(repository: frazil.Repository) -> Any:
    store = repository.readonly_session("main").store
    return np.asarray(zarr.open_array(store, path="v", mode="r")[...]).tolist()


def frame(spark: SparkSession, *cells: tuple[int, int, int]) -> DataFrame:
    return spark.createDataFrame(list(cells), "day long, x long, v int")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for day in range(DAYS):
        (folder / f"{day}.bin").write_bytes(content(day))
    return folder


@pytest.fixture
def repository(files: Path, tmp_path: Path) -> frazil.Repository:
    prefix = f"file://{files}/"
    store = frazil.ObjectStoreConfig.LocalFileSystem(str(files))
    storage = frazil.local_filesystem_storage(tmp_path / "repository")
    return create(storage, prefix, store, {prefix: LocalFileSystemAccess()})


def test_cells_beside_those_written_keep_their_virtual_values(
    spark: SparkSession, repository: frazil.Repository
) -> None:
    frazil.spark.write(frame(spark, (1, 1, -1), (3, 0, -3)), repository, mode="region")
    wanted = expected()
    wanted[1][1], wanted[3][0] = -1, -3
    assert values(repository) == wanted
    frazil.spark.write(frame(spark, (0, 2, -5), (4, 0, 40)), repository, mode="upsert")
    wanted[0][2] = -5
    assert values(repository) == [*wanted, [40, *values(repository)[4][1:]]]


def test_without_leave_to_read_them_nothing_is_committed(
    spark: SparkSession, repository: frazil.Repository, files: Path, tmp_path: Path
) -> None:
    path = tmp_path / "repository"
    tip = repository.lookup_branch("main")
    part = frame(spark, (1, 1, -1))
    for stranger in (path, frazil.Repository.open(frazil.local_filesystem_storage(path))):
        with pytest.raises(InvalidInputError, match=UNAUTHORIZED):
            frazil.spark.write(part, stranger, mode="region")
    writer = part.write.format("icechunk").mode("append").option("mode", "region")
    with pytest.raises(PySparkException, match=UNAUTHORIZED):
        writer.save(str(path))
    assert repository.lookup_branch("main") == tip
    # a chunk that is written in full need not be read
    whole = frame(spark, *((2, x, -x) for x in range(X)))
    frazil.spark.write(whole, path, mode="region")
    writer.option("authorize", json.dumps({f"file://{files}/": "local"})).save(str(path))
    wanted = expected()
    wanted[1][1], wanted[2] = -1, [0, -1, -2]
    assert values(repository) == wanted


def test_leave_with_secrets_reaches_the_executors(
    spark: SparkSession, s3_server: S3Server, tmp_path: Path
) -> None:
    prefix = s3_server.new_prefix()
    for day in range(DAYS):
        s3_server.store(prefix).put(f"{day}.bin", content(day))
    options = frazil.S3Options(
        region=s3_server.region, endpoint_url=s3_server.endpoint, allow_http=True,
        force_path_style=True,
    )  # fmt: skip
    url = f"s3://{s3_server.bucket}/{prefix}/"
    credentials = frazil.s3_credentials(
        access_key_id=s3_server.access_key, secret_access_key=s3_server.secret_key
    )
    repository = create(
        frazil.local_filesystem_storage(tmp_path / "repository"),
        url,
        frazil.ObjectStoreConfig.S3Compatible(options),
        frazil.containers_credentials({url: credentials}),
    )
    done = frazil.spark.write(frame(spark, (1, 1, -1)), repository, mode="region")
    wanted = expected()
    wanted[1][1] = -1
    assert values(repository) == wanted
    told = next(iter(repository.ancestry(branch="main"))).metadata
    assert s3_server.secret_key not in f"{done} {told} {repository}"
