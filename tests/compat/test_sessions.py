"""Sessions across engines: time travel, pickling, conflicts, split manifests."""

import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from tests.compat.driver import OURS, REFERENCE, Engine, assert_same, contents

BOTH_WAYS = pytest.mark.parametrize(
    ("writer", "reader"),
    [(OURS, REFERENCE), (REFERENCE, OURS)],
    ids=["icechunk-reads", "frazil-reads"],
)


def counted(engine: Engine, root: Path, commits: int) -> Any:
    """A repository whose i-th commit sets the array to i."""
    repo = engine.create(root)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(6, 4), chunks=(2, 3), dtype="f4")
    session.commit("array")
    for i in range(1, commits + 1):
        session = repo.writable_session("main")
        zarr.open_array(session.store, path="a")[...] = i
        session.commit(f"{i}")
    return repo


def value(session: Any) -> float:
    return float(np.asarray(zarr.open_array(session.store, path="a", mode="r")[5, 3]))


@BOTH_WAYS
def test_both_see_the_same_state_at_a_time(writer: Engine, reader: Engine, tmp_path: Path) -> None:
    repo = counted(writer, tmp_path, 5)
    history = list(repo.ancestry(branch="main"))
    other = reader.open(tmp_path)
    for i, info in enumerate(history[:5]):
        session = other.readonly_session("main", as_of=info.written_at)
        assert session.snapshot_id == info.id
        assert value(session) == 5 - i


@BOTH_WAYS
def test_a_conflict_with_the_other_engine_is_a_conflict(
    writer: Engine, reader: Engine, tmp_path: Path
) -> None:
    counted(writer, tmp_path, 1)
    late = writer.open(tmp_path).writable_session("main")
    zarr.open_array(late.store, path="a")[...] = 10
    early = reader.open(tmp_path).writable_session("main")
    zarr.open_array(early.store, path="a")[...] = 20
    actual = early.commit("early")
    with pytest.raises(writer.module.ConflictError) as caught:
        late.commit("late")
    assert caught.value.kind == "commit-conflict"
    assert caught.value.expected_parent == late.snapshot_id
    assert caught.value.actual_parent == actual
    for engine in (writer, reader):
        session = engine.open(tmp_path).readonly_session("main")
        assert (session.snapshot_id, value(session)) == (actual, 20)


@BOTH_WAYS
def test_a_change_elsewhere_is_no_conflict(writer: Engine, reader: Engine, tmp_path: Path) -> None:
    """Other branches and tags may move while a session is open: only its own branch counts."""
    repo = counted(writer, tmp_path, 1)
    session = writer.open(tmp_path).writable_session("main")
    zarr.open_array(session.store, path="a")[...] = 10
    other = reader.open(tmp_path)
    other.create_tag("meanwhile", repo.lookup_branch("main"))
    other.create_branch("side", repo.lookup_branch("main"))
    side = other.writable_session("side")
    zarr.open_array(side.store, path="a")[...] = 30
    side.commit("on the side")
    session.commit("on main")
    for engine in (OURS, REFERENCE):
        opened = engine.open(tmp_path)
        assert value(opened.readonly_session("main")) == 10
        assert value(opened.readonly_session("side")) == 30
        assert value(opened.readonly_session(tag="meanwhile")) == 1


def test_a_pickled_read_only_session_stays_where_it_was(tmp_path: Path) -> None:
    repo = counted(REFERENCE, tmp_path, 2)
    session = OURS.open(tmp_path).readonly_session("main")
    pickled = pickle.dumps(session)
    pickled_store = pickle.dumps(session.store)
    later = repo.writable_session("main")
    zarr.open_array(later.store, path="a")[...] = 99
    later.commit("later")
    revived = pickle.loads(pickled)
    assert revived.read_only
    assert revived.snapshot_id == session.snapshot_id
    assert value(revived) == 2
    store = pickle.loads(pickled_store)
    assert contents(store) == contents(session.store)


@BOTH_WAYS
def test_an_open_session_does_not_move(writer: Engine, reader: Engine, tmp_path: Path) -> None:
    counted(writer, tmp_path, 1)
    session = reader.open(tmp_path).readonly_session("main")
    again = writer.open(tmp_path).writable_session("main")
    zarr.open_array(again.store, path="a")[...] = 5
    again.commit("later")
    assert value(session) == 1
    assert value(reader.open(tmp_path).readonly_session("main")) == 5


def test_split_manifests_are_read_and_extended(tmp_path: Path) -> None:
    """The reference splits an array's references over many manifests."""
    ic = REFERENCE.module
    splitting = ic.ManifestSplittingConfig.from_dict(
        {ic.ManifestSplitCondition.AnyArray(): {ic.ManifestSplitDimCondition.Any(): 3}}
    )
    config = ic.RepositoryConfig(manifest=ic.ManifestConfig(splitting=splitting))
    session = REFERENCE.create(tmp_path, config=config).writable_session("main")
    array = zarr.create_array(session.store, name="a", shape=(20, 20), chunks=(1, 2), dtype="i4")
    array[...] = np.arange(400).reshape(20, 20)
    tip = session.commit("split")
    assert len(REFERENCE.open(tmp_path).list_manifest_files(tip)) > 10

    for i, engine in enumerate([OURS, REFERENCE, OURS]):
        session = engine.open(tmp_path).writable_session("main")
        zarr.open_array(session.store, path="a")[i, 5:9] = -1
        session.commit(f"by {engine.name}")
        stores = [e.open(tmp_path).readonly_session("main").store for e in (OURS, REFERENCE)]
        assert_same(contents(stores[0]), contents(stores[1]), "contents")


@BOTH_WAYS
def test_a_transaction_commits_once(writer: Engine, reader: Engine, tmp_path: Path) -> None:
    repo = counted(writer, tmp_path, 1)
    with repo.transaction("main", message="in a transaction", metadata={"k": [1]}) as store:
        zarr.open_array(store, path="a")[...] = 8
    before = list(reader.open(tmp_path).ancestry(branch="main"))
    with pytest.raises(RuntimeError, match="on purpose"):
        fail_in_transaction(repo)
    after = list(reader.open(tmp_path).ancestry(branch="main"))
    assert [info.id for info in after] == [info.id for info in before]
    assert (after[0].message, after[0].metadata) == ("in a transaction", {"k": [1]})
    assert value(reader.open(tmp_path).readonly_session("main")) == 8


def fail_in_transaction(repo: Any) -> None:
    with repo.transaction("main", message="never") as store:
        zarr.open_array(store, path="a")[...] = 9
        raise RuntimeError("on purpose")


@BOTH_WAYS
def test_times_of_alternating_commits_increase(
    writer: Engine, reader: Engine, tmp_path: Path
) -> None:
    counted(writer, tmp_path, 1)
    started = time.time()
    for engine in (writer, reader) * 4:
        engine.open(tmp_path).writable_session("main").commit(engine.name, allow_empty=True)
    for engine in (writer, reader):
        infos = list(engine.open(tmp_path).ancestry(branch="main"))
        times = [info.written_at.timestamp() for info in infos]
        assert times == sorted(set(times), reverse=True)
        assert abs(times[0] - started) < 60
