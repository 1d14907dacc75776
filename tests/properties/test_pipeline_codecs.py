"""Frazil's codec pipeline beside zarr's own: the same calls, the same values, bit by bit."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from zarr.abc.store import Store
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    TransposeCodec,
    ZstdCodec,
)
from zarr.core.buffer import default_buffer_prototype
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.core.sync import sync

from frazil.objectstore.local import LocalStore
from frazil.objectstore.memory import MemoryStore
from frazil.repo.repository import Repository
from frazil.zarrstore.pipeline.session_pipeline import SessionPipeline
from frazil.zarrstore.store import SessionStore
from tests.examples_count import scaled

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")

STRUCTURE = np.dtype([("a", "<i4"), ("b", "<f8"), ("c", "S3")])
DTYPES: list[Any] = [
    "i1", "<u2", ">i4", "i8", "f2", "f4", ">f8", "c8", "bool", "M8[s]", "m8[10ms]", "S5", "U3",
    "V6", STRUCTURE, str,
]  # fmt: skip
COMPRESSORS: list[Any] = [
    [],
    [ZstdCodec(level=1)],
    [ZstdCodec(level=3, checksum=True)],
    [BloscCodec(cname="lz4")],
    [BloscCodec(cname="zstd", shuffle="noshuffle")],
    [GzipCodec(level=1)],
    [Crc32cCodec()],
    [ZstdCodec(), Crc32cCodec()],
    [GzipCodec(), ZstdCodec()],
]
NUMBERS = "iufc"


@dataclass(frozen=True)
class Case:
    dtype: Any
    shape: tuple[int, ...]
    options: dict[str, Any]

    def values(self, shape: tuple[int, ...], seed: int) -> npt.NDArray[Any]:
        numbers = np.random.default_rng(seed).integers(0, 4, shape)  # zeros, often the fill value
        if self.dtype is str:
            return np.array(["", "a", "öx", "long text"], dtype=object)[numbers]
        dtype = np.dtype(self.dtype)
        if dtype.names:
            return np.array(
                [(0, 0, b""), (1, -2.5, b"x"), (2, np.nan, b"yz"), (3, 1, b"abc")], dtype
            )[numbers]
        if dtype.kind == "V":
            return np.frombuffer(bytes(range(24)), dtype)[numbers]
        return numbers.astype("i8").astype(dtype)

    def made(self, store: Any) -> "zarr.Array[Any]":
        return zarr.create_array(
            store, name="x", shape=self.shape, dtype=self.dtype, **self.options
        )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    dtype = draw(st.sampled_from(DTYPES))
    ndim = draw(st.integers(0, 3))
    shape = tuple(draw(st.integers(1, 9)) for _ in range(ndim))
    chunks = tuple(draw(st.integers(1, 5)) for _ in range(ndim))
    options: dict[str, Any] = {"chunks": chunks, "compressors": draw(st.sampled_from(COMPRESSORS))}
    kind = "O" if dtype is str else np.dtype(dtype).kind
    if ndim and draw(st.booleans()):
        order = draw(st.permutations(range(ndim)))
        options["filters"] = [TransposeCodec(order=tuple(order))]
    if kind in NUMBERS and np.dtype(dtype).itemsize > 1 and draw(st.booleans()):
        options["serializer"] = BytesCodec(endian=draw(st.sampled_from(["little", "big"])))
    if kind in NUMBERS and draw(st.booleans()):
        options["fill_value"] = draw(st.sampled_from([1, 2]))
    if kind == "f" and draw(st.booleans()):
        options["fill_value"] = np.nan
    options["config"] = {
        "order": draw(st.sampled_from("CF")),
        "write_empty_chunks": draw(st.booleans()),
    }
    if ndim and draw(st.integers(0, 2)) == 0:
        options["shards"] = tuple(size * draw(st.integers(1, 3)) for size in chunks)
    return Case(dtype, shape, options)


def places(length: int) -> st.SearchStrategy[Any]:
    bound = st.none() | st.integers(-length, length)
    step = st.none() | st.integers(1, 3)
    return st.builds(slice, bound, bound, step) | st.integers(-length, length - 1)


@contextmanager
def session_store(*, is_local: bool) -> Iterator[SessionStore]:
    with tempfile.TemporaryDirectory() as directory:
        objects = LocalStore(directory, fsync=False) if is_local else MemoryStore()
        repository = Repository.create(objects)
        yield SessionStore(repository.writable_session("main"))


def same(left: Any, right: Any) -> None:
    one, other = np.asarray(left), np.asarray(right)
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    if one.dtype.hasobject or one.dtype.kind == "T":
        assert np.array_equal(one, other)
    else:
        assert one.tobytes() == other.tobytes()


@settings(max_examples=scaled(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases(), data=st.data(), is_local=st.booleans())
def test_any_array_is_read_and_written_as_by_zarr(
    case: Case, data: st.DataObject, *, is_local: bool
) -> None:
    with session_store(is_local=is_local) as store:
        ours, theirs = case.made(store), case.made({})
        assert isinstance(ours.async_array.codec_pipeline, SessionPipeline)
        assert isinstance(theirs.async_array.codec_pipeline, BatchedCodecPipeline)
        ours[...] = theirs[...] = case.values(case.shape, 0)
        for seed in range(1, data.draw(st.integers(1, 3))):
            where = tuple(data.draw(places(length)) for length in case.shape)
            values = case.values(np.empty(case.shape)[where].shape, seed)
            ours[where] = theirs[where] = values
        same(ours[...], theirs[...])
        for _ in range(2):
            where = tuple(data.draw(places(length)) for length in case.shape)
            same(ours[where], theirs[where])
        if case.shape:
            rows = data.draw(st.lists(st.integers(0, case.shape[0] - 1), min_size=1, max_size=5))
            apart: Any = (np.array(rows), *[slice(None)] * (len(case.shape) - 1))
            same(ours.oindex[apart], theirs.oindex[apart])
            same(ours.blocks[0], theirs.blocks[0])


@settings(max_examples=scaled(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases().filter(lambda case: case.dtype is not str), data=st.data())
def test_what_is_stored_is_the_same_and_damage_does_the_same(
    case: Case, data: st.DataObject
) -> None:
    with session_store(is_local=True) as store:
        ours, theirs = case.made(store), case.made({})
        ours[...] = theirs[...] = case.values(case.shape, 1)
        keys = sorted(key for key in stored_keys(theirs.store) if "zarr.json" not in key)
        assert [key for key in sorted(stored_keys(store)) if "zarr.json" not in key] == keys
        for key in keys:
            # A gzip header holds the time of day.
            is_timed = any(isinstance(each, GzipCodec) for each in case.options["compressors"])
            assert is_timed or stored(store, key) == stored(theirs.store, key)
        if not keys or any(isinstance(each, BloscCodec) for each in case.options["compressors"]):
            return  # blosc reads beyond the end of what is damaged
        key = data.draw(st.sampled_from(keys))
        whole = bytearray(stored(store, key))
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] ^= data.draw(st.integers(1, 255))
        damaged = bytes(whole[: data.draw(st.sampled_from([len(whole), at or 1]))])
        for each in (store, theirs.store):
            sync(each.set(key, default_buffer_prototype().buffer.from_bytes(damaged)))
        assert outcome(ours) == outcome(theirs)


def stored_keys(store: Store) -> list[str]:
    async def listed() -> list[str]:
        return [key async for key in store.list()]

    return sync(listed())


def stored(store: Store, key: str) -> bytes:
    found = sync(store.get(key, default_buffer_prototype()))
    assert found is not None
    return found.to_bytes()


def outcome(array: "zarr.Array[Any]") -> object:
    """What comes of reading it: bytes, or that it fails."""
    try:
        return np.asarray(array[...]).tobytes()
    except Exception:  # noqa: BLE001 -- codecs raise what they like
        return "failed"


@pytest.mark.parametrize("index_location", ["start", "end"])
def test_shards_within_shards_are_left_to_zarr(index_location: Any) -> None:
    inner = ShardingCodec(chunk_shape=(2,), codecs=[BytesCodec(), ZstdCodec()])
    outer = ShardingCodec(chunk_shape=(4,), codecs=[inner], index_location=index_location)
    values = np.arange(30, dtype="i4")
    with session_store(is_local=True) as store:
        array = zarr.create_array(
            store, name="x", shape=30, chunks=(8,), dtype="i4", serializer=outer, compressors=None
        )
        array[:] = values
        array[3:9] = -1
        values[3:9] = -1
        assert np.array_equal(array[:], values)
        assert np.array_equal(array[7:21:3], values[7:21:3])
