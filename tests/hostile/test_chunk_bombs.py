"""A chunk cannot become more than its reader has memory for."""

import bz2
import gzip
import json
import lzma
import resource
import zlib
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import zarr
import zstandard

import frazil
from frazil.errors import FormatError, IcechunkError, StorageError
from frazil.format.limits import Limits
from frazil.zarrstore.pipeline import reading as bombs
from tests.hostile.strangers import PATH

MIB = 1 << 20


def zstd(size: int, *, tells: bool = True) -> bytes:
    frame = zstandard.ZstdCompressor(level=1).compressobj(size=size if tells else -1)
    return b"".join([*(frame.compress(bytes(MIB)) for _ in range(size // MIB)), frame.flush()])


def repository(root: Path, codecs: list[Any], data: bytes, shape: int = 1000) -> Any:
    document = {
        "zarr_format": 3, "node_type": "array", "shape": [shape], "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [shape]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
        "codecs": [{"name": "bytes"}, *codecs],
    }  # fmt: skip
    storage = frazil.local_filesystem_storage(str(root))
    session = frazil.Repository.create(storage).writable_session("main")
    session.engine.set_node(PATH, json.dumps(document).encode())
    session.engine.set_chunk(PATH, (0,), data)
    session.commit("a bomb")
    return storage


def read(storage: Any, **options: Any) -> Any:
    store = frazil.Repository.open(storage, **options).readonly_session("main").store
    return zarr.open_array(store, path="v", mode="r")[:10]


ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
GZIP = {"name": "gzip", "configuration": {"level": 1}}


def test_what_is_honest_is_read(tmp_path: Path) -> None:
    data = zstandard.ZstdCompressor().compress(bytes(range(250)) * 4)
    assert read(repository(tmp_path / "z", [ZSTD], data)).tolist() == list(range(10))
    packed = gzip.compress(bytes(range(250)) * 4)
    assert read(repository(tmp_path / "g", [GZIP], packed)).tolist() == list(range(10))


@pytest.mark.parametrize("tells", ["its size", "nothing"])
def test_a_chunk_of_zstd_that_holds_too_much_is_refused(
    tmp_path: Path, tells: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bombs, "DEFAULT_LIMITS", Limits(chunk_bytes=32 * MIB))
    data = zstd(600 * MIB, tells=tells == "its size")
    assert len(data) < 100_000
    storage = repository(tmp_path / "r", [ZSTD], data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FormatError, match="compressed chunk holds more"):
        read(storage)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024


def test_a_chunk_of_gzip_that_holds_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bombs, "DEFAULT_LIMITS", Limits(chunk_bytes=32 * MIB))
    storage = repository(tmp_path / "r", [GZIP], gzip.compress(bytes(64 * MIB)))
    with pytest.raises(FormatError, match="compressed chunk holds more"):
        read(storage)


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("Zlib", zlib.compress),
        ("GZip", gzip.compress),
        ("BZ2", bz2.compress),
        ("LZMA", lzma.compress),
        ("Zstd", zstandard.ZstdCompressor().compress),
    ],
)
def test_what_is_inside_is_measured_without_being_kept(name: str, pack: Any) -> None:
    measure = bombs._MEASURES[name]
    packed = memoryview(pack(bytes(6 * MIB)))
    assert measure(packed, 2 * MIB) > 2 * MIB
    honest = memoryview(pack(np.random.default_rng(1).bytes(MIB)))
    assert measure(honest, 4 * MIB) <= 4 * MIB
    for stop in range(0, len(packed), 1 + len(packed) // 20):
        measure(packed[:stop], 2 * MIB)  # cut off anywhere, it ends


def test_the_shape_of_a_chunk_is_limited(tmp_path: Path) -> None:
    """A terabyte, says the array; the chunk itself is tiny."""
    storage = repository(tmp_path / "r", [ZSTD], zstd(MIB), shape=1 << 40)
    with pytest.raises(StorageError, match="decoded chunk has"):
        read(storage)
    small = repository(tmp_path / "s", [ZSTD], zstd(MIB), shape=MIB)
    assert read(small).tolist() == [0] * 10
    with pytest.raises(StorageError, match="decoded chunk has"):
        read(small, limits=Limits(chunk_bytes=MIB - 1))


def test_a_shard_whose_index_lies_is_refused(tmp_path: Path) -> None:
    storage = frazil.local_filesystem_storage(str(tmp_path / "r"))
    session = frazil.Repository.create(storage).writable_session("main")
    zarr.create_array(
        session.store, name="v", shape=(8,), chunks=(2,), shards=(8,), dtype="u1", compressors=None
    )[:] = 7
    good = bytes(session.engine.fetch_chunk(PATH, (0,)) or b"")
    for offset, length in ((2**63, 2), (0, 2**40), (2**64 - 2, 2), (5, 2**63)):
        index = np.frombuffer(good[-68:-4], "<u8").copy()
        index[:2] = offset, length
        raw = index.tobytes()
        session.engine.set_chunk(
            PATH, (0,), good[:-68] + raw + google_crc32c.value(raw).to_bytes(4, "little")
        )
        array = zarr.open_array(session.store, path="v", mode="r")
        with pytest.raises((IcechunkError, ValueError, OverflowError), match="reshape"):
            array[:2]
    session.engine.set_chunk(PATH, (0,), good)
    read_again = zarr.open_array(session.store, path="v", mode="r")[:2]
    assert np.asarray(read_again).tolist() == [7, 7]
