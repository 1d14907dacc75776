"""Caches are bounded by what is configured, and by what it takes in memory."""

import numpy as np

from frazil.assets.cache import WeighedCache
from frazil.format.chunk_refs import ChunkRefs


def test_the_least_recently_used_go_when_the_bytes_are_too_many() -> None:
    cache: WeighedCache[str, bytes] = WeighedCache(100, lambda _: 1, 10, len)
    cache.remember("a", b"1234")
    cache.remember("b", b"1234")
    cache.find("a")
    cache.remember("c", b"1234")

    assert [cache.find(key) is not None for key in "abc"] == [True, False, True]


def test_what_alone_is_too_large_is_not_kept_and_takes_no_room() -> None:
    cache: WeighedCache[str, bytes] = WeighedCache(100, lambda _: 1, 10, len)
    cache.remember("a", b"1234567890")
    cache.remember("b", b"12345678901")
    cache.remember("a", b"12345")
    cache.remember("c", b"12345")

    assert [cache.find(key) is not None for key in "abc"] == [True, False, True]


def test_references_know_about_how_much_memory_they_take() -> None:
    index = np.arange(10_000, dtype=np.uint32).reshape(-1, 1)
    shared = ChunkRefs.virtual(index, ["s3://bucket/one"] * 10_000, 0, 1)
    own = ChunkRefs.virtual(index, [f"s3://bucket/{'x' * 80}/{i}" for i in range(10_000)], 0, 1)

    assert 100_000 < shared.num_bytes < 300_000
    assert own.num_bytes > shared.num_bytes + 10_000 * 80
