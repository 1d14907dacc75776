"""Credentials never appear: not in reprs, errors, traces, logs, nor in a stored repository."""

import asyncio
import logging
import pickle
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import zarr

import frazil
from frazil.errors import FormatError
from frazil.format.envelope import decode_envelope, decode_header
from frazil.objectstore.credentials import Redacted
from tests.servers.azure import AzureServer
from tests.servers.process import free_ports
from tests.servers.s3 import S3Server

SECRET = "c2VjcmV0LW9mLW5vYm9keQ=="  # noqa: S105 - of nobody; base64, as Azure wants it


def s3_secret() -> frazil.S3StaticCredentials:
    return frazil.S3StaticCredentials(SECRET, SECRET, SECRET)


def gcs_secret() -> frazil.GcsBearerCredential:
    return frazil.GcsBearerCredential(SECRET)


def azure_secret() -> Any:
    return frazil.AzureRefreshableCredential.SasToken(SECRET)


CREDENTIALS: list[Redacted] = [
    s3_secret(),
    frazil.s3_static_credentials(access_key_id=SECRET, secret_access_key=SECRET),
    frazil.s3_refreshable_credentials(s3_secret, scatter_initial_credentials=True),
    frazil.Credentials.S3(frazil.S3Credentials.Static(s3_secret())),
    gcs_secret(),
    frazil.gcs_credentials(bearer_token=SECRET),
    frazil.gcs_credentials(service_account_key=SECRET),
    frazil.gcs_refreshable_credentials(gcs_secret, scatter_initial_credentials=True),
    frazil.Credentials.Gcs(frazil.gcs_credentials(bearer_token=SECRET)),
    frazil.azure_credentials(access_key=SECRET),
    frazil.azure_credentials(sas_token=SECRET),
    frazil.azure_credentials(bearer_token=SECRET),
    frazil.azure_refreshable_credentials(azure_secret, scatter_initial_credentials=True),
    frazil.AzureRefreshableCredential.AccessKey(SECRET),
    frazil.AzureRefreshableCredential.BearerToken(SECRET),
]


@pytest.mark.parametrize("credentials", CREDENTIALS, ids=lambda one: type(one).__name__)
def test_credentials_do_not_show_their_secret(credentials: Redacted) -> None:
    assert SECRET not in repr(credentials) + str(credentials) + f"{credentials}"
    again = pickle.loads(pickle.dumps(credentials))
    assert again == credentials
    assert SECRET not in repr(again)


def storages(endpoint: str) -> Iterator[frazil.Storage]:
    own: dict[str, Any] = {"prefix": "p", "access_key_id": SECRET, "secret_access_key": SECRET}
    headers = {"authorization": SECRET}
    yield frazil.s3_storage(bucket="b", endpoint_url=endpoint, session_token=SECRET, **own)
    yield frazil.s3_storage(
        bucket="b", prefix="p", endpoint_url=endpoint, anonymous=True, headers=headers
    )
    yield frazil.s3_storage(
        bucket="b", prefix="p", endpoint_url=endpoint, get_credentials=s3_secret
    )
    yield frazil.r2_storage(bucket="b", endpoint_url=endpoint, **own)
    yield frazil.tigris_storage(bucket="b", region="iad", endpoint_url=endpoint, **own)
    yield frazil.gcs_storage(
        bucket="b", prefix="p", bearer_token=SECRET, config={"google_base_url": endpoint}
    )
    azure = {"azure_storage_endpoint": endpoint}
    for way in ("access_key", "sas_token", "bearer_token"):
        given: Any = {way: f"sig={SECRET}" if way == "sas_token" else SECRET}
        yield frazil.azure_storage(account="a", container="ccc", prefix="p", config=azure, **given)
    yield frazil.http_storage(f"{endpoint}/x?token={SECRET}", headers=headers)
    yield frazil.http_storage(f"{endpoint.replace('://', f'://me:{SECRET}@')}/x")
    yield frazil.redirect_storage(f"{endpoint}/x?token={SECRET}")


def shown(error: BaseException) -> str:
    """All that anybody prints of an error: traces, and values of variables of ours in them.

    But for those of redirect.py, which asks for a URL as it was given.
    """
    plain = "".join(traceback.format_exception(error))
    found = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = [frame for frame in found.stack if "/src/frazil/" in frame.filename]
    ours = [str(frame.locals) for frame in frames if not frame.filename.endswith("redirect.py")]
    assert ours
    return "".join([plain, *ours, repr(error), str(error)])


def test_storages_and_their_errors_do_not_show_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    (port,) = free_ports(1)
    config = frazil.RepositoryConfig(
        storage=frazil.StorageSettings(retries=frazil.StorageRetriesSettings(1, 1, 1))
    )
    for storage in storages(f"http://127.0.0.1:{port}"):
        assert SECRET not in repr(storage) + str(storage)
        with pytest.raises(frazil.StorageError) as caught:
            frazil.Repository.open(storage, config)
        assert SECRET not in shown(caught.value), storage
        assert SECRET not in repr(pickle.loads(pickle.dumps(storage)))
    assert SECRET not in caplog.text


@pytest.mark.parametrize("way", ["sas_token", "access_key"])
def test_an_answer_of_azure_does_not_bring_it_out(azure_server: AzureServer, way: str) -> None:
    given = {"access_key": None, way: f"sv=1&sig={SECRET}" if way == "sas_token" else SECRET}
    storage = azure_server.storage(frazil, "p", **given)
    for use in (frazil.Repository.open, frazil.Repository.create):
        with pytest.raises(frazil.StorageError) as caught:
            use(storage)
        assert SECRET not in shown(caught.value)


def test_a_stored_repository_holds_no_secret(
    s3_server: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    prefix = s3_server.new_prefix()
    storage = s3_server.storage(frazil, prefix, headers={"x-note": SECRET})
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
    container = frazil.VirtualChunkContainer("s3://other/", frazil.s3_store(region="us-east-1"))
    config.set_virtual_chunk_container(container)
    access = frazil.containers_credentials(
        {"s3://other/": frazil.S3Credentials.Static(s3_secret())}
    )
    repository = frazil.Repository.create(storage, config, access)
    session = repository.writable_session("main")
    array = zarr.create_array(session.store, name="a", shape=(10,), chunks=(5,), dtype="i4")
    array[:] = np.arange(10)
    session.commit("with data")
    repository.save_config()
    asyncio.run(repository.writable_session_async("main"))

    secrets = (SECRET, s3_server.secret_key, s3_server.access_key)
    texts = [repr(repository), str(repository), repr(session), repr(repository.config), caplog.text]
    raw = s3_server.store(prefix)
    stored = {info.key: bytes(raw.get(info.key).data) for info in raw.list()}
    assert {key.partition("/")[0] for key in stored} >= {"repo", "chunks", "snapshots"}
    for secret in secrets:
        assert not [text for text in texts if secret in text]
        for key, data in stored.items():
            assert secret.encode() not in data + unpacked(data), key


def unpacked(data: bytes) -> bytes:
    """What is inside of a file of the format; chunks are none."""
    try:
        return bytes(decode_envelope(data, decode_header(data).file_type).data)
    except FormatError:
        return b""
