"""Whole regions of arrays."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import fully_qualified_name, register_pipeline

from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError, NodeNotFoundError
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.wrappers import Counting
from frazil.paths import ROOT, NodePath
from frazil.zarrstore.arrays import open_array, open_group, read_region, write_region
from frazil.zarrstore.pipeline.coding import ARE_THERE, FusedCodecPipeline, use_fused_pipeline
from frazil.zarrstore.store import SessionStore
from tests.examples_count import scaled

X = NodePath("/x")
VALUES = np.arange(50 * 40, dtype=np.int32).reshape(50, 40)


def make(session: Session, **options: object) -> None:
    zarr.create_array(SessionStore(session), name="x", data=VALUES, **options)  # type: ignore[arg-type]  # options differ in type


@st.composite
def slices(draw: st.DrawFn, length: int) -> slice:
    bound = st.none() | st.integers(-length - 3, length + 3)
    return slice(draw(bound), draw(bound), draw(st.none() | st.integers(1, length)))


@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (7, 11)},
        {"chunks": (50, 40), "compressors": None},
        {"chunks": (5, 5), "shards": (20, 10)},
    ],
    ids=["chunks", "one chunk", "shards"],
)
@pytest.mark.parametrize("committed", [False, True])
@settings(
    max_examples=scaled(25),
    deadline=None,
    # the session is only read from
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rows=slices(50), columns=slices(40))
def test_a_region_is_what_numpy_would_cut_out(
    options: dict[str, object], rows: slice, columns: slice, *, committed: bool
) -> None:
    session = _sessions(options)[committed]
    assert np.array_equal(read_region(session, X, (rows, columns)), VALUES[rows, columns])


_made: dict[str, tuple[Session, Session]] = {}


def _sessions(options: dict[str, object]) -> tuple[Session, Session]:
    """The array in a session that is open and in one that is committed, made once."""
    if repr(options) not in _made:
        repository = Repository.create(MemoryStore())
        pending, other = (repository.writable_session("main") for _ in range(2))
        make(pending, **options)
        make(other, **options)
        other.commit("made")
        _made[repr(options)] = pending, repository.readonly_session(Branch("main"))
    return _made[repr(options)]


def test_an_array_without_dimensions_is_one_region(session: Session) -> None:
    zarr.create_array(SessionStore(session), name="x", data=np.array(7))
    assert read_region(session, X, ()) == 7
    write_region(session, X, (), 8)
    assert read_region(session, X, ()) == 8


def test_chunks_of_unequal_sizes_are_one_region(session: Session) -> None:
    with zarr.config.set({"array.rectilinear_chunks": True}):
        array = zarr.create_array(
            SessionStore(session),
            name="x",
            shape=VALUES.shape,
            dtype=VALUES.dtype,
            chunks=[[10, 40], [20, 20]],
        )
        array[:] = VALUES  # before version 3.4, zarr could not do both at once
        region = (slice(5, 30), slice(None))
        write_region(session, X, region, 0)
        expected = VALUES.copy()
        expected[region] = 0
        assert np.array_equal(read_region(session, X, (slice(None), slice(None))), expected)


def test_what_was_never_written_reads_as_the_fill_value(session: Session) -> None:
    zarr.create_array(
        SessionStore(session), name="x", shape=(10,), chunks=(3,), dtype="f4", fill_value=np.nan
    )
    write_region(session, X, (slice(4, 5),), [1.5])
    found = read_region(session, X, (slice(2, 7),))
    assert np.array_equal(found, [np.nan, np.nan, 1.5, np.nan, np.nan], equal_nan=True)


def test_a_region_reads_only_the_chunks_it_touches() -> None:
    reads = Counting(MemoryStore())
    repository = Repository.create(reads)
    session = repository.writable_session("main")
    make(session, chunks=(10, 40), compressors=None)
    reads.clear()
    read_region(session, X, (slice(15, 25), slice(0, 1)))
    assert sum(read.size_bytes for read in reads.reads) == 2 * 10 * 40 * 4


def test_arrays_and_groups_are_zarrs(session: Session) -> None:
    group = zarr.create_group(SessionStore(session), attributes={"title": "t"})
    group.create_array("x", data=VALUES, chunks=(9, 9), dimension_names=("y", "x"), fill_value=3)
    array = open_array(session, X)
    assert array.metadata.to_dict()["dimension_names"] == ("y", "x")
    assert array.fill_value == 3
    array.attrs["units"] = "K"
    assert open_group(session, ROOT).attrs["title"] == "t"
    assert dict(open_array(session, X).attrs) == {"units": "K"}


def test_a_committed_array_cannot_be_written(session: Session) -> None:
    make(session)
    session.commit("made")
    with pytest.raises(ValueError, match="read-only"):
        write_region(session, X, (slice(1), slice(1)), 0)


def test_what_is_asked_for_must_be_there(session: Session) -> None:
    zarr.create_group(SessionStore(session))
    make(session)
    with pytest.raises(NodeNotFoundError):
        open_array(session, NodePath("/nope"))
    with pytest.raises(NodeNotFoundError):
        open_group(session, NodePath("/nope"))
    with pytest.raises(InvalidInputError, match="not an array"):
        open_array(session, ROOT)
    with pytest.raises(InvalidInputError, match="not a group"):
        open_group(session, X)
    with pytest.raises(InvalidInputError, match="2 dimensions"):
        read_region(session, X, (slice(1),))


def test_threads_that_share_chunks_lose_nothing(session: Session) -> None:
    # Every region cuts through chunks, so each chunk is read, changed and written by several.
    make(session, chunks=(8, 40))
    threads = 5
    together = threading.Barrier(threads)

    def write(thread: int) -> None:
        together.wait()
        for row in range(thread, len(VALUES), threads):
            write_region(session, X, (slice(row, row + 1), slice(None)), VALUES[row] + 1)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(write, range(threads)))
    assert np.array_equal(read_region(session, X, (slice(None), slice(None))), VALUES + 1)


def test_the_faster_pipeline_is_used_where_zarr_would_use_its_default() -> None:
    array = zarr.create_array({}, data=VALUES)
    use_fused_pipeline(array)
    expected = FusedCodecPipeline if ARE_THERE else BatchedCodecPipeline
    assert type(array.async_array.codec_pipeline) is expected
    assert np.array_equal(array[:], VALUES)


def test_a_pipeline_that_the_user_chose_stays(session: Session) -> None:
    class Chosen(BatchedCodecPipeline):
        pass

    make(session)
    register_pipeline(Chosen)
    with zarr.config.set({"codec_pipeline.path": fully_qualified_name(Chosen)}):
        array = open_array(session, X)
    use_fused_pipeline(array)
    assert isinstance(array.async_array.codec_pipeline, Chosen)


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("zarr was asked to open the array")


@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (7, 11)},
        {"chunks": (7, 11), "compressors": None, "fill_value": 5},
        {"chunks": (5, 5), "shards": (20, 10)},
    ],
)
def test_regions_need_zarr_once(
    session: Session, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(session, **options)
    every, some = (slice(None), slice(None)), (slice(3, 33), slice(9, 39))
    read_region(session, X, every)
    monkeypatch.setattr(zarr, "open_array", refuse)
    write_region(session, X, some, 8)
    expected = VALUES.copy()
    expected[some] = 8
    assert np.array_equal(read_region(session, X, every), expected)


@pytest.mark.parametrize(
    "setting",
    [
        {"array.read_missing_chunks": False},
        {"codec_pipeline.path": "zarr.core.codec_pipeline.BatchedCodecPipeline"},
    ],
)
def test_regions_obey_the_settings_of_zarr(session: Session, setting: dict[str, object]) -> None:
    array = zarr.create_array(
        SessionStore(session), name="x", shape=(10,), chunks=(5,), dtype="i4", fill_value=3
    )
    array[:5] = np.arange(5)
    whole = (slice(None),)
    assert np.array_equal(read_region(session, X, whole), [0, 1, 2, 3, 4, 3, 3, 3, 3, 3])
    with zarr.config.set(setting):
        try:
            expected: object = np.asarray(open_array(session, X)[:]).tolist()
        except zarr.errors.ChunkNotFoundError:
            expected = "missing"
        try:
            found: object = read_region(session, X, whole).tolist()
        except zarr.errors.ChunkNotFoundError:
            found = "missing"
        assert found == expected
    assert np.array_equal(read_region(session, X, whole), [0, 1, 2, 3, 4, 3, 3, 3, 3, 3])


def test_regions_see_an_array_that_grew_or_was_replaced(session: Session) -> None:
    make(session, chunks=(7, 11))
    every = (slice(None), slice(None))
    assert read_region(session, X, every).shape == (50, 40)
    open_array(session, X).resize((60, 40))
    assert np.array_equal(read_region(session, X, every)[:50], VALUES)
    assert not read_region(session, X, every)[50:].any()
    other = VALUES[:20].astype("f8") / 3
    zarr.create_array(SessionStore(session), name="x", data=other, chunks=(3, 40), overwrite=True)
    assert np.array_equal(read_region(session, X, every), other)
