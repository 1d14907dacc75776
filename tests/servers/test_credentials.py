"""Credentials that a function gives: on real servers, again and again, and in other processes."""

import pickle
import time
from datetime import UTC, datetime, timedelta

import pytest

import frazil
from tests.servers import azure, s3
from tests.servers.azure import AzureServer
from tests.servers.s3 import S3Server

calls: list[str] = []  # of the functions below, which pickle finds by their names


def soon() -> datetime:
    return datetime.now(UTC) + timedelta(milliseconds=50)


def let_expire() -> None:
    """And a bit longer: what was fetched a moment ago is not fetched again."""
    time.sleep(0.2)


def short_lived() -> frazil.S3StaticCredentials:
    calls.append("s3")
    return frazil.S3StaticCredentials(s3.ACCESS_KEY, s3.SECRET_KEY, None, soon())


def long_lived() -> frazil.S3StaticCredentials:
    calls.append("s3")
    return frazil.S3StaticCredentials(s3.ACCESS_KEY, s3.SECRET_KEY)


def first_wrong() -> frazil.S3StaticCredentials:
    calls.append("s3")
    secret = s3.SECRET_KEY if len(calls) > 1 else "wrong"
    return frazil.S3StaticCredentials(s3.ACCESS_KEY, secret, None, soon())


def azure_key() -> frazil.AzureRefreshableCredential:
    calls.append("azure")
    return frazil.AzureRefreshableCredential.AccessKey(azure.ACCESS_KEY, expires_after=soon())


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    calls.clear()


def s3_storage(server: S3Server, credentials: frazil.S3Credentials) -> frazil.Storage:
    options = frazil.S3Options(
        region=server.region, endpoint_url=server.endpoint, force_path_style=True
    )
    return frazil.Storage.new_s3(options, server.bucket, server.new_prefix(), credentials)


def use(storage: frazil.Storage, times: int = 3) -> None:
    """Commits, from a repository that has been through a pickle."""
    frazil.Repository.create(storage)
    repository = pickle.loads(pickle.dumps(frazil.Repository.open(storage)))
    for number in range(times):
        repository.create_tag(f"t{number}", repository.lookup_branch("main"))
    assert len(repository.list_tags()) == times


def test_what_does_not_expire_is_asked_for_once_by_each_client(s3_server: S3Server) -> None:
    storage = s3_storage(s3_server, frazil.s3_refreshable_credentials(long_lived))
    use(storage)
    assert 1 <= len(calls) <= 8  # a client for reading and one for writing, in each copy
    before = len(calls)
    storage.store.put("x", b"")
    storage.store.put("x", b"")
    assert len(calls) - before <= 1


def test_what_is_about_to_expire_is_asked_for_again(s3_server: S3Server) -> None:
    store = s3_storage(s3_server, frazil.s3_refreshable_credentials(short_lived)).store
    for number in range(1, 4):
        store.put("x", b"")
        assert len(calls) == number
        let_expire()


def test_what_was_scattered_is_used_before_anything_is_asked_for(s3_server: S3Server) -> None:
    credentials = frazil.s3_refreshable_credentials(long_lived, scatter_initial_credentials=True)
    assert len(calls) == 1
    use(s3_storage(s3_server, credentials))
    assert len(calls) == 1


def test_wrong_ones_are_an_error_and_not_for_ever(s3_server: S3Server) -> None:
    storage = s3_storage(s3_server, frazil.s3_refreshable_credentials(first_wrong))
    with pytest.raises(frazil.StorageError, match="credentials"):
        storage.store.put("x", b"")
    let_expire()
    storage.store.put("x", b"")


def test_a_function_gives_keys_for_azure(azure_server: AzureServer) -> None:
    storage = frazil.Storage.new_azure_blob(
        azure_server.account,
        azure_server.container,
        azure_server.new_prefix(),
        frazil.azure_refreshable_credentials(azure_key),
        config={"azure_storage_endpoint": azure_server.endpoint},
    )
    use(storage)
    before = len(calls)
    let_expire()
    assert [info.key for info in storage.store.list("repo")] == ["repo"]
    assert len(calls) == before + 1


def test_a_key_for_azure_is_used_whatever_the_environment_says(
    azure_server: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_TOKEN"):
        monkeypatch.setenv(name, "sig=wrong")
    use(azure_server.storage(frazil, azure_server.new_prefix()), times=1)
