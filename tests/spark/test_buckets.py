"""Repositories in a bucket, with Spark: workers get there too, and nobody sees how."""

import base64
import pickle
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from pyspark.sql import SparkSession

import frazil
from frazil.errors import InvalidInputError
from frazil.objectstore import LocalStore, MemoryStore
from frazil.objectstore.credentials import GcsFromEnvCredentials, S3FromEnvCredentials
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote.gcs import GcsPlace
from frazil.objectstore.remote.s3 import S3Place
from frazil.spark import plan_read, read, sql
from frazil.spark.ingestion.ingest import ingest
from frazil.spark.runtime.storage_options import PlaceText, format_place, open_place
from frazil.spark.table.options import parse_options
from tests.servers.s3 import S3Server
from tests.spark.repositories import LATITUDES, SHAPE, fill_weather, temperature


@pytest.fixture
def weather(s3_server: S3Server) -> frazil.Repository:
    storage = s3_server.storage(frazil, s3_server.new_prefix())
    repository = frazil.Repository.create(storage)
    with repository.transaction("main", message="weather") as store:
        fill_weather(zarr.group(store))
    return repository


def assert_no_secret(repository: frazil.Repository, server: S3Server, *texts: str) -> None:
    """Neither as it is nor as it is written down for workers."""
    written = format_place(repository.storage.store).secret
    assert server.secret_key in written
    for text in texts:
        assert server.secret_key not in text
        assert written[:40] not in text


@pytest.mark.spark
def test_rows_are_read_from_a_bucket_and_no_plan_shows_the_secret(
    spark: SparkSession, s3_server: S3Server, weather: frazil.Repository
) -> None:
    df = read(spark, weather, variables=["t2m"], sel={"lat": 90.0})
    assert df.where("t2m IS NOT NULL").count() == SHAPE[0] * SHAPE[2] - 3
    again = sql(spark, "SELECT count(*) AS n FROM w WHERE lat = 0", {"w": weather})
    assert [row.n for row in again.collect()] == [SHAPE[0] * SHAPE[2]]
    plan = df._jdf.queryExecution()  # what the pages of Spark show
    shown = [plan.toString(), plan.optimizedPlan().prettyJson(), plan.logical().toJSON()]
    assert all("icechunk" in text or "Relation" in text for text in shown)
    assert_no_secret(weather, s3_server, *shown)


@pytest.mark.spark
def test_files_are_ingested_into_a_bucket(
    spark: SparkSession, s3_server: S3Server, tmp_path: Path
) -> None:
    values = temperature((6, 19, 36))
    for part in (0, 1):
        times = xr.Variable("time", np.arange(3 * part, 3 * part + 3))
        made = xr.Dataset(
            {"t2m": (("time", "lat", "lon"), values[3 * part : 3 * part + 3])},
            {"time": times, "lat": LATITUDES},
        )
        made.to_netcdf(tmp_path / f"{part}.nc", engine="h5netcdf")
    repository = frazil.Repository.create(s3_server.storage(frazil, s3_server.new_prefix()))
    result = ingest(spark, [tmp_path], repository, group="w", concat_dim="time", chunks={"time": 2})
    assert result.committed
    found = zarr.open_array(repository.readonly_session("main").store, path="w/t2m", mode="r")
    np.testing.assert_array_equal(np.asarray(found[:]), values)


# Without Spark


def test_a_place_is_a_location_and_a_hidden_rest(
    s3_server: S3Server, weather: frazil.Repository
) -> None:
    plan = plan_read(weather, variables="t2m")
    location = weather.storage.store.location  # type: ignore[attr-defined]  # of a RemoteStore
    assert plan.options.path == location
    assert_no_secret(weather, s3_server, repr(plan), repr(plan.options))
    place = PlaceText(plan.options.path, plan.options.secret_storage)
    found = open_place(place)
    assert isinstance(found, RemoteStore)
    assert found.location == location
    assert bytes(found.get("repo").data) == bytes(weather.storage.store.get("repo").data)


def test_a_location_alone_is_opened_with_what_the_environment_says() -> None:
    s3, gcs, web = (
        open_place(PlaceText(path)) for path in ("s3://b/p%20q/", "gs://b", "https://host/p")
    )
    assert isinstance(s3, RemoteStore)
    assert isinstance(gcs, RemoteStore)
    assert s3.place == S3Place(bucket="b", prefix="p q", credentials=S3FromEnvCredentials())
    assert gcs.place == GcsPlace(bucket="b", prefix="", credentials=GcsFromEnvCredentials())
    assert not web.writable
    local = open_place(PlaceText("file:///data/a%20b"))
    assert isinstance(local, LocalStore)
    assert local.root == "/data/a b"


@pytest.mark.parametrize("path", ["az://container/x", "ftp://host/x", "hdfs://host/x"])
def test_a_location_that_says_too_little_is_refused(path: str) -> None:
    with pytest.raises(InvalidInputError, match=r"expected a folder|storage\.account"):
        open_place(PlaceText(path))


def test_what_others_wrote_is_not_opened() -> None:
    text = base64.b64encode(pickle.dumps(["no store"])).decode()
    given = parse_options({"path": "s3://b/p", "secretStorage": text})
    with pytest.raises(InvalidInputError, match="secretStorage"):
        open_place(PlaceText(given.path, given.secret_storage))
    with pytest.raises(InvalidInputError, match="other processes"):
        format_place(MemoryStore())
