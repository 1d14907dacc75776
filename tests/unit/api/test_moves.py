"""Moving nodes and chunks through the public classes."""

import numpy as np
import pytest
import zarr

import frazil


@pytest.fixture
def repo() -> frazil.Repository:
    """An array /a of four chunks, and an array in a group: /g/x."""
    repo = frazil.Repository.create(frazil.in_memory_storage())
    with repo.transaction("main", message="base") as store:
        group = zarr.create_group(store)
        for name in ("a", "g/x"):
            array = group.create_array(name, shape=(4,), chunks=(1,), dtype="i4", fill_value=0)
            array[:] = [1, 2, 3, 4]
    return repo


def names(repo: frazil.Repository) -> list[str]:
    group = zarr.open_group(repo.readonly_session("main").store, mode="r")
    return sorted(name for name, _ in group.members(max_depth=None))


@pytest.mark.parametrize("move", [("/g/", "/k"), ("/g", "/k/"), ("/g/", "/k/")])
def test_a_slash_at_the_end_of_a_path_means_nothing(
    repo: frazil.Repository, move: tuple[str, str]
) -> None:
    session = repo.rearrange_session("main")
    session.move(*move)
    assert session.status().moved_nodes == [("/g", "/k"), ("/g/x", "/k/x")]
    session.commit("moved")
    assert names(repo) == ["a", "k", "k/x"]


@pytest.mark.parametrize("path", ["", "k", "/k//", "/k/../l"])
def test_other_odd_paths_are_refused(repo: frazil.Repository, path: str) -> None:
    session = repo.rearrange_session("main")
    with pytest.raises(frazil.InvalidInputError) as refused:
        session.move("/g", path)
    assert refused.value.kind == "invalid-path"


async def test_moving_can_be_awaited(repo: frazil.Repository) -> None:
    session = await repo.rearrange_session_async("main")
    assert session.mode == frazil.SessionMode.rearrange
    await session.move_async("/a", "/g/a")
    await session.commit_async("moved")
    assert names(repo) == ["g", "g/a", "g/x"]


def test_the_store_sees_moves_at_once_and_refuses_writes(repo: frazil.Repository) -> None:
    session = repo.rearrange_session("main")
    session.move("/a", "/b")
    array = zarr.open_array(session.store, path="b", mode="r+")
    assert np.asarray(array[:]).tolist() == [1, 2, 3, 4]
    with pytest.raises(frazil.SessionStateError) as refused:
        array[0] = 9
    assert refused.value.kind == "rearrange-session-only"


def test_chunks_are_shifted_and_reindexed(repo: frazil.Repository) -> None:
    session = repo.writable_session("main")
    session.shift_array("/a", np.array([1]))
    session.reindex_array("/g/x", lambda place: [3 - i for i in place])
    session.commit("moved")
    group = zarr.open_group(repo.readonly_session("main").store, mode="r")
    found = {name: np.asarray(array[:]).tolist() for name, array in group.arrays()}
    assert found == {"a": [0, 1, 2, 3]}
    reversed_x = zarr.open_array(repo.readonly_session("main").store, path="g/x", mode="r")
    assert np.asarray(reversed_x[:]).tolist() == [4, 3, 2, 1]
