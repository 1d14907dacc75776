"""Snapshots made anew, and snapshots beside the branch."""

import pytest

from frazil.engine.refs.version import Branch, Exactly
from frazil.engine.repository import Repository
from frazil.errors import ConflictError, SessionStateError
from frazil.format.update_log import CommitAmended, NewDetachedSnapshot
from frazil.paths import NodePath
from tests.unit.engine.conftest import GROUP, array_metadata

ROOT, A, B = NodePath("/"), NodePath("/a"), NodePath("/b")


@pytest.fixture
def amended(repository: Repository) -> Repository:
    """Two commits, the second of which is there to be amended."""
    session = repository.writable_session("main")
    session.set_node(ROOT, GROUP)
    session.commit("first")
    session = repository.writable_session("main")
    session.set_node(A, array_metadata(8))
    session.set_chunk(A, (0,), b"old")
    session.set_chunk(A, (1,), b"old")
    session.commit("second", {"k": 1})
    return repository


def messages(repository: Repository) -> list[str]:
    return [record.message for record in repository.ancestry(Branch("main"))]


def test_an_amended_commit_holds_the_changes_of_both(amended: Repository) -> None:
    previous = amended.lookup_branch("main")
    session = amended.writable_session("main")
    session.set_chunk(A, (1,), b"new")
    session.set_node(B, array_metadata(2))
    new = session.amend("better", {"l": 2})
    assert (session.read_only, session.snapshot_id) == (True, new)
    assert messages(amended) == ["better", "first", "Repository initialized"]
    record = amended.lookup_snapshot(new)
    assert record.metadata == {"l": 2}
    assert record.parent_id is not None
    after = amended.readonly_session(Branch("main"))
    assert [after.fetch_chunk(A, (i,)) for i in range(2)] == [b"old", b"new"]
    diff = amended.diff(record.parent_id, new)
    assert diff.new_arrays == {A, B}
    assert diff.updated_chunks[A].tolist() == [[0], [1]]
    assert next(iter(amended.ops_log())).kind == CommitAmended("main", previous, new)


def test_the_snapshot_that_was_amended_is_still_there(amended: Repository) -> None:
    previous = amended.lookup_branch("main")
    amended.create_tag("kept", previous)
    session = amended.writable_session("main")
    session.set_chunk(A, (1,), b"new")
    session.amend("better")
    old = amended.readonly_session(Exactly(previous))
    assert old.fetch_chunk(A, (1,)) == b"old"
    assert amended.lookup_tag("kept") == previous


def test_a_message_alone_can_be_amended(amended: Repository) -> None:
    session = amended.writable_session("main")
    with pytest.raises(SessionStateError) as caught:
        session.amend("better")
    assert caught.value.kind == "no-changes-to-commit"
    session.amend("better", allow_empty=True)
    assert messages(amended)[0] == "better"


def test_what_a_commit_made_and_its_amendment_removed_is_no_longer_there(
    amended: Repository,
) -> None:
    session = amended.writable_session("main")
    session.delete_node(A)
    new = session.amend("better")
    parent = amended.lookup_snapshot(new).parent_id
    assert parent is not None
    diff = amended.diff(parent, new)
    assert not diff.new_arrays
    assert not diff.deleted_arrays


def test_the_first_snapshot_cannot_be_amended(repository: Repository) -> None:
    session = repository.writable_session("main")
    session.set_node(ROOT, GROUP)
    with pytest.raises(SessionStateError) as caught:
        session.amend("better")
    assert caught.value.kind == "no-amend-for-initial-commit"
    session.commit("still possible")


def test_a_branch_that_moved_cannot_be_amended(amended: Repository) -> None:
    session = amended.writable_session("main")
    session.set_chunk(A, (1,), b"new")
    other = amended.writable_session("main")
    other.set_chunk(A, (2,), b"other")
    tip = other.commit("third")
    with pytest.raises(ConflictError) as caught:
        session.amend("better")
    assert caught.value.kind == "commit-conflict"
    assert caught.value.actual_parent == str(tip)
    assert session.has_uncommitted_changes


def test_a_flushed_snapshot_is_beside_the_branch(amended: Repository) -> None:
    tip = amended.lookup_branch("main")
    session = amended.writable_session("main")
    session.set_chunk(A, (1,), b"new")
    new = session.flush("aside", {"k": 3})
    assert (session.read_only, session.snapshot_id) == (True, new)
    assert amended.lookup_branch("main") == tip
    record = amended.lookup_snapshot(new)
    assert (record.parent_id, record.message, record.metadata) == (tip, "aside", {"k": 3})
    assert next(iter(amended.ops_log())).kind == NewDetachedSnapshot(new)
    amended.create_branch("adopted", new)
    adopted = amended.readonly_session(Branch("adopted"))
    assert adopted.fetch_chunk(A, (1,)) == b"new"


def test_a_flush_does_not_mind_where_the_branch_is(amended: Repository) -> None:
    session = amended.writable_session("main")
    session.set_chunk(A, (1,), b"new")
    other = amended.writable_session("main")
    other.set_chunk(A, (1,), b"other")
    tip = other.commit("third")
    new = session.flush("aside")
    assert amended.lookup_branch("main") == tip
    assert amended.readonly_session(Exactly(new)).fetch_chunk(A, (1,)) == b"new"


def test_a_read_only_session_writes_nothing(amended: Repository) -> None:
    session = amended.readonly_session(Branch("main"))
    for conclude in (session.flush, session.amend):
        with pytest.raises(SessionStateError) as caught:
            conclude("no")
        assert caught.value.kind == "commit-not-allowed"
