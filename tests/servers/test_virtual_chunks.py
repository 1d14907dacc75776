"""Virtual chunks in buckets: by containers, by default containers, by both implementations."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

import frazil
from frazil.errors import ObjectChangedError
from frazil.paths import NodePath
from frazil.testing.fault_proxy import FaultProxy
from frazil.virtual import VirtualChunkAccess, VirtualReads
from tests.servers.s3 import S3Server

pytestmark = pytest.mark.compat

CHUNKS = 64
CONTENT = bytes(range(256)) * 10


@dataclass(frozen=True, slots=True)
class Bucket:
    """A file in a bucket, and a repository beside it."""

    server: S3Server
    prefix: str

    @property
    def url(self) -> str:
        return f"s3://{self.server.bucket}/{self.prefix}/"

    def put(self, name: str, data: bytes) -> str:
        """Its ETag."""
        return self.server.store(self.prefix).put(name, data)

    def config(self, module: Any) -> Any:
        config = module.RepositoryConfig()
        options = module.S3Options(
            region=self.server.region,
            endpoint_url=self.server.endpoint,
            allow_http=True,
            force_path_style=True,
        )
        store = module.ObjectStoreConfig.S3Compatible(options)
        config.set_virtual_chunk_container(module.VirtualChunkContainer(self.url, store, "files"))
        return config

    def access(self, module: Any, secret: str | None = None) -> Any:
        credentials = module.s3_credentials(
            access_key_id=self.server.access_key,
            secret_access_key=secret or self.server.secret_key,
        )
        return module.containers_credentials({self.url: credentials})


@pytest.fixture
def bucket(s3_server: S3Server) -> Bucket:
    return Bucket(s3_server, s3_server.new_prefix())


def fill(session: Any, location: Callable[[int], str], **checksum: Any) -> None:
    zarr.create_array(
        session.store, name="v", shape=(CHUNKS, 20), chunks=(1, 20), dtype="u1", filters=None,
        compressors=None,
    )  # fmt: skip
    numbers = np.arange(CHUNKS, dtype=np.uint64)
    locations = [location(number) for number in range(CHUNKS)]
    lengths = np.full(CHUNKS, 20, np.uint64)
    assert session.store.set_virtual_refs_arr(
        "v", (CHUNKS, 1), locations, numbers * np.uint64(40), lengths, **checksum
    ) is None  # fmt: skip


def values(session: Any) -> bytes:
    return np.asarray(zarr.open_array(session.store, path="v", mode="r")[:]).tobytes()


EXPECTED = b"".join(CONTENT[40 * number : 40 * number + 20] for number in range(CHUNKS))


@pytest.mark.parametrize("writer", [frazil, icechunk], ids=["frazil", "icechunk"])
def test_what_one_writes_both_read(bucket: Bucket, writer: Any) -> None:
    etag = bucket.put("a b.nc", CONTENT)
    storage = bucket.server.storage(writer, f"{bucket.prefix}/repository")
    repository = writer.Repository.create(storage, bucket.config(writer))
    session = repository.writable_session("main")
    # Every second one relative to the container
    fill(
        session,
        lambda number: ("vcc://files/" if number % 2 else bucket.url) + "a%20b.nc",
        checksum=etag,
    )
    session.commit("virtual")
    for reader in (frazil, icechunk):
        storage = bucket.server.storage(reader, f"{bucket.prefix}/repository")
        access = bucket.access(reader)
        opened = reader.Repository.open(storage, authorize_virtual_chunk_access=access)
        assert values(opened.readonly_session("main")) == EXPECTED
    bucket.put("a b.nc", CONTENT[::-1])
    for reader in (frazil, icechunk):
        storage = bucket.server.storage(reader, f"{bucket.prefix}/repository")
        access = bucket.access(reader)
        opened = reader.Repository.open(storage, authorize_virtual_chunk_access=access)
        with pytest.raises(reader.StorageError) as caught:
            values(opened.readonly_session("main"))
        assert caught.value.kind == "virtual-chunk-modified"
        assert isinstance(caught.value, ObjectChangedError) is (reader is frazil)


@pytest.mark.parametrize("checksum", ["E", '"E"', 'other, "E"', '"E", "other"', "*"])
def test_a_list_of_etags_is_accepted(bucket: Bucket, checksum: str) -> None:
    etag = bucket.put("a.nc", CONTENT).strip('"')
    storage = bucket.server.storage(frazil, f"{bucket.prefix}/repository")
    repository = frazil.Repository.create(
        storage, bucket.config(frazil), authorize_virtual_chunk_access=bucket.access(frazil)
    )
    session = repository.writable_session("main")
    fill(session, lambda _: bucket.url + "a.nc", checksum=checksum.replace("E", etag))
    assert values(session) == EXPECTED
    bucket.put("a.nc", CONTENT[::-1])
    if checksum != "*":
        with pytest.raises(ObjectChangedError):
            values(session)


def test_default_containers_use_the_credentials_of_the_repository(bucket: Bucket) -> None:
    bucket.put("x.nc", CONTENT)
    storage = bucket.server.storage(frazil, f"{bucket.prefix}/repository")
    trusting = VirtualChunkAccess(default_containers=True)
    repository = frazil.Repository.create(storage, authorize_virtual_chunk_access=trusting)
    session = repository.writable_session("main")
    fill(session, lambda _: bucket.url + "x.nc")
    session.commit("virtual")
    assert values(repository.readonly_session("main")) == EXPECTED
    with pytest.raises(frazil.InvalidInputError) as caught:
        values(frazil.Repository.open(storage).readonly_session("main"))
    assert caught.value.kind == "no-container-for-virtual-chunk"


def test_requests_are_as_few_as_the_limits_allow(
    bucket: Bucket, fault_proxy: Callable[[str], FaultProxy]
) -> None:
    """Counted at the server's door. The gaps between the chunks are 20 bytes."""
    bucket.put("x.nc", CONTENT)
    proxy = fault_proxy(bucket.server.host)
    near = Bucket(bucket.server.at(proxy.url), bucket.prefix)
    counted: list[int] = []
    for reads in (
        VirtualReads(),
        VirtualReads(max_request_bytes=400),
        VirtualReads(max_gap_bytes=0),
    ):
        access = VirtualChunkAccess(near.access(frazil), reads=reads)
        repository = frazil.Repository.create(
            frazil.in_memory_storage(), near.config(frazil), access
        )
        session = repository.writable_session("main")
        fill(session, lambda _: near.url + "x.nc")
        before = proxy.count()
        wanted = np.stack([np.arange(CHUNKS), np.zeros(CHUNKS)], axis=1).astype(np.uint32)
        found = session.engine.fetch_chunks(NodePath("/v"), wanted)
        assert b"".join(map(bytes, filter(None, found))) == EXPECTED
        counted.append(proxy.count() - before)
    assert counted == [1, 7, CHUNKS]


def test_wrong_credentials_are_an_error_at_once_and_show_no_secret(bucket: Bucket) -> None:
    bucket.put("x.nc", CONTENT)
    access = bucket.access(frazil, "a wrong secret")
    repository = frazil.Repository.create(frazil.in_memory_storage(), bucket.config(frazil), access)
    session = repository.writable_session("main")
    fill(session, lambda _: bucket.url + "x.nc")
    with pytest.raises(frazil.StorageError, match=r"x\.nc") as caught:
        values(session)
    assert caught.value.kind == "virtual-chunk-fetch"
    assert "a wrong secret" not in str(caught.value)
