"""What is printed: the same texts from both implementations, where programs may read them."""

from collections.abc import Callable
from typing import Any

import pytest
import zarr

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


def of_everything(repo: Any) -> str:
    session = repo.rearrange_session("main")
    session.move("/a", "/g/b")
    session.commit("moved")
    root = list(repo.ancestry(branch="main"))[-1].id
    return str(repo.diff(from_snapshot_id=root, to_branch="main"))


def of_many_changes(repo: Any) -> str:
    session = repo.writable_session("main")
    group = zarr.open_group(session.store, mode="r+")
    array = zarr.open_array(session.store, path="a", mode="r+")
    array[:] = 2
    array.attrs["k"] = 1
    group.attrs["k"] = 1
    del group["g"]
    group.create_array("n", shape=(4, 2), chunks=2, dtype="i4")[:] = 1
    return str(session.status())


def of_metadata(repo: Any) -> str:
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="r+").attrs["k"] = 1
    return str(session.status())


def of_a_move(repo: Any) -> str:
    session = repo.rearrange_session("main")
    session.move("/a", "/b")
    return str(session.status())


def of_nothing(repo: Any) -> str:
    return str(repo.writable_session("main").status())


@pytest.mark.parametrize(
    "text", [of_everything, of_many_changes, of_metadata, of_a_move, of_nothing]
)
def test_diffs(text: Callable[[Any], str]) -> None:
    ours, reference = (text(with_array(engine)) for engine in BOTH)
    assert ours == reference


def test_types_of_conflicts() -> None:
    for kind in OURS.module.ConflictType:
        reference = getattr(REFERENCE.module.ConflictType, kind.name)
        assert (str(kind), f"{kind}", int(kind)) == (str(reference), f"{reference}", int(reference))
