"""The servers of the tests are what they claim to be; ours does what a web server does."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError
from obstore.store import AzureStore, HTTPStore, S3Store

from frazil.testing.fault_proxy import FaultProxy
from tests.servers.azure import AzureServer
from tests.servers.http_files import HttpServer
from tests.servers.s3 import S3Server

SERVERS = ["s3_server", "hot_s3_server", "azure_server"]


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> S3Server | AzureServer:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


@pytest.fixture
def client(server: S3Server | AzureServer) -> S3Store | AzureStore:
    return server.raw(server.new_prefix())


def test_what_is_put_is_there_and_a_second_creation_is_refused(
    client: S3Store | AzureStore,
) -> None:
    client.put("key", b"data", mode="create")
    assert bytes(client.get_range("key", start=1, length=2)) == b"at"
    with pytest.raises(AlreadyExistsError):
        client.put("key", b"other", mode="create")


def test_every_prefix_is_a_new_one(server: S3Server | AzureServer) -> None:
    assert len({server.new_prefix() for _ in range(3)}) == 3
    assert list(server.raw(server.new_prefix()).list()) == []


def test_a_proxy_does_not_spoil_the_signature(
    server: S3Server | AzureServer, fault_proxy: Callable[[str], FaultProxy]
) -> None:
    proxy = fault_proxy(server.host)
    client = server.at(proxy.url).raw(server.new_prefix())
    client.put("a b+c%d", b"data" * 100_000)
    assert client.head("a b+c%d")["size"] == 400_000
    assert proxy.count("PUT") == 1


def test_seaweedfs_refuses_a_wrong_secret(s3_server: S3Server) -> None:
    with pytest.raises(PermissionDeniedError):
        S3Server(s3_server.endpoint, s3_server.process, secret_key="wrong").raw().get("ready")  # noqa: S106 - wrong


@pytest.fixture
def files(tmp_path: Path, http_server: Callable[[Path], HttpServer]) -> HttpServer:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "digits").write_bytes(b"0123456789")
    return http_server(tmp_path)


def over_http(files: HttpServer) -> HTTPStore:
    return HTTPStore.from_url(
        files.url, client_options={"allow_http": True}, retry_config={"max_retries": 0}
    )


def test_ranges_are_served(files: HttpServer) -> None:
    client = over_http(files)
    assert bytes(client.get("folder/digits").bytes()) == b"0123456789"
    assert bytes(client.get_range("folder/digits", start=2, length=3)) == b"234"
    assert bytes(client.get("folder/digits", options={"range": {"suffix": 2}}).bytes()) == b"89"
    assert client.head("folder/digits")["size"] == 10
    assert [one.range for one in files.asked] == [None, "bytes=2-4", "bytes=-2", None]
    with pytest.raises(FileNotFoundError):
        client.get("folder/missing")


def test_conditions_are_answered(files: HttpServer) -> None:
    client = over_http(files)
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    etag = client.head("folder/digits")["e_tag"]
    assert etag
    assert client.get("folder/digits", options={"if_match": etag}).meta["e_tag"] == etag
    (files.root / "folder" / "digits").write_bytes(b"changed")
    with pytest.raises(BaseError):
        client.get("folder/digits", options={"if_match": etag})
    with pytest.raises(BaseError):
        client.get("folder/digits", options={"if_unmodified_since": long_ago})


def test_redirects_are_followed_but_not_forever(files: HttpServer) -> None:
    files.redirects |= {"/old": "/folder/digits", "/loop": "/loop"}
    client = over_http(files)
    assert bytes(client.get("old").bytes()) == b"0123456789"
    with pytest.raises(BaseError):
        client.get("loop")
    assert files.count(path="loop") <= 11
