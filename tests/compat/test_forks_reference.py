"""Forks and merges: the same deeds in both engines, and what either makes of them.

REFUSED_BY_US lists what the reference lets pass and frazil does not: docs/differences.md says why.
"""

import inspect
import pickle
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import xarray as xr
import zarr

from tests.compat.driver import OURS, REFERENCE, Contents, Engine, assert_same, contents

ENGINES = pytest.mark.parametrize("engine", [OURS, REFERENCE], ids=["frazil", "icechunk"])

type Deed = Callable[[Any], object]


def start(engine: Engine, root: Path) -> Any:
    """A repository with arrays /a and /b of 4 chunks, of which 3 are written, and a group /g."""
    repo = engine.create(root)
    session = repo.writable_session("main")
    group = zarr.create_group(session.store)
    for name in "ab":
        array = group.create_array(name, shape=8, chunks=2, dtype="i4", fill_value=0)
        array[:6] = 9
    group.create_group("g")
    session.commit("start")
    return repo


def write(name: str, chunk: int, value: int = 1) -> Deed:
    def deed(session: Any) -> None:
        zarr.open_array(session.store, path=name)[2 * chunk : 2 * chunk + 2] = value

    return deed


def create(name: str, *, size: int = 4) -> Deed:
    return lambda session: zarr.open_group(session.store).create_array(
        name, shape=size, chunks=2, dtype="i4"
    )


def create_group(name: str) -> Deed:
    return lambda session: zarr.open_group(session.store).create_group(name)


def describe(name: str, value: int) -> Deed:
    def deed(session: Any) -> None:
        node: Any = zarr.open(session.store, path=name)
        node.update_attributes({"v": value})

    return deed


def delete(name: str) -> Deed:
    def deed(session: Any) -> None:
        del zarr.open_group(session.store)[name]

    return deed


def recreate(name: str) -> Deed:
    def deed(session: Any) -> None:
        delete(name)(session)
        create(name, size=8)(session)

    return deed


def resize(name: str, size: int) -> Deed:
    return lambda session: zarr.open_array(session.store, path=name).resize((size,))


DEEDS: dict[str, Deed] = {
    "write a 0": write("a", 0),
    "write a 0 again": write("a", 0),
    "write a 0 otherwise": write("a", 0, 2),
    "write a 3": write("a", 3),
    "write b 0": write("b", 0),
    "create n": create("n"),
    "create group n": create_group("n"),
    "create g/x": create("g/x"),
    "create n/x": create("n/x"),
    "describe a": describe("a", 1),
    "describe a again": describe("a", 1),
    "describe a otherwise": describe("a", 2),
    "describe g": describe("g", 1),
    "describe g otherwise": describe("g", 2),
    "delete a": delete("a"),
    "delete g": delete("g"),
    "recreate a": recreate("a"),
    "cut a": resize("a", 4),
    "grow a": resize("a", 12),
}
# Pairs of deeds, in either order, that the reference merges and frazil refuses.
REFUSED_BY_US = {
    frozenset(pair)
    for pair in [
        ("write a 0", "write a 0 otherwise"),
        ("write a 0 again", "write a 0 otherwise"),
        ("create n", "create group n"),
        ("create n", "create n/x"),
        ("create g/x", "delete g"),
        ("cut a", "write a 3"),
    ]
}


def committed(repo: Any, branch: str = "main") -> Contents:
    return contents(repo.readonly_session(branch).store)


def outcome(engine: Engine, repo: Any, deeds: tuple[str, str]) -> tuple[str | None, Contents]:
    """Each deed done by a fork, the forks merged: the kind of error, or what was committed."""
    branch = ", ".join(deeds)
    repo.create_branch(branch, repo.lookup_branch("main"))
    session = repo.writable_session(branch)
    forks = []
    for deed in deeds:
        fork = pickle.loads(pickle.dumps(session.fork()))
        DEEDS[deed](fork)
        forks.append(pickle.loads(pickle.dumps(fork)))
    try:
        session.merge(*forks)
    except engine.module.SessionStateError as error:
        return error.kind, {}
    session.commit("merged", allow_empty=True)
    return None, committed(repo, branch)


@pytest.mark.parametrize("one", DEEDS)
def test_two_forks_come_to_the_same_in_both(one: str, tmp_path: Path) -> None:
    ours, theirs = (start(engine, tmp_path / engine.name) for engine in (OURS, REFERENCE))
    for two in DEEDS:
        if one == two:
            continue
        kind, found = outcome(OURS, ours, (one, two))
        expected_kind, expected = outcome(REFERENCE, theirs, (one, two))
        if frozenset((one, two)) in REFUSED_BY_US:
            assert (kind, expected_kind) == ("merge-failed", None), (one, two)
        else:
            assert kind == expected_kind, (one, two)
            assert_same(found, expected, f"{one}, {two}")


def values(session: Any, path: str) -> object:
    return np.asarray(zarr.open_array(session.store, path=path, mode="r")[...]).tolist()


@ENGINES
def test_a_fork_is_neither_committed_nor_rebased(engine: Engine, tmp_path: Path) -> None:
    session = start(engine, tmp_path).writable_session("main")
    fork = session.fork()
    write("a", 0)(fork)
    assert (fork.read_only, fork.branch, fork.has_uncommitted_changes) == (False, None, True)
    attempts: list[Callable[[], object]] = [
        lambda: fork.commit("mine"),
        lambda: fork.commit("mine", allow_empty=True),
        lambda: fork.amend("mine"),
        lambda: fork.rebase(engine.module.ConflictDetector()),
    ]
    for attempt in attempts:
        with pytest.raises(engine.module.SessionStateError) as caught:
            attempt()
        assert caught.value.kind == "commit-not-allowed"
    with pytest.raises(engine.module.IcechunkError):
        fork.flush("mine")


@ENGINES
def test_who_may_be_forked_and_merged(engine: Engine, tmp_path: Path) -> None:
    repo = start(engine, tmp_path)
    session = repo.writable_session("main")
    fork = session.fork()
    assert type(fork) is engine.module.ForkSession
    assert type(fork.fork()) is engine.module.ForkSession
    assert type(fork.store.session) is engine.module.ForkSession
    for error, kind, attempt in (
        ("SessionStateError", "cannot-fork-read-only-session", repo.readonly_session("main").fork),
        ("SessionStateError", "merge-not-allowed", lambda: fork.merge(session)),
        ("ReadOnlyError", "read-only-session", lambda: repo.readonly_session("main").merge(fork)),
    ):
        with pytest.raises(getattr(engine.module, error)) as caught:
            attempt()
        assert caught.value.kind == kind
    for each in (session, session.store):
        with pytest.raises(ValueError, match=r"Session\.fork"):
            pickle.dumps(each)


@ENGINES
def test_a_fork_works_on_what_was_pending(engine: Engine, tmp_path: Path) -> None:
    repo = start(engine, tmp_path)
    session = repo.writable_session("main")
    create("d", size=8)(session)
    write("d", 0, 5)(session)
    write("a", 0, 5)(session)
    fork = pickle.loads(pickle.dumps(session.fork()))
    assert not fork.has_uncommitted_changes
    assert values(fork, "d") == [5, 5, 0, 0, 0, 0, 0, 0]
    write("d", 1, 6)(fork)
    write("a", 0, 7)(fork)
    write("d", 2, 8)(session)
    session.merge(fork)
    session.commit("merged")
    for reader in (OURS, REFERENCE):
        now = reader.open(tmp_path).readonly_session("main")
        found = [values(now, name) for name in "da"]
        assert found == [[5, 5, 6, 6, 8, 8, 0, 0], [7, 7, 9, 9, 9, 9, 0, 0]]


@ENGINES
def test_a_session_that_rearranges_is_forked_but_takes_nothing(
    engine: Engine, tmp_path: Path
) -> None:
    session = start(engine, tmp_path).rearrange_session("main")
    session.move("/a", "/g/moved")
    fork = session.fork()
    assert values(fork, "g/moved") == [9, 9, 9, 9, 9, 9, 0, 0]
    with pytest.raises(engine.module.SessionStateError) as caught:
        fork.move("/b", "/c")
    assert caught.value.kind == "non-rearrange-session"
    write("b", 0)(fork)
    with pytest.raises(engine.module.SessionStateError) as caught:
        session.merge(fork)
    assert caught.value.kind == "rearrange-session-only"


@ENGINES
def test_a_fork_from_before_a_rebase(engine: Engine, tmp_path: Path) -> None:
    """Merged after it, the reference overwrites what others committed; frazil refuses.

    Merged first, both find the conflict.
    """
    repo = start(engine, tmp_path)
    session, early = repo.writable_session("main"), repo.writable_session("main")
    forks = [each.fork() for each in (session, early)]
    for fork in forks:
        write("a", 0, 1)(fork)
    other = repo.writable_session("main")
    write("a", 0, 2)(other)
    other.commit("theirs")
    early.merge(forks[1])
    with pytest.raises(engine.module.RebaseFailedError):
        early.rebase(engine.module.ConflictDetector())
    session.rebase(engine.module.ConflictDetector())
    if engine is REFERENCE:
        session.merge(forks[0])
        session.commit("lost")
        assert values(repo.readonly_session("main"), "a") == [1, 1, 9, 9, 9, 9, 0, 0]
    else:
        with pytest.raises(engine.module.SessionStateError, match="before rebasing") as caught:
            session.merge(forks[0])
        assert caught.value.kind == "merge-failed"
        assert not session.has_uncommitted_changes


def test_forking_with_changes_pending_stores_nothing_here(tmp_path: Path) -> None:
    session = start(OURS, tmp_path).writable_session("main")
    write("a", 0)(session)
    before = sorted(tmp_path.rglob("*"))
    session.fork()
    assert sorted(tmp_path.rglob("*")) == before


# Helper modules


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("distributed", "extract_session"),
        ("distributed", "merge_sessions"),
        ("dask", "store_dask"),
        ("dask", "session_merge_reduction"),
        ("xarray", "to_icechunk"),
    ],
)
def test_helpers_are_called_alike(module: str, name: str) -> None:
    ours, theirs = (
        inspect.signature(getattr(import_module(f"{engine.module.__name__}.{module}"), name))
        for engine in (OURS, REFERENCE)
    )
    assert [(p.name, p.kind, p.default) for p in ours.parameters.values()] == [
        (p.name, p.kind, p.default) for p in theirs.parameters.values()
    ]


def weather() -> xr.Dataset:
    times = np.arange(20).astype("M8[D]").astype("M8[ns]")
    return xr.Dataset(
        {
            "t": (("time", "x"), np.arange(600.0).reshape(20, 30), {"unit": "K"}),
            "flag": ("time", np.arange(20) % 3 == 0),
            "name": ("x", np.array([f"station {i}" for i in range(30)])),
            "n": ((), 3),
        },
        coords={"time": times, "x": np.arange(30) / 2},
        attrs={"title": "weather"},
    )


def whole(data: xr.Dataset, to_icechunk: Any, session: Any) -> None:
    to_icechunk(data, session)


def in_group_with_encoding(data: xr.Dataset, to_icechunk: Any, session: Any) -> None:
    encoding = {"t": {"chunks": (10, 15), "dtype": "f4"}}
    to_icechunk(data, session, group="a/b", encoding=encoding, align_chunks=True)


def appended(data: xr.Dataset, to_icechunk: Any, session: Any) -> None:
    data = data.drop_vars(["n", "name"])
    to_icechunk(data, session, mode="w-")
    to_icechunk(data, session, append_dim="time")


def by_region(data: xr.Dataset, to_icechunk: Any, session: Any) -> None:
    data = data[["t"]]
    to_icechunk(data * 0, session)
    to_icechunk(data.isel(time=slice(5, 15)).drop_vars("x"), session, region="auto")


def as_data_array(data: xr.Dataset, to_icechunk: Any, session: Any) -> None:
    to_icechunk(data["t"], session, split_every=2)


@pytest.mark.parametrize("way", [whole, in_group_with_encoding, appended, by_region, as_data_array])
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")  # text, in both
def test_xarray_objects_are_written_alike(way: Any, tmp_path: Path, *, lazy: bool) -> None:
    data = weather().chunk(time=5, x=10) if lazy else weather()
    found = []
    for engine in (OURS, REFERENCE):
        repo = engine.create(tmp_path / engine.name)
        session = repo.writable_session("main")
        with dask.config.set(scheduler="threads"):
            to_icechunk = import_module(f"{engine.module.__name__}.xarray").to_icechunk
            way(data, to_icechunk, session)
        session.commit("written")
        found.append(committed(repo))
        other = OURS if engine is REFERENCE else REFERENCE
        found.append(committed(other.open(tmp_path / engine.name)))
    for each in found[1:]:
        assert_same(each, found[0], way.__name__)
