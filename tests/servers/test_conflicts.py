"""409, which S3 answers while another conditional write is under way: maybe a conflict."""

from collections.abc import Callable

import pytest

from frazil.errors import PreconditionFailedError, StorageError
from frazil.objectstore import Absent, Matches, RemoteSettings
from frazil.testing.fault_proxy import FaultProxy
from frazil.testing.faults import RefuseWith, Rule, Script
from tests.servers.s3 import S3Server

BRISK = RemoteSettings(max_tries=4, initial_backoff_ms=1, max_backoff_ms=5)


@pytest.fixture
def proxied(s3_server: S3Server, fault_proxy: Callable[[str], FaultProxy]) -> FaultProxy:
    return fault_proxy(s3_server.endpoint)


def refuse(times: int | None) -> Script:
    return Script(Rule(RefuseWith(409), method="PUT", times=times))


def test_a_write_is_made_again_if_nobody_else_has_written(
    s3_server: S3Server, proxied: FaultProxy
) -> None:
    store = s3_server.at(proxied.url).store(s3_server.new_prefix(), BRISK)
    proxied.choose = refuse(2)
    version = store.put("key", b"one", when=Absent())
    proxied.choose = refuse(2)
    store.put("key", b"two", when=Matches(version))
    assert bytes(store.get("key").data) == b"two"


def test_it_is_a_conflict_if_somebody_has(s3_server: S3Server, proxied: FaultProxy) -> None:
    prefix = s3_server.new_prefix()
    store = s3_server.at(proxied.url).store(prefix, BRISK)
    version = store.put("key", b"one", when=Absent())
    s3_server.store(prefix).put("key", b"of another")
    proxied.choose = refuse(None)
    for when in (Absent(), Matches(version)):
        with pytest.raises(PreconditionFailedError):
            store.put("key", b"two", when=when)
    assert bytes(store.get("key").data) == b"of another"


def test_a_server_that_never_agrees_is_given_up(s3_server: S3Server, proxied: FaultProxy) -> None:
    store = s3_server.at(proxied.url).store(s3_server.new_prefix(), BRISK)
    proxied.choose = refuse(None)
    with pytest.raises(StorageError, match="409") as caught:
        store.put("key", b"one", when=Absent())
    assert not isinstance(caught.value, PreconditionFailedError)
    assert proxied.count("PUT") <= 4
