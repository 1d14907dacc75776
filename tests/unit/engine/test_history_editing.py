"""Commits made from other commits."""

from collections.abc import Callable

import numpy as np
import pytest

from frazil.engine.history.history_editing import Edit, cherry_pick, merge, revert
from frazil.engine.history.squash import SquashRequest, squash
from frazil.engine.merge.solver import Policy, VersionSelection
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import (
    ConflictError,
    ConflictType,
    FormatError,
    InvalidInputError,
    RebaseFailedError,
    RefNotFoundError,
    SessionStateError,
)
from frazil.format.chunk_refs import Native
from frazil.ids import SnapshotId
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.wrappers import Counting, Verb
from frazil.paths import NodePath
from frazil.testing.hooked_store import HookedStore
from tests.unit.engine.conftest import GROUP, array_metadata
from tests.unit.engine.edits import (
    CHILD,
    ROOT,
    A,
    B,
    Change,
    G,
    branched_repository,
    chunks,
    commit,
    contents,
    delete,
    erase,
    parent,
    update,
    write,
)
from tests.unit.engine.test_rebase import expire_before_tip

MAIN, SIDE = Edit(branch="main"), Edit(branch="side")
OURS = Policy(on_chunk_conflict=VersionSelection.UseOurs, delete_updated_arrays=True)
THEIRS = Policy(on_chunk_conflict=VersionSelection.UseTheirs)


@pytest.fixture
def repository(store: MemoryStore) -> Repository:
    return branched_repository(store)


CHANGES = {
    "chunks": [write(A, 1, 2)],
    "an erased chunk": [erase(A, 3)],
    "metadata": [update(A, array_metadata(8, unit="K"))],
    "a new array": [update(NodePath("/n"), array_metadata(4)), write(NodePath("/n"), 1)],
    "a new group": [update(NodePath("/n"), GROUP)],
    "a deleted array": [delete(A)],
    "a deleted group": [delete(G)],
    "another array in its place": [
        delete(A),
        update(A, array_metadata(6)),
        write(A, 0, 2),
    ],
    "an append": [update(A, array_metadata(12)), write(A, 4, 5)],
    "a cut": [update(A, array_metadata(3))],
    "an array where a group was": [delete(G), update(G, array_metadata(2)), write(G, 0)],
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_a_revert_brings_back_what_was_before(
    repository: Repository, changes: list[Change]
) -> None:
    changed = commit(repository, *changes)
    commit(repository, write(B, 0))
    result = revert(repository, changed, MAIN)
    assert result.snapshot == repository.lookup_branch("main")
    expected = contents(repository, parent(repository, changed))
    expected["/b"][1][(0,)] = b"new"
    assert contents(repository, "main") == expected


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_reverting_the_revert_does_it_again(repository: Repository, changes: list[Change]) -> None:
    changed = commit(repository, *changes)
    reverted = revert(repository, changed, MAIN).snapshot
    assert reverted is not None
    revert(repository, reverted, MAIN)
    assert contents(repository, "main") == contents(repository, changed)


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_a_picked_commit_does_the_same_elsewhere(
    repository: Repository, changes: list[Change]
) -> None:
    picked = commit(repository, *changes, branch="side")
    commit(repository, write(B, 0))
    result = cherry_pick(repository, picked, MAIN)
    expected = contents(repository, picked)
    expected["/b"][1][(0,)] = b"new"
    assert contents(repository, "main") == expected
    assert result.snapshot is not None
    record = repository.lookup_snapshot(result.snapshot)
    assert (record.message, record.metadata) == ("a change", {"frazil": {"picked": str(picked)}})


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_the_new_commit_tells_what_it_changed(
    repository: Repository, changes: list[Change]
) -> None:
    """As the commit that did so in the first place."""
    picked = commit(repository, *changes, branch="side")
    commit(repository, write(B, 0))
    planned = cherry_pick(repository, picked, Edit(branch="main", dry_run=True))
    result = cherry_pick(repository, picked, MAIN)
    assert planned.snapshot is None
    assert result.snapshot is not None
    done = repository.diff(parent(repository, result.snapshot), result.snapshot)
    there = repository.diff(parent(repository, picked), picked)
    for diff in (planned.applied, result.applied, done):
        for name in ("new", "deleted", "updated"):
            assert getattr(diff, f"{name}_arrays") == getattr(there, f"{name}_arrays")
            assert getattr(diff, f"{name}_groups") == getattr(there, f"{name}_groups")
        assert diff.updated_chunks.keys() == there.updated_chunks.keys()
        for path, index in there.updated_chunks.items():
            np.testing.assert_array_equal(np.sort(diff.updated_chunks[path], axis=0), index)


def test_a_merge_brings_both_sides_chunks_together(repository: Repository) -> None:
    commit(repository, write(A, 0, data=b"main"), erase(B, 2))
    tip = commit(repository, write(A, 3, data=b"side"), delete(CHILD), branch="side")
    result = merge(repository, "side", MAIN)
    assert chunks(repository, A) == [b"main", b"base", b"base", b"side"]
    assert chunks(repository, B) == [b"base", b"base", None, b"base"]
    assert CHILD.text not in contents(repository, "main")
    assert result.snapshot is not None
    assert not result.fast_forward
    record = repository.lookup_snapshot(result.snapshot)
    assert record.metadata == {"frazil": {"merged": [str(tip)], "branch": "side"}}
    assert record.message == "Merge branch 'side' into 'main'"


def test_a_branch_with_nothing_of_its_own_is_moved(repository: Repository) -> None:
    tip = commit(repository, write(A, 0), branch="side")
    planned = merge(repository, "side", Edit(branch="main", dry_run=True))
    assert planned.fast_forward
    assert repository.lookup_branch("main") != tip
    result = merge(repository, "side", MAIN)
    assert (result.snapshot, result.fast_forward) == (tip, True)
    assert set(result.applied.updated_chunks) == {A}
    assert repository.lookup_branch("main") == tip


def test_merging_what_is_merged_does_nothing(repository: Repository) -> None:
    commit(repository, write(A, 0))
    commit(repository, write(A, 1), branch="side")
    merge(repository, "side", MAIN)
    tip = repository.lookup_branch("main")
    assert merge(repository, "side", MAIN).snapshot is None
    assert repository.lookup_branch("main") == tip


def test_the_next_merge_begins_where_the_last_one_was(repository: Repository) -> None:
    """Or the chunk that main changed after the first merge would be in conflict."""
    commit(repository, write(A, 0))
    commit(repository, write(A, 1, data=b"side"), branch="side")
    merge(repository, "side", MAIN)
    commit(repository, write(A, 1, data=b"main again"))
    commit(repository, write(A, 2, data=b"side"), branch="side")
    merge(repository, "side", MAIN)
    assert chunks(repository, A) == [b"new", b"main again", b"side", b"base"]


def test_branches_can_be_merged_into_each_other_in_turn(repository: Repository) -> None:
    commit(repository, write(A, 0, data=b"main"))
    commit(repository, write(A, 1, data=b"side"), branch="side")
    merge(repository, "main", SIDE)
    commit(repository, write(A, 0, data=b"side"), branch="side")
    commit(repository, write(A, 2, data=b"main"))
    merge(repository, "side", MAIN)
    assert chunks(repository, A) == [b"side", b"side", b"main", b"base"]


def test_what_both_did_alike_is_no_conflict(repository: Repository) -> None:
    picked = commit(
        repository,
        write(A, 1),
        update(A, array_metadata(8, unit="K")),
        update(NodePath("/n"), array_metadata(4)),
        write(NodePath("/n"), 0),
        delete(B),
        branch="side",
    )
    cherry_pick(repository, picked, MAIN)
    assert cherry_pick(repository, picked, MAIN).snapshot is None  # nothing left to do
    commit(repository, write(NodePath("/n"), 1))
    commit(repository, write(A, 2), branch="side")
    result = merge(repository, "side", MAIN)
    assert result.conflicts == ()
    assert set(result.applied.updated_chunks) == {A}
    assert set(contents(repository, "main")["/n"][1]) == {(0,), (1,)}


def test_equal_bytes_that_both_stored_are_no_conflict(repository: Repository) -> None:
    large, other = b"x" * 10_000, b"y" * 10_000
    commit(repository, write(A, 0, 1, data=large))
    commit(repository, write(A, 0, data=large), write(A, 2, data=b"side"), branch="side")
    here = contents(repository, "main")["/a"][1]
    result = merge(repository, "side", MAIN)
    assert result.conflicts == ()
    assert {path: index.tolist() for path, index in result.applied.updated_chunks.items()} == {
        A: [[2]]
    }
    assert contents(repository, "main")["/a"][1] == {**here, (2,): b"side"}
    commit(repository, write(A, 3, data=large), write(B, 3, data=large))
    commit(repository, write(A, 3, data=other), write(B, 3, data=large), branch="side")
    with pytest.raises(RebaseFailedError) as caught:
        merge(repository, "side", MAIN)
    assert [(each.path, each.conflicted_chunks) for each in caught.value.conflicts] == [
        ("/a", [[3]])
    ]


def test_few_chunks_are_read_to_see_that_an_array_is_in_conflict(store: MemoryStore) -> None:
    counted = Counting(store)
    repository = Repository.create(counted)
    commit(repository, update(A, array_metadata(400)))
    repository.create_branch("side", repository.lookup_branch("main"))
    for branch in ("main", "side"):
        commit(repository, write(A, *range(200), data=branch.encode() * 1000), branch=branch)
    known = len(counted.reads)
    planned = merge(repository, "side", Edit(branch="main", dry_run=True))
    (conflict,) = planned.conflicts
    assert conflict.conflicted_chunks == [[chunk] for chunk in range(200)]
    read = [each.key for each in counted.reads[known:] if "chunks/" in each.key]
    assert 0 < len(read) <= 128


def test_groups_that_both_made_alike_are_one(repository: Repository) -> None:
    new = NodePath("/n")
    commit(repository, update(new, GROUP), update(NodePath("/n/a"), array_metadata(2)))
    commit(
        repository, update(new, GROUP), update(NodePath("/n/b"), array_metadata(2)), branch="side"
    )
    merge(repository, "side", MAIN)
    assert {"/n/a", "/n/b"} < set(contents(repository, "main"))


CONFLICTS = [
    (write(A, 1, data=b"m"), write(A, 1, data=b"s"), ConflictType.ChunkDoubleUpdate),
    (write(A, 1), erase(A, 1), ConflictType.ChunkDoubleUpdate),
    (
        update(A, array_metadata(8, k=1)),
        update(A, array_metadata(8, k=2)),
        ConflictType.ZarrMetadataDoubleUpdate,
    ),
    (delete(A), write(A, 1), ConflictType.ChunksUpdatedInDeletedArray),
    (write(A, 1), delete(A), ConflictType.DeleteOfUpdatedArray),
    (update(G, GROUP + b" "), delete(G), ConflictType.DeleteOfUpdatedGroup),
    (
        update(NodePath("/n"), array_metadata(2)),
        update(NodePath("/n"), array_metadata(2)),
        ConflictType.NewNodeConflictsWithExistingNode,
    ),
    (write(A, 3), update(A, array_metadata(4)), ConflictType.ChunksUpdatedInUpdatedArray),
    (
        write(A, 0),
        update(A, array_metadata(8, chunk=4)),
        ConflictType.ChunksUpdatedInUpdatedArray,
    ),
]


@pytest.mark.parametrize(("here", "there", "expected"), CONFLICTS)
def test_a_conflict_is_reported_and_nothing_changes(
    repository: Repository, here: Change, there: Change, expected: ConflictType
) -> None:
    tip = commit(repository, here)
    picked = commit(repository, there, branch="side")
    before = list(repository.ops_log())
    planned = merge(repository, "side", Edit(branch="main", dry_run=True))
    assert not planned.solved
    assert expected in {conflict.conflict_type for conflict in planned.conflicts}
    with pytest.raises(RebaseFailedError) as caught:
        merge(repository, "side", MAIN)
    assert tuple(caught.value.conflicts) == planned.conflicts
    with pytest.raises(RebaseFailedError):
        cherry_pick(repository, picked, MAIN)
    assert repository.lookup_branch("main") == tip
    assert list(repository.ops_log()) == before


def test_conflicts_about_chunks_are_solved_as_told(repository: Repository) -> None:
    commit(repository, write(A, 1, 2, data=b"main"))
    commit(repository, write(A, 0, 1, data=b"side"), branch="side")
    planned = merge(repository, "side", Edit(branch="main", policy=OURS, dry_run=True))
    assert planned.solved
    assert [each.conflicted_chunks for each in planned.conflicts] == [[[1]]]
    repository.create_branch("other", repository.lookup_branch("main"))
    merge(repository, "side", Edit(branch="main", policy=OURS))
    merge(repository, "side", Edit(branch="other", policy=THEIRS))
    assert chunks(repository, A) == [b"side", b"side", b"main", b"base"]
    assert chunks(repository, A, "other") == [b"side", b"main", b"main", b"base"]


def test_two_appends_are_merged_if_told_to(repository: Repository) -> None:
    commit(repository, update(A, array_metadata(10)), write(A, 4))
    commit(repository, update(A, array_metadata(12)), write(A, 5), branch="side")
    merge(repository, "side", Edit(branch="main", policy=Policy(merge_appends=True)))
    assert set(contents(repository, "main")["/a"][1]) == {(i,) for i in range(6)}


def test_a_later_write_stands_against_a_revert(repository: Repository) -> None:
    changed = commit(repository, write(A, 1, 2))
    commit(repository, write(A, 1, data=b"later"))
    with pytest.raises(RebaseFailedError) as caught:
        revert(repository, changed, MAIN)
    assert [each.conflicted_chunks for each in caught.value.conflicts] == [[[1]]]


def test_an_append_that_was_written_to_since_is_not_reverted(repository: Repository) -> None:
    changed = commit(repository, update(A, array_metadata(12)), write(A, 4))
    commit(repository, write(A, 5))
    with pytest.raises(RebaseFailedError):
        revert(repository, changed, MAIN)


def test_only_what_can_be_reverted_is(repository: Repository) -> None:
    other = commit(repository, write(A, 0), branch="side")
    with pytest.raises(InvalidInputError, match="not in the history of branch `main`"):
        revert(repository, other, MAIN)
    first = parent(repository, parent(repository, other))
    for operation in (revert, cherry_pick):
        with pytest.raises(SessionStateError, match="first one"):
            operation(repository, first, MAIN)
    with pytest.raises(RefNotFoundError):
        merge(repository, "nowhere", MAIN)


def test_message_and_metadata_can_be_given(repository: Repository) -> None:
    changed = commit(repository, write(A, 1))
    edit = Edit(branch="main", message="oops", metadata={"why": 1, "frazil": {"own": True}})
    snapshot = revert(repository, changed, edit).snapshot
    assert snapshot is not None
    record = repository.lookup_snapshot(snapshot)
    assert record.message == "oops"
    assert record.metadata == {"why": 1, "frazil": {"own": True, "reverted": str(changed)}}


def test_manifests_that_did_not_change_are_not_read(store: MemoryStore) -> None:
    counted = Counting(store)
    repository = Repository.create(counted)
    commit(repository, update(A, array_metadata(8)), update(B, array_metadata(8)))
    commit(repository, write(A, 0), write(B, 0))
    changed = commit(repository, write(A, 1))
    commit(repository, update(NodePath("/n"), GROUP))
    node = repository.readonly_session(Branch("main")).node(B)
    assert node.array is not None
    repository = Repository.open(counted)
    known = len(counted.reads)
    revert(repository, changed, MAIN)
    read = {each.key for each in counted.reads[known:] if "manifests/" in each.key}
    assert len(read) == 2  # the array's, before and after
    assert not any(str(ref.id) in key for ref in node.array.manifests for key in read)


def test_chunks_are_not_copied(repository: Repository, store: MemoryStore) -> None:
    large = b"x" * 10_000
    picked = commit(repository, write(A, 1, data=large), branch="side")
    commit(repository, write(B, 0))
    before = {info.key for info in store.list("chunks/")}
    cherry_pick(repository, picked, MAIN)
    assert {info.key for info in store.list("chunks/")} == before
    session = repository.readonly_session(Branch("main"))
    assert isinstance(session.chunk_payload(A, (1,)), Native)


# Where it cannot be done


class Distracted(HookedStore[MemoryStore]):
    """Lets another client act right after the entry point was read."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(), after=self._act)
        self.meanwhile: Callable[[], object] | None = None

    def _act(self, verb: Verb, key: str) -> None:
        if verb == "get" and key == "repo" and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()


def test_a_branch_that_is_reset_meanwhile_is_not_changed() -> None:
    """What was decided for its old tip may not be right for the new one."""
    store = Distracted()
    repository = Repository.create(store)
    start = commit(repository, update(A, array_metadata(8)))
    repository.create_branch("side", start)
    there = commit(repository, write(A, 1), branch="side")
    here = commit(repository, write(A, 0))
    other = Repository.open(store)
    operations: list[Callable[[], object]] = [
        lambda: merge(repository, "side", MAIN),
        lambda: revert(repository, here, MAIN),
        lambda: cherry_pick(repository, there, MAIN),
    ]
    for operation in operations:
        other.reset_branch("main", here)
        store.meanwhile = lambda: other.reset_branch("main", start)
        with pytest.raises(ConflictError):
            operation()
        assert repository.lookup_branch("main") == start


def test_a_commit_whose_parent_was_expired_is_not_taken_for_all_that_it_stands_for(
    repository: Repository,
) -> None:
    commit(repository, write(A, 0))
    commit(repository, write(A, 1))
    new, _ = expire_before_tip(repository)
    before = contents(repository, "main")
    for operation in (revert, cherry_pick):
        with pytest.raises(SessionStateError, match="was expired"):
            operation(repository, new, MAIN)
    assert contents(repository, "main") == before
    commit(repository, write(A, 2), branch="side")
    merge(repository, "side", MAIN)  # needs no single commit
    assert chunks(repository, A) == [b"new", b"new", b"new", b"base"]


def test_changes_are_applied_beside_a_move_on_the_branch(repository: Repository) -> None:
    session = repository.rearrange_session("main")
    session.move(A, NodePath("/moved"))
    session.commit("move")
    commit(repository, write(B, 0), branch="side")
    merge(repository, "side", MAIN)
    found = contents(repository, "main")
    assert "/moved" in found
    assert found["/b"][1][(0,)] == b"new"


@pytest.mark.parametrize("spec_version", [1, 2])
def test_a_note_of_a_snapshot_that_is_gone_is_ignored(
    store: MemoryStore, spec_version: int
) -> None:
    repository = Repository.create(store, spec_version=spec_version)
    commit(repository, update(A, array_metadata(8)))
    repository.create_branch("side", repository.lookup_branch("main"))
    session = repository.writable_session("main")
    write(A, 0)(session)
    session.commit("m", {"frazil": {"merged": [str(SnapshotId.random())]}})
    commit(repository, write(A, 1), branch="side")
    merge(repository, "side", MAIN)
    assert chunks(repository, A) == [b"new", b"new", None, None]


def test_version_1_has_all_but_squash(store: MemoryStore) -> None:
    repository = Repository.create(store, spec_version=1)
    commit(repository, update(ROOT, GROUP), update(A, array_metadata(8)))
    repository.create_branch("side", repository.lookup_branch("main"))
    written = commit(repository, write(A, 0))
    commit(repository, write(A, 1, data=b"side"), branch="side")
    merge(repository, "side", MAIN)
    assert chunks(repository, A) == [b"new", b"side", None, None]
    revert(repository, written, MAIN)
    assert chunks(repository, A) == [None, b"side", None, None]
    with pytest.raises(FormatError, match="version 2"):
        squash(repository, SquashRequest(branch="main", first=written, message="m"))
