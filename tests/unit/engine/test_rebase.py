"""Changes carried over other people's commits."""

import itertools
import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from frazil.engine.files.files import Contention, Files
from frazil.engine.files.object_keys import transaction_key
from frazil.engine.files.settings import Settings
from frazil.engine.merge.rebase import Rebasing, commit_rebasing, with_attempts
from frazil.engine.merge.solver import Policy, VersionSelection
from frazil.engine.refs.entry import RepoInfoEntry
from frazil.engine.refs.version import Branch
from frazil.engine.refs.waiting import Backoff
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import (
    Conflict,
    ConflictError,
    ConflictType,
    RebaseFailedError,
    RefNotFoundError,
    SessionStateError,
)
from frazil.format.chunk_refs import Inline
from frazil.format.repo_info import RepoInfo
from frazil.format.update_log import ExpirationRan, UpdateKind
from frazil.ids import SnapshotId
from frazil.objectstore.memory import MemoryStore
from frazil.paths import NodePath
from frazil.testing.hooked_store import HookedStore
from tests.unit.engine.conftest import GROUP, array_metadata

DETECT = Policy()
OURS = Policy(
    on_chunk_conflict=VersionSelection.UseOurs,
    delete_updated_arrays=True,
    delete_updated_groups=True,
)
THEIRS = Policy(on_chunk_conflict=VersionSelection.UseTheirs)
MERGE = Policy(on_chunk_conflict=VersionSelection.UseOurs, merge_appends=True)
ROOT, A, B, G = NodePath("/"), NodePath("/a"), NodePath("/b"), NodePath("/g")
CHILD = NodePath("/g/x")

type Edit = Callable[[Session], None]


@pytest.fixture
def repository(store: MemoryStore) -> Repository:
    """Arrays of four chunks, all written, and a group with one of them."""
    repository = Repository.create(store)
    session = repository.writable_session("main")
    session.set_node(ROOT, GROUP)
    session.set_node(G, GROUP)
    for path in (A, B, CHILD):
        session.set_node(path, array_metadata(8))
        for i in range(4):
            session.set_chunk(path, (i,), b"base")
    session.commit("base")
    return repository


def write(path: NodePath, *chunks: int, data: bytes = b"theirs") -> Edit:
    def edit(session: Session) -> None:
        for chunk in chunks:
            session.set_chunk(path, (chunk,), data)

    return edit


def update(path: NodePath, metadata: bytes) -> Edit:
    return lambda session: session.set_node(path, metadata)


def commit(repository: Repository, *edits: Edit) -> str:
    session = repository.writable_session("main")
    for edit in edits:
        edit(session)
    return str(session.commit("theirs"))


def chunks(repository: Repository, path: NodePath) -> list[bytes | None]:
    session = repository.readonly_session(Branch("main"))
    array = session.node(path).array
    assert array is not None
    index = np.arange(array.num_chunks[0], dtype=np.uint32).reshape(-1, 1)
    return [None if data is None else bytes(data) for data in session.fetch_chunks(path, index)]


def conflicts_of(session: Session, policy: Policy = DETECT) -> list[Conflict]:
    with pytest.raises(RebaseFailedError) as caught:
        session.rebase(policy)
    return caught.value.conflicts


# What is carried over


def test_chunks_that_others_committed_survive_our_metadata(repository: Repository) -> None:
    """Our version of the node was made when the array still had other manifests."""
    session = repository.writable_session("main")
    session.set_node(A, array_metadata(8, unit="K"))
    commit(repository, write(A, 1, 2))
    session.rebase(DETECT)
    session.commit("ours")
    assert chunks(repository, A) == [b"base", b"theirs", b"theirs", b"base"]
    assert b'"K"' in repository.readonly_session(Branch("main")).node(A).user_data


def test_both_sides_chunks_are_there(repository: Repository) -> None:
    session = repository.writable_session("main")
    write(A, 0, data=b"ours")(session)
    commit(repository, write(A, 1))
    commit(repository, write(A, 3), write(B, 0))
    session.rebase(DETECT)
    assert session.fetch_chunk(A, (1,)) == b"theirs"
    assert session.has_uncommitted_changes
    session.commit("ours")
    assert chunks(repository, A) == [b"ours", b"theirs", b"base", b"theirs"]
    assert chunks(repository, B)[0] == b"theirs"


def test_native_chunks_and_bulk_writes_are_carried_over(repository: Repository) -> None:
    session = repository.writable_session("main")
    large = b"x" * 5000
    write(A, 0, data=large)(session)
    refs = next(iter(session.chunk_refs(B)))
    session.set_chunk_refs(A, refs.take(np.array([2])))
    session.delete_chunks_under(B, (3,))
    commit(repository, write(A, 1), write(B, 0))
    session.rebase(DETECT)
    session.commit("ours")
    assert chunks(repository, A) == [large, b"theirs", b"base", b"base"]
    assert chunks(repository, B) == [b"theirs", b"base", b"base", None]


def test_new_nodes_and_deletions_are_carried_over(repository: Repository) -> None:
    session = repository.writable_session("main")
    session.set_node(NodePath("/n"), array_metadata(4))
    write(NodePath("/n"), 1, data=b"ours")(session)
    session.delete_node(G)
    commit(repository, write(A, 1), update(NodePath("/m"), GROUP))
    session.rebase(DETECT)
    session.commit("ours")
    after = repository.readonly_session(Branch("main"))
    assert after.child_names(ROOT) == ["a", "b", "m", "n"]
    assert chunks(repository, NodePath("/n")) == [None, b"ours"]
    tip, parent, *_ = repository.ancestry(Branch("main"))
    diff = repository.diff(parent.id, tip.id)
    assert diff.new_arrays == {NodePath("/n")}
    assert diff.deleted_groups == {G}
    assert diff.deleted_arrays == {CHILD}


def test_an_array_we_replaced_is_replaced(repository: Repository) -> None:
    session = repository.writable_session("main")
    session.delete_node(A)
    session.set_node(A, array_metadata(4))
    commit(repository, write(B, 1))
    session.rebase(DETECT)
    session.commit("ours")
    assert chunks(repository, A) == [None, None]


def test_a_group_in_the_place_of_our_deleted_array_is_no_conflict(repository: Repository) -> None:
    session = repository.writable_session("main")
    session.delete_node(A)
    session.set_node(A, GROUP)
    session.set_node(NodePath("/a/m"), GROUP)
    commit(repository, write(B, 1))
    session.rebase(DETECT)
    session.commit("ours")
    assert repository.readonly_session(Branch("main")).child_names(A) == ["m"]


def test_deleting_what_others_deleted_is_no_conflict(repository: Repository) -> None:
    session = repository.writable_session("main")
    session.delete_node(A)
    commit(repository, lambda theirs: theirs.delete_node(A), update(A, array_metadata(2)))
    session.rebase(DETECT)
    assert session.has_uncommitted_changes
    session.commit("ours")
    assert chunks(repository, A) == [None]  # what they put there is not what we deleted


def test_a_rebase_of_nothing_moves_the_session(repository: Repository) -> None:
    session = repository.writable_session("main")
    tip = commit(repository, write(A, 1))
    session.rebase(DETECT)
    assert str(session.snapshot_id) == tip
    assert not session.has_uncommitted_changes
    assert session.fetch_chunk(A, (1,)) == b"theirs"


# Conflicts


def test_a_failed_rebase_stays_at_the_last_good_commit(repository: Repository) -> None:
    session = repository.writable_session("main")
    write(A, 0, data=b"ours")(session)
    good = commit(repository, write(A, 1))
    bad = commit(repository, update(A, array_metadata(8, unit="K")))
    commit(repository, write(B, 0))
    with pytest.raises(RebaseFailedError) as caught:
        session.rebase(DETECT)
    assert (caught.value.snapshot, caught.value.kind) == (bad, "rebase-failed")
    assert str(session.snapshot_id) == good
    assert session.fetch_chunk(A, (0,)) == b"ours"
    assert session.fetch_chunk(A, (1,)) == b"theirs"


def test_all_conflicts_of_a_commit_are_reported_even_those_that_could_be_solved(
    repository: Repository,
) -> None:
    session = repository.writable_session("main")
    write(A, 2, 0, 1, data=b"ours")(session)
    session.set_node(A, array_metadata(8, unit="K"))
    session.delete_node(G)
    commit(
        repository,
        write(A, 0, 2),
        update(A, array_metadata(8, unit="m")),
        update(G, GROUP + b" "),
        write(CHILD, 1),
    )
    assert conflicts_of(session, OURS) == [
        Conflict(ConflictType.ZarrMetadataDoubleUpdate, "/a"),
        Conflict(ConflictType.ChunksUpdatedInUpdatedArray, "/a"),
        Conflict(ConflictType.ChunkDoubleUpdate, "/a", [[0], [2]]),
        Conflict(ConflictType.DeleteOfUpdatedArray, "/g/x"),
        Conflict(ConflictType.DeleteOfUpdatedGroup, "/g"),
    ]


@pytest.mark.parametrize(
    ("policy", "expected"), [(OURS, b"ours"), (THEIRS, b"theirs")], ids=["ours", "theirs"]
)
def test_the_chosen_version_of_a_chunk_is_kept(
    repository: Repository, policy: Policy, expected: bytes
) -> None:
    session = repository.writable_session("main")
    write(A, 0, 1, data=b"ours")(session)
    commit(repository, write(A, 1, 2))
    session.rebase(policy)
    session.commit("ours")
    assert chunks(repository, A) == [b"ours", expected, b"theirs", b"base"]


def test_a_child_added_to_a_group_we_delete_is_a_conflict(repository: Repository) -> None:
    session = repository.writable_session("main")
    session.delete_node(G)
    commit(repository, update(NodePath("/g/new"), GROUP))
    assert conflicts_of(session) == [Conflict(ConflictType.DeleteOfUpdatedGroup, "/g")]
    session.rebase(OURS)
    session.commit("ours")
    after = repository.readonly_session(Branch("main"))
    assert [node.path.text for node in after.nodes()] == ["/", "/a", "/b"]


def test_a_child_we_add_to_a_group_others_deleted_is_a_conflict(repository: Repository) -> None:
    session = repository.writable_session("main")
    session.set_node(NodePath("/g/new"), GROUP)
    session.set_node(NodePath("/g/newer"), GROUP)
    commit(repository, lambda theirs: theirs.delete_node(G))
    for policy in (DETECT, OURS):
        assert conflicts_of(session, policy) == [Conflict(ConflictType.NewNodeInInvalidGroup, "/g")]


def test_two_new_nodes_in_the_place_of_one_are_a_conflict(repository: Repository) -> None:
    def replaced(session: Session) -> None:
        session.delete_node(A)
        session.set_node(A, array_metadata(4))

    session = repository.writable_session("main")
    replaced(session)
    commit(repository, replaced)
    assert conflicts_of(session) == [Conflict(ConflictType.NewNodeConflictsWithExistingNode, "/a")]


# Appending


def test_two_appenders_are_reconciled_if_asked(repository: Repository) -> None:
    session = repository.writable_session("main")
    session.set_node(A, array_metadata(12))
    write(A, 4, data=b"ours")(session)
    commit(repository, update(A, array_metadata(10)), write(A, 0))
    assert conflicts_of(session, OURS)[0].conflict_type is ConflictType.ZarrMetadataDoubleUpdate
    session.rebase(MERGE)
    session.commit("ours")
    assert chunks(repository, A) == [b"theirs", b"base", b"base", b"base", b"ours", None]


def test_the_larger_shape_wins_whoever_made_it(repository: Repository) -> None:
    session = repository.writable_session("main")
    session.set_node(A, array_metadata(10))
    write(A, 4, data=b"ours")(session)
    commit(repository, update(A, array_metadata(12)), write(A, 5))
    session.rebase(MERGE)
    session.commit("ours")
    assert chunks(repository, A) == [b"base"] * 4 + [b"ours", b"theirs"]


def test_appends_along_two_dimensions_give_the_shape_that_holds_both(
    repository: Repository,
) -> None:
    path = NodePath("/plane")
    commit(repository, update(path, array_metadata(4, 4)))
    session = repository.writable_session("main")
    session.set_node(path, array_metadata(8, 4))
    session.set_chunk(path, (3, 0), b"ours")
    commit(
        repository,
        update(path, array_metadata(4, 6)),
        lambda theirs: theirs.set_chunk(path, (0, 2), b"theirs"),
    )
    session.rebase(MERGE)
    session.commit("ours")
    after = repository.readonly_session(Branch("main"))
    array = after.node(path).array
    assert array is not None
    assert (array.shape, array.num_chunks) == ((8, 6), (4, 3))
    assert json.loads(after.node(path).user_data)["shape"] == [8, 6]
    assert after.chunk_payload(path, (3, 0)) == Inline(b"ours")
    assert after.chunk_payload(path, (0, 2)) == Inline(b"theirs")


def test_appends_of_the_same_chunk_are_never_merged(repository: Repository) -> None:
    session = repository.writable_session("main")
    session.set_node(A, array_metadata(10))
    write(A, 4, data=b"ours")(session)
    commit(repository, update(A, array_metadata(10)), write(A, 4))
    assert Conflict(ConflictType.ChunkDoubleUpdate, "/a", [[4]]) in conflicts_of(session, MERGE)


@pytest.mark.parametrize(
    "theirs",
    [array_metadata(10, unit="K"), array_metadata(6), array_metadata(10, chunk=4)],
    ids=["attributes", "smaller", "chunks"],
)
def test_other_updates_than_appends_are_not_merged(repository: Repository, theirs: bytes) -> None:
    session = repository.writable_session("main")
    session.set_node(A, array_metadata(12))
    commit(repository, update(A, theirs))
    assert conflicts_of(session, MERGE) == [Conflict(ConflictType.ZarrMetadataDoubleUpdate, "/a")]


def test_chunks_written_while_others_append_are_kept(repository: Repository) -> None:
    session = repository.writable_session("main")
    write(A, 0, data=b"ours")(session)
    commit(repository, update(A, array_metadata(10)), write(A, 4))
    session.rebase(MERGE)
    session.commit("ours")
    assert chunks(repository, A) == [b"ours", b"base", b"base", b"base", b"theirs"]
    assert session.status().updated_arrays == frozenset()


# Commits that rebase


def test_a_commit_rebases_and_notes_how_often(repository: Repository) -> None:
    session = repository.writable_session("main")
    write(A, 0, data=b"ours")(session)
    commit(repository, write(A, 1))
    commit(repository, write(A, 2))
    new = session.commit("ours", {"__icechunk": {"z": 1}, "k": 2}, rebasing=Rebasing(DETECT))
    record = repository.lookup_snapshot(new)
    assert record.metadata == {"__icechunk": {"z": 1, "rebase_attempts": 1}, "k": 2}
    assert chunks(repository, A) == [b"ours", b"theirs", b"theirs", b"base"]
    assert session.read_only


def test_attempts_replace_a_reserved_value_that_is_no_object() -> None:
    assert with_attempts({"__icechunk": 5}, 0) == {"__icechunk": {"rebase_attempts": 0}}


def test_no_tries_are_no_rebase(repository: Repository) -> None:
    session = repository.writable_session("main")
    write(A, 0, data=b"ours")(session)
    commit(repository, write(A, 1))
    with pytest.raises(ConflictError) as caught:
        session.commit("ours", rebasing=Rebasing(DETECT, tries=0))
    assert caught.value.kind == "commit-conflict"
    assert session.has_uncommitted_changes
    assert not session.read_only


@pytest.mark.parametrize("tries", [-1, 2**16])
def test_tries_are_counted_in_sixteen_bits(tries: int) -> None:
    with pytest.raises(OverflowError, match=str(tries)):
        Rebasing(DETECT, tries)


def test_lost_races_are_waited_out() -> None:
    pauses, rebases = list[float](), list[Policy]()

    def always_beaten(attempts: int) -> None:
        raise ConflictError(message=f"beaten {attempts}")

    with pytest.raises(ConflictError, match="beaten 40"):
        commit_rebasing(
            always_beaten,
            rebases.append,
            Rebasing(DETECT, tries=40),
            Backoff(
                Contention(writers=16, try_s=0.2, last_s=math.inf),
                sleep=pauses.append,
                now=itertools.count(step=0.2).__next__,  # every try takes so long
                uniform=lambda _, most: most,
            ),
        )
    assert len(rebases) == 40
    yielded, *after_losses = pauses
    assert 1.4 < yielded < 3  # of the 3 s that the others need
    assert after_losses == sorted(after_losses, reverse=True)  # who lost more often waits less
    assert len(set(after_losses)) > 10


def test_the_number_of_writers_is_learnt_and_forgotten() -> None:
    contention = Contention()
    assert contention.others(0) == 0
    for now in range(30):
        contention.notice(0.2)
        contention.learn(16 * 0.2, 0.2, now_s=float(now))
    assert contention.others(30) == pytest.approx(15, rel=0.05)
    contention.learn(0.2, 0.2, now_s=30)
    assert contention.others(32) > 13  # the one who got in knows little of the others
    assert contention.others(1000) == 0
    contention.learn(0.2, 0.2, now_s=1000)
    assert contention.others(1000) == 0


def test_a_lone_writer_gives_way_to_whom_it_cannot_see_now_and_then() -> None:
    contention, pauses, now = Contention(), list[float](), [0.0]
    for _ in range(100):
        with Backoff(contention, sleep=pauses.append, now=lambda: now[0]) as waiting:
            waiting.begin()
            now[0] += 0.1
    assert len(pauses) in (5, 6)  # every sixteenth
    pauses.clear()
    now[0] += 60
    with Backoff(contention, sleep=pauses.append, now=lambda: now[0]) as waiting:
        waiting.begin()
    assert pauses == []


def test_a_lost_race_does_not_write_manifests_of_other_arrays_again(
    store: MemoryStore, repository: Repository
) -> None:
    puts, overtaking = list[str](), [write(B, 2), write(B, 3)]

    def overtake(verb: str, key: str) -> None:
        if verb == "put":
            puts.append(key.partition("/")[0])
            if key == "repo" and overtaking:
                commit(repository, overtaking.pop())

    session = Repository.open(HookedStore(store, before=overtake)).writable_session("main")
    write(A, 1, data=b"ours")(session)
    write(B, 1, data=b"ours")(session)
    session.commit("ours", rebasing=Rebasing(DETECT))
    assert puts.count("snapshots") == 3
    assert puts.count("manifests") == 1 + 3  # of A once, of B each time
    assert chunks(repository, A) == [b"base", b"ours", b"base", b"base"]
    assert chunks(repository, B) == [b"base", b"ours", b"theirs", b"theirs"]


def test_many_writers_of_one_array_all_get_in(repository: Repository) -> None:
    sessions = [repository.writable_session("main") for _ in range(4)]
    for i, session in enumerate(sessions):
        write(A, i, data=b"%d" % i)(session)
    for session in sessions:
        session.commit("ours", rebasing=Rebasing(DETECT))
    assert chunks(repository, A) == [b"0", b"1", b"2", b"3"]


def test_writers_in_threads_all_get_in(repository: Repository) -> None:
    def write_some(i: int) -> None:
        for round_ in range(5):
            session = repository.writable_session("main")
            write(A, i, data=b"%d.%d" % (i, round_))(session)
            session.commit("ours", rebasing=Rebasing(DETECT))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write_some, range(4)))
    assert chunks(repository, A) == [b"0.4", b"1.4", b"2.4", b"3.4"]
    assert len(list(repository.ancestry(Branch("main")))) == 2 + 4 * 5


# Expired history


def expire_before_tip(repository: Repository) -> tuple[SnapshotId, SnapshotId]:
    """Leaves out the tip's parent, as expiring it would; the new tip, and the one left out."""
    tip, expired, before, *_ = repository.ancestry(Branch("main"))
    files, new = Files(repository.store, Settings.of(repository.config)), SnapshotId.random()
    files.put_snapshot(replace(files.fetch_snapshot(tip.id), id=new))
    files.put_log(replace(files.fetch_log(tip.id), id=new))

    def rewrite(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
        info = info.with_snapshot(
            new, before.id, tip.flushed_at_us, "tip", {}, pruned_logs=[expired.id.raw]
        )
        return info.with_branch("main", new), ExpirationRan()

    RepoInfoEntry(files, repository.clock).update(rewrite, doing="expiring")
    return new, expired.id


def test_changes_of_expired_commits_are_looked_at(repository: Repository) -> None:
    session = repository.writable_session("main")
    write(A, 0, data=b"ours")(session)
    commit(repository, write(A, 0, 1))
    commit(repository, write(A, 2))
    tip, _ = expire_before_tip(repository)
    with pytest.raises(RebaseFailedError) as caught:
        session.rebase(DETECT)
    assert caught.value.snapshot == str(tip)
    assert caught.value.conflicts == [Conflict(ConflictType.ChunkDoubleUpdate, "/a", [[0]])]
    session.rebase(OURS)
    session.commit("ours")
    assert chunks(repository, A) == [b"ours", b"theirs", b"theirs", b"base"]


def test_changes_based_on_an_expired_commit_are_carried_on(repository: Repository) -> None:
    commit(repository, write(A, 0, 1))
    session = repository.writable_session("main")
    write(A, 0, data=b"ours")(session)
    commit(repository, write(A, 2))
    expire_before_tip(repository)
    session.rebase(DETECT)
    session.commit("ours")
    assert chunks(repository, A) == [b"ours", b"theirs", b"theirs", b"base"]


def test_a_rebase_over_a_lost_log_is_refused(repository: Repository, store: MemoryStore) -> None:
    session = repository.writable_session("main")
    write(A, 0, data=b"ours")(session)
    commit(repository, write(A, 1))
    commit(repository, write(A, 2))
    _, expired = expire_before_tip(repository)
    store.delete([transaction_key(expired)])
    with pytest.raises(SessionStateError) as caught:
        session.rebase(OURS)
    assert caught.value.kind == "rebase-tx-log-pruned"
    assert session.fetch_chunk(A, (1,)) == b"base"


# Branches that are not what they were


def test_a_rebase_on_a_deleted_branch_does_nothing(repository: Repository) -> None:
    repository.create_branch("side", repository.lookup_branch("main"))
    session = repository.writable_session("side")
    write(A, 0)(session)
    repository.delete_branch("side")
    session.rebase(DETECT)
    with pytest.raises(RefNotFoundError) as caught:
        session.commit("ours", rebasing=Rebasing(DETECT))
    assert caught.value.kind == "branch-not-found"


def test_changes_follow_a_branch_that_was_reset(repository: Repository) -> None:
    base = repository.lookup_branch("main")
    commit(repository, write(A, 1), update(NodePath("/n"), array_metadata(2)))
    session = repository.writable_session("main")
    write(A, 0, data=b"ours")(session)
    session.set_node(B, array_metadata(8, unit="K"))
    repository.reset_branch("main", base)
    session.commit("ours", rebasing=Rebasing(DETECT))
    assert chunks(repository, A) == [b"ours", b"base", b"base", b"base"]
    assert repository.readonly_session(Branch("main")).find_node(NodePath("/n")) is None


def test_changes_of_what_a_reset_removed_are_conflicts(repository: Repository) -> None:
    base = repository.lookup_branch("main")
    new = NodePath("/n")
    commit(
        repository,
        write(A, 1),
        update(new, array_metadata(2)),
        update(B, array_metadata(8, unit="K")),
    )
    session = repository.writable_session("main")
    write(A, 1, data=b"ours")(session)
    write(new, 0, data=b"ours")(session)
    session.set_node(B, array_metadata(8, unit="m"))
    repository.reset_branch("main", base)
    commit(repository, write(CHILD, 0))
    assert conflicts_of(session) == [
        Conflict(ConflictType.ZarrMetadataDoubleUpdate, "/b"),
        Conflict(ConflictType.ChunkDoubleUpdate, "/a", [[1]]),
        Conflict(ConflictType.ChunksUpdatedInDeletedArray, "/n"),
    ]


def test_changes_follow_an_amended_commit(repository: Repository) -> None:
    commit(repository, write(B, 1))
    session = repository.writable_session("main")
    write(A, 0, data=b"ours")(session)
    session.set_node(A, array_metadata(8, unit="K"))
    other = repository.writable_session("main")
    write(A, 1)(other)
    write(B, 2)(other)
    other.amend("better")
    session.commit("ours", rebasing=Rebasing(DETECT))
    assert chunks(repository, A) == [b"ours", b"theirs", b"base", b"base"]
    assert chunks(repository, B) == [b"base", b"theirs", b"theirs", b"base"]
    messages = [record.message for record in repository.ancestry(Branch("main"))]
    assert messages[:3] == ["ours", "better", "base"]


def test_changes_of_what_an_amendment_changed_are_conflicts(repository: Repository) -> None:
    commit(repository, write(B, 1))
    session = repository.writable_session("main")
    write(A, 0, 1, data=b"ours")(session)
    session.set_node(NodePath("/n"), GROUP)
    other = repository.writable_session("main")
    write(A, 1)(other)
    other.set_node(NodePath("/n"), GROUP)
    other.amend("better")
    assert conflicts_of(session) == [
        Conflict(ConflictType.NewNodeConflictsWithExistingNode, "/n"),
        Conflict(ConflictType.ChunkDoubleUpdate, "/a", [[1]]),
    ]


def test_a_read_only_session_cannot_rebase(repository: Repository) -> None:
    with pytest.raises(SessionStateError) as caught:
        repository.readonly_session(Branch("main")).rebase(DETECT)
    assert caught.value.kind == "commit-not-allowed"
