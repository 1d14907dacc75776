"""Virtual chunks that cannot be read: the location is named, soon, and the server hardly asked.

The same on S3, Azure and a web server, each behind a proxy that counts.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import frazil
from frazil.credentials import HttpAccess
from frazil.testing.fault_proxy import FaultProxy
from tests.servers.azure import AzureServer
from tests.servers.http_files import HttpServer
from tests.servers.s3 import S3Server

CONTENT = bytes(range(200))
MOST_REQUESTS = 3
MOST_SECONDS = 30.0  # a tenth of one, on a machine that has nothing else to do


@dataclass(frozen=True, slots=True)
class Origin:
    """Where `good` lies: a container for it, the right credentials and wrong ones."""

    url: str
    store: Any
    right: Any
    wrong: Any  # None: there are none
    proxy: FaultProxy

    def missing(self) -> "Origin":
        """The same server, but a bucket that is not there."""
        scheme, _, rest = self.url.partition("://")
        return replace(self, url=f"{scheme}://no-such-place/{rest.partition('/')[2]}")

    def repository(self, credentials: Any) -> frazil.Repository:
        config = frazil.RepositoryConfig()
        config.set_virtual_chunk_container(frazil.VirtualChunkContainer(self.url, self.store))
        access = credentials and frazil.containers_credentials({self.url: credentials})
        return frazil.Repository.create(frazil.in_memory_storage(), config, access)

    def read(self, name: str, length: int, credentials: Any) -> bytes:
        """A chunk of so many bytes, from the 100th on, of the file of that name."""
        session = self.repository(credentials).writable_session("main")
        array = zarr.create_array(
            session.store, name="v", shape=(length,), chunks=(length,), dtype="u1", compressors=None
        )
        session.store.set_virtual_ref("v/c/0", self.url + name, offset=100, length=length)
        self.proxy.clear()
        return np.asarray(array[:]).tobytes()


def s3_origin(server: S3Server, proxy: FaultProxy) -> Origin:
    prefix = server.new_prefix()
    server.store(prefix).put("good", CONTENT)
    near = server.at(proxy.url)
    store = frazil.s3_store(
        region=near.region,
        endpoint_url=near.endpoint,
        allow_http=True,
        force_path_style=True,
        s3_compatible=True,
    )
    right = frazil.s3_credentials(access_key_id=near.access_key, secret_access_key=near.secret_key)
    wrong = frazil.s3_credentials(access_key_id=near.access_key, secret_access_key="wr0ng")  # noqa: S106 - no secret
    return Origin(f"s3://{near.bucket}/{prefix}/", store, right, wrong, proxy)


def azure_origin(server: AzureServer, proxy: FaultProxy) -> Origin:
    prefix = server.new_prefix()
    server.store(prefix).put("good", CONTENT)
    near = server.at(proxy.url)
    config = {"azure_storage_endpoint": near.endpoint, "azure_allow_http": "true"}
    store = frazil.storage.azure_store(account=near.account, config=config)
    right = frazil.azure_credentials(access_key=near.access_key)
    wrong = frazil.azure_credentials(access_key="d3Jvbmc=")
    return Origin(f"az://{near.container}/{prefix}/", store, right, wrong, proxy)


@pytest.fixture(params=["s3_server", "azure_server", "http_server"])
def origin(
    request: pytest.FixtureRequest, fault_proxy: Callable[[str], FaultProxy], tmp_path: Path
) -> Origin:
    server = request.getfixturevalue(request.param)
    match request.param:
        case "s3_server":
            return s3_origin(server, fault_proxy(server.host))
        case "azure_server":
            return azure_origin(server, fault_proxy(server.host))
        case _:
            (tmp_path / "good").write_bytes(CONTENT)
            files: HttpServer = server(tmp_path)
            files.redirects["/loop"] = "/loop"
            proxy = fault_proxy(files.url)
            store = frazil.http_store({"allow_http": "true"})
            return Origin(f"{proxy.url}/", store, HttpAccess, None, proxy)


def assert_refused(
    read: Callable[[], object],
    proxy: FaultProxy,
    *said: str,
    kind: str = "virtual-chunk-fetch",
    requests: int = MOST_REQUESTS,
) -> None:
    before = time.monotonic()
    with pytest.raises(frazil.IcechunkError) as caught:
        read()
    assert time.monotonic() - before < MOST_SECONDS
    assert proxy.count() <= requests
    assert caught.value.kind == kind
    for text in said:
        assert text in str(caught.value)
    assert "wr0ng" not in str(caught.value)


def test_what_is_right_is_read(origin: Origin) -> None:
    assert origin.read("good", 50, origin.right) == CONTENT[100:150]
    # Of a web server it is asked first where a redirect would lead to.
    assert origin.proxy.count() == 1 + origin.url.startswith("http")


def test_a_file_that_is_missing(origin: Origin) -> None:
    assert_refused(
        lambda: origin.read("absent", 50, origin.right), origin.proxy, origin.url + "absent"
    )


@pytest.mark.parametrize("length", [101, 5000])
def test_a_file_that_is_shorter_than_the_reference_says(origin: Origin, length: int) -> None:
    assert_refused(
        lambda: origin.read("good", length, origin.right),
        origin.proxy,
        origin.url + "good",
        f"bytes 100 to {100 + length} were asked for and it ends at 200",
    )


def test_a_container_that_nobody_authorised(origin: Origin) -> None:
    assert_refused(
        lambda: origin.read("good", 50, None),
        origin.proxy,
        origin.url,
        kind="unauthorized-virtual-chunk-container",
        requests=0,
    )


def test_credentials_that_are_wrong(origin: Origin) -> None:
    if origin.wrong is not None:
        assert_refused(
            lambda: origin.read("good", 50, origin.wrong), origin.proxy, origin.url + "good"
        )


def test_a_bucket_that_is_missing(origin: Origin) -> None:
    if origin.wrong is not None:
        missing = origin.missing()
        assert_refused(
            lambda: missing.read("good", 50, missing.right), origin.proxy, missing.url + "good"
        )


def test_a_redirect_in_a_circle(origin: Origin) -> None:
    if origin.wrong is None:
        assert_refused(
            lambda: origin.read("loop", 50, origin.right),
            origin.proxy,
            origin.url + "loop",
            "redirect",
            requests=11,
        )
