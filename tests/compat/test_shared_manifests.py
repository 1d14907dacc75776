"""Many small arrays of a commit share manifests: the reference reads, changes and collects them."""

from datetime import UTC, datetime
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

import frazil

COUNT = 100
LENGTH = 12

type Values = dict[str, np.ndarray]


def opened(engine: ModuleType, path: Path) -> Any:
    return engine.Repository.open(engine.local_filesystem_storage(str(path)))


def manifests(path: Path) -> int:
    return sum(1 for _ in (path / "manifests").iterdir())


def read(engine: ModuleType, path: Path, **version: str) -> Values:
    version = version or {"branch": "main"}
    group = zarr.open_group(opened(engine, path).readonly_session(**version).store, mode="r")
    return {name: np.asarray(array[...]) for name, array in group.arrays()}


def assert_same(found: Values, wanted: Values) -> None:
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values, name)


def create(path: Path, random: Random, inline_bytes: int = 512) -> Values:
    """Arrays of one to twelve chunks, in one commit, some without a value."""
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=inline_bytes)
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(path)), config)
    session = repo.writable_session("main")
    group = zarr.create_group(session.store)
    values: Values = {}
    for number in range(COUNT):
        name, chunk = f"a{number:03}", random.choice([1, 3, 5, LENGTH])
        array = group.create_array(name, shape=(LENGTH,), chunks=(chunk,), dtype="i4")
        values[name] = np.zeros(LENGTH, "i4")
        if random.random() < 0.9:
            values[name][:] = number * 100 + np.arange(LENGTH)
            array[:] = values[name]
    session.commit("arrays")
    return values


def change(engine: ModuleType, path: Path, values: Values, random: Random) -> None:
    """Some arrays get new values, some go, and some change their shape."""
    session = opened(engine, path).writable_session("main")
    group = zarr.open_group(session.store)
    for name in random.sample(sorted(values), random.choice([1, 3, 60])):
        array: Any = group[name]
        match random.choice(["all", "one", "one", "gone", "shrunk"]):
            case "all":
                values[name] = np.full(len(values[name]), random.randrange(10**6), "i4")
                array[:] = values[name]
            case "one":
                values[name] = values[name].copy()
                values[name][0] = array[0] = random.randrange(10**6)
            case "gone":
                del group[name], values[name]
            case _:
                array.resize((7,))
                values[name] = values[name][:7]
    session.commit("changes", allow_empty=True)


@pytest.mark.parametrize("seed", range(2))
def test_both_engines_change_arrays_that_share_manifests(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    path = tmp_path / "repo"
    versions = [create(path, random)]
    assert manifests(path) <= 4
    for engine in random.choices([frazil, icechunk], k=5):
        values = dict(versions[-1])
        change(engine, path, values, random)
        versions.append(values)
    ids = [each.id for each in opened(frazil, path).ancestry(branch="main")][-2::-1]
    for engine in (frazil, icechunk):
        for snapshot_id, values in zip(ids, versions, strict=True):
            assert_same(read(engine, path, snapshot_id=snapshot_id), values)
    assert opened(frazil, path).verify().problems == ()


@pytest.mark.parametrize("engine", [frazil, icechunk])
def test_a_collection_keeps_what_one_array_still_uses(tmp_path: Path, engine: ModuleType) -> None:
    path = tmp_path / "repo"
    values = create(path, Random(7))
    for value in range(3):  # of these manifests two are garbage in the end
        session = opened(frazil, path).writable_session("main")
        array: Any = zarr.open_array(session.store, path="a003")
        array[:] = values["a003"] = np.full(LENGTH, value + 1, "i4")
        session.commit("one array")
    now = datetime.now(UTC)
    repo = opened(engine, path)
    repo.expire_snapshots(now)
    before = manifests(path)
    repo.garbage_collect(now)
    assert manifests(path) < before
    assert_same(read(frazil, path), values)
    assert_same(read(icechunk, path), values)
    assert opened(frazil, path).verify().problems == ()


def test_a_rebase_takes_over_the_manifests_that_are_still_right(tmp_path: Path) -> None:
    path = tmp_path / "repo"
    values = create(path, Random(3))
    session = opened(frazil, path).writable_session("main")
    group = zarr.open_group(session.store)
    for name in list(values)[:70]:
        array: Any = group[name]
        values[name] = values[name] + 1
        array[:] = values[name]
    other = opened(frazil, path).writable_session("main")
    theirs: Any = zarr.open_array(other.store, path="a099")
    theirs[:] = values["a099"] = np.full(LENGTH, 5, "i4")
    other.commit("theirs")
    session.commit("ours", rebase_with=frazil.ConflictDetector())
    assert_same(read(icechunk, path), values)
    assert_same(read(frazil, path), values)


def test_chunks_in_objects_are_not_shared(tmp_path: Path) -> None:
    """A collection could not delete those that one array has replaced while another is there."""
    path = tmp_path / "repo"
    values = create(path, Random(5), inline_bytes=0)
    written = sum(bool(array.any()) for array in values.values())
    assert manifests(path) == written
