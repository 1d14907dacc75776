"""Large objects and many small ones on a real server, with their requests counted by a proxy."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import zarr

import frazil
from frazil.errors import ObjectNotFoundError
from frazil.objectstore import Absent
from frazil.objectstore.protocol import RemoteSettings
from frazil.ranges import Range
from frazil.testing.fault_proxy import FaultProxy
from frazil.testing.faults import (
    AnswerWith,
    DropResponse,
    Fault,
    RefuseWith,
    Rule,
    Script,
    no_fault,
)
from tests.servers.azure import AzureServer
from tests.servers.s3 import S3Server

MIB = 1024 * 1024
DATA = np.random.default_rng(1).bytes(12 * MIB)
IN_PARTS = RemoteSettings(multipart_bytes=8 * MIB, request_bytes=5 * MIB)


@pytest.fixture
def proxied(s3_server: S3Server, fault_proxy: Callable[[str], FaultProxy]) -> FaultProxy:
    return fault_proxy(s3_server.endpoint)


def test_a_large_put_is_uploaded_in_parts(s3_server: S3Server, proxied: FaultProxy) -> None:
    store = s3_server.at(proxied.url).store(s3_server.new_prefix(), IN_PARTS)
    store.put("small", DATA[: 8 * MIB - 1])
    assert (proxied.count("PUT"), proxied.count("POST")) == (1, 0)
    proxied.seen.clear()
    store.put("large", DATA)
    assert (proxied.count("PUT"), proxied.count("POST")) == (3, 2)  # start, parts, completion
    proxied.seen.clear()
    assert bytes(store.get("large").data) == DATA
    assert proxied.count("GET") == 3
    assert len(proxied.seen) == 3


def test_a_conditional_put_is_never_uploaded_in_parts(
    s3_server: S3Server, proxied: FaultProxy
) -> None:
    store = s3_server.at(proxied.url).store(s3_server.new_prefix(), IN_PARTS)
    version = store.put("large", DATA, when=Absent())
    assert (proxied.count("PUT"), proxied.count("POST")) == (1, 0)
    assert store.get("large", None).version == version


def test_large_blobs_of_azure_go_in_parts_too(azure_server: AzureServer) -> None:
    store = azure_server.store(azure_server.new_prefix(), IN_PARTS)
    store.put("large", DATA)
    found = store.get("large")
    assert bytes(found.data) == DATA
    assert store.head("large").size_bytes == len(DATA)
    assert [bytes(part) for part in store.get_ranges("large", [Range(0, 9 * MIB)])] == [
        DATA[: 9 * MIB]
    ]


def test_many_are_deleted_by_few_requests(s3_server: S3Server, proxied: FaultProxy) -> None:
    prefix = s3_server.new_prefix()
    store = s3_server.at(proxied.url).store(prefix)
    keys = [f"chunks/{number:04}" for number in range(1100)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put(key, b""), keys))
    proxied.seen.clear()
    assert sorted(info.key for info in store.list("chunks/")) == keys
    assert proxied.count("GET") == 2  # a thousand in each answer
    assert store.delete(keys) == 1100
    assert proxied.count("POST") == 2
    assert list(store.list()) == []
    with pytest.raises(ObjectNotFoundError):
        store.head(keys[0])


def test_a_selection_of_many_chunks_takes_a_request_for_each_and_no_more(
    s3_server: S3Server, proxied: FaultProxy
) -> None:
    prefix = s3_server.new_prefix()
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
    repository = frazil.Repository.create(s3_server.storage(frazil, prefix), config)
    with repository.transaction("main", message="data") as store:
        array = zarr.create_array(store, name="a", shape=(64, 64), chunks=(8, 8), dtype="f8")
        values = np.arange(64.0 * 64).reshape(64, 64)
        for x, y in product(range(0, 64, 8), repeat=2):  # each chunk an object of its own
            array[x : x + 8, y : y + 8] = values[x : x + 8, y : y + 8]
    there = s3_server.at(proxied.url).storage(frazil, prefix)
    session = frazil.Repository.open(there).readonly_session("main")
    opened = proxied.count()
    assert opened <= 4  # of them `repo` twice
    found = np.asarray(zarr.open_array(session.store, path="a", mode="r")[:32])
    assert found[1, 1] == 65
    assert proxied.count("GET", "/chunks/") == 32
    assert proxied.count("GET", "/manifests/") == 1
    assert proxied.count() <= opened + 35


@pytest.mark.parametrize("fault", [DropResponse(), AnswerWith(500)], ids=["dropped", "500"])
def test_an_upload_whose_completion_was_never_confirmed_is_complete(
    s3_server: S3Server, proxied: FaultProxy, fault: Fault
) -> None:
    settings = replace(IN_PARTS, max_tries=3, initial_backoff_ms=1, max_backoff_ms=10)
    store = s3_server.at(proxied.url).store(s3_server.new_prefix(), settings)
    completion = Rule(fault, method="POST", path="uploadId")
    again = Rule(RefuseWith(503), method="POST", path="uploadId", skip=1, times=None)
    proxied.choose = Script(completion, again)
    store.put("large", DATA)
    proxied.choose = no_fault
    assert proxied.count("POST", "uploadId") > 1  # obstore has tried to complete it again
    assert bytes(store.get("large").data) == DATA
