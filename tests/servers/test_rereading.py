"""What is still the same is not sent again: the server says whether it is."""

from collections.abc import Callable

import pytest

import frazil
from frazil.objectstore.protocol import RemoteSettings
from frazil.objectstore.remote import RemoteStore
from frazil.testing.fault_proxy import FaultProxy
from tests.servers.azure import AzureServer
from tests.servers.s3 import S3Server

IN_PARTS = RemoteSettings(request_bytes=1000, max_requests_for_object=4)


@pytest.fixture(params=["SeaweedFS", "Ministack", "Azurite"])
def store(
    request: pytest.FixtureRequest,
    s3_server: S3Server,
    hot_s3_server: S3Server,
    azure_server: AzureServer,
) -> RemoteStore:
    servers: dict[str, S3Server | AzureServer]
    servers = {"SeaweedFS": s3_server, "Ministack": hot_s3_server, "Azurite": azure_server}
    server = servers[request.param]
    return server.store(server.new_prefix())


def test_what_is_unchanged_is_not_sent_again(store: RemoteStore) -> None:
    store.put("page", b"first")
    known = store.get("page")
    assert store.reread("page", known) is known
    store.put("page", b"other")
    other = store.reread("page", known)
    assert bytes(other.data) == b"other"
    assert store.reread("page", other) is other


def test_large_objects_that_changed_are_read_in_parts(store: RemoteStore) -> None:
    large = store.with_settings(lambda _: IN_PARTS)
    large.put("page", b"1" * 5500)
    known = large.reread("page", None)
    assert large.reread("page", known) is known
    large.put("page", b"2" * 6500)
    assert bytes(large.reread("page", known).data) == b"2" * 6500


def test_the_entry_point_is_sent_once(
    hot_s3_server: S3Server, fault_proxy: Callable[[str], FaultProxy]
) -> None:
    """Asked for each time, as somebody may have committed; sent when somebody has."""
    prefix = hot_s3_server.new_prefix()
    proxy = fault_proxy(hot_s3_server.endpoint)
    near = frazil.Repository.create(frazil.Storage(hot_s3_server.store(prefix)))
    far = frazil.Repository.open(frazil.Storage(hot_s3_server.at(proxy.url).store(prefix)))
    before = far.lookup_branch("main")
    proxy.clear()
    assert [far.lookup_branch("main") for _ in range(3)] == [before] * 3
    assert [one.status for one in proxy.seen] == [304] * 3
    proxy.clear()
    new = near.writable_session("main").commit("empty", allow_empty=True)
    assert [far.lookup_branch("main") for _ in range(3)] == [new] * 3
    assert [one.status for one in proxy.seen][1:] == [304] * 2
    assert proxy.seen[0].status in (200, 206)


def test_whoever_commits_need_not_read_it_back(
    hot_s3_server: S3Server, fault_proxy: Callable[[str], FaultProxy]
) -> None:
    proxy = fault_proxy(hot_s3_server.endpoint)
    store = hot_s3_server.at(proxy.url).store(hot_s3_server.new_prefix())
    repo = frazil.Repository.create(frazil.Storage(store))
    for number in range(3):
        repo.writable_session("main").commit(f"{number}", allow_empty=True)
        proxy.clear()
        repo.lookup_branch("main")
        assert [one.status for one in proxy.seen] == [304]
