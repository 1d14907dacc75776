"""Frazil's codec pipeline beside zarr's own: the same calls, the same values, bit by bit."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt
import pytest
import zarr
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numcodecs import zstd
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
from zstandard import backend_cffi

from frazil.engine.commit import chunk_writer
from frazil.engine.repository import Repository
from frazil.errors import FormatError, InvalidInputError
from frazil.format.config import RepositoryConfig
from frazil.objectstore.local import LocalStore
from frazil.objectstore.memory import MemoryStore
from frazil.paths import NodePath
from frazil.zarrstore.arrays import read_region, write_region
from frazil.zarrstore.pipeline import coding, reading
from frazil.zarrstore.pipeline.coding import is_zstd_frame
from frazil.zarrstore.pipeline.session_pipeline import SessionPipeline
from frazil.zarrstore.store import SessionStore
from tests.examples_count import scaled

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")

STRUCTURE = np.dtype([("a", "<i4"), ("b", "<f8"), ("c", "S3")])
TIMES = np.dtype([("t", "<M8[s]"), ("in", [("d", ">m8[10ms]"), ("v", "<f4")])])
DTYPES: list[Any] = [
    "i1", "<u2", ">i4", "i8", "f2", "f4", ">f8", "c8", "bool", "M8[s]", "m8[10ms]", "S5", "U3",
    "V6", STRUCTURE, TIMES, str,
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
        if dtype == TIMES:
            return np.array([(k, (3 * k, k / 2)) for k in range(4)], dtype)[numbers]
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


def any_places(length: int) -> st.SearchStrategy[Any]:
    """What can be selected along an axis apart from others."""
    listed = st.lists(st.integers(0, length - 1), min_size=1, max_size=7)
    arrays = listed.map(np.array) | listed.map(lambda given: np.array(sorted(given)))
    masks = st.lists(st.booleans(), min_size=length, max_size=length).map(np.array)
    return arrays | masks | places(length)


def is_places(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.dtype.kind == "i"


@contextmanager
def session_store(*, is_local: bool, is_inline: bool = True) -> Iterator[SessionStore]:
    config = None if is_inline else RepositoryConfig(inline_chunk_threshold_bytes=0)
    with tempfile.TemporaryDirectory() as directory:
        objects = LocalStore(directory, fsync=False) if is_local else MemoryStore()
        repository = Repository.create(objects, config)
        yield SessionStore(repository.writable_session("main"))


@contextmanager
def drawn_sizes(data: st.DataObject) -> Iterator[None]:
    """Sometimes small chunks are treated as large ones.

    They are read by the thread that decodes them, and of zstd only the beginning is decoded; what
    is written is stored at once, out of memory that is used again.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "COPIED_BYTES", data.draw(st.sampled_from([0, 1 << 16])))
        patched.setattr(reading, "QUICK_BYTES", data.draw(st.sampled_from([0, 2 << 20])))
        patched.setattr(chunk_writer, "PACKED_BYTES", data.draw(st.sampled_from([0, 1 << 20])))
        patched.setattr(coding, "_ZSTD_BLOCK_BYTES", data.draw(st.sampled_from([1, 1 << 17])))
        yield


def same(left: Any, right: Any) -> None:
    one, other = np.asarray(left), np.asarray(right)
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    if one.dtype.hasobject or one.dtype.kind == "T":
        assert np.array_equal(one, other)
    else:
        assert one.tobytes() == other.tobytes()


@settings(max_examples=scaled(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases(), data=st.data(), is_local=st.booleans(), is_inline=st.booleans())
def test_any_array_is_read_and_written_as_by_zarr(
    case: Case, data: st.DataObject, *, is_local: bool, is_inline: bool
) -> None:
    with drawn_sizes(data), session_store(is_local=is_local, is_inline=is_inline) as store:
        ours, theirs = case.made(store), case.made({})
        assert isinstance(ours.async_array.codec_pipeline, SessionPipeline)
        assert isinstance(theirs.async_array.codec_pipeline, BatchedCodecPipeline)
        ours[...] = theirs[...] = case.values(case.shape, 0)
        for seed in range(1, data.draw(st.integers(1, 3))):
            where = tuple(data.draw(places(length)) for length in case.shape)
            values = case.values(np.empty(case.shape)[where].shape, seed)
            ours[where] = theirs[where] = values
            where = tuple(data.draw(places(length)) for length in case.shape)
            same(ours[where], theirs[where])
        if case.dtype is not str and np.dtype(case.dtype).kind in NUMBERS:
            where = tuple(data.draw(places(length)) for length in case.shape)
            ours[where] = theirs[where] = case.values((), 9)[()]
        same(ours[...], theirs[...])
        for _ in range(2):
            where = tuple(data.draw(places(length)) for length in case.shape)
            same(ours[where], theirs[where])
        if case.shape:
            rows = data.draw(st.lists(st.integers(0, case.shape[0] - 1), min_size=1, max_size=5))
            apart: Any = (np.array(rows), *[slice(None)] * (len(case.shape) - 1))
            same(ours.oindex[apart], theirs.oindex[apart])
            same(ours.blocks[0], theirs.blocks[0])
            apart = tuple(data.draw(any_places(length)) for length in case.shape)
            same(ours.oindex[apart], theirs.oindex[apart])
            apart = tuple(  # of places that are selected twice, any of the values may stay
                np.unique(part) if is_places(part) else part for part in apart
            )
            values = case.values(np.asarray(theirs.oindex[apart]).shape, 7)
            ours.oindex[apart] = theirs.oindex[apart] = values
            same(ours[...], theirs[...])


@settings(max_examples=scaled(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases(), data=st.data(), is_local=st.booleans(), is_inline=st.booleans())
def test_any_region_is_read_and_written_as_by_zarr(
    case: Case, data: st.DataObject, *, is_local: bool, is_inline: bool
) -> None:
    path = NodePath("/x")

    def drawn_slices() -> tuple[slice, ...]:
        parts = (data.draw(places(length)) for length in case.shape)
        return tuple(each if isinstance(each, slice) else slice(each, each + 1) for each in parts)

    with (
        drawn_sizes(data),
        zarr.config.set({f"array.{name}": each for name, each in case.options["config"].items()}),
        session_store(is_local=is_local, is_inline=is_inline) as store,
    ):
        case.made(store)
        # opened again: metadata do not have the byte order of a field
        session, theirs = store.engine, zarr.open_array(case.made({}).store, path="x")
        for seed in range(data.draw(st.integers(1, 4))):  # there may be chunks that are missing
            where = drawn_slices()
            shape = np.empty(case.shape)[where].shape
            values = case.values(data.draw(st.sampled_from([shape, shape[-1:], ()])), seed)
            write_region(session, path, where, values)
            theirs[where] = np.broadcast_to(values, shape)
        keys = sorted(key for key in stored_keys(theirs.store) if "zarr.json" not in key)
        assert [key for key in sorted(stored_keys(store)) if "zarr.json" not in key] == keys
        for where in (tuple(map(slice, case.shape)), drawn_slices(), drawn_slices()):
            expected = np.asarray(theirs[where], theirs.dtype)
            same(read_region(session, path, where), expected)
            out = np.empty((*expected.shape, 2), expected.dtype)[..., 1]  # not end to end
            assert read_region(session, path, where, out) is out
            same(out, expected)


@settings(max_examples=scaled(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases().filter(lambda case: case.dtype is not str), data=st.data())
def test_what_is_stored_is_the_same_and_damage_does_the_same(
    case: Case, data: st.DataObject
) -> None:
    with drawn_sizes(data), session_store(is_local=True) as store:
        ours, theirs = case.made(store), case.made({})
        ours[...] = theirs[...] = case.values(case.shape, 1)
        for seed in range(2, data.draw(st.integers(2, 4))):
            where = tuple(data.draw(places(length)) for length in case.shape)
            shape = data.draw(st.sampled_from([np.empty(case.shape)[where].shape, ()]))
            ours[where] = theirs[where] = case.values(shape, seed)
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


def outcome(array: "zarr.Array[Any]", where: Any = ...) -> object:
    """What comes of reading it: bytes, or that it fails."""
    try:
        return np.asarray(array[where]).tobytes()
    except Exception:  # noqa: BLE001 -- codecs raise what they like
        return "failed"


@settings(max_examples=scaled(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), location=st.sampled_from(["start", "end"]), is_zstd=st.booleans())
def test_a_part_of_a_shard_is_read_by_the_index_of_that_shard(
    data: st.DataObject, location: Any, *, is_zstd: bool
) -> None:
    """Written and read in parts, again and again; shards are objects, whose indices are cached."""
    codecs: list[Any] = [BytesCodec(), *([ZstdCodec()] if is_zstd else [])]
    sharding = ShardingCodec(chunk_shape=(2, 3), codecs=codecs, index_location=location)
    values = np.zeros((9, 20), "i4")
    with session_store(is_local=True, is_inline=False) as store:
        array = zarr.create_array(
            store, name="x", shape=(9, 20), chunks=(6, 6), dtype="i4", serializer=sharding,
            compressors=None,
        )  # fmt: skip
        for seed in range(6):
            where = tuple(data.draw(places(length)) for length in values.shape)
            noise = np.random.default_rng(seed).integers(0, 2**30, values.shape, "i4")
            array[where] = values[where] = noise[where]
            where = tuple(data.draw(places(length)) for length in values.shape)
            same(array[where], values[where])
            again = zarr.open_array(store, path="x")
            same(again[where], values[where])


@pytest.mark.parametrize("count", [2, 40], ids=["few", "many"])
def test_parts_of_several_small_shards_are_written_at_once(count: int) -> None:
    """What stays of each is read to memory that a thread uses for one after the other."""
    sharding = ShardingCodec(chunk_shape=(500,), codecs=[BytesCodec()])
    values = np.random.default_rng(0).integers(1, 1 << 60, count * 10_000)
    with session_store(is_local=True, is_inline=False) as store:
        array = zarr.create_array(
            store, name="x", shape=values.shape, chunks=(10_000,), dtype="i8", serializer=sharding,
            compressors=None,
        )  # fmt: skip
        array[:] = values
        array[::5000] = values[::5000] = 7
        same(array[:], values)
        rows = np.sort(np.random.default_rng(1).choice(len(values), 300))
        array.oindex[rows] = values[rows] = 8
        same(array[:], values)


@pytest.mark.parametrize("is_local", [False, True], ids=["memory", "files"])
@pytest.mark.parametrize("chunks", [(100, 100), (400, 500)], ids=["packed", "alone"])
@pytest.mark.parametrize("dtype", ["<i8", ">i8"])
def test_parts_of_many_plain_chunks_are_written_at_once(
    dtype: str, chunks: tuple[int, ...], *, is_local: bool
) -> None:
    """Those that share an object are kept until all are merged, large ones are stored before."""
    values = np.random.default_rng(0).integers(1, 1 << 60, (1000, 1200)).astype(dtype)
    with session_store(is_local=is_local) as store:
        array = zarr.create_array(
            store, name="x", shape=values.shape, chunks=chunks, dtype=dtype, compressors=None
        )
        array[...] = values
        same(array[...], values)
        array[::7, 1:] = values[::7, 1:] = values[::-1][::7, 1:]
        same(array[...], values)


@pytest.mark.parametrize("value", [np.array([7]), 7], ids=["an array", "a single value"])
def test_a_shard_whose_index_points_outside_of_it_is_not_written_in_part(value: Any) -> None:
    """The chunks that stay would be cut off without a word."""
    sharding = ShardingCodec(chunk_shape=(2,), codecs=[BytesCodec()])
    with session_store(is_local=True, is_inline=False) as store:
        array = zarr.create_array(
            store, name="x", shape=8, chunks=(8,), dtype="i4", serializer=sharding, compressors=None
        )
        array[:] = np.arange(1, 9)
        key = "x/c/0"
        whole = stored(store, key)
        places = np.frombuffer(whole[-68:-4], "<u8").copy()
        places[-1] += 1000  # the length of the last chunk
        index = places.tobytes()
        damaged = whole[:-68] + index + google_crc32c.value(index).to_bytes(4, "little")
        sync(store.set(key, default_buffer_prototype().buffer.from_bytes(damaged)))
        with pytest.raises(FormatError, match="was not changed"):
            array[0:1] = value
        assert stored(store, key) == damaged


@settings(max_examples=scaled(40), deadline=None)
@given(data=st.data(), level=st.integers(-3, 12), checksum=st.booleans())
def test_a_zstd_frame_is_known_from_one_with_something_after_it(
    data: st.DataObject, level: int, *, checksum: bool
) -> None:
    size = data.draw(st.integers(300, 400_000))  # up to four blocks
    high = data.draw(st.sampled_from([1, 3, 256]))  # runs, compressed and raw blocks
    content = np.random.default_rng(size).integers(0, high, size, np.uint8)
    frame = bytes(zstd.compress(content, level, checksum))
    assert is_zstd_frame(frame, size)
    assert is_zstd_frame(memoryview(frame), size)
    assert not is_zstd_frame(frame, size + 1)
    after = data.draw(st.binary(min_size=1, max_size=40)) or frame
    assert not is_zstd_frame(frame + after, size)
    assert not is_zstd_frame(frame[: data.draw(st.integers(0, len(frame) - 1))], size)


@settings(max_examples=scaled(15), deadline=None)
@given(data=st.data(), checksum=st.booleans(), is_local=st.booleans())
def test_parts_of_chunks_of_many_blocks_are_read(
    data: st.DataObject, *, checksum: bool, is_local: bool
) -> None:
    shape, chunks = (70, 80, 90), (64, 64, 60)  # of which one has four blocks
    values = np.random.default_rng(5).integers(0, 3000, shape, "u2")
    with session_store(is_local=is_local) as store:
        array = zarr.create_array(
            store, name="x", shape=shape, chunks=chunks, dtype="u2",
            compressors=ZstdCodec(level=1, checksum=checksum),
        )  # fmt: skip
        array[...] = values
        for _ in range(5):
            where = tuple(data.draw(places(length)) for length in shape)
            same(array[where], values[where])


def test_damage_of_a_chunk_is_found_if_it_is_before_what_is_read_or_has_a_checksum() -> None:
    """Of a frame without a checksum, only the blocks that are wanted are decoded."""
    values = np.random.default_rng(6).integers(0, 3000, (64, 64, 64), "u2")
    for checksum in (False, True):
        with session_store(is_local=True) as store:
            array = zarr.create_array(
                store, name="x", shape=values.shape, chunks=values.shape, dtype="u2",
                compressors=ZstdCodec(level=1, checksum=checksum),
            )  # fmt: skip
            array[...] = values
            whole = stored(store, "x/c/0/0/0")
            damaged = whole[:-60000] + bytes(30000) + whole[-30000:]  # in the last block
            sync(store.set("x/c/0/0/0", default_buffer_prototype().buffer.from_bytes(damaged)))
            first = outcome(array, slice(10))
            assert first == ("failed" if checksum else values[:10].tobytes())
            assert outcome(array, slice(60, None)) == "failed"
            assert outcome(array) == "failed"


CHECKED = [[ZstdCodec(level=1)], [ZstdCodec(level=2, checksum=True), Crc32cCodec()]]


@pytest.mark.parametrize("after", [b"", b"more", b"\x28\xb5\x2f\xfd"])
@pytest.mark.parametrize("compressors", CHECKED)
def test_bytes_after_a_chunk_in_a_shard_do_as_with_zarr(compressors: Any, after: bytes) -> None:
    """As do those that an index cuts off."""
    sharding = ShardingCodec(chunk_shape=(100,), codecs=[BytesCodec(), *compressors])
    options: dict[str, Any] = {"serializer": sharding, "compressors": None, "chunks": (400,)}
    with session_store(is_local=True, is_inline=False) as store:
        ours = zarr.create_array(store, name="x", shape=400, dtype="u2", **options)
        theirs = zarr.create_array({}, name="x", shape=400, dtype="u2", **options)
        values = np.random.default_rng(1).integers(0, 900, 400, "u2")
        ours[:] = theirs[:] = values
        whole = stored(store, "x/c/0")
        assert whole == stored(theirs.store, "x/c/0")
        chunks, index = whole[:-68], np.frombuffer(whole[-68:-4], "<i8").reshape(4, 2).copy()
        last = int(index[:, 0].argmax())
        for change in (len(after), -1):
            index[last, 1] += change
            head = index.tobytes()
            checksum = google_crc32c.value(head).to_bytes(4, "little")
            damaged = default_buffer_prototype().buffer.from_bytes(chunks + after + head + checksum)
            for each in (store, theirs.store):
                sync(each.set("x/c/0", damaged))
            assert outcome(ours) == outcome(theirs)
            index[last, 1] -= change


def test_with_a_zstandard_that_is_not_compiled_the_same_is_stored_and_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.random.default_rng(3).integers(0, 900, (40, 50), "u2")
    found = []
    for backend in (zstandard, backend_cffi):
        monkeypatch.setattr(coding, "zstandard", backend)
        monkeypatch.setattr(coding, "zstd_contexts", coding.ZstdContexts())
        with session_store(is_local=True, is_inline=False) as store:
            array = zarr.create_array(
                store, name="x", shape=values.shape, chunks=(10, 10), shards=(20, 20), dtype="u2",
                compressors=ZstdCodec(level=1),
            )  # fmt: skip
            array[...] = values
            array[5:33, 7:31] = 3
            found.append([stored(store, key) for key in sorted(stored_keys(store))])
            same(array[4:30:3, :45], np.asarray(zarr.open_array(store, path="x"))[4:30:3, :45])
            found.append([np.asarray(array[...]).tobytes()])
    assert found[:2] == found[2:]


@pytest.mark.parametrize("size", [1 << 20, 1 << 12], ids=["stored at once", "stored together"])
@pytest.mark.parametrize("is_local", [True, False], ids=["local", "memory"])
def test_chunks_of_shards_that_are_not_compressible_are_kept(
    monkeypatch: pytest.MonkeyPatch, size: int, *, is_local: bool
) -> None:
    """Encoded, they are longer than the memory in which a thread gathers those of a shard."""
    side = int((size // 16) ** 0.5)  # of a chunk
    options: dict[str, Any] = {
        "shape": (24 * side, 4 * side),  # six shards of 4 by 4 chunks
        "chunks": (side, side),
        "shards": (4 * side, 4 * side),
        "dtype": "u1",
        "compressors": ZstdCodec(level=1),
    }
    monkeypatch.setattr(reading.coders, "width", 2)
    rng = np.random.default_rng(7)
    with session_store(is_local=is_local, is_inline=False) as store:
        ours = zarr.create_array(store, name="x", **options)
        theirs = zarr.create_array({}, name="x", **options)
        for _ in range(2):
            values = rng.integers(0, 256, options["shape"], np.uint8)
            values[: side * 2] = 1
            ours[...] = theirs[...] = values
            ours[side : side * 3, 1:] = theirs[side : side * 3, 1:] = values[-2 * side :, 1:]
            same(ours[...], theirs[...])
            for key in stored_keys(theirs.store):
                if not key.endswith("json"):
                    assert stored(store, key) == stored(theirs.store, key)


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


@st.composite
def transposed_shards(draw: st.DrawFn) -> dict[str, Any]:
    """A transposition before sharding, often with inner chunks that fit only one way round."""
    shard = draw(st.tuples(*[st.sampled_from([2, 4, 6, 12])] * draw(st.integers(2, 3))))
    inner = tuple(draw(st.sampled_from([n for n in (1, 2, 3, 4, 6) if not k % n])) for k in shard)
    order = tuple(draw(st.permutations(range(len(shard)))))
    inner_codecs: list[Any] = [BytesCodec()]
    if draw(st.booleans()):  # and a shard in the shard
        least = draw(st.permutations(inner))
        inner_codecs = [ShardingCodec(chunk_shape=least, codecs=[BytesCodec()])]
    return {
        "shape": tuple(draw(st.integers(1, 13)) for _ in shard),
        "chunks": shard,
        "dtype": "i4",
        "compressors": draw(st.sampled_from([None, [ZstdCodec()]])),
        "filters": [TransposeCodec(order=order)],
        "serializer": ShardingCodec(chunk_shape=inner, codecs=inner_codecs),
    }


def write_in_parts(array: "zarr.Array[Any]", values: npt.NDArray[Any]) -> None:
    half = values.shape[-1] // 2
    array[..., :half] = values[..., :half]
    array[..., half:] = values[..., half:]


@pytest.mark.filterwarnings("ignore:Combining a")
@given(options=transposed_shards(), in_parts=st.booleans())
@settings(max_examples=scaled(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_shards_behind_a_transposition_keep_every_value_or_are_refused(
    options: dict[str, Any], *, in_parts: bool
) -> None:
    session = Repository.create(MemoryStore()).writable_session("main")
    store = SessionStore(session)
    values = np.arange(1, np.prod(options["shape"]) + 1, dtype="i4").reshape(options["shape"])
    try:
        array = zarr.create_array(store, name="x", **options)
    except (InvalidInputError, ValueError):
        assert session.find_node(NodePath("/x")) is None
        assert loses_values(options)
        return
    write = (
        write_in_parts if in_parts else (lambda array, given: array.set_basic_selection(..., given))
    )
    write(array, values)
    np.testing.assert_array_equal(zarr.open_array(store, path="x")[...], values)


def loses_values(options: dict[str, Any]) -> bool:
    """True if zarr itself refuses such an array, or does not give back what it was given."""
    try:
        array = zarr.create_array(zarr.storage.MemoryStore(), **options)
        array.resize(options["chunks"])  # one whole shard
        values = np.random.default_rng(7).integers(1, 2**31, array.shape, dtype="i4")
        array[...] = values
        return not np.array_equal(array[...], values)
    except (ValueError, KeyError, IndexError):
        return True


@pytest.mark.filterwarnings("ignore:Combining a")
def test_nothing_is_written_to_an_array_whose_shards_lose_values() -> None:
    """As one that was made before such arrays were refused, or by another program."""
    options: dict[str, Any] = {
        "filters": [TransposeCodec(order=(1, 0))],
        "serializer": ShardingCodec(chunk_shape=(3, 4), codecs=[BytesCodec()]),
        "compressors": None,
    }
    memory = zarr.storage.MemoryStore()
    made = zarr.create_array(memory, shape=(6, 20), chunks=(6, 20), dtype="i4", **options)
    session = Repository.create(MemoryStore()).writable_session("main")
    session.set_node(NodePath("/"), memory._store_dict["zarr.json"].to_bytes())
    array = zarr.open_array(SessionStore(session))
    for region in ((slice(None), slice(None)), (slice(0, 2), slice(0, 3))):
        with pytest.raises(InvalidInputError, match="values would be lost"):
            array[region] = 1
    assert not any(len(refs) for refs in session.chunk_refs(NodePath("/")))
    array.attrs["note"] = "metadata can be changed"
    np.testing.assert_array_equal(array[...], made[...])


@given(data=st.data())
def test_a_mesh_is_divided_as_numpy_selects(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=3)))
    chunk = tuple(data.draw(st.integers(1, 6)) for _ in shape)
    mesh = [np.array(sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1)))) for n in shape]
    values = np.arange(np.prod(shape)).reshape(shape)
    box = reading.divide_mesh(mesh, shape, chunk)
    assert box is not None
    assert box.shape == tuple(map(len, mesh))
    found = np.full(box.shape, -1)
    for index, within, target, is_whole in box.chunks:
        corner = [at * size for at, size in zip(index, chunk, strict=True)]
        own = values[tuple(slice(at, at + size) for at, size in zip(corner, chunk, strict=True))]
        found[target] = own[within]
        assert is_whole == (own[within].size == own.size)
    assert np.array_equal(found, values[np.ix_(*mesh)])
    assert (
        reading.divide_mesh([*mesh[:-1], mesh[-1][[0, *range(len(mesh[-1]))]]], shape, chunk)
        is None
    )


@pytest.mark.parametrize("dtype", ["u1", "<u2", ">f8", "M8[s]", "U3", STRUCTURE, TIMES], ids=str)
def test_values_are_assigned_in_short_rows_as_by_numpy(dtype: Any) -> None:
    shape = (40, 50, 33)
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    noise = np.random.default_rng(0).integers(0, 100, count, np.uint8).view(dtype).reshape(shape)
    whole = np.zeros((40, 50, 70), dtype)
    for values in (noise, noise[..., ::-1], noise[..., :1], noise.transpose(1, 0, 2)[:40, :40]):
        place = whole[: values.shape[0], : values.shape[1], 2 : 2 + values.shape[2]]
        reading.assign(place, values)
        assert place.tobytes() == values.tobytes()
        whole[...] = np.zeros((), dtype)
