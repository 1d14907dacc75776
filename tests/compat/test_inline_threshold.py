"""Chunks up to the threshold live in the manifest, longer ones in a file of their own."""

from pathlib import Path

import pytest
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from tests.compat.driver import OURS, REFERENCE, Engine, contents

DEFAULT_THRESHOLD_BYTES = 512
MAX_THRESHOLD_BYTES = 65535


def write_chunks_of(engine: Engine, root: Path, sizes: list[int], threshold: int | None) -> None:
    config = None if threshold is None else engine.config(inline_chunk_threshold_bytes=threshold)
    session = engine.create(root, config=config).writable_session("main")
    zarr.create_array(session.store, name="a", shape=(len(sizes),), chunks=(1,), dtype="u1")
    for i, size in enumerate(sizes):
        value = default_buffer_prototype().buffer.from_bytes(bytes([i]) * size)
        sync(session.store.set(f"a/c/{i}", value))
    session.commit("chunks of many sizes")


def kinds(engine: Engine, root: Path, count: int) -> list[str]:
    session = engine.open(root).readonly_session("main")
    names = {int(getattr(engine.module.ChunkType, name)): name for name in ("native", "inline")}
    return [names[int(session.chunk_type("/a", [i]))] for i in range(count)]


@pytest.mark.parametrize("writer", [OURS, REFERENCE], ids=lambda engine: engine.name)
@pytest.mark.parametrize("threshold", [None, 0, 1, 512, 4096, MAX_THRESHOLD_BYTES])
def test_the_threshold_is_the_longest_inline_chunk(
    writer: Engine, threshold: int | None, tmp_path: Path
) -> None:
    limit = DEFAULT_THRESHOLD_BYTES if threshold is None else threshold
    sizes = sorted({1, max(1, limit - 1), max(1, limit), limit + 1, limit + 1000})

    write_chunks_of(writer, tmp_path, sizes, threshold)

    expected = ["inline" if size <= limit else "native" for size in sizes]
    assert kinds(OURS, tmp_path, len(sizes)) == expected
    assert kinds(REFERENCE, tmp_path, len(sizes)) == expected
    for engine in (OURS, REFERENCE):
        found = contents(engine.open(tmp_path).readonly_session("main").store)
        assert [len(found[f"a/c/{i}"]) for i in range(len(sizes))] == sizes
    assert OURS.open(tmp_path).config.inline_chunk_threshold_bytes == threshold
