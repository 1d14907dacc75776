"""Copies of some paths of random histories in which nodes move: logs, snapshots and values agree.

The oracle is the source: what its snapshots hold at these paths. The reference reads and compares
the copy, too.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import icechunk
import numpy as np
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil.api import Repository, Storage
from frazil.objectstore.local import LocalStore
from frazil.objectstore.memory import MemoryStore
from tests.examples_count import scaled

NAMES = ("a", "b", "c")
CHUNKS = 3


@dataclass(slots=True)
class History:
    """A repository, and its nodes: None for a group, a number for an array."""

    repo: Repository
    nodes: dict[str, int | None] = field(default_factory=lambda: {"": None})
    made: int = 0

    @property
    def groups(self) -> list[str]:
        return sorted(path for path, value in self.nodes.items() if value is None)

    def free(self, outside: str | None = None) -> list[str]:
        """Paths where a node may be put; not below `outside`."""
        return [
            path
            for group in self.groups
            for name in NAMES
            if (path := f"{group}/{name}") not in self.nodes
            and path.count("/") <= 3
            and (outside is None or not f"{path}/".startswith(f"{outside}/"))
        ]

    def movable(self) -> list[str]:
        return sorted(path for path in self.nodes if path and self.free(path))


def commit_nodes(data: st.DataObject, history: History) -> None:
    """Some nodes are made, written to, and deleted."""
    session = history.repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    for _ in range(data.draw(st.integers(1, 3))):
        arrays = sorted(path for path, value in history.nodes.items() if value is not None)
        gone = sorted(path for path in history.nodes if path)
        steps = ["group", "array", *(["write", "delete"] if arrays else [])]
        match data.draw(st.sampled_from(steps)):
            case "group" if free := history.free():
                path = data.draw(st.sampled_from(free))
                root.create_group(path[1:])
                history.nodes[path] = None
            case "array" if free := history.free():
                path = data.draw(st.sampled_from(free))
                array = root.create_array(path[1:], shape=(CHUNKS,), chunks=(1,), dtype="i4")
                history.made += 1
                array[0] = history.made
                history.nodes[path] = 0
            case "write":
                path = data.draw(st.sampled_from(arrays))
                history.made += 1
                at = data.draw(st.integers(0, CHUNKS - 1))
                zarr.open_array(session.store, path=path[1:])[at] = history.made
            case "delete":
                path = data.draw(st.sampled_from(gone))
                del root[path[1:]]
                for below in [each for each in history.nodes if f"{each}/".startswith(f"{path}/")]:
                    del history.nodes[below]
            case _:
                pass
    if session.has_uncommitted_changes:
        session.commit("nodes")


def commit_moves(data: st.DataObject, history: History) -> None:
    session = history.repo.rearrange_session("main")
    for _ in range(data.draw(st.integers(1, 2))):
        if not (movable := history.movable()):
            break
        start = data.draw(st.sampled_from(movable))
        end = data.draw(st.sampled_from(history.free(start)))
        session.move(start, end)
        history.nodes = {
            end + path[len(start) :] if f"{path}/".startswith(f"{start}/") else path: value
            for path, value in history.nodes.items()
        }
    if session.has_uncommitted_changes:
        session.commit("moves")


def contents(repo: Any, snapshot: str, paths: list[str]) -> dict[str, list[int] | None]:
    """By path, values of arrays; of nodes at these paths, below them, and groups above."""
    store = repo.readonly_session(snapshot_id=snapshot).store
    try:
        members = zarr.open_group(store, mode="r").members(max_depth=None)
    except FileNotFoundError:
        return {}
    found = {}
    for name, node in members:
        path = f"/{name}"
        if any(f"{path}/".startswith(f"{p}/") or f"{p}/".startswith(f"{path}/") for p in paths):
            values = np.asarray(node[...]).tolist() if isinstance(node, zarr.Array) else None
            found[path] = values
    return found


def ids(repo: Repository, snapshot: str) -> dict[str, tuple[str, bool]]:
    """By node id, its path, and whether it is an array."""
    session = repo.readonly_session(snapshot_id=snapshot).engine
    return {str(node.id): (node.path.text, node.array is not None) for node in session.nodes()}


def told(diff: Any) -> dict[str, Any]:
    names = ("new_groups", "new_arrays", "deleted_groups", "deleted_arrays")
    found: dict[str, Any] = {name: set(getattr(diff, name)) for name in names}
    found["moved"] = set(map(tuple, diff.moved_nodes))
    found["chunks"] = {
        path: {tuple(index) for index in chunks} for path, chunks in diff.updated_chunks.items()
    }
    return found


def expected(repo: Repository, before: str, after: str, paths: list[str]) -> dict[str, Any]:
    """By comparing two snapshots of the copy, whatever its logs say."""
    was, now = ids(repo, before), ids(repo, after)
    old, new = contents(repo, before, paths), contents(repo, after, paths)
    chunks = {}
    for node, (path, is_array) in now.items():
        if is_array:
            values = (old.get(was[node][0]) if node in was else None) or [0] * CHUNKS
            pairs = enumerate(zip(values, new[path] or [], strict=True))
            changed = {(at,) for at, (a, b) in pairs if a != b}
            chunks.update({path: changed} if changed else {})

    def paths_of(some: dict[str, tuple[str, bool]], *, but: Any, arrays: bool) -> set[str]:
        return {path for n, (path, is_array) in some.items() if n not in but and is_array == arrays}

    return {
        "new_groups": paths_of(now, but=was, arrays=False),
        "new_arrays": paths_of(now, but=was, arrays=True),
        "deleted_groups": paths_of(was, but=now, arrays=False),
        "deleted_arrays": paths_of(was, but=now, arrays=True),
        "moved": {(was[n][0], now[n][0]) for n in now if n in was and was[n][0] != now[n][0]},
        "chunks": chunks,
    }


@settings(max_examples=scaled(15))
@given(st.data())
def test_logs_of_a_copy_of_some_paths_agree_with_its_snapshots(data: st.DataObject) -> None:
    history = History(Repository.create(Storage(MemoryStore())))
    for _ in range(data.draw(st.integers(2, 5))):
        commit_nodes(data, history)
        commit_moves(data, history)
    source = history.repo
    if data.draw(st.booleans()):  # logs of expired snapshots are named by those that are left
        source.expire_snapshots(datetime.now(UTC) + timedelta(days=1))
    every = [info.id for info in source.ancestry(branch="main")]
    there = {path for snapshot in every for path, _ in ids(source, snapshot).values()} - {"/"}
    if not there:
        return
    paths = data.draw(st.lists(st.sampled_from(sorted(there)), min_size=1, max_size=2, unique=True))
    with TemporaryDirectory() as folder:
        source.clone_to(Storage(LocalStore(Path(folder))), paths=paths)
        copy = Repository.open(frazil.local_filesystem_storage(folder))
        theirs = icechunk.Repository.open(icechunk.local_filesystem_storage(folder))
        assert [str(one) for one in copy.verify().problems] == []
        made = [info.id for info in copy.ancestry(branch="main")]
        assert len(made) == len(every)
        for old, new in zip(every, made, strict=True):
            assert contents(copy, new, paths) == contents(source, old, paths)
            assert contents(theirs, new, paths) == contents(source, old, paths)
        for after, before in pairwise(made):
            by_icechunk = theirs.diff(from_snapshot_id=before, to_snapshot_id=after)
            diff = told(copy.diff(from_snapshot_id=before, to_snapshot_id=after))
            assert diff == told(by_icechunk)
            if len(every) > 2:  # else several logs lie between the two
                assert diff == expected(copy, before, after, paths)
