"""What is wrong is said at once, and names the place: no storm of retries, no riddles."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.errors import IcechunkError, StorageError
from frazil.testing.fault_proxy import FaultProxy
from tests.servers.azure import AzureServer
from tests.servers.http_files import HttpServer
from tests.servers.process import free_ports
from tests.servers.s3 import S3Server


@contextmanager
def refused(*words: str, within_s: float = 30.0, kind: str | None = None) -> Iterator[None]:
    """A StorageError that contains the words, soon."""
    before = time.monotonic()
    with pytest.raises(StorageError) as caught:
        yield
    assert time.monotonic() - before < within_s
    assert type(caught.value) is StorageError
    for word in words:
        assert word in str(caught.value)
    if kind is not None:
        assert caught.value.kind == kind


def uses(storage: frazil.Storage) -> list[Callable[[], Any]]:
    return [
        lambda: frazil.Repository.open(storage),
        lambda: frazil.Repository.create(storage),
        lambda: frazil.Repository.exists(storage),
    ]


def test_wrong_credentials_of_s3(
    s3_server: S3Server, fault_proxy: Callable[[str], FaultProxy]
) -> None:
    proxy = fault_proxy(s3_server.endpoint)
    server = s3_server.at(proxy.url)
    for wrong in ({"secret_access_key": "wrong"}, {"access_key_id": "wrong"}):
        for use in uses(server.storage(frazil, "p/q", **wrong)):
            proxy.seen.clear()
            with refused(f"s3://{server.bucket}/p/q", "credentials", kind="object-store"):
                use()
            assert len(proxy.seen) <= 2


def test_no_credentials_where_some_are_needed(s3_server: S3Server) -> None:
    anonymous = s3_server.storage(
        frazil, "p", access_key_id=None, secret_access_key=None, anonymous=True
    )
    for use in uses(anonymous):
        with refused(f"s3://{s3_server.bucket}/p", "credentials"):
            use()


def test_a_missing_bucket(s3_server: S3Server) -> None:
    for use in uses(s3_server.storage(frazil, "p", bucket="no-such-bucket")):
        with refused("s3://no-such-bucket does not exist"):
            use()


def test_a_missing_container_of_azure(azure_server: AzureServer) -> None:
    for use in uses(azure_server.storage(frazil, "p", container="no-such-container")):
        with refused("az://no-such-container does not exist"):
            use()


def test_wrong_credentials_of_azure(azure_server: AzureServer) -> None:
    for use in uses(azure_server.storage(frazil, "p", access_key="d3Jvbmc=")):
        with refused("az://", "credentials"):
            use()


def test_nobody_at_the_address() -> None:
    (port,) = free_ports(1)
    storage = frazil.s3_storage(
        bucket="b", prefix="p", endpoint_url=f"http://127.0.0.1:{port}", anonymous=True
    )
    for use in uses(storage):
        with refused("s3://b/p", "cannot connect", within_s=60):
            use()


def test_a_server_that_does_not_answer(hot_s3_server: S3Server) -> None:
    import socket  # noqa: PLC0415 - only here

    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = frazil.RepositoryConfig(
            storage=frazil.StorageSettings(
                retries=frazil.StorageRetriesSettings(2, 1, 10),
                timeouts=frazil.StorageTimeoutSettings(read_timeout_ms=200),
            )
        )
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        storage = hot_s3_server.storage(frazil, "p", endpoint_url=endpoint)
        with refused(f"s3://{hot_s3_server.bucket}/p", "in time"):
            frazil.Repository.open(storage, config)


def test_an_unknown_option(azure_server: AzureServer) -> None:
    storage = azure_server.storage(frazil, "p", config={"nonsense": "x"})
    with refused("az://", "nonsense"):
        frazil.Repository.open(storage)


def test_an_option_of_the_client_that_does_not_exist() -> None:
    storage = frazil.http_storage("http://127.0.0.1:1/x", opts={"nonsense": "x"})
    with refused("http://127.0.0.1:1/x", "nonsense"):
        frazil.Repository.open(storage)


def test_a_checksum_that_cannot_be_made() -> None:
    with refused("crc32c", kind="storage-config"):
        frazil.s3_storage(
            bucket="b", prefix="p", checksum_algorithm=frazil.ChecksumAlgorithm.Crc32c
        )
    frazil.s3_storage(bucket="b", prefix="p", checksum_algorithm=frazil.ChecksumAlgorithm.Sha256)


def failing() -> frazil.S3StaticCredentials:
    raise RuntimeError("the vault is closed")


def wrong() -> int:
    return 3


@pytest.mark.parametrize(("get", "words"), [(failing, "the vault is closed"), (wrong, "int")])
def test_a_function_that_gets_no_credentials(
    s3_server: S3Server, get: Callable[[], Any], words: str
) -> None:
    storage = s3_server.storage(
        frazil, "p", access_key_id=None, secret_access_key=None, get_credentials=get
    )
    with refused(f"s3://{s3_server.bucket}/p", "credentials", words):
        frazil.Repository.open(storage)


# Redirects


@pytest.fixture
def web(tmp_path: Path, http_server: Callable[[Path], HttpServer]) -> HttpServer:
    return http_server(tmp_path)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("/here", "circle"),
        ("ftp://x/y", "unknown scheme"),
        ("file:///tmp", "unknown scheme"),
        ("s3://bucket/prefix", "region"),
        ("s3:///prefix?region=x", "bucket"),
        ("r2://bucket/prefix", "account_id"),
        ("gs://", "bucket"),
        ("/missing", "must be a redirect"),
    ],
)
def test_a_redirect_that_leads_nowhere(web: HttpServer, target: str, words: str) -> None:
    web.redirects["/here"] = target
    storage = frazil.redirect_storage(f"{web.url}/here")
    for use in (frazil.Repository.open, frazil.Repository.exists):
        web.asked.clear()
        with refused(words, kind="bad-redirect"):
            use(storage)
        assert len(web.asked) <= 11


def test_a_redirect_to_a_repository(web: HttpServer, tmp_path: Path) -> None:
    frazil.Repository.create(frazil.local_filesystem_storage(tmp_path / "repo dir"))
    web.redirects["/one"] = "/two"
    web.redirects["/two"] = f"http+icechunk://{web.url.removeprefix('http://')}/repo%20dir"
    storage = frazil.redirect_storage(f"{web.url}/one")
    repository = frazil.Repository.open(storage)
    assert repository.list_branches() == {"main"}
    repository.readonly_session("main")
    assert sum(one.path in {"/one", "/two"} for one in web.asked) == 2
    with pytest.raises(IcechunkError) as caught:
        frazil.Repository.create(storage)
    assert caught.value.kind == "read-only-storage"
