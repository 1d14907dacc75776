"""Commits that are taken in one leap, against taking them one by one."""

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from frazil.engine.changes.change_set import ChangeSet
from frazil.engine.history.history_editing import Edit, revert
from frazil.engine.merge.rebase import Position, replay
from frazil.engine.merge.solver import Policy, VersionSelection
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import Conflict, RebaseFailedError
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.wrappers import Counting
from frazil.paths import NodePath
from tests.examples_count import scaled
from tests.unit.engine.some_changes import (
    BASE,
    Change,
    Define,
    Delete,
    Move,
    Write,
    apply,
    edits,
    moves,
)

POLICIES = (
    Policy(),
    Policy(on_chunk_conflict=VersionSelection.UseTheirs, delete_updated_arrays=True),
    Policy(delete_updated_groups=True, merge_appends=True),
)

type Outcome = tuple[object, list[Conflict], object]


def started() -> Repository:
    repository = Repository.create(MemoryStore())
    write(repository, *BASE)
    return repository


def write(repository: Repository, *changes: Change) -> None:
    """A commit for each change, so that there are many."""
    for change in changes:
        session = (
            repository.rearrange_session("main")
            if isinstance(change, Move)
            else repository.writable_session("main")
        )
        apply(session, change)
        session.commit("theirs", allow_empty=True)


def described(changes: ChangeSet) -> object:
    """All that a set of changes says."""
    return (
        dict(changes.edited),
        changes.created,
        changes.updated,
        changes.deleted,
        changes.moved,
        {
            node_id: (pending.changes().refs.index.tolist(), pending.changes().deleted.tolist())
            for node_id, pending in changes.chunks.items()
            if len(pending.changes().index)
        },
        changes.overtaken,
    )


def outcome(session: Session, repository: Repository, policy: Policy, leap: int) -> Outcome:
    """Where the changes are in the end, and why not further."""
    start = Position(session.base, session.copy_changes())
    at, info, conflicts = start, repository.repo_info(), list[Conflict]()
    try:
        for reached in replay(session.files, info, "main", start, policy, longest_leap=leap):
            at = reached
    except RebaseFailedError as error:
        conflicts = error.conflicts
    return at.base.id, conflicts, described(at.changes)


few = settings(max_examples=scaled(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@few
@given(
    ours=st.lists(edits, min_size=1, max_size=3) | st.lists(moves, min_size=1, max_size=2),
    theirs=st.lists(edits | edits | moves, min_size=2, max_size=6),
    policy=st.sampled_from(POLICIES),
)
@example(ours=[Define("/n")], theirs=[Define("/n"), Delete("/n")], policy=POLICIES[0])
@example(ours=[Define("/e/n")], theirs=[Delete("/e"), Define("/e")], policy=POLICIES[0])
@example(ours=[Delete("/e")], theirs=[Define("/e/n"), Delete("/e/n")], policy=POLICIES[0])
@example(ours=[Write("/b", 0)], theirs=[Move("/b", "/n"), Move("/n", "/b")], policy=POLICIES[0])
@example(
    ours=[Write("/b", 0)], theirs=[Write("/b", 1)] * 5 + [Write("/b", 0, 2)], policy=POLICIES[1]
)
def test_a_leap_ends_where_single_steps_do(
    ours: list[Change], theirs: list[Change], policy: Policy
) -> None:
    repository = started()
    moves_first = isinstance(ours[0], Move)
    session = (
        repository.rearrange_session("main") if moves_first else repository.writable_session("main")
    )
    for change in ours:
        apply(session, change)
    write(repository, *theirs)
    assert outcome(session, repository, policy, 256) == outcome(session, repository, policy, 1)


def test_a_node_that_came_back_under_its_id_was_gone_in_between() -> None:
    repository = started()
    session = repository.writable_session("main")
    apply(session, Write("/b", 0))
    write(repository, Delete("/b"))
    revert(repository, repository.lookup_branch("main"), Edit(branch="main"))
    assert outcome(session, repository, Policy(), 256) == outcome(session, repository, Policy(), 1)
    assert outcome(session, repository, Policy(), 256)[1]


def test_of_many_snapshots_only_the_last_is_read() -> None:
    store = MemoryStore()
    repository = Repository.create(store)
    write(repository, *BASE)
    counted = Counting(store)
    mine = Repository.open(counted)
    session = mine.writable_session("main")
    apply(session, Define("/mine", 2))
    write(repository, *(Write("/b", chunk % 4, 2) for chunk in range(20)))
    known = len(counted.reads)
    session.rebase(Policy())
    read = [each.key for each in counted.reads[known:]]
    assert len([key for key in read if key.startswith("snapshots/")]) == 1
    assert len([key for key in read if key.startswith("transactions/")]) == 20
    session.commit("mine")
    found = repository.writable_session("main")
    assert found.find_node(NodePath("/mine")) is not None
