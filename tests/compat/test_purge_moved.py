"""Paths purged from histories with moves: the logs agree with the snapshots, in both engines."""

import tempfile
from dataclasses import dataclass

import icechunk
import pytest
import zarr
from hypothesis import example, given, settings
from hypothesis import strategies as st

import frazil
from frazil.engine.refs.version import Exactly
from frazil.engine.session.session import Session
from frazil.errors import IcechunkError
from frazil.ids import SnapshotId
from frazil.paths import NodePath
from tests.examples_count import scaled
from tests.unit.maintenance.contents import Contents, contents_of
from tests.unit.spec.written import GROUP, array_metadata

pytestmark = pytest.mark.compat

PATHS = ("/a", "/b", "/g", "/g/a", "/h/b")


@dataclass(frozen=True)
class Step:
    """One commit; what makes no sense where it is done is left out."""

    what: str  # write, move or delete
    path: str
    target: str


steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(["write", "write", "move", "move", "move", "delete"]),
        st.sampled_from(PATHS),
        st.sampled_from(PATHS),
    ),
    min_size=2,
    max_size=8,
)


def commit(repo: frazil.Repository, number: int, step: Step) -> None:
    engine = repo.engine
    if step.what == "move":
        session = engine.rearrange_session("main")
        session.move(NodePath(step.path), NodePath(step.target))
    else:
        session = engine.writable_session("main")
        change(session, number, step)
    session.commit(f"step {number}", allow_empty=True)


def change(session: Session, number: int, step: Step) -> None:
    path = NodePath(step.path)
    if step.what == "delete":
        session.delete_node(path)
        return
    node, group = session.find_node(path), session.find_node(path.parent or path)
    if group is None or group.array is not None:
        return
    if node is None and step.path in ("/g", "/h"):
        session.set_node(path, GROUP)
        return
    if node is None:
        session.set_node(path, array_metadata((3,), (1,)))
    elif node.array is None:
        return
    session.set_chunk(path, (number % 3,), bytes([number + 1]) * (5 if number % 2 else 600))


def make(folder: str, history: list[Step]) -> frazil.Repository:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(folder))
    session = repo.engine.writable_session("main")
    for path in ("/", "/g", "/h"):
        session.set_node(NodePath(path), GROUP)
    for path in ("/a", "/g/a"):
        session.set_node(NodePath(path), array_metadata((3,), (1,)))
        session.set_chunk(NodePath(path), (0,), b"x" * 600)
    session.commit("start")
    for number, step in enumerate(history):
        try:
            commit(repo, number, step)
        except IcechunkError:
            continue
    return repo


def without(contents: Contents, path: str) -> Contents:
    return {
        place: found
        for place, found in contents.items()
        if place != path and not place.startswith(path + "/")
    }


@given(history=steps, purged=st.sampled_from(PATHS))
@settings(max_examples=scaled(15), deadline=None)
@example(history=[Step("move", "/a", "/b"), Step("write", "/b", "")], purged="/a")
@example(history=[Step("move", "/g", "/h/b"), Step("delete", "/h/b", "")], purged="/g")
@example(history=[Step("move", "/a", "/b"), Step("move", "/b", "/a")], purged="/b")
def test_purged_histories_with_moves_are_sound(history: list[Step], purged: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        repo = make(folder, history)
        ids = [SnapshotId.parse(info.id) for info in repo.ancestry(branch="main")]
        expected = {each: without(contents_of(repo.engine, Exactly(each)), purged) for each in ids}
        repo.purge_path(purged)
        repo = frazil.Repository.open(frazil.local_filesystem_storage(folder))
        assert repo.verify().problems == ()
        assert {each: contents_of(repo.engine, Exactly(each)) for each in ids} == expected
        theirs = icechunk.Repository.open(icechunk.local_filesystem_storage(folder))
        first = str(ids[-1])
        for each in ids:
            store = theirs.readonly_session(snapshot_id=str(each)).store
            group = zarr.open_group(store, mode="r") if expected[each] else None
            found = {} if group is None else dict(group.members(max_depth=None))
            assert {"/", *(f"/{name}" for name in found)} >= expected[each].keys()
            if str(each) != first:
                ours = repo.diff(from_snapshot_id=first, to_snapshot_id=str(each))
                diff = theirs.diff(from_snapshot_id=first, to_snapshot_id=str(each))
                assert ours.new_arrays == diff.new_arrays
                assert ours.updated_chunks.keys() == diff.updated_chunks.keys()
        check_new_arrays(repo, ids, expected)


def check_new_arrays(
    repo: frazil.Repository, ids: list[SnapshotId], expected: dict[SnapshotId, Contents]
) -> None:
    """All chunks of an array are in the differences to the empty snapshot."""
    diff = repo.diff(from_snapshot_id=str(ids[-1]), to_snapshot_id=str(ids[0]))
    for path, (_, chunks) in expected[ids[0]].items():
        listed = {tuple(index) for index in diff.updated_chunks.get(path, [])}
        assert listed >= chunks.keys(), path
