"""Logs of amended commits say what changed between two snapshots, and icechunk reads them.

The oracle is a model of what the steps did, by path and by name of a life: a node that is deleted
and made again has two lives, and is another node.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil.format.transaction_log import NODE_LISTS
from frazil.ids import NodeId, SnapshotId
from tests.compat.driver import OURS, REFERENCE
from tests.examples_count import scaled

PATHS = ("a", "b", "g", "g/c")
SHAPE, CHUNKS = (4,), (2,)


@dataclass(frozen=True, slots=True)
class Node:
    life: int
    is_array: bool
    edits: int = 0
    chunks: tuple[int, int] = (0, 0)  # how often each was written


@dataclass
class Model:
    nodes: dict[str, Node] = field(default_factory=dict)
    lives: int = 0

    def make(self, path: str, *, is_array: bool) -> None:
        self.lives += 1
        self.nodes[path] = Node(self.lives, is_array)

    def copy(self) -> dict[str, Node]:
        return dict(self.nodes)


STEP = st.tuples(
    st.sampled_from(["group", "array", "edit", "delete", "chunk"]),
    st.sampled_from(PATHS),
    st.integers(0, 1),
)


def take(model: Model, store: Any, step: tuple[str, str, int]) -> None:
    """Does a step, if it is possible, to both."""
    how, path, place = step
    root, node = zarr.open_group(store, mode="a"), model.nodes.get(path)
    above = path.rpartition("/")[0]
    free = node is None and (not above or (above in model.nodes))
    if how == "group" and free and not (above and model.nodes[above].is_array):
        model.make(path, is_array=False)
        root.create_group(path)
    elif how == "array" and free and path != "g":
        model.make(path, is_array=True)
        root.create_array(path, shape=SHAPE, chunks=CHUNKS, dtype="i4")
    elif how == "edit" and node is not None:
        model.nodes[path] = replace(node, edits=node.edits + 1)
        root[path].attrs["edits"] = node.edits + 1
    elif how == "delete" and node is not None:
        for each in [each for each in model.nodes if each == path or each.startswith(path + "/")]:
            del model.nodes[each]
        del root[path]
    elif how == "chunk" and node is not None and node.is_array:
        written = list(node.chunks)
        written[place] += 1
        model.nodes[path] = replace(node, chunks=(written[0], written[1]))
        array: Any = root[path]
        array[2 * place : 2 * place + 2] = written[place]


def expected_lists(before: dict[str, Node], after: dict[str, Node]) -> dict[str, set[str]]:
    """Paths by the name of the list that has them."""
    was, now = ({node.life: path for path, node in each.items()} for each in (before, after))
    lists: dict[str, set[str]] = {name: set() for name in NODE_LISTS}
    for life in was.keys() | now.keys():
        path, node = (
            (now[life], after[now[life]]) if life in now else (was[life], before[was[life]])
        )
        kind = "arrays" if node.is_array else "groups"
        if life not in was or life not in now:
            lists[f"{'new' if life in now else 'deleted'}_{kind}"].add(path)
        elif node.edits != before[was[life]].edits:
            lists[f"updated_{kind}"].add(path)
    return lists


def expected_chunks(before: dict[str, Node], after: dict[str, Node]) -> dict[str, set[int]]:
    found = {}
    for path, node in after.items():
        old = before.get(path)
        base = old.chunks if old is not None and old.life == node.life else (0, 0)
        changed = {at for at in (0, 1) if node.chunks[at] != base[at]}
        if changed:
            found[path] = changed
    return found


def logged(repo: frazil.Repository, parent: str, snapshot: str) -> dict[str, set[str]]:
    """What the log of a snapshot lists, by path."""
    files = repo.engine.files
    paths = {
        row.id: row.path.text[1:]
        for each in (parent, snapshot)
        for row in files.fetch_snapshot(SnapshotId.parse(each)).nodes
    }
    log = files.fetch_log(SnapshotId.parse(snapshot))
    return {name: {paths[NodeId(raw.tobytes())] for raw in ids} for name, ids in log.node_lists()}


def diff_lists(diff: Any) -> dict[str, set[str]]:
    return {name: {path[1:] for path in getattr(diff, name)} for name in NODE_LISTS}


@given(st.lists(STEP, max_size=6), st.lists(st.lists(STEP, min_size=1, max_size=5), max_size=4))
@settings(max_examples=scaled(20))
def test_a_log_of_an_amended_commit_lists_each_node_once(
    first: list[tuple[str, str, int]], amends: list[list[tuple[str, str, int]]]
) -> None:
    with TemporaryDirectory() as folder:
        repo = OURS.module.Repository.create(OURS.storage(Path(folder)))
        model, before = Model(), dict[str, Node]()
        snapshot = parent = repo.lookup_branch("main")
        for number, steps in enumerate([[("group", "g", 0)], first, *amends]):
            session = repo.writable_session("main")
            for step in steps:
                take(model, session.store, step)
            if number == 0:
                zarr.open_group(session.store, mode="a")
                parent, before = session.commit("base", allow_empty=True), model.copy()
            elif number == 1:
                snapshot = session.commit("first", allow_empty=True)
            else:
                snapshot = session.amend(f"amend {number}", allow_empty=True)
        expected = expected_lists(before, model.nodes)
        assert logged(repo, parent, snapshot) == expected
        theirs = REFERENCE.open(Path(folder))
        diff = theirs.diff(from_snapshot_id=parent, to_snapshot_id=snapshot)
        assert diff_lists(diff) == expected
        chunks = {
            path[1:]: {index[0] for index in indices}
            for path, indices in diff.updated_chunks.items()
        }
        assert chunks == expected_chunks(before, model.nodes)
        assert repo.verify().problems == ()


def test_a_group_created_and_edited_is_only_new(tmp_path: Path) -> None:
    """In one commit, and in two steps of an amended one, where the reference lists it twice."""
    found = {}
    for engine in (OURS, REFERENCE):
        root = tmp_path / engine.name
        repo = engine.module.Repository.create(engine.storage(root))
        parent = repo.lookup_branch("main")
        session = repo.writable_session("main")
        zarr.open_group(session.store, mode="a").create_group("g").attrs["x"] = 0
        snapshot = session.commit("made and edited")
        lists = logged(OURS.open(root), parent, snapshot)
        assert (lists["new_groups"], lists["updated_groups"]) == ({"", "g"}, set())
        session = repo.writable_session("main")
        zarr.open_group(session.store, path="g", mode="a").attrs["x"] = 1
        found[engine.name] = logged(OURS.open(root), parent, session.amend("edited again"))
        assert found[engine.name]["new_groups"] == {"", "g"}
    assert found["frazil"]["updated_groups"] == set()
    assert found["icechunk"]["updated_groups"] == {"g"}  # see docs/differences.md
