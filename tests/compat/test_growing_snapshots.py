"""The reference reads snapshots that grew out of others, and goes on with them; so does frazil."""

import random
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

import frazil
from frazil.format import growing_nodes
from frazil.format.growing_nodes import GrowingNodes

ARRAYS = 40
LENGTH = 12
COMMITS = 58  # the last of them by frazil


def change(session: Any, rng: random.Random, values: dict[str, list[int]], number: int) -> None:
    """One of the usual changes, in a session of either engine and in `values`."""
    group: Any = zarr.open_group(session.store)
    name = rng.choice(sorted(values))
    match rng.randrange(5):
        case 0:
            del group[name], values[name]
        case 1:
            name = f"group{rng.randrange(3)}/new{number}"
            values[name] = [0] * LENGTH
            group.create_array(name, shape=(LENGTH,), chunks=(3,), dtype="i4")
        case 2:
            group[name].attrs["number"] = number
        case _:
            start = rng.randrange(LENGTH - 4)
            values[name][start : start + 4] = [number] * 4
            group[name][start : start + 4] = number


def contents(repo: Any) -> dict[str, list[int]]:
    group = zarr.open_group(repo.readonly_session("main").store, mode="r")
    members = group.members(max_depth=None)
    return {name: np.asarray(a[:]).tolist() for name, a in members if isinstance(a, zarr.Array)}


@pytest.mark.parametrize("seed", range(3))
def test_both_engines_go_on_with_what_grew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(growing_nodes, "_SPARE_BYTES", 1000)
    rng = random.Random(seed)
    place = str(tmp_path)
    ours = frazil.Repository.create(frazil.local_filesystem_storage(place))
    session = ours.writable_session("main")
    values = {f"a{number:02}": [number] * LENGTH for number in range(ARRAYS)}
    for name, each in values.items():
        array = zarr.create_array(session.store, name=name, data=np.array(each, "i4"), chunks=(3,))
        array.attrs["name"] = name
    session.commit("arrays")
    grown = 0
    for number in range(COMMITS):
        is_theirs = number % 12 == 11
        if number % 20 == 19:
            ours = frazil.Repository.open(frazil.local_filesystem_storage(place))
        repo: Any = ours
        if is_theirs:
            repo = icechunk.Repository.open(icechunk.local_filesystem_storage(place))
        session = repo.writable_session("main")
        for _ in range(rng.randrange(1, 4)):
            change(session, rng, values, number)
        session.commit(f"{number}", allow_empty=True)
        grown += isinstance(session.engine.base.nodes, GrowingNodes) if repo is ours else 0
        if is_theirs or number == COMMITS - 1:
            theirs = icechunk.Repository.open(icechunk.local_filesystem_storage(place))
            assert contents(theirs) == values
            assert contents(ours) == values
    assert grown > 10  # all but those that deleted an array
    assert frazil.Repository.open(frazil.local_filesystem_storage(place)).verify().problems == ()


def test_moved_nodes_are_where_they_were_moved_to(tmp_path: Path) -> None:
    place = str(tmp_path)
    ours = frazil.Repository.create(frazil.local_filesystem_storage(place))
    session = ours.writable_session("main")
    for number in range(ARRAYS):
        data = np.full(4, number, "i4")
        zarr.create_array(session.store, name=f"g/a{number:02}", data=data, chunks=(2,))
    zarr.create_group(session.store, path="h")
    session.commit("arrays")
    for number in range(10):
        moving = ours.rearrange_session("main")
        moving.move(f"/g/a{number:02}", f"/h/b{9 - number}")
        moving.commit(f"{number}")
    theirs = icechunk.Repository.open(icechunk.local_filesystem_storage(place))
    assert contents(theirs) == contents(ours)
    assert contents(ours)["h/b3"] == [6] * 4
