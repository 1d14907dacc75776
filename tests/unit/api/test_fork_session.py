"""Cooperative writes as a caller sees them: forks, processes, Dask and xarray."""

import os
import pickle
import re
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import dask
import dask.array
import numpy as np
import pytest
import xarray as xr
import zarr
from xarray.namedarray import parallelcompat
from xarray.namedarray.daskmanager import DaskManager

import frazil
from frazil.dask import computing_meta, session_merge_reduction, store_dask
from frazil.distributed import extract_session, merge_sessions
from frazil.xarray import to_icechunk
from tests.unit.api.fork_workers import write_block, write_rows

SHAPE, CHUNKS = (32, 30), (4, 30)  # 8 chunks of 960 bytes: stored, not kept in their references
EXPECTED = np.broadcast_to(np.arange(32)[:, np.newaxis], SHAPE)


@pytest.fixture
def repository(tmp_path: Path) -> frazil.Repository:
    """On disk, where other processes find it."""
    return frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))


@pytest.fixture
def session(repository: frazil.Repository) -> frazil.Session:
    """Nothing committed: the array `a` is pending."""
    session = repository.writable_session("main")
    root = zarr.create_group(session.store)
    root.create_array("a", shape=SHAPE, chunks=CHUNKS, dtype="i8", compressors=None)
    return session


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


def array_of(session: frazil.Session, path: str = "a") -> Any:
    return zarr.open_array(session.store, path=path)


def committed(repository: frazil.Repository, path: str = "a") -> Any:
    return zarr.open_array(repository.readonly_session("main").store, path=path, mode="r")[:]


def lazily(values: object, *chunks: int) -> Any:
    return dask.array.from_array(values, chunks=chunks)  # type: ignore[no-untyped-call]  # Dask's


def test_a_fork_is_a_session_that_is_writable_and_has_no_branch(session: frazil.Session) -> None:
    fork = session.fork()
    assert isinstance(fork, frazil.ForkSession)
    assert not fork.read_only
    assert fork.branch is None
    assert fork.mode == frazil.SessionMode.writable
    assert fork.store.session is fork
    assert repr(fork).startswith("ForkSession(")


def test_a_writable_session_does_not_pickle_and_says_what_does(session: frazil.Session) -> None:
    for each in (session, session.store):
        with pytest.raises(ValueError, match=r"Session\.fork"):
            pickle.dumps(each)


def test_a_fork_and_its_store_pickle_with_their_changes(session: frazil.Session) -> None:
    fork = session.fork()
    array_of(fork)[:4] = 1
    there = pickle.loads(pickle.dumps(fork))
    assert isinstance(there, frazil.ForkSession)
    assert there.has_uncommitted_changes
    assert there.config == session.config
    store = pickle.loads(pickle.dumps(fork.store))
    assert isinstance(store.session, frazil.ForkSession)
    assert store.engine is store.session.engine
    assert not store.read_only
    assert (array_of(store.session)[:4] == 1).all()


async def test_merging_has_a_twin(session: frazil.Session) -> None:
    fork = session.fork()
    array_of(fork)[:] = EXPECTED
    await session.merge_async(fork)
    assert (array_of(session)[:] == EXPECTED).all()


def test_only_sessions_are_merged(session: frazil.Session) -> None:
    session.merge()
    with pytest.raises(TypeError):
        session.merge(3)  # type: ignore[arg-type]  # what is tested


def test_processes_write_parts_that_become_one_commit(
    repository: frazil.Repository, session: frazil.Session, processes: Executor
) -> None:
    fork = session.fork()
    parts = [processes.submit(write_rows, fork, "a", start, start + 8) for start in range(0, 32, 8)]
    found = [part.result() for part in parts]
    assert os.getpid() not in {process for process, _ in found}
    assert not fork.has_uncommitted_changes
    session.merge(*(each for _, each in found))
    session.commit("together")
    assert (committed(repository) == EXPECTED).all()


def test_an_array_takes_its_fork_along_and_brings_it_back(
    repository: frazil.Repository, session: frazil.Session, processes: Executor
) -> None:
    array = array_of(session.fork())
    arrays = [processes.submit(write_block, array, at, at + 16).result() for at in (0, 16)]
    forks = [extract_session(each) for each in arrays]
    assert all(isinstance(each, frazil.ForkSession) for each in forks)
    session.merge(*forks)  # type: ignore[arg-type]  # asserted above
    session.commit("together")
    assert (committed(repository) == EXPECTED).all()


def test_processes_that_share_a_chunk_are_found_out(
    session: frazil.Session, processes: Executor
) -> None:
    fork = session.fork()
    parts = [processes.submit(write_rows, fork, "a", *each) for each in ((0, 6), (6, 12))]
    forks = [part.result()[1] for part in parts]
    with pytest.raises(frazil.SessionStateError, match=r"/a: \[1, 0\]$") as caught:
        session.merge(*forks)
    assert caught.value.kind == "merge-failed"


# frazil.distributed


def test_sessions_are_merged_into_the_first_however_they_are_nested(
    session: frazil.Session,
) -> None:
    forks = [session.fork() for _ in range(4)]
    for number, fork in enumerate(forks):
        array_of(fork)[number * 4 : number * 4 + 4] = number + 1
    merged = merge_sessions(forks[0], [forks[1]], [[forks[2]], [forks[3]]])
    assert merged is forks[0]
    assert (array_of(merged)[:16, 0] == np.repeat([1, 2, 3, 4], 4)).all()


def test_merging_sessions_takes_forks_only(session: frazil.Session) -> None:
    with pytest.raises(TypeError):
        merge_sessions(session.fork(), session)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(ValueError, match="no sessions"):
        merge_sessions([])


def test_an_array_elsewhere_has_no_session() -> None:
    with pytest.raises(TypeError, match="MemoryStore"):
        extract_session(zarr.create_array({}, shape=1, dtype="i1"))


# frazil.dask


@pytest.mark.parametrize(
    ("scheduler", "split_every"),
    [("processes", None), ("processes", 2), ("threads", None), ("sync", 2)],
)
def test_dask_arrays_are_stored_with_any_scheduler(
    repository: frazil.Repository,
    session: frazil.Session,
    processes: Executor,
    scheduler: str,
    split_every: int | None,
) -> None:
    zarr.open_group(session.store).create_array("b", shape=64, chunks=8, dtype="i4")
    fork = session.fork()
    stored = store_dask(
        sources=[
            lazily(EXPECTED, 4, 30),
            dask.array.arange(32, chunks=16, dtype="i4"),
        ],
        targets=[array_of(fork), array_of(fork, "b")],
        regions=[(slice(None), slice(None)), (slice(32, 64),)],
        split_every=split_every,
        scheduler=scheduler,
        pool=processes if scheduler == "processes" else None,
    )
    session.merge(stored)
    session.commit("stored")
    assert (committed(repository) == EXPECTED).all()
    assert np.array_equal(committed(repository, "b"), [0] * 32 + list(range(32)))


def test_dask_blocks_that_share_a_chunk_are_found_out(
    session: frazil.Session, processes: Executor
) -> None:
    fork = session.fork()
    with pytest.raises(frazil.SessionStateError) as caught:
        store_dask(
            sources=[lazily(EXPECTED + 1, 6, 30)],
            targets=[array_of(fork)],
            scheduler="processes",
            pool=processes,
        )
    assert caught.value.kind == "merge-failed"


def test_targets_of_a_plain_session_are_refused(session: frazil.Session) -> None:
    with pytest.raises(TypeError, match="ForkSession"):
        store_dask(
            sources=[lazily(EXPECTED, 4, 30)],
            targets=[array_of(session)],
            scheduler="sync",
        )


def test_a_reduction_takes_one_array_too(session: frazil.Session) -> None:
    fork = session.fork()
    stored = dask.array.store(
        [lazily(EXPECTED, 4, 30)],
        [array_of(fork)],
        compute=False,
        return_stored=True,
        load_stored=False,
        lock=False,
    )
    merged = session_merge_reduction(stored, split_every=None)
    assert (array_of(merged)[:] == EXPECTED).all()


class OtherArray:
    """An array of a library that is not `dask.array`, and has a `reduction` of its own."""

    def __init__(self, inner: dask.array.Array) -> None:
        self.inner = inner


def other_library(monkeypatch: pytest.MonkeyPatch) -> list[OtherArray]:
    """Makes it importable; the arrays that were reduced by it."""
    reduced: list[OtherArray] = []

    def reduction(array: OtherArray, **kwargs: Any) -> Any:
        reduced.append(array)
        return dask.array.reduction(array.inner, **kwargs)  # type: ignore[no-untyped-call]  # dask's

    library = ModuleType("other_arrays")
    library.__dict__.update(Array=OtherArray, reduction=reduction)
    monkeypatch.setattr(OtherArray, "__module__", "other_arrays.inner")
    monkeypatch.setitem(sys.modules, "other_arrays", library)
    return reduced


def test_data_of_another_array_library_is_written_by_its_own_means(
    session: frazil.Session, weather: xr.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """xarray's chunk manager stores, and the library of what it returns reduces."""
    reduced = other_library(monkeypatch)

    class Manager(DaskManager):
        def store(self, sources: Any, targets: Any, **kwargs: Any) -> Any:
            stored = super().store(sources, targets, **kwargs)  # one array, or several
            many = stored if isinstance(stored, tuple | list) else [stored]
            return [OtherArray(each) for each in many]

    monkeypatch.setattr(parallelcompat, "list_chunkmanagers", lambda: {"dask": Manager()})
    to_icechunk(weather.chunk(time=5, x=30), session, mode="w")
    xr.testing.assert_identical(opened(session), weather)
    assert len(reduced) == 1


@pytest.mark.parametrize("what", [np.zeros(3), 5, xr.Variable("x", [1])])
def test_only_arrays_that_can_be_reduced_are_reduced(what: Any) -> None:
    with pytest.raises(TypeError, match=re.escape(f"received {type(what)!r}")):
        session_merge_reduction(what, split_every=None)


def test_dask_may_ask_for_the_sort_of_result() -> None:
    def fails(*_: object) -> None:
        raise AssertionError

    assert computing_meta(fails)(1, computing_meta=True).dtype == object
    with pytest.raises(AssertionError):
        computing_meta(fails)(1)


# frazil.xarray


@pytest.fixture
def weather() -> xr.Dataset:
    values = np.arange(20 * 60, dtype="f8").reshape(20, 60)
    times = np.arange(20).astype("M8[D]").astype("M8[ns]")
    return xr.Dataset(
        {"t": (("time", "x"), values, {"unit": "K"}), "n": ((), 3)},
        coords={"time": times, "x": np.arange(60) / 2},
        attrs={"title": "weather"},
    )


def opened(session: frazil.Session, group: str | None = None) -> xr.Dataset:
    found = xr.open_zarr(session.store, group=group, consolidated=False, chunks=None)
    assert isinstance(found, xr.Dataset)
    return found.load()


@pytest.mark.parametrize("scheduler", ["processes", "threads"])
def test_lazy_data_is_written_as_data_in_memory_is(
    repository: frazil.Repository, weather: xr.Dataset, processes: Executor, scheduler: str
) -> None:
    session = repository.writable_session("main")
    to_icechunk(weather, session, group="memory")
    pool = processes if scheduler == "processes" else None
    with dask.config.set({"scheduler": scheduler, "pool": pool}):
        to_icechunk(weather.chunk(time=5, x=30), session, group="lazy", split_every=2)
    session.commit("both")
    now = repository.readonly_session("main")
    xr.testing.assert_identical(opened(now, "memory"), weather)
    xr.testing.assert_identical(opened(now, "lazy"), weather)
    assert array_of(now, "lazy/t").chunks == (5, 30)


def test_appending_and_regions(session: frazil.Session, weather: xr.Dataset) -> None:
    lazy = weather.drop_vars("n").chunk(time=5)
    to_icechunk(lazy, session, mode="w")
    later = lazy.assign_coords(time=lazy.time + np.timedelta64(20, "D"))
    to_icechunk(later, session, append_dim="time")
    expected = xr.concat([weather.drop_vars("n"), later], "time").load()
    xr.testing.assert_identical(opened(session), expected)
    part = (lazy[["t"]] * -1).isel(time=slice(5, 15)).drop_vars(["time", "x"])
    to_icechunk(part, session, region={"time": slice(5, 15)})
    assert (opened(session).t[5:15] == -weather.t[5:15]).all()
    assert (opened(session).t[:5] == weather.t[:5]).all()


def test_a_fork_can_be_written_to_as_well(session: frazil.Session, weather: xr.Dataset) -> None:
    fork = session.fork()
    to_icechunk(weather.chunk(time=10), fork, group="new")
    session.merge(fork)
    xr.testing.assert_identical(opened(session, "new"), weather)


@pytest.mark.parametrize("name", ["t", "time", None])
def test_a_data_array_comes_back_under_its_name(
    session: frazil.Session, weather: xr.Dataset, name: str | None
) -> None:
    given = weather["t"].rename(name)
    to_icechunk(given, session, group="new")
    store: Any = session.store  # xarray's annotation does not know of zarr's stores
    with xr.open_dataarray(store, engine="zarr", group="new", consolidated=False) as found:
        xr.testing.assert_identical(found.load(), given)


def test_nothing_is_overwritten_unless_asked_for(
    session: frazil.Session, weather: xr.Dataset
) -> None:
    to_icechunk(weather, session, group="new")
    with pytest.raises(FileExistsError):
        to_icechunk(weather, session, group="new")
    to_icechunk(weather + 1, session, group="new", mode="w")
    assert (opened(session, "new").t == weather.t + 1).all()


def test_lazy_data_without_elements_is_written(
    session: frazil.Session, weather: xr.Dataset
) -> None:
    to_icechunk(weather.isel(time=slice(0, 0)).chunk(x=20), session, group="new")
    assert opened(session, "new").t.shape == (0, 60)


def test_what_is_no_dataset_is_refused(session: frazil.Session, weather: xr.Dataset) -> None:
    with pytest.raises(TypeError):
        to_icechunk(3, session)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(TypeError, match="name"):
        to_icechunk(weather.rename({"n": 4}), session)
