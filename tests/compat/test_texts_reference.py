"""What is printed: the same texts from both implementations, where programs may read them."""

import asyncio
import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

import frazil
from tests.compat.driver import OURS, REFERENCE, Engine

BOTH = (OURS, REFERENCE)


def with_array(engine: Engine) -> Any:
    repo = engine.module.Repository.create(engine.module.in_memory_storage())
    session = repo.writable_session("main")
    group = zarr.create_group(session.store)
    group.create_group("g")
    group.create_array("a", shape=40, chunks=2, dtype="i4")[:6] = 1
    session.commit("base")
    return repo


def of_everything(repo: Any) -> Any:
    session = repo.rearrange_session("main")
    session.move("/a", "/g/b")
    session.commit("moved")
    root = list(repo.ancestry(branch="main"))[-1].id
    return repo.diff(from_snapshot_id=root, to_branch="main")


def of_many_changes(repo: Any) -> Any:
    session = repo.writable_session("main")
    group = zarr.open_group(session.store, mode="r+")
    array = zarr.open_array(session.store, path="a", mode="r+")
    array[:] = 2
    array.attrs["k"] = 1
    group.attrs["k"] = 1
    del group["g"]
    group.create_array("n", shape=(4, 2), chunks=2, dtype="i4")[:] = 1
    return session.status()


def of_metadata(repo: Any) -> Any:
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="r+").attrs["k"] = 1
    return session.status()


def of_a_move(repo: Any) -> Any:
    session = repo.rearrange_session("main")
    session.move("/a", "/b")
    return session.status()


def of_nothing(repo: Any) -> Any:
    return repo.writable_session("main").status()


@pytest.mark.parametrize(
    "diff", [of_everything, of_many_changes, of_metadata, of_a_move, of_nothing]
)
def test_diffs(diff: Callable[[Any], Any]) -> None:
    ours, reference = (diff(with_array(engine)) for engine in BOTH)
    assert str(ours) == str(reference)
    assert repr(ours) == repr(reference) == str(ours)


def test_types_of_conflicts() -> None:
    for kind in OURS.module.ConflictType:
        reference = getattr(REFERENCE.module.ConflictType, kind.name)
        assert (str(kind), f"{kind}", int(kind)) == (str(reference), f"{reference}", int(reference))


@pytest.mark.parametrize("version", ["v1", 1.0, 300, -1, b"1", [1], 3, 0, 255])
def test_versions_that_there_are_not(version: object) -> None:
    def refusal(engine: Engine) -> str:
        with pytest.raises(ValueError, match="version") as caught:
            engine.module.Repository.create(engine.module.in_memory_storage(), spec_version=version)
        return str(caught.value)

    ours, reference = (refusal(engine) for engine in BOTH)
    assert type(version) is not int or ours == reference or "parse" in reference
    for phrase in ("Couldn't parse a valid version", f"Unsupported version {version}"):
        assert (phrase in ours) == (phrase in reference)


@pytest.mark.parametrize("version", [1, 2, True, np.int64(1)])
def test_versions_that_there_are(version: Any) -> None:
    def made(engine: Engine) -> int:
        storage = engine.module.in_memory_storage()
        return int(engine.module.Repository.create(storage, spec_version=version).spec_version)

    assert made(OURS) == made(REFERENCE)


def put(session: Any, key: str, text: str) -> None:
    sync(session.store.set(key, default_buffer_prototype().buffer.from_bytes(text.encode())))


RECTILINEAR = (
    '{"zarr_format": 3, "node_type": "array", "shape": [6], "data_type": "int32",'
    ' "chunk_grid": {"name": "rectilinear", "configuration":'
    ' {"kind": "inline", "chunk_shapes": [[1, 2, 3]]}},'
    ' "chunk_key_encoding": {"name": "default"}, "fill_value": 0,'
    ' "codecs": [{"name": "bytes"}], "attributes": {}}'
)


def reset_from_elsewhere(engine: Engine) -> None:
    repo = with_array(engine)
    tip = repo.lookup_branch("main")
    root = list(repo.ancestry(branch="main"))[-1].id
    repo.reset_branch("main", tip, from_snapshot_id=root)


def merge_a_session(engine: Engine) -> None:
    session = with_array(engine).writable_session("main")
    importlib.import_module(f"{engine.module.__name__}.distributed").merge_sessions(session)


def move_below_an_array(engine: Engine) -> None:
    with_array(engine).rearrange_session("main").move("/g", "/a/g")


def shift_a_rectilinear_array(engine: Engine) -> None:
    session = with_array(engine).writable_session("main")
    put(session, "r/zarr.json", RECTILINEAR)
    session.shift_array("/r", [1])


def reindex_a_rectilinear_array(engine: Engine) -> None:
    session = with_array(engine).writable_session("main")
    put(session, "r/zarr.json", RECTILINEAR)
    session.reindex_array("/r", lambda index: index)


def set_a_rectilinear_array_in_version_1(engine: Engine) -> None:
    repo = engine.module.Repository.create(engine.module.in_memory_storage(), spec_version=1)
    put(repo.writable_session("main"), "r/zarr.json", RECTILINEAR)


def reduce_what_is_no_dask_array(engine: Engine) -> None:
    module = importlib.import_module(f"{engine.module.__name__}.dask")
    module.session_merge_reduction(np.zeros(3), split_every=None)


@pytest.mark.parametrize(
    ("call", "phrases"),
    [
        (reset_from_elsewhere, ["branch update conflict"]),
        (merge_a_session, ["Received 'Session'"]),
        (move_below_an_array, ["is an array, not a group"]),
        (shift_a_rectilinear_array, ["rectilinear", "chunk grid"]),
        (reindex_a_rectilinear_array, ["rectilinear", "chunk grid"]),
        (
            set_a_rectilinear_array_in_version_1,
            ["Non-regular chunk grids are not supported in icechunk format version 1"],
        ),
        (
            reduce_what_is_no_dask_array,
            ["Expected a dask array, received <class 'numpy.ndarray'>"],
        ),
    ],
)
def test_messages_have_the_phrases_of_the_reference(
    call: Callable[[Engine], None], phrases: list[str]
) -> None:
    for engine in BOTH:
        with pytest.raises(Exception) as caught:  # noqa: PT011 -- the text is compared
            call(engine)
        assert [phrase for phrase in phrases if phrase not in str(caught.value)] == []


def test_a_deprecated_method_names_itself_and_what_to_use() -> None:
    for engine in BOTH:
        repo = with_array(engine)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            repo.total_chunks_storage()
            asyncio.run(repo.total_chunks_storage_async())
        said = [str(each.message) for each in caught if each.category is DeprecationWarning]
        assert len(said) == 2
        assert "total_chunks_storage_async" not in said[0]
        assert "chunk_storage_stats" in said[0]
        assert "total_chunks_storage_async" in said[1]
        assert "chunk_storage_stats_async" in said[1]


def test_names_to_configure_with() -> None:
    retries = frazil.StorageRetriesSettings(max_tries=7)
    config = frazil.RepositoryConfig(
        repo_update_retries=frazil.RepoUpdateRetryConfig(default=retries)
    )
    repo = frazil.Repository.create(frazil.in_memory_storage(), config=config)
    asked = repo.config.repo_update_retries
    assert asked is not None
    assert asked.default == retries
    for engine in BOTH:
        module = importlib.import_module(f"{engine.module.__name__}.config")
        assert {"ManifestSplitValues", "SplitSizesDict"} <= set(dir(module))
        # The aliases are evaluated only when they are asked for.
        assert module.SplitSizesDict.__value__.__origin__ is dict
        assert module.ManifestSplitValues.__value__.__origin__ is dict
