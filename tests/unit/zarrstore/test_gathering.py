"""Chunks that zarr asks for in one turn of its loop are one plan."""

import asyncio
from collections.abc import Sequence

import pytest

from frazil.engine.files.virtual_access import VirtualAccess, VirtualChunkAccess
from frazil.engine.files.virtual_chunks import VirtualChunks
from frazil.errors import IcechunkError, InvalidInputError, StorageError
from frazil.format.chunk_refs import Virtual
from frazil.format.storage_config import ObjectStoreConfig, S3Options, VirtualChunkContainer
from frazil.objectstore.credentials import CredentialsForS3, S3AnonymousCredentials
from frazil.objectstore.pool import Pool
from frazil.objectstore.protocol import Data, DataList, Expectation
from frazil.ranges import Range
from frazil.zarrstore.store import fetch_together

CONTENT = bytes(range(250))


class Source:
    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []

    def read(
        self, key: str, ranges: Sequence[Range], *, expected: Expectation | None = None
    ) -> DataList:
        assert expected is None
        self.asked += [(key, one.start, one.stop) for one in ranges]
        if key == "broken":
            raise StorageError("no")
        return [CONTENT[one.start : one.stop] for one in ranges]

    def size_bytes(self, key: str) -> int:
        raise AssertionError(key)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def virtual(source: Source) -> VirtualChunks:
    containers = {
        "s3://b/": VirtualChunkContainer("s3://b/", ObjectStoreConfig.S3(S3Options("us-east-1")))
    }
    given = VirtualChunkAccess({"s3://b/": CredentialsForS3(S3AnonymousCredentials())})
    return VirtualChunks(VirtualAccess.of(containers, given), Pool(4), lambda *_: source)


def chunk(name: str, offset: int) -> Virtual:
    return Virtual(f"s3://b/{name}", offset, 10)


async def ask(virtual: VirtualChunks, *chunks: Virtual) -> list[Data | BaseException]:
    wishes = [fetch_together(virtual, each, Range(0, each.length)) for each in chunks]
    return await asyncio.gather(*wishes, return_exceptions=True)


async def test_neighbours_share_a_request(virtual: VirtualChunks, source: Source) -> None:
    found = await ask(virtual, chunk("a", 10), chunk("c", 0), chunk("a", 0), chunk("a", 20))
    assert found == [CONTENT[10:20], CONTENT[:10], CONTENT[:10], CONTENT[20:30]]
    assert sorted(source.asked) == [("a", 0, 30), ("c", 0, 10)]


async def test_parts_of_chunks_are_what_was_asked_for(
    virtual: VirtualChunks, source: Source
) -> None:
    found = await asyncio.gather(
        fetch_together(virtual, chunk("a", 0), Range(2, 4)),
        fetch_together(virtual, chunk("a", 100), Range(0, 0)),
    )
    assert [bytes(part) for part in found] == [CONTENT[2:4], b""]
    assert source.asked


async def test_the_next_turn_is_another_plan(virtual: VirtualChunks, source: Source) -> None:
    await ask(virtual, chunk("a", 0))
    await ask(virtual, chunk("a", 10))
    assert source.asked == [("a", 0, 10), ("a", 10, 20)]


async def test_each_gets_its_own_error(virtual: VirtualChunks) -> None:
    wanted = [
        chunk("a", 0), chunk("broken", 0), Virtual("s3://other/x", 0, 10), chunk("a", 245),
    ]  # fmt: skip
    fine, broken, refused, short = await ask(virtual, *wanted)
    assert fine == CONTENT[:10]
    errors = [each for each in (broken, refused, short) if isinstance(each, IcechunkError)]
    assert [error.kind for error in errors] == [
        "virtual-chunk-fetch", "no-container-for-virtual-chunk", "virtual-chunk-fetch",
    ]  # fmt: skip
    assert isinstance(refused, InvalidInputError)


async def test_who_goes_away_leaves_the_others_alone(virtual: VirtualChunks) -> None:
    first = asyncio.ensure_future(fetch_together(virtual, chunk("a", 0), Range(0, 10)))
    second = asyncio.ensure_future(fetch_together(virtual, chunk("a", 10), Range(0, 10)))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == CONTENT[10:20]
    assert first.cancelled()


def test_loops_in_turn_do_not_disturb_each_other(virtual: VirtualChunks, source: Source) -> None:
    for _ in range(3):
        assert asyncio.run(ask(virtual, chunk("a", 0))) == [CONTENT[:10]]
    assert len(source.asked) == 3
