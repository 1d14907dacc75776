"""Commits made from other commits."""

from collections.abc import Callable

import numpy as np
import pytest

from frazil.errors import (
    ConflictError,
    ConflictType,
    FormatError,
    InvalidInputError,
    RebaseFailedError,
    RefNotFoundError,
    SessionStateError,
)
from frazil.format.payloads import Native
from frazil.ids import SnapshotId
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import Blob
from frazil.objectstore.wrappers import Counting
from frazil.paths import NodePath
from frazil.ranges import ByteRange
from frazil.repo.history_editing import Edit, cherry_pick, merge, revert
from frazil.repo.repository import Repository
from frazil.repo.session import Session
from frazil.repo.solver import Policy, VersionSelection
from frazil.repo.squash import SquashRequest, squash
from frazil.repo.version import Branch, Exactly
from tests.unit.repo.conftest import GROUP, array_metadata
from tests.unit.repo.test_rebase import expire_before_tip

ROOT, A, B, G = NodePath("/"), NodePath("/a"), NodePath("/b"), NodePath("/g")
CHILD = NodePath("/g/x")
MAIN, SIDE = Edit(branch="main"), Edit(branch="side")
OURS = Policy(on_chunk_conflict=VersionSelection.UseOurs, delete_updated_arrays=True)
THEIRS = Policy(on_chunk_conflict=VersionSelection.UseTheirs)

type Change = Callable[[Session], None]
type Contents = dict[str, tuple[bytes, dict[tuple[int, ...], bytes]]]


@pytest.fixture
def repository(store: MemoryStore) -> Repository:
    """Arrays of four chunks, all written, on branches `main` and `side`."""
    repository = Repository.create(store)
    session = repository.writable_session("main")
    session.set_node(ROOT, GROUP)
    session.set_node(G, GROUP)
    for path in (A, B, CHILD):
        session.set_node(path, array_metadata(8))
        write(path, 0, 1, 2, 3, data=b"base")(session)
    repository.create_branch("side", session.commit("base"))
    return repository


def write(path: NodePath, *chunks: int, data: bytes = b"new") -> Change:
    def change(session: Session) -> None:
        for chunk in chunks:
            session.set_chunk(path, (chunk,), data)

    return change


def update(path: NodePath, metadata: bytes) -> Change:
    return lambda session: session.set_node(path, metadata)


def delete(path: NodePath) -> Change:
    return lambda session: session.delete_node(path)


def erase(path: NodePath, chunk: int) -> Change:
    return lambda session: session.delete_chunk(path, (chunk,))


def commit(repository: Repository, *changes: Change, branch: str = "main") -> SnapshotId:
    session = repository.writable_session(branch)
    for change in changes:
        change(session)
    return session.commit("a change")


def contents(repository: Repository, snapshot: SnapshotId | str) -> Contents:
    version = Branch(snapshot) if isinstance(snapshot, str) else Exactly(snapshot)
    session = repository.readonly_session(version)
    found: Contents = {}
    for node in session.nodes():
        chunks: dict[tuple[int, ...], bytes] = {}
        for refs in session.chunk_refs(node.path) if node.is_array else ():
            data = session.fetch_chunks(node.path, refs.index)
            chunks |= {
                tuple(i): bytes(each or b"")
                for i, each in zip(refs.index.tolist(), data, strict=True)
            }
        found[node.path.text] = (node.user_data, chunks)
    return found


def parent(repository: Repository, snapshot: SnapshotId) -> SnapshotId:
    found = repository.lookup_snapshot(snapshot).parent_id
    assert found is not None
    return found


def chunks(repository: Repository, path: NodePath, branch: str = "main") -> list[bytes | None]:
    found = contents(repository, branch)[path.text][1]
    return [found.get((i,)) for i in range(4)]


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


# Squash


def history_of(repository: Repository, branch: str = "main") -> list[str]:
    return [record.message for record in repository.ancestry(Branch(branch))][::-1]


def some_history(repository: Repository) -> list[SnapshotId]:
    return [
        commit(repository, write(A, 0, data=b"1"), update(NodePath("/n"), array_metadata(2))),
        commit(repository, write(A, 1, data=b"2"), write(NodePath("/n"), 0)),
        commit(repository, write(A, 0, data=b"3"), delete(CHILD)),
        commit(repository, write(B, 0, data=b"4")),
    ]


def test_a_range_becomes_one_commit(repository: Repository) -> None:
    ids = some_history(repository)
    start = parent(repository, ids[0])
    old = repository.diff(start, ids[-1])
    before = contents(repository, "main")
    result = squash(repository, SquashRequest(branch="main", first=ids[0], message="all"))
    assert result.snapshot == result.tip == repository.lookup_branch("main")
    assert result.squashed == tuple(ids)
    assert contents(repository, "main") == before
    assert history_of(repository) == ["Repository initialized", "base", "all"]
    assert result.snapshot is not None
    new = repository.diff(start, result.snapshot)
    assert (new.new_arrays, new.deleted_arrays) == (old.new_arrays, old.deleted_arrays)
    assert {path: index.tolist() for path, index in new.updated_chunks.items()} == {
        path: index.tolist() for path, index in old.updated_chunks.items()
    }
    assert contents(repository, ids[1])["/a"][1][(1,)] == b"2"  # still there
    record = repository.lookup_snapshot(result.snapshot)
    assert record.metadata == {"frazil": {"squashed": [str(each) for each in ids]}}
    assert record.flushed_at_us == repository.lookup_snapshot(ids[-1]).flushed_at_us


def test_commits_after_the_range_follow_it(repository: Repository) -> None:
    ids = some_history(repository)
    request = SquashRequest(branch="main", first=ids[0], last=ids[1], message="two")
    result = squash(repository, request)
    assert result.followers == tuple(ids[2:])
    assert history_of(repository) == [
        "Repository initialized", "base", "two", "a change", "a change",
    ]  # fmt: skip
    new = [record.id for record in repository.ancestry(Branch("main"))][::-1][2:]
    assert (result.snapshot, result.tip) == (new[0], new[-1])
    for old, replacement in zip(ids[1:], new, strict=True):
        assert contents(repository, old) == contents(repository, replacement)
    done, was = repository.diff(new[0], new[1]), repository.diff(ids[1], ids[2])
    assert (done.deleted_arrays, list(done.updated_chunks)) == (
        was.deleted_arrays,
        list(was.updated_chunks),
    )
    commit(repository, write(A, 3))


def test_a_dry_run_squashes_nothing(repository: Repository) -> None:
    ids = some_history(repository)
    request = SquashRequest(branch="main", first=ids[1], message="m", dry_run=True)
    result = squash(repository, request)
    assert (result.snapshot, result.squashed) == (None, tuple(ids[1:]))
    assert repository.lookup_branch("main") == ids[-1]


def test_other_branches_stay_where_they_are(repository: Repository) -> None:
    ids = some_history(repository)
    repository.create_tag("old", ids[2])
    squash(repository, SquashRequest(branch="main", first=ids[0], message="all"))
    assert repository.lookup_tag("old") == ids[2]
    assert len(history_of(repository, "side")) == 2


def test_a_squashed_merge_is_still_known_as_one(repository: Repository) -> None:
    first = commit(repository, write(A, 0))
    commit(repository, write(A, 1), branch="side")
    merge(repository, "side", MAIN)
    squash(repository, SquashRequest(branch="main", first=first, message="all"))
    tip = repository.lookup_branch("main")
    assert merge(repository, "side", MAIN).snapshot is None
    assert repository.lookup_branch("main") == tip


def test_ranges_that_are_none_are_refused(repository: Repository) -> None:
    ids = some_history(repository)
    other = commit(repository, write(A, 0), branch="side")
    backwards = SquashRequest(branch="main", first=ids[2], last=ids[0], message="m")
    elsewhere = SquashRequest(branch="main", first=other, message="m")
    for request, why in ((backwards, "comes before"), (elsewhere, "not in the history")):
        with pytest.raises(InvalidInputError, match=why):
            squash(repository, request)
    initial = parent(repository, parent(repository, ids[0]))
    with pytest.raises(SessionStateError, match="first snapshot"):
        squash(repository, SquashRequest(branch="main", first=initial, message="m"))


class Interloper(MemoryStore):
    """Lets somebody commit while transaction logs are being written."""

    meanwhile: Callable[[], object] | None = None

    def sync(self) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        super().sync()


def test_a_commit_in_the_meantime_is_not_lost() -> None:
    store = Interloper()
    repository = Repository.create(store)
    commit(repository, update(A, array_metadata(8)))
    ids = some_history_of(repository)
    store.meanwhile = lambda: commit(repository, write(A, 3))
    with pytest.raises(ConflictError):
        squash(repository, SquashRequest(branch="main", first=ids[0], message="all"))
    assert chunks(repository, A) == [b"1", b"2", None, b"new"]


def some_history_of(repository: Repository) -> list[SnapshotId]:
    return [commit(repository, write(A, i, data=str(i + 1).encode())) for i in range(2)]


# Where it cannot be done


class Distracted(MemoryStore):
    """Lets somebody do something right after the entry point was read."""

    meanwhile: Callable[[], object] | None = None

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        found = super().get(key, byte_range)
        if key == "repo" and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return found


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
