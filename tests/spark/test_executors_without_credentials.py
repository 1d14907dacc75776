"""Executors whose environment has no credentials where the driver's has, or wrong ones.

The variables are set in this process, which is the driver; Spark's JVM, and the processes of Python
that it starts for tasks, began without them and get only what a test adds to `environment`.
"""

import time
from pathlib import Path

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import frazil
from frazil.errors import StorageError
from frazil.spark.ingestion.ingest import ingest
from frazil.spark.runtime.storage_options import format_place, open_place
from tests.cli.days import write_day
from tests.servers.s3 import S3Server

MISSING = "StorageError: there are no credentials for S3 in the environment"
REFUSED = "access was refused, check the credentials and what they allow"
WRONG_SECRET = "not-the-secret-of-the-server"  # noqa: S105 -- that is the point
PATIENCE_S = 120  # on a busy machine; nobody waits for an address that does not answer


@pytest.fixture
def storage(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> frazil.Storage:
    """A repository that whoever has credentials in the environment can open; this process has."""
    prefix = s3_server.new_prefix()
    frazil.Repository.create(s3_server.storage(frazil, prefix))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    given = s3_server.arguments(prefix)
    del given["access_key_id"], given["secret_access_key"]
    return frazil.s3_storage(**given, from_env=True)


@pytest.mark.spark
@pytest.mark.parametrize(("has_wrong_ones", "told"), [(False, MISSING), (True, REFUSED)])
def test_the_job_fails_and_says_what_is_missing(  # noqa: PLR0917 -- fixtures
    spark: SparkSession,
    s3_server: S3Server,
    storage: frazil.Storage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    has_wrong_ones: bool,  # noqa: FBT001 -- a parameter of the test
    told: str,
) -> None:
    if has_wrong_ones:
        environment = spark.sparkContext.environment
        monkeypatch.setitem(environment, "AWS_ACCESS_KEY_ID", s3_server.access_key)
        monkeypatch.setitem(environment, "AWS_SECRET_ACCESS_KEY", WRONG_SECRET)
    repository = frazil.Repository.open(storage)
    tip = repository.lookup_branch("main")
    before = {info.key for info in storage.store.list()}
    began = time.monotonic()

    with pytest.raises(PythonException, match=told) as failure:
        ingest(spark, [write_day(tmp_path, 0)], repository, concat_dim="time")

    assert time.monotonic() - began < PATIENCE_S
    assert s3_server.secret_key not in str(failure.value)
    assert WRONG_SECRET not in str(failure.value)
    assert frazil.Repository.open(storage).lookup_branch("main") == tip
    assert {info.key for info in storage.store.list()} == before


@pytest.mark.long  # only that what fails above fails for want of credentials
@pytest.mark.spark
def test_executors_that_have_the_same_ones_do_the_job(
    spark: SparkSession,
    s3_server: S3Server,
    storage: frazil.Storage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = spark.sparkContext.environment
    monkeypatch.setitem(environment, "AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setitem(environment, "AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    repository = frazil.Repository.open(storage)
    assert ingest(spark, [write_day(tmp_path, 0)], repository, concat_dim="time").committed


def test_a_place_is_opened_with_what_the_environment_has_there(
    s3_server: S3Server, storage: frazil.Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = format_place(storage.store)
    before = {info.key for info in storage.store.list()}
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", WRONG_SECRET)
    with pytest.raises(StorageError, match=REFUSED):
        open_place(place).put("chunks/00000000000000000000", b"of a task")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StorageError, match="there are no credentials for S3 in the environment"):
        open_place(place).put("chunks/00000000000000000000", b"of a task")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    assert {info.key for info in open_place(place).list()} == before
