"""Which manifests are in memory some time after a session was opened, in both engines.

Whether one is there shows when its file is taken away: what was preloaded can still be read.
"""

import shutil
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

import frazil

NAMES = {
    "g/lat": 2,
    "lat": 2,
    "lon": 3,
    "t2m": 5,
    "time": 1,
    "y": 4,
}  # chunks of each
PATIENCE_S = (1.5, 15)  # for what is done in the background, on an idle machine and on a busy one


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("preload") / "repository"
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(path)))
    session = repository.writable_session("main")
    group = zarr.open_group(session.store, mode="w")
    for name, size in NAMES.items():
        array = group.create_array(name, shape=(size,), chunks=(1,), dtype="i4", compressors=None)
        array[:] = np.arange(1, size + 1)
    session.commit("arrays of inline chunks")
    return path


def given(module: Any, case: str) -> Any:
    """A configuration of preloading, made of the module's own classes."""
    conditions, config = module.ManifestPreloadCondition, module.ManifestPreloadConfig
    made: dict[str, Any] = {
        "default": lambda: None,
        "blank": config,
        "all": lambda: config(preload_if=conditions.true()),
        "none": lambda: config(preload_if=conditions.false()),
        "two arrays": lambda: config(preload_if=conditions.true(), max_arrays_to_scan=2),
        "no arrays": lambda: config(preload_if=conditions.true(), max_arrays_to_scan=0),
        "four refs": lambda: config(preload_if=conditions.true(), max_total_refs=4),
        "eight refs": lambda: config(preload_if=conditions.true(), max_total_refs=8),
        "no refs": lambda: config(preload_if=conditions.true(), max_total_refs=0),
        "path": lambda: config(preload_if=conditions.path_matches("^/g/")),
        "name": lambda: config(preload_if=conditions.name_matches("t")),
        "two to four": lambda: config(preload_if=conditions.num_refs(2, 4)),
        "and": lambda: config(
            preload_if=conditions.name_matches("l") & conditions.num_refs(None, 3)
        ),
        "or": lambda: config(
            preload_if=conditions.name_matches("^y$") | conditions.num_refs(5, None)
        ),
    }
    return made[case]()


CASES = [
    "default", "blank", "all", "none", "two arrays", "no arrays", "four refs", "eight refs",
    "no refs", "path", "name", "two to four", "and", "or",
]  # fmt: skip


PAIRS = [(case, "readonly") for case in CASES]
PAIRS += [("default", "writable"), ("eight refs", "writable")]


def opened(module: ModuleType, path: Path, case: str, kind: str) -> Any:
    engine: Any = module
    config = engine.RepositoryConfig(manifest=engine.ManifestConfig(preload=given(engine, case)))
    repository = engine.Repository.open(engine.local_filesystem_storage(str(path)), config)
    return (
        repository.readonly_session("main")
        if kind == "readonly"
        else repository.writable_session("main")
    )


type Found = dict[tuple[str, str, str], list[str]]


@pytest.fixture(scope="module")
def in_memory(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """By case, kind and engine: arrays that can be read without their manifests' files."""
    for patience_s in PATIENCE_S:
        found = _look(template, tmp_path_factory, patience_s)
        if all(found[*pair, "frazil"] == found[*pair, "icechunk"] for pair in PAIRS):
            break
    return found


def _look(template: Path, factory: pytest.TempPathFactory, patience_s: float) -> Found:
    sessions = {}
    for case, kind in PAIRS:
        for module in (icechunk, frazil):
            path = factory.mktemp("copy") / "repository"
            shutil.copytree(template, path)
            session = opened(module, path, case, kind)
            sessions[case, kind, module.__name__] = session, path
    time.sleep(patience_s)
    found = {}
    for key, (session, path) in sessions.items():
        shutil.rmtree(path / "manifests")
        group = zarr.open_group(session.store, mode="r")
        found[key] = [name for name in NAMES if _readable(group, name)]
    return found


def _readable(group: zarr.Group, name: str) -> bool:
    array = group[name]
    assert isinstance(array, zarr.Array)
    try:
        return bool(np.asarray(array[0]) == 1)
    except (frazil.IcechunkError, icechunk.IcechunkError):
        return False


@pytest.mark.parametrize(("case", "kind"), PAIRS)
def test_the_same_manifests_are_preloaded(in_memory: Found, case: str, kind: str) -> None:
    assert in_memory[case, kind, "frazil"] == in_memory[case, kind, "icechunk"]


def test_some_are_preloaded_and_some_are_not(in_memory: Found) -> None:
    assert in_memory["default", "readonly", "frazil"] == ["g/lat", "lat", "lon", "time", "y"]
    assert in_memory["eight refs", "readonly", "frazil"] == ["g/lat", "lat", "lon", "time"]
    assert in_memory["none", "readonly", "frazil"] == []
