"""The codec pipeline for frazil's stores: zarr's own results, with fewer requests."""

import asyncio
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    TransposeCodec,
    ZstdCodec,
)
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.errors import ChunkNotFoundError

from frazil.engine.files.caches import StoredChunk, WeighedCache
from frazil.engine.files.chunk_objects import ChunkFiles
from frazil.engine.files.object_keys import chunk_key
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import InvalidInputError
from frazil.ids import ChunkId
from frazil.objectstore.local import LocalStore
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.pool import Pool
from frazil.objectstore.wrappers import Counting
from frazil.zarrstore.pipeline.reading import WORTHWHILE_BYTES, span_of
from frazil.zarrstore.pipeline.session_pipeline import SessionPipeline
from frazil.zarrstore.store import SessionStore
from tests.examples_count import scaled

CODECS: dict[str, dict[str, Any]] = {
    "plain": {"compressors": None},
    "plain, big endian": {"compressors": None, "serializer": BytesCodec(endian="big")},
    "zstd": {"compressors": ZstdCodec()},
    "gzip": {"compressors": GzipCodec()},
    "blosc": {"compressors": BloscCodec()},
    "crc32c": {"compressors": Crc32cCodec()},
    "transposed": {"filters": [TransposeCodec(order=(1, 0))], "compressors": ZstdCodec()},
    "shards": {"shards": (12, 10)},
}
SHAPE = (31, 23)
DTYPES = ["i4", "f8", "u1", "bool", "M8[s]", "c8", "S3", "U4"]


def made(codecs: str, dtype: str, store: Any, **more: Any) -> "zarr.Array[Any]":
    options = {"chunks": (6, 5), "name": "x", "shape": SHAPE, "dtype": dtype} | CODECS[codecs]
    return zarr.create_array(store, **options, **more)


def session_store() -> SessionStore:
    return SessionStore(Repository.create(MemoryStore()).writable_session("main"))


def some_values(dtype: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7  # zeros, the fill value, too
    if np.dtype(dtype).kind == "M":
        return numbers.astype("M8[s]")
    return numbers.astype(dtype)


def same(left: Any, right: Any) -> bool:
    """Bit by bit: a time that is none is not equal to itself."""
    one, other = np.asarray(left), np.asarray(right)
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def places(length: int) -> st.SearchStrategy[Any]:
    bound = st.none() | st.integers(-length, length)
    step = st.none() | st.integers(1, 4)
    return st.builds(slice, bound, bound, step) | st.integers(-length, length - 1)


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize("codecs", CODECS)
@settings(
    max_examples=scaled(6), deadline=None
)  # many more in tests/properties/test_pipeline_codecs.py
@given(data=st.data())
def test_selections_are_read_and_written_as_by_zarr(codecs: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(DTYPES if codecs != "transposed" else DTYPES[:6]))
    ours, theirs = made(codecs, dtype, session_store()), made(codecs, dtype, {})
    assert isinstance(ours.async_array.codec_pipeline, SessionPipeline)
    assert isinstance(theirs.async_array.codec_pipeline, BatchedCodecPipeline)
    for _ in range(data.draw(st.integers(1, 3))):
        where = (data.draw(places(SHAPE[0])), data.draw(places(SHAPE[1])))
        values = some_values(dtype, np.empty(SHAPE)[where].shape)
        ours[where] = theirs[where] = values
    assert same(ours[:], theirs[:])
    where = (data.draw(places(SHAPE[0])), data.draw(places(SHAPE[1])))
    assert same(ours[where], theirs[where])
    rows = data.draw(st.lists(st.integers(0, SHAPE[0] - 1), min_size=1, max_size=9))
    columns = data.draw(st.lists(st.integers(0, SHAPE[1] - 1), min_size=1, max_size=9))
    apart: Any = (np.array(rows), np.array(columns))
    assert same(ours.oindex[apart], theirs.oindex[apart])
    paired: Any = tuple(np.array(list(zip(rows, columns, strict=False))).T)
    assert same(ours.vindex[paired], theirs.vindex[paired])
    assert same(ours.blocks[1:3, 0], theirs.blocks[1:3, 0])


@pytest.mark.parametrize("write_empty_chunks", [False, True])
@pytest.mark.parametrize("codecs", ["plain", "zstd"])
def test_chunks_of_nothing_but_fill_value_are_stored_only_if_wanted(
    codecs: str, *, write_empty_chunks: bool
) -> None:
    store = session_store()
    array = made(codecs, "f4", store, config={"write_empty_chunks": write_empty_chunks})
    array[:] = 1
    array[:6] = 0
    stored = sum(key.startswith("x/c/") for key in zarr.core.sync.sync(_listed(store)))
    assert stored == (30 if write_empty_chunks else 25)
    assert np.asarray(array[:]).sum() == 23 * 25


async def _listed(store: SessionStore) -> list[str]:
    return [key async for key in store.list()]


def test_an_array_without_dimensions_is_a_chunk() -> None:
    array = zarr.create_array(session_store(), name="x", shape=(), dtype="f8")
    assert array[()] == 0
    array[()] = 7.5
    assert array[()] == 7.5


def test_missing_chunks_are_missed_where_that_is_asked_for() -> None:
    array = made("plain", "f4", session_store(), config={"read_missing_chunks": False})
    array[:6] = 1
    assert np.all(array[:6] == 1)
    with pytest.raises(ChunkNotFoundError, match="c/1/0"):
        array[:7]


def test_small_chunks_of_one_selection_share_an_object() -> None:
    counting = Counting(MemoryStore())
    repository = Repository.create(counting)
    session = repository.writable_session("main")
    array = zarr.create_array(
        SessionStore(session),
        name="x",
        shape=(100_000,),
        chunks=(1000,),
        dtype="f4",
        compressors=None,
    )
    values = np.arange(100_000, dtype=np.float32)
    array[:] = values
    session.commit("packed")
    assert counting.count("put", "chunks/") == 1
    counting.clear()
    assert np.array_equal(_opened(repository)[:], values)
    assert [each.verb for each in counting.requests if each.key.startswith("chunks/")] == [
        "get_ranges"
    ]


def test_only_the_bytes_that_are_needed_of_a_plain_chunk_are_fetched() -> None:
    counting = Counting(MemoryStore())
    repository = Repository.create(counting)
    session = repository.writable_session("main")
    array = zarr.create_array(
        SessionStore(session),
        name="x",
        shape=(2000, 100),
        chunks=(1000, 100),
        dtype="f8",
        compressors=None,
    )
    values = np.arange(200_000, dtype=np.float64).reshape(2000, 100)
    array[:] = values
    session.commit("large chunks")
    counting.clear()
    opened = _opened(repository)
    assert np.array_equal(opened[995:1005, 3], values[995:1005, 3])
    fetched = sum(each.size_bytes for each in counting.requests if each.key.startswith("chunks/"))
    assert fetched == 10 * 100 * 8


@pytest.mark.parametrize("index_location", ["start", "end"])
def test_only_the_index_and_the_chunks_that_are_needed_of_shards_are_fetched(
    index_location: Any,
) -> None:
    counting = Counting(MemoryStore())
    repository = Repository.create(counting)
    session = repository.writable_session("main")
    sharding = ShardingCodec(
        chunk_shape=(10, 100), codecs=[BytesCodec()], index_location=index_location
    )
    array = zarr.create_array(
        SessionStore(session),
        name="x",
        shape=(3000, 100),
        chunks=(1000, 100),
        dtype="f8",
        serializer=sharding,
        compressors=None,
    )
    values = np.arange(300_000, dtype=np.float64).reshape(3000, 100)
    array[:] = values
    session.commit("shards")
    opened = _opened(repository)
    assert np.array_equal(opened[2000:2001], values[2000:2001])  # finds the manifest
    counting.clear()
    assert np.array_equal(opened[995:1005, 3], values[995:1005, 3])
    requests = [each for each in counting.requests if each.key.startswith("chunks/")]
    index_bytes, chunk_bytes = 100 * 16 + 4, 10 * 100 * 8
    # Two rounds for any number of shards: the two indices, then a chunk of each; they share a pack.
    assert [each.size_bytes for each in requests] == [2 * index_bytes, 2 * chunk_bytes]
    counting.clear()
    assert np.array_equal(opened[40:80], values[40:80])
    requests = [each for each in counting.requests if each.key.startswith("chunks/")]
    assert [each.size_bytes for each in requests] == [4 * chunk_bytes]  # its index is known
    counting.clear()
    assert np.array_equal(opened[:], values)
    assert sum(each.key.startswith("chunks/") for each in counting.requests) == 1


class _Far(Counting):
    @property
    def far(self) -> bool:
        return True


@pytest.mark.parametrize(("is_far", "threads"), [(False, 0), (True, 3)])
@pytest.mark.parametrize("codecs", ["plain", "zstd", "shards"])
def test_small_selections_of_a_near_store_need_no_other_thread(
    monkeypatch: pytest.MonkeyPatch, codecs: str, threads: int, *, is_far: bool
) -> None:
    """Nor do they block the loop if others use it."""
    objects = _Far(MemoryStore()) if is_far else MemoryStore()
    store = SessionStore(Repository.create(objects).writable_session("main"))
    array = made(codecs, "i4", store)
    array[...] = values = some_values("i4", SHAPE)
    used = []
    to_thread = asyncio.to_thread

    async def counted(work: Any, *given: Any) -> Any:
        used.append(work)
        return await to_thread(work, *given)

    monkeypatch.setattr(asyncio, "to_thread", counted)
    for where in ((3, 4), (slice(2, 9), slice(None)), (slice(None), 7)):
        assert np.array_equal(array[where], values[where])
    assert len(used) == threads

    async def two_at_once() -> Any:
        return await asyncio.gather(*[array.async_array.getitem((slice(4), 2)) for _ in range(2)])

    assert all(np.array_equal(each, values[:4, 2]) for each in asyncio.run(two_at_once()))
    assert len(used) > threads

    used.clear()
    for number, rows in enumerate((slice(3, 4), slice(2, 9), slice(None))):
        array[rows, 4:] = values[rows, 4:] = number + 1
        assert np.array_equal(array[rows, 4:], values[rows, 4:])
    assert (len(used) > 0) == is_far
    if not is_far:  # while another thread changes the session, a write would wait for it
        with ThreadPoolExecutor(1) as other, store.engine.unless_busy() as is_ours:
            assert is_ours
            used.clear()
            written = other.submit(array.__setitem__, (3, 4), 9)
            with pytest.raises(TimeoutError):
                written.result(timeout=0.1)
        written.result()
        assert len(used) == 1
        assert array[3, 4] == 9


@settings(max_examples=scaled(20), deadline=None)
@given(data=st.data(), is_local=st.booleans(), cache_bytes=st.sampled_from([0, 1 << 20]))
def test_pieces_of_stored_chunks_are_their_bytes(
    data: st.DataObject, cache_bytes: int, *, is_local: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store = LocalStore(directory, fsync=False) if is_local else MemoryStore()
        cache: WeighedCache[Any, bytes] = WeighedCache(cache_bytes, len)
        files = ChunkFiles(store, Pool(2), cache)
        contents = data.draw(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=4))
        pieces, expected = [], []
        for content in contents:
            chunk, before = ChunkId.random(), data.draw(st.binary(max_size=3))
            store.put(chunk_key(chunk), before + content)
            bound = st.integers(0, len(content))
            pairs = [data.draw(st.tuples(bound, bound)) for _ in range(3)]
            spans = [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]
            whole = StoredChunk(chunk.raw, len(before), len(content))
            pieces += [whole.part(start, stop) for start, stop in spans]
            expected += [content[start:stop] for start, stop in spans]
        memory = memoryview(bytearray(1000))
        for given in (None, lambda size: memory[:size]):
            assert [bytes(each) for each in files.fetch_stored(pieces, given)] == expected


@pytest.fixture
def _together() -> Iterator[None]:
    with zarr.config.set({"frazil.write_together": True}):
        yield


@pytest.mark.usefixtures("_together")
def test_data_of_a_new_array_are_packed_though_zarr_writes_region_by_region() -> None:
    counting = Counting(MemoryStore())
    store = SessionStore(Repository.create(counting).writable_session("main"))
    values = np.random.default_rng(0).random(100_000)
    array = zarr.create_array(store, name="x", data=values, chunks=(1000,), compressors=None)
    assert np.array_equal(array[:], values)
    assert counting.count("put", "chunks/") <= 20  # zarr writes ten chunks at a time


@pytest.mark.usefixtures("_together")
def test_writes_of_one_turn_are_done_in_order_and_fail_by_themselves() -> None:
    store = session_store()
    array = zarr.create_array(store, name="x", shape=(60,), chunks=(10,), dtype="i4").async_array

    stale = zarr.create_array(store, name="y", shape=(60,), chunks=(10,), dtype="i4")
    zarr.open_array(store, path="y").resize((10,))

    async def write(start: int, stop: int, value: Any) -> None:
        await array.setitem(slice(start, stop), value)

    async def several() -> tuple[Any, ...]:
        # Three to the same chunk, one of them whole; one to another; one outside of its array.
        return await asyncio.gather(
            write(0, 10, 1), write(3, 5, 2), write(4, 6, 3), write(20, 30, 4),
            stale.async_array.setitem(slice(50, 60), 1), return_exceptions=True,
        )  # fmt: skip

    *good, bad = zarr.core.sync.sync(several())
    assert good == [None] * 4
    assert isinstance(bad, InvalidInputError)
    found = np.asarray(zarr.open_array(store, path="x", mode="r")[:])
    assert np.array_equal(found[:10], [1, 1, 1, 2, 3, 3, 1, 1, 1, 1])
    assert np.array_equal(found[20:30], [4] * 10)


def test_whole_shards_of_one_selection_share_an_object() -> None:
    counting = Counting(MemoryStore())
    session = Repository.create(counting).writable_session("main")
    array = zarr.create_array(
        SessionStore(session), name="x", shape=(4000,), chunks=(100,), shards=(500,), dtype="f8"
    )
    array[:] = np.arange(4000)
    assert counting.count("put", "chunks/") == 1
    array[100:700] = -1  # one whole shard would be, but these are two in part
    assert np.array_equal(array[98:702], [98, 99, *[-1] * 600, 700, 701])


def test_values_of_a_shard_outside_of_its_array_stay_as_with_zarr() -> None:
    seen = []
    for store in (session_store(), zarr.storage.MemoryStore()):
        array = made("shards", "i4", store)
        array[...] = 1
        array.resize((30, 21))
        array[...] = 0
        array.resize(SHAPE)
        seen.append(np.asarray(array[...]))
    np.testing.assert_array_equal(seen[0], seen[1])
    assert seen[0].any()


def _opened(repository: Repository) -> "zarr.Array[Any]":
    session = repository.readonly_session(Branch("main"))
    return zarr.open_array(SessionStore(session), path="x", mode="r")


@given(data=st.data())
def test_spans_hold_what_is_selected(data: st.DataObject) -> None:
    shape = data.draw(st.tuples(*[st.integers(1, 4)] * data.draw(st.integers(1, 3))))
    shape = (*shape, WORTHWHILE_BYTES // 4)
    selection = tuple(
        data.draw(
            st.integers(0, length - 1) | st.slices(length).filter(lambda s: (s.step or 1) > 0)
        )
        for length in shape
    )
    values = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    span = span_of(selection, shape, 4)
    if span is not None:
        part = np.frombuffer(values.tobytes()[span.start : span.stop], np.int32)
        assert np.array_equal(part.reshape(span.shape)[span.selection], values[selection])
        assert span.stop - span.start <= values.nbytes - WORTHWHILE_BYTES


def test_an_array_can_be_pickled() -> None:
    repository = Repository.create(MemoryStore())
    session = repository.writable_session("main")
    made("zstd", "i4", SessionStore(session))[:] = 5
    session.commit("made")
    array = pickle.loads(pickle.dumps(_opened(repository)))
    assert np.all(array[:] == 5)


PROGRAM = """
import zarr
{before}
import frazil

from tests.examples_count import scaled
session = frazil.Repository.create(frazil.in_memory_storage()).writable_session("main")
array = zarr.create_array(session.store, shape=3, dtype="i4")
print(type(array.async_array.codec_pipeline).__name__, type(
    zarr.create_array({{}}, shape=3, dtype="i4").async_array.codec_pipeline).__name__)
"""
FUSED = '"zarr.core.codec_pipeline.FusedCodecPipeline"'


@pytest.mark.parametrize(
    ("before", "used"),
    [
        ("", "SessionPipeline BatchedCodecPipeline"),
        ('zarr.config.set({"frazil.codec_pipeline": False})', "BatchedCodecPipeline " * 2),
        (f'zarr.config.set({{"codec_pipeline.path": {FUSED}}})', "FusedCodecPipeline " * 2),
    ],
    ids=["default", "not wanted", "another was chosen"],
)
def test_which_pipeline_is_used_is_the_users_choice(before: str, used: str) -> None:
    program = PROGRAM.format(before=before)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == used.split()
