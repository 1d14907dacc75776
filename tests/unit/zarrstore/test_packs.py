"""Packs that threads write while they encode the chunks of a large selection."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from zarr.codecs import Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec
from zarr.core.sync import sync

from frazil.engine.commit import chunk_writer
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import ObjectNotFoundError
from frazil.format.config import RepositoryConfig
from frazil.maintenance.verify.verify_store import verify
from frazil.objectstore.local import LocalStore
from frazil.zarrstore.pipeline import coding, reading, writing
from frazil.zarrstore.store import SessionStore

CHUNK = (64, 1024)  # 64 KB: smaller ones are packed after they were encoded
GRID = (6, 3)
SHAPE = (CHUNK[0] * GRID[0] - 7, CHUNK[1] * GRID[1] - 100)
CODECS: dict[str, dict[str, Any]] = {
    "zstd": {"compressors": ZstdCodec()},
    "gzip": {"compressors": GzipCodec()},
    "zstd, crc32c": {"compressors": [ZstdCodec(), Crc32cCodec()]},
    "transposed": {"filters": [TransposeCodec(order=(1, 0))], "compressors": ZstdCodec()},
    "transposed, plain": {"filters": [TransposeCodec(order=(1, 0))], "compressors": None},
}


@pytest.fixture
def packed_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_LEAST_PACK_BYTES", 1)
    monkeypatch.setattr(writing, "PACK_BYTES", 3 * CHUNK[0] * CHUNK[1])


def _made(store: Any, codecs: str) -> "zarr.Array[Any]":
    return zarr.create_array(
        store, name="x", shape=SHAPE, chunks=CHUNK, dtype="u1", **CODECS[codecs]
    )


def _values(rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Chunks that are empty, that fit into a reference, and of all sizes up to random bytes."""
    values = np.zeros(SHAPE, np.uint8)
    for row in range(GRID[0]):
        for column in range(GRID[1]):
            chunk = values[
                row * CHUNK[0] : (row + 1) * CHUNK[0], column * CHUNK[1] : (column + 1) * CHUNK[1]
            ]
            chunk[...] = rng.integers(0, rng.choice([1, 2, 7, 256]), chunk.shape, dtype=np.uint8)
            if rng.random() < 0.2:
                chunk[...] = 5
    return values


def _window(rng: random.Random) -> tuple[slice, ...]:
    edges = [sorted(rng.sample(range(length + 1), 2)) for length in SHAPE]
    return tuple(slice(start, stop) for start, stop in edges)


def _keys(store: Any) -> set[str]:
    async def listed() -> set[str]:
        return {key async for key in store.list_prefix("x/c/")}

    return sync(listed())


def _files(folder: Path) -> list[Path]:
    return [path for path in (folder / "chunks").iterdir() if path.is_file()]


@pytest.mark.usefixtures("packed_early")
@pytest.mark.parametrize("codecs", CODECS)
@pytest.mark.parametrize("limits", [(512, 1 << 20), (0, 1 << 20), (512, 30_000)])
def test_chunks_are_those_of_zarr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codecs: str, limits: tuple[int, int]
) -> None:
    """`limits`: of what goes into a reference, and of what shares an object."""
    inline_bytes, packed_bytes = limits
    monkeypatch.setattr(chunk_writer, "PACKED_BYTES", packed_bytes)
    config = RepositoryConfig(inline_chunk_threshold_bytes=inline_bytes)
    repository = Repository.create(LocalStore(tmp_path, fsync=False), config)
    session = repository.writable_session("main")
    theirs = zarr.storage.MemoryStore()
    arrays = [_made(SessionStore(session), codecs), _made(theirs, codecs)]
    numbers, places = np.random.default_rng(len(codecs)), random.Random(len(codecs))
    for where in ((slice(None), slice(None)), *(_window(places) for _ in range(6))):
        new = _values(numbers)[where]
        for array in arrays:
            array[where] = new
        assert _keys(SessionStore(session)) == _keys(theirs)
        assert np.array_equal(arrays[0][:], arrays[1][:])
    session.commit("values")
    again = zarr.open_array(SessionStore(repository.readonly_session(Branch("main"))), path="x")
    assert np.array_equal(again[:], arrays[1][:])
    assert verify(repository.files.store).problems == ()


@pytest.mark.usefixtures("packed_early")
def test_each_thread_writes_few_objects(tmp_path: Path) -> None:
    session = Repository.create(LocalStore(tmp_path)).writable_session("main")
    array = _made(SessionStore(session), "zstd")
    array[:] = np.random.default_rng(1).integers(0, 256, SHAPE, dtype=np.uint8)
    chunks, width = GRID[0] * GRID[1], reading.coders.width
    assert 1 < len(_files(tmp_path)) <= width * -(-chunks // (3 * width)) < chunks
    session.commit("synced")


@pytest.mark.usefixtures("packed_early")
def test_nothing_is_left_of_a_pack_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Repository.create(LocalStore(tmp_path)).writable_session("main")
    array = _made(SessionStore(session), "zstd")
    values = _values(np.random.default_rng(2))
    array[:] = values
    before = set(_files(tmp_path))
    numbers = iter(range(10**6))
    compress = coding.ZstdContexts.compress

    def failing(*given: Any, **named: Any) -> Any:
        if next(numbers) > 3:
            raise ZeroDivisionError("an encoder that fails")
        return compress(*given, **named)

    monkeypatch.setattr(coding.ZstdContexts, "compress", failing)
    again = zarr.open_array(SessionStore(session), path="x")
    with pytest.raises(ZeroDivisionError):
        again[:] = np.random.default_rng(3).integers(0, 256, SHAPE, dtype=np.uint8)
    monkeypatch.undo()
    assert np.array_equal(array[:], values)
    assert set(_files(tmp_path)) >= before
    assert not [path for path in (tmp_path / "chunks").iterdir() if path.stat().st_size == 0]


@pytest.mark.usefixtures("packed_early")
def test_a_chunk_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    session = Repository.create(LocalStore(tmp_path)).writable_session("main")
    array = _made(SessionStore(session), "gzip")
    array[:] = np.random.default_rng(4).integers(0, 256, SHAPE, dtype=np.uint8)
    lost = _files(tmp_path)[0]
    lost.unlink()
    left = set(_files(tmp_path))
    with pytest.raises(ObjectNotFoundError, match=lost.name):
        array[1:-1, 1:-1] = 7
    complete = {path for path in _files(tmp_path) if path not in left}
    assert all(path.stat().st_size for path in complete)
