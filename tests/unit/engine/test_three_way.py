"""Three-way application against a model: every metadata document and every chunk is one key.

A node that was deleted and made again is another node, so its id is part of the key.
"""

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from frazil.engine.history.history_editing import Edit, cherry_pick, merge, revert
from frazil.engine.refs.commit_metadata import merged_snapshots
from frazil.engine.refs.version import Exactly
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import RebaseFailedError
from frazil.ids import SnapshotId
from frazil.objectstore.memory import MemoryStore
from frazil.paths import NodePath
from tests.examples_count import scaled
from tests.unit.engine.conftest import GROUP, array_metadata

PATHS = ("/a", "/g/b", "/g")

type Key = tuple[str, str, int]  # path, node id and chunk; -1: the metadata
type Model = dict[Key, bytes]


@dataclass(frozen=True, slots=True)
class Write:
    path: str
    chunk: int
    value: int  # 0 erases the chunk


@dataclass(frozen=True, slots=True)
class Define:
    """An array of so many chunks, created or changed; of none: a group."""

    path: str
    chunks: int
    attribute: int


@dataclass(frozen=True, slots=True)
class Delete:
    path: str


type Change = Write | Define | Delete

paths = st.sampled_from(PATHS)
writes = st.builds(Write, paths, st.integers(0, 3), st.integers(0, 2))
definitions = st.builds(Define, paths, st.integers(0, 4), st.integers(0, 1))
changes = st.lists(
    st.one_of(writes, writes, definitions, st.builds(Delete, paths)), min_size=1, max_size=4
)
BASE: tuple[Change, ...] = (
    Define("/a", 4, 0),
    Define("/g", 0, 0),
    Define("/g/b", 3, 0),
    *(Write(path, chunk, 9) for path in ("/a", "/g/b") for chunk in range(3)),
)


def apply(session: Session, change: Change) -> None:
    """As far as it makes sense: what does not is left out."""
    path = NodePath(change.path)
    node = session.find_node(path)
    match change:
        case Write(_, chunk, value):
            if node is None or node.array is None or chunk >= node.array.num_chunks[0]:
                return
            if value:
                session.set_chunk(path, (chunk,), bytes([value]))
            else:
                session.delete_chunk(path, (chunk,))
        case Define(_, chunks, attribute):
            new = array_metadata(2 * chunks, k=attribute) if chunks else GROUP + b" " * attribute
            if node is not None and node.is_array != bool(chunks):
                session.delete_node(path)
            above = session.find_node(NodePath("/g"))
            below_array = above is not None and above.is_array and path != above.path
            if not (below_array and path.text.startswith("/g/")):
                session.set_node(path, new)
        case Delete():
            session.delete_node(path)


def commit(repository: Repository, branch: str, listed: list[Change]) -> SnapshotId:
    session = repository.writable_session(branch)
    for change in listed:
        apply(session, change)
    return session.commit("changes", allow_empty=True)


def model_of(repository: Repository, snapshot: SnapshotId) -> Model:
    session = repository.readonly_session(Exactly(snapshot))
    model: Model = {}
    for node in session.nodes():
        model[node.path.text, str(node.id), -1] = node.user_data
        for refs in session.chunk_refs(node.path) if node.is_array else ():
            data = session.fetch_chunks(node.path, refs.index)
            model |= {
                (node.path.text, str(node.id), index[0]): bytes(each or b"")
                for index, each in zip(refs.index.tolist(), data, strict=True)
            }
    return model


def expected(base: Model, tip: Model, source: Model) -> tuple[Model, set[Key]]:
    """The result, and the keys that both sides changed, each in its way."""
    result, contradictions = dict(tip), set[Key]()
    here_already = {
        (key[0], data)
        for key, data in tip.items()
        if key[2] == -1 and not (key in base and key not in source)  # which goes from here, too
    }
    for key in base.keys() | tip.keys() | source.keys():
        was, here, there = base.get(key), tip.get(key), source.get(key)
        same_group = was is None and key[2] == -1 and (key[0], there) in here_already
        if was == there or (same_group and b"group" in (there or b"")):
            continue
        if here not in (was, there):
            contradictions.add(key)
        if there is None:
            result.pop(key, None)
        else:
            result[key] = there
    return result, contradictions


def check(
    repository: Repository, operation: str, base: SnapshotId, source: SnapshotId, tip: SnapshotId
) -> None:
    models = [model_of(repository, each) for each in (base, tip, source)]
    result, contradictions = expected(*models)
    try:
        match operation:
            case "merge":
                merge(repository, "side", Edit(branch="main"))
            case "revert":
                revert(repository, base, Edit(branch="main"))
            case _:
                cherry_pick(repository, source, Edit(branch="main"))
    except RebaseFailedError:
        assert repository.lookup_branch("main") == tip
        return
    new = repository.lookup_branch("main")
    assert not contradictions
    assert model_of(repository, new) == result
    assert_the_log_is_right(repository, tip, new)


def assert_the_log_is_right(repository: Repository, old: SnapshotId, new: SnapshotId) -> None:
    """It names the arrays and chunks that differ, and no node that does not."""
    if old == new:
        return
    before, after = (
        {(path, chunk): (node, data) for (path, node, chunk), data in model.items()}
        for model in (model_of(repository, old), model_of(repository, new))
    )
    diff = repository.diff(old, new)
    logged = {
        (path.text, index[0])
        for path, found in diff.updated_chunks.items()
        for index in found.tolist()
    }
    both = {path for path, chunk in before.keys() & after.keys() if chunk == -1}
    gone = {path.text for path in diff.deleted_arrays | diff.deleted_groups}
    made = {path.text for path in diff.new_arrays | diff.new_groups}
    updated = {path.text for path in diff.updated_arrays | diff.updated_groups}
    differ = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    assert {path for path, chunk in differ if chunk == -1} <= gone | made | updated
    assert updated <= {path for path, chunk in differ if chunk == -1}
    assert (gone ^ made) <= {path for path, chunk in differ if chunk == -1}
    kept = both - gone
    changed = {key for key in differ if key[1] >= 0 and key[0] in kept - updated}
    assert changed == {key for key in logged if key[0] in kept - updated}


few = settings(
    max_examples=scaled(25),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@few
@given(first=changes, tip=changes, source=changes)
@example(first=[], tip=[Write("/a", 0, 1)], source=[Define("/a", 2, 0), Define("/a", 4, 0)])
@example(first=[], tip=[Delete("/g")], source=[Define("/g/b", 2, 0)])
@example(first=[Define("/g", 2, 0)], tip=[Write("/g", 0, 1)], source=[Write("/g", 1, 1)])
@example(
    first=[Define("/g/b", 0, 1)],
    tip=[Write("/a", 0, 0)],
    source=[Delete("/g/b"), Define("/g/b", 0, 1)],
)
@pytest.mark.parametrize("operation", ["merge", "pick"])
def test_what_is_applied_is_what_changed(
    operation: str, first: list[Change], tip: list[Change], source: list[Change]
) -> None:
    repository = Repository.create(MemoryStore())
    commit(repository, "main", list(BASE))
    base = commit(repository, "main", first)
    repository.create_branch("side", base)
    there = commit(repository, "side", source)
    here = commit(repository, "main", tip)
    check(repository, operation, base, there, here)


@few
@given(first=changes, later=changes)
@example(first=[Define("/a", 2, 0)], later=[Define("/g/b", 1, 0)])
@example(first=[Delete("/g")], later=[Define("/g", 0, 0)])
@example(first=[Delete("/g"), Define("/g", 0, 0)], later=[Write("/a", 0, 0)])
def test_a_revert_undoes_one_commit_of_several(first: list[Change], later: list[Change]) -> None:
    repository = Repository.create(MemoryStore())
    before = commit(repository, "main", list(BASE))
    reverted = commit(repository, "main", first)
    tip = commit(repository, "main", later)
    check(repository, "revert", reverted, before, tip)


@pytest.mark.parametrize(
    "notes", [None, 3, {"merged": None}, {"merged": [3, "", "!"]}, {"merged": "x"}, {"other": 1}]
)
def test_notes_that_make_no_sense_name_no_merge(notes: int | dict[str, object] | None) -> None:
    assert list(merged_snapshots({"frazil": notes})) == []  # type: ignore[dict-item]  # what is tested
