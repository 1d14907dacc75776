"""Pipelines over repositories in buckets, by location and options; nothing shows the secret."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import frazil
from frazil.errors import InvalidInputError, ObjectNotFoundError
from frazil.spark import clone, explain_clone, explain_rechunk, export, map_blocks, rechunk, reduce
from frazil.virtual import VirtualChunkAccess
from tests.servers.s3 import S3Server
from tests.spark.repositories import fill_weather

pytestmark = pytest.mark.spark


@pytest.fixture
def prefix(s3_server: S3Server) -> str:
    prefix = s3_server.new_prefix()
    repository = frazil.Repository.create(s3_server.storage(frazil, prefix))
    with repository.transaction("main", message="weather") as store:
        fill_weather(zarr.group(store))
    return prefix


def reach(server: S3Server) -> dict[str, Any]:
    given = server.arguments("")
    return {name: given[name] for name in given if name not in {"bucket", "prefix"}}


def at(server: S3Server, prefix: str, **options: Any) -> frazil.Repository:
    return frazil.Repository.open(server.storage(frazil, prefix), **options)


def values(repository: frazil.Repository, path: str) -> npt.NDArray[Any]:
    store = repository.readonly_session("main").store
    return np.asarray(zarr.open_array(store, path=path, mode="r")[...])


def assert_no_secret(server: S3Server, *texts: object) -> None:
    """Neither as it is nor inside of something that was encoded, wherever it began there."""
    encoded = (base64.b64encode(b"x" * k + server.secret_key.encode()).decode() for k in range(3))
    secrets = [server.secret_key, *(text[4:-4] for text in encoded)]
    assert [text for text in map(str, texts) for secret in secrets if secret in text] == []


def test_arrays_in_a_bucket_are_rechunked_mapped_and_reduced(
    spark: SparkSession, s3_server: S3Server, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    location, storage = f"s3://{s3_server.bucket}/{prefix}", reach(s3_server)
    before = values(at(s3_server, prefix), "t2m")
    plan = explain_rechunk(None, location, "t2m", chunks={"time": 24}, storage=storage)
    done = rechunk(spark, location, "t2m", chunks={"time": 24}, storage=storage)
    assert done.committed
    twice = map_blocks(
        spark, location, lambda x: 2 * x, "t2m", {"twice": "f4"}, storage=storage
    )  # fmt: skip
    mean = reduce(spark, location, "t2m", over="time", into="mean", storage=storage)
    repository = at(s3_server, prefix)
    np.testing.assert_array_equal(values(repository, "t2m"), before)
    np.testing.assert_array_equal(values(repository, "twice"), 2 * before)
    np.testing.assert_allclose(values(repository, "mean/t2m"), np.nanmean(before, axis=0), 1e-5)

    frame = reduce(spark, location, "t2m", over=["time", "lon"], how="max", storage=storage)
    frame.explain(extended=True)
    assert frame.count() == 19
    execution = frame._jdf.queryExecution()
    plans = [execution.toString(), execution.optimizedPlan().prettyJson()]
    shown = capsys.readouterr().out
    assert "MapInArrow" in shown
    told = [record.metadata for record in repository.ancestry(branch="main")]
    assert [note["frazil"]["operation"] for note in told[:3]] == ["reduce", "map_blocks", "rechunk"]
    assert_no_secret(s3_server, plan, done, twice, mean, shown, told, frame, *plans)


def test_errors_of_pipelines_do_not_show_how_the_bucket_is_reached(
    spark: SparkSession, s3_server: S3Server, prefix: str
) -> None:
    location, storage = f"s3://{s3_server.bucket}/{prefix}", reach(s3_server)
    repository = at(s3_server, prefix)
    tip = repository.lookup_branch("main")

    def fail(_: npt.NDArray[Any]) -> npt.NDArray[Any]:
        raise ZeroDivisionError("on purpose")

    errors: list[BaseException] = []
    with pytest.raises(PySparkException, match="on purpose") as raised:
        map_blocks(spark, location, fail, "t2m", {"v": "f4"}, storage=storage)
    errors.append(raised.value)
    with pytest.raises(InvalidInputError, match=r"unknown option 'storage\.regoin'") as refused:
        rechunk(spark, location, chunks={"time": 7}, storage={**storage, "regoin": "x"})
    errors.append(refused.value)
    with pytest.raises(InvalidInputError, match="goes with a location") as given:
        rechunk(spark, repository, chunks={"time": 7}, storage=storage)
    errors.append(given.value)
    store = s3_server.store(prefix)
    lost = max(store.list("chunks/"), key=lambda one: one.size_bytes).key
    store.delete([lost])
    with pytest.raises(ObjectNotFoundError) as gone:
        reduce(spark, location, ["t2m", "pressure"], over="time", into="x", storage=storage)
    errors.append(gone.value)
    assert repository.lookup_branch("main") == tip
    assert_no_secret(s3_server, *errors, *map(repr, errors))


def test_exports_from_a_bucket_and_to_one(
    spark: SparkSession, s3_server: S3Server, prefix: str, tmp_path: Path
) -> None:
    location, storage = f"s3://{s3_server.bucket}/{prefix}", reach(s3_server)
    wanted = values(at(s3_server, prefix), "t2m")
    there = s3_server.new_prefix()
    target = f"s3://{s3_server.bucket}/{there}"
    done = export(
        spark, location, target, variables=["t2m"], storage=storage, target_storage=storage
    )
    assert done.objects == 48 + 3
    found = {one.key: one.size_bytes for one in s3_server.store(there).list()}
    assert {key.partition("/")[0] for key in found} == {"zarr.json", "t2m", "time", "lat", "lon"}
    store = zarr.storage.ObjectStore(s3_server.raw(there), read_only=True)
    exported = zarr.open_array(store, path="t2m", mode="r")
    np.testing.assert_array_equal(exported[...], wanted)
    with pytest.raises(frazil.IcechunkError, match="something at the target"):
        export(spark, location, target, storage=storage, target_storage=storage)
    with pytest.raises(InvalidInputError, match="target_storage is for format='zarr'"):
        export(
            spark,
            location,
            tmp_path / "p",
            format="parquet",
            storage=storage,
            target_storage=storage,
        )

    rows = export(
        spark, location, tmp_path / "rows", format="parquet", variables=["t2m"], storage=storage
    )
    assert spark.read.parquet(str(tmp_path / "rows")).count() == wanted.size
    file = export(
        spark, location, tmp_path / "t.nc", format="netcdf", variables=["t2m"], storage=storage
    )
    assert file.objects == 1
    assert_no_secret(s3_server, done, rows, file)


def test_clones_between_buckets_and_folders(
    spark: SparkSession, s3_server: S3Server, prefix: str, tmp_path: Path
) -> None:
    location, storage = f"s3://{s3_server.bucket}/{prefix}", reach(s3_server)
    there = s3_server.new_prefix()
    target = f"s3://{s3_server.bucket}/{there}"
    plan = explain_clone(location, target, storage=storage, target_storage=storage)
    assert not plan.exists
    done = clone(spark, location, target, storage=storage, target_storage=storage)
    wanted = values(at(s3_server, prefix), "t2m")
    np.testing.assert_array_equal(values(at(s3_server, there), "t2m"), wanted)
    assert clone(spark, at(s3_server, prefix), target, target_storage=storage).copied == 0
    clone(spark, target, tmp_path / "here", storage=storage)
    here = frazil.Repository.open(frazil.local_filesystem_storage(tmp_path / "here"))
    np.testing.assert_array_equal(values(here, "t2m"), wanted)

    view = clone(spark, location, tmp_path / "view", deep=False, storage=storage)
    credentials = frazil.s3_credentials(
        access_key_id=s3_server.access_key, secret_access_key=s3_server.secret_key
    )
    seen = frazil.Repository.open(
        frazil.local_filesystem_storage(tmp_path / "view"),
        authorize_virtual_chunk_access=VirtualChunkAccess(
            frazil.containers_credentials({f"{location}/chunks/": credentials}),
            endpoints=[s3_server.endpoint],
        ),
    )
    np.testing.assert_array_equal(values(seen, "t2m"), wanted)
    stored = [path.read_bytes() for path in (tmp_path / "view").rglob("*") if path.is_file()]
    assert not [data for data in stored if s3_server.secret_key.encode() in data]
    assert_no_secret(s3_server, plan, done, view, seen.config)
