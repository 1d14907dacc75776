"""Group commit: commits that other writers make, withdraw, or find made; with faults at every step.

Time is not real here: who waits acts, and patience ends when the test says so.
"""

from collections.abc import Buffer, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import frazil
from frazil.engine.files.object_keys import RECEIPT, STAGED
from frazil.engine.group import group_commit
from frazil.engine.group.group_commit import StagedCommit, _Group
from frazil.engine.group.staging import LATE_US, Receipt, StagedTicket
from frazil.engine.merge.rebase import Rebasing
from frazil.engine.merge.solver import Policy, VersionSelection
from frazil.engine.refs.repo_settings import GROUP_COMMIT
from frazil.engine.refs.version import Branch, Exactly
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import (
    PreconditionFailedError,
    RebaseFailedError,
    RefNotFoundError,
    SessionStateError,
    StorageError,
)
from frazil.format.update_log import Availability, RepoStatus
from frazil.ids import SnapshotId
from frazil.maintenance.executor import ThreadExecutor
from frazil.maintenance.expire import ExpireRequest, expire, plan_expire
from frazil.maintenance.gc import GCRequest, collect_garbage, plan_gc
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ALWAYS, Precondition
from frazil.objectstore.wrappers import Verb
from frazil.paths import NodePath
from frazil.testing.hooked_store import HookedStore
from tests.unit.engine.conftest import GROUP, array_metadata

ARRAY = NodePath("/a")
GROUPED = Rebasing(Policy())


class DiedError(BaseException):
    """The process is gone: none of its requests arrives any more."""


@dataclass(slots=True)
class Hooks:
    """At request number `moment` of the writer something happens."""

    moment: int = -1
    act: Callable[[], object] = lambda: None
    count: int = 0
    seen: list[tuple[str, str]] = field(default_factory=list)
    is_dead: bool = False

    def __call__(self, verb: Verb, key: str) -> None:
        if self.is_dead:
            raise DiedError
        self.seen.append((verb, key))
        self.count += 1
        if self.count - 1 == self.moment:
            self.act()


class Writer:
    """A client of its own, with a count of its requests."""

    def __init__(self, store: MemoryStore) -> None:
        self.hooks = Hooks()
        self.store = HookedStore(store)
        self.repository = Repository.open(self.store)

    def edit(self, chunk: int, value: int = 1) -> Session:
        session = self.repository.writable_session("main")
        session.set_chunk(ARRAY, (chunk,), bytes([value]) * 600)
        return session

    def stage(self, chunk: int, value: int = 1) -> StagedCommit:
        return self.staged(self.edit(chunk, value), f"chunk {chunk}")

    def staged(self, session: Session, message: str) -> StagedCommit:
        found = group_commit.stage(
            session.files,
            session.clock,
            branch="main",
            base=session.snapshot_id,
            changes=session.copy_changes(),
            message=message,
            metadata={"by": message},
            tries=5,
        )
        assert found is not None
        return found

    def arm(self, moment: int = -1, act: Callable[[], object] = lambda: None) -> None:
        self.hooks.moment, self.hooks.act, self.hooks.count = moment, act, 0
        self.store.before = self.hooks


def put(staged: StagedCommit) -> None:
    """Stages it, without waiting for anything."""
    staged._area.stage(staged.key, staged._data)


def answer_of(staged: StagedCommit) -> SnapshotId | None:
    """What its author finds out, after whatever has happened to a staged commit."""
    return staged._wait_or_carry()


def lose_patience(staged: StagedCommit) -> None:
    staged._wait = lambda: None  # type: ignore[method-assign]  # it carries at once


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    repository = Repository.create(store)
    repository.update_metadata({GROUP_COMMIT: True})
    session = repository.writable_session("main")
    session.set_node(NodePath("/"), GROUP)
    session.set_node(ARRAY, array_metadata(40))
    session.commit("base")
    return store


def history(store: MemoryStore) -> list[str]:
    found = Repository.open(store).ancestry(Branch("main"))
    return [each.message for each in found][::-1][2:]


def snapshots(store: MemoryStore) -> set[SnapshotId]:
    return {each.id for each in Repository.open(store).ancestry(Branch("main"))}


def kinds(store: MemoryStore) -> list[str]:
    """Entries of the ops log since the first commit."""
    log = [type(each.kind).__name__ for each in Repository.open(store).ops_log()]
    return log[::-1][3:]


def assert_sound(store: MemoryStore) -> None:
    assert frazil.Repository.open(frazil.Storage(store)).verify().errors == []
    messages = history(store)
    assert len(messages) == len(set(messages)), "a commit was made twice"


def listed(store: MemoryStore) -> list[str]:
    return [info.key for info in store.list(STAGED)]


# One carries the other


def test_one_swap_makes_the_commits_of_all_who_wait(store: MemoryStore) -> None:
    waiting = [Writer(store).stage(number) for number in range(3)]
    for each in waiting:
        put(each)
    backups = len(list(store.list("overwritten/")))
    carrier = Writer(store).stage(9)
    lose_patience(carrier)
    made = carrier.commit()
    assert made is not None
    assert history(store) == ["chunk 0", "chunk 1", "chunk 2", "chunk 9"]
    assert kinds(store) == ["NewCommit"] * 4
    assert len(list(store.list("overwritten/"))) == backups + 1
    answers = [answer_of(each) for each in waiting]
    assert {made, *answers} <= snapshots(store)
    assert [each.raw[:8] for each in answers if each] == [each.number for each in waiting]
    repository = Repository.open(store)
    records = list(repository.ancestry(Exactly(made)))
    assert [each.metadata for each in records[:4]] == [
        {"by": f"chunk {number}"} for number in (9, 2, 1, 0)
    ]
    times = [each.flushed_at_us for each in records]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == len(times)
    assert_sound(store)


def test_a_writer_that_loses_a_race_is_grouped_and_is_at_its_own_snapshot(
    store: MemoryStore,
) -> None:
    one, two = Writer(store).edit(1), Writer(store).edit(2)
    first = one.commit("one", {"k": 1}, rebasing=GROUPED)
    second = two.commit("two", {"k": 2}, rebasing=GROUPED)
    assert history(store) == ["one", "two"]
    assert two.snapshot_id == second != first
    assert two.read_only
    record = next(iter(Repository.open(store).ancestry(Exactly(second))))
    assert record.metadata["k"] == 2
    assert listed(store) == []
    assert_sound(store)


def test_who_is_announced_to_be_next_looks_more_often(store: MemoryStore) -> None:
    first, second = Writer(store).stage(1), Writer(store).stage(2)
    put(first)
    put(second)
    group = _Group([StagedTicket(first.key, first.number, 0, is_skipped=False)], {})
    pauses: list[float] = []

    def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 1:
            first._announce(group)
        if len(pauses) == 3:
            first._answer(group, 0.2, is_own_made=True)

    second._sleep = sleep
    assert second._wait() is None  # it carries
    assert group.announced == second.key
    assert len(pauses) == 3
    assert pauses[0] > 2 * max(pauses[1:])
    assert answer_of(second) is not None
    assert_sound(store)


def test_receipts_say_how_long_a_round_takes(store: MemoryStore) -> None:
    older, first, second = (Writer(store).stage(chunk) for chunk in range(3))
    put(first)
    put(second)
    assert answer_of(first) is not None
    put(older)  # so that the second has to wait
    receipt = Receipt.parse(second._area.answer(second.key), second.number)
    assert receipt is not None
    assert 0 <= receipt.round_s < 60
    assert answer_of(second) == receipt.snapshot
    assert second._pace.round_s == pytest.approx(max(receipt.round_s, 0.01))
    for broken in (b"", b"carry", b"\xff", b"x 1", receipt.encode() + b" 1", b"9" * 20 + b" -1"):
        assert Receipt.parse(broken, second.number) is None
    assert Receipt.parse(receipt.encode(), first.number) is None


def test_a_commit_that_was_made_and_cannot_be_read_says_so_and_is_not_made_again(
    store: MemoryStore,
) -> None:
    first, second = Writer(store), Writer(store)
    ahead, session = first.stage(1), second.edit(2)
    first.edit(3).commit("chunk 3")
    put(ahead)
    before = snapshots(store)

    def carry_then_fail(verb: Verb, key: str) -> None:
        if verb == "get" and key.endswith(RECEIPT) and ahead.made is None:
            lose_patience(ahead)
            ahead.made = answer_of(ahead)
        if verb == "get" and any(str(made) in key for made in snapshots(store) - before):
            raise StorageError(f"{key} cannot be read")

    second.store.before = carry_then_fail
    with pytest.raises(StorageError) as raised:
        session.commit("chunk 2", rebasing=GROUPED)
    assert history(store) == ["chunk 3", "chunk 1", "chunk 2"]
    made = Repository.open(store).lookup_branch("main")
    assert raised.value.__notes__ == [f"the commit was made: snapshot {made}"]
    with pytest.raises(SessionStateError):
        session.commit("chunk 2", rebasing=GROUPED)
    assert len(history(store)) == 3


def test_without_the_option_nothing_is_staged(store: MemoryStore) -> None:
    Repository.open(store).set_metadata({})
    one, two = Writer(store), Writer(store)
    first, second = one.edit(1), two.edit(2)
    two.arm()
    first.commit("one", rebasing=GROUPED)
    second.commit("two", rebasing=GROUPED)
    assert not any(key.startswith(STAGED) for _, key in two.hooks.seen)
    assert history(store) == ["one", "two"]


def test_without_rebasing_a_lost_race_is_an_error(store: MemoryStore) -> None:
    one, two = Writer(store).edit(1), Writer(store).edit(2)
    one.commit("one")
    with pytest.raises(Exception, match="expected parent"):
        two.commit("two")


def test_tickets_for_another_branch_wait_there(store: MemoryStore) -> None:
    repository = Repository.open(store)
    repository.create_branch("a/b.c%", repository.lookup_branch("main"))
    other = repository.writable_session("a/b.c%")
    other.set_chunk(ARRAY, (5,), b"5" * 600)
    ours = repository.writable_session("a/b.c%")
    ours.set_chunk(ARRAY, (6,), b"6" * 600)
    other.commit("other", rebasing=GROUPED)
    ours.commit("ours", rebasing=GROUPED)
    found = repository.ancestry(Branch("a/b.c%"))
    assert [each.message for each in found][:2] == ["ours", "other"]
    assert history(store) == []


# What does not fit


def test_a_conflict_is_refused_and_the_ticket_is_never_carried(store: MemoryStore) -> None:
    mine, theirs = Writer(store).edit(1, 1), Writer(store).edit(1, 2)
    theirs.commit("theirs")
    with pytest.raises(RebaseFailedError):
        mine.commit("mine", rebasing=GROUPED)
    assert mine.has_uncommitted_changes
    Writer(store).stage(3).commit()
    assert history(store) == ["theirs", "chunk 3"]
    assert kinds(store) == ["NewCommit"] * 2  # no fence was needed


def test_a_conflict_is_solved_by_its_author(store: MemoryStore) -> None:
    mine, theirs = Writer(store).edit(1, 1), Writer(store).edit(1, 2)
    theirs.commit("theirs")
    policy = Policy(on_chunk_conflict=VersionSelection.UseOurs)
    mine.commit("mine", rebasing=Rebasing(policy))
    assert history(store) == ["theirs", "mine"]
    assert_sound(store)


def test_two_tickets_in_conflict_are_not_both_carried(store: MemoryStore) -> None:
    first, second = Writer(store).stage(1, 1), Writer(store).stage(1, 2)
    put(first)
    put(second)
    carrier = Writer(store).stage(5)
    lose_patience(carrier)
    assert carrier.commit() is not None
    assert history(store) == ["chunk 1", "chunk 5"]
    assert second._wait() is None  # it is told that it was skipped
    assert second._wait_or_carry() is None
    assert_sound(store)


def test_what_fits_only_on_top_of_another_ticket_waits(store: MemoryStore) -> None:
    """Its author would find that it does not fit, and report a failure."""
    group = NodePath("/g")
    one = Writer(store)
    session = one.repository.writable_session("main")
    mine = one.repository.writable_session("main")
    mine.set_node(group, GROUP)
    session.set_node(group, GROUP)
    session.commit("theirs")  # mine cannot be put there any more
    deleting = Writer(store).repository.writable_session("main")
    deleting.delete_node(group)
    put(Writer(store).staged(deleting, "deleted"))
    put(one.staged(mine, "mine"))
    carrier = Writer(store).stage(5)
    lose_patience(carrier)
    carrier.commit()
    assert history(store) == ["theirs", "deleted", "chunk 5"]


def test_damaged_and_unknown_objects_are_left_alone(store: MemoryStore) -> None:
    damaged = Writer(store).stage(1)
    store.put(damaged.key, damaged._data[:-1])
    store.put("staged/main/nonsense", b"x")
    store.put("staged/main/00000000000000001.ZZZZ", b"x")
    carrier = Writer(store).stage(3)
    lose_patience(carrier)
    assert carrier.commit() is not None
    assert "chunk 3" in history(store)
    assert "chunk 1" not in history(store)


def test_the_ticket_of_a_dead_writer_is_carried_for_ten_minutes_only(store: MemoryStore) -> None:
    old, young = Writer(store).stage(1), Writer(store).stage(2)
    put(old)
    put(young)
    data, version, modified_at_us = store._objects[old.key]
    store._objects[old.key] = (data, version, modified_at_us - LATE_US - 1)
    carrier = Writer(store).stage(3)
    lose_patience(carrier)
    carrier.commit()
    assert history(store) == ["chunk 2", "chunk 3"]
    assert old.commit() is not None  # its author may still make it


@pytest.mark.parametrize("how", ["read-only", "deleted", "switched off"])
def test_a_repository_that_takes_no_commits_gets_none(store: MemoryStore, how: str) -> None:
    repository = Repository.open(store)
    repository.create_branch("dev", repository.lookup_branch("main"))
    session = repository.writable_session("dev")
    session.set_chunk(ARRAY, (1,), b"1" * 600)
    found = group_commit.stage(
        session.files,
        session.clock,
        branch="dev",
        base=session.snapshot_id,
        changes=session.copy_changes(),
        message="mine",
        metadata={},
        tries=5,
    )
    assert found is not None
    match how:
        case "read-only":
            repository.set_status(RepoStatus(Availability.READ_ONLY, 1, "closed"))
        case "deleted":
            repository.delete_branch("dev")
        case _:
            repository.set_metadata({})
    assert found.commit() is None
    assert "NewCommit" not in kinds(store)


def test_a_deleted_branch_is_reported_as_today(store: MemoryStore) -> None:
    repository = Repository.open(store)
    repository.create_branch("dev", repository.lookup_branch("main"))
    session = repository.writable_session("dev")
    session.set_chunk(ARRAY, (1,), b"1" * 600)
    group_commit.meet_others(session.files.group_pace)
    repository.delete_branch("dev")
    with pytest.raises(RefNotFoundError):
        session.commit("mine", rebasing=GROUPED)


# Withdrawal


def test_a_withdrawn_commit_is_never_made(store: MemoryStore) -> None:
    staged = Writer(store).stage(1)
    put(staged)
    assert staged.withdraw() is None
    assert kinds(store) == ["MetadataChanged"]  # the fence
    Writer(store).stage(2).commit()
    assert history(store) == ["chunk 2"]
    put(staged)  # a late repetition of the request that staged it
    Writer(store).stage(3).commit()
    assert history(store) == ["chunk 2", "chunk 3"]


def test_an_interrupted_commit_is_withdrawn(store: MemoryStore) -> None:
    put(Writer(store).stage(1))
    staged = Writer(store).stage(2)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    staged._sleep = interrupt
    with pytest.raises(KeyboardInterrupt):
        staged.commit()
    Writer(store).stage(3).commit()
    assert "chunk 2" not in history(store)


def test_an_interrupted_commit_that_was_made_says_so(store: MemoryStore) -> None:
    put(Writer(store).stage(1))
    writer = Writer(store)
    session = writer.edit(2)
    pace = session.files.group_pace
    group_commit.meet_others(pace)

    def carry_and_interrupt(_: float) -> None:
        carrier = Writer(store).stage(3)
        lose_patience(carrier)
        carrier.commit()
        raise KeyboardInterrupt

    defaults = StagedCommit.__init__.__kwdefaults__ or {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(defaults, "sleep", carry_and_interrupt)
        with pytest.raises(KeyboardInterrupt) as caught:
            session.commit("mine", rebasing=GROUPED)
    assert "the commit was made" in "".join(caught.value.__notes__)
    assert session.read_only
    assert session.snapshot_id in snapshots(store)
    assert history(store) == ["chunk 1", "mine", "chunk 3"]


# Something happens before each request of a carrier


def _run_carrier(
    store: MemoryStore, moment: int, act: Callable[[], object]
) -> tuple[SnapshotId | None, StagedCommit]:
    """One waits, the other carries; `act` happens before that request of the carrier."""
    waiting = Writer(store).stage(1)
    put(waiting)
    writer = Writer(store)
    carrier = writer.stage(2)
    lose_patience(carrier)
    writer.arm(moment, act)
    return carrier.commit(), waiting


MOMENTS = range(22)


def test_the_moments_are_all_requests_of_a_carrier(store: MemoryStore) -> None:
    put(Writer(store).stage(1))
    writer = Writer(store)
    carrier = writer.stage(2)
    lose_patience(carrier)
    writer.arm()
    carrier.commit()
    assert writer.hooks.count in MOMENTS


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_carrier_that_dies_takes_no_one_with_it(store: MemoryStore, moment: int) -> None:
    dead = list[bool]()

    def die() -> None:
        dead.append(True)
        raise DiedError

    waiting = Writer(store).stage(1)
    put(waiting)
    writer = Writer(store)
    carrier = writer.stage(2)
    lose_patience(carrier)

    def die_for_good(verb: Verb, key: str) -> None:
        del verb, key
        writer.hooks.count += 1
        if writer.hooks.count > moment:
            die()

    writer.store.before = die_for_good
    try:
        carrier.commit()
    except DiedError:
        assert dead
    writer.store.before = die_for_good
    answer = answer_of(waiting)
    assert answer in snapshots(store)
    assert_sound(store)
    assert history(store).count("chunk 1") == 1
    assert history(store).count("chunk 2") <= 1


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_withdrawal_at_any_moment_of_a_carrier_has_one_answer(
    store: MemoryStore, moment: int
) -> None:
    answers = list[SnapshotId | None]()
    waiting = list[StagedCommit]()

    def withdraw() -> None:
        answers.append(waiting[0].withdraw())

    first = Writer(store).stage(1)
    waiting.append(first)
    put(first)
    writer = Writer(store)
    carrier = writer.stage(2)
    lose_patience(carrier)
    writer.arm(moment, withdraw)
    made = carrier.commit()
    if not answers:
        withdraw()
    Writer(store).stage(3).commit()
    assert made in snapshots(store)
    assert history(store).count("chunk 1") == (answers[0] is not None)
    assert answers[0] is None or answers[0] in snapshots(store)
    assert history(store).count("chunk 2") == 1
    assert_sound(store)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("how", ["commit", "conflict", "tag", "reset", "expire"])
def test_whatever_others_do_meanwhile_each_commit_is_made_once(
    store: MemoryStore, how: str, moment: int
) -> None:
    other = Writer(store)
    tip = other.repository.lookup_branch("main")

    def act() -> None:
        match how:
            case "commit":
                other.edit(7).commit("other")
            case "conflict":
                other.edit(1, 9).commit("other")
            case "tag":
                other.repository.create_tag("t", tip)
            case "reset":
                other.repository.reset_branch("main", tip)
            case _:
                other.edit(7).commit("other")
                _expire(other.repository)

    made, waiting = _run_carrier(store, moment, act)
    answer = answer_of(waiting)
    logged = kinds(store)
    messages = history(store)
    assert frazil.Repository.open(frazil.Storage(store)).verify().errors == []
    if how in {"commit", "tag"}:
        assert {made, answer} <= snapshots(store)
        assert sorted(m for m in messages if m != "other") == ["chunk 1", "chunk 2"]
    if how == "conflict" and "other" in messages:
        assert (answer is None) == ("chunk 1" not in messages)
    assert logged.count("NewCommit") <= 3  # nothing was made twice, even if it is not there now


def _expire(repository: Repository) -> None:
    request = ExpireRequest(older_than_us=repository.clock() + 10**6)
    expire(repository, plan_expire(repository, request))


# Replies that get lost


class LossyStore(HookedStore[MemoryStore]):
    """The next swap takes effect, `act` happens, and the writer is told that it was refused."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.act: Callable[[], object] | None = None

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        version = super().put(key, data, when=when)
        if key == "repo" and self.act is not None:
            act, self.act = self.act, None
            act()
            raise PreconditionFailedError(key, "what is no longer there")
        return version


@pytest.mark.parametrize("others", [0, 1, 5])
def test_a_carrier_whose_reply_is_lost_finds_its_group_in_the_log(
    store: MemoryStore, others: int
) -> None:
    waiting = Writer(store).stage(1)
    put(waiting)
    lossy = LossyStore(store)
    writer = Writer(store)
    writer.repository = Repository.open(lossy)
    carrier = writer.stage(2)
    lose_patience(carrier)

    def go_on() -> None:
        for number in range(others):
            Writer(store).edit(10 + number).commit(f"other {number}")

    lossy.act = go_on
    made = carrier.commit()
    answer = answer_of(waiting)
    assert {made, answer} <= snapshots(store)
    assert history(store)[:2] == ["chunk 1", "chunk 2"]
    assert len(history(store)) == 2 + others
    assert_sound(store)


def test_a_snapshot_file_is_never_overwritten_by_another_try(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = Writer(store).stage(1)
    lose_patience(staged)
    drawn = iter([b"aaaa", b"bbbb"])
    monkeypatch.setattr("frazil.engine.group.chain.os.urandom", lambda _: next(drawn))
    taken = SnapshotId(staged.number + b"aaaa")
    store.put(f"snapshots/{taken}", b"of another carrier")
    assert staged.commit() == SnapshotId(staged.number + b"bbbb")
    assert store.get(f"snapshots/{taken}").data == b"of another carrier"
    assert history(store) == ["chunk 1"]


def test_an_update_that_leaves_the_branch_alone_costs_no_new_files(store: MemoryStore) -> None:
    put(Writer(store).stage(1))
    writer, other = Writer(store), Writer(store)
    carrier = writer.stage(2)
    lose_patience(carrier)
    written = list[str]()

    def before(verb: Verb, key: str) -> None:
        if verb == "put" and key.startswith("snapshots/"):
            written.append(key)
        if (verb, key) == ("put", "repo") and not other.repository.tags():
            other.repository.create_tag("t", other.repository.lookup_branch("main"))

    writer.store.before = before
    assert carrier.commit() in snapshots(store)
    assert len(written) == 2
    assert history(store) == ["chunk 1", "chunk 2"]
    assert_sound(store)


def test_a_ticket_that_was_carried_and_reset_is_not_carried_again(store: MemoryStore) -> None:
    waiting = Writer(store).stage(1)
    put(waiting)
    repository = Repository.open(store)
    tip = repository.lookup_branch("main")
    made = waiting._carry()
    assert isinstance(made, SnapshotId)
    repository.reset_branch("main", tip)
    put(waiting)  # its deletion was lost, say
    carrier = Writer(store).stage(2)
    lose_patience(carrier)
    carrier.commit()
    assert history(store) == ["chunk 2"]
    assert answer_of(waiting) == made


# Collections


def collect(store: MemoryStore, cutoff_us: int) -> None:
    repository = Repository.open(store)
    threads = ThreadExecutor(repository.files)
    plan = plan_gc(repository, GCRequest(cutoff_us=cutoff_us), threads)
    collect_garbage(repository, plan, threads)


def age(store: MemoryStore, prefix: str, by_us: int) -> None:
    for key, (data, version, modified_at_us) in list(store._objects.items()):
        if key.startswith(prefix):
            store._objects[key] = (data, version, modified_at_us - by_us)


def test_a_collection_deletes_what_the_dead_have_staged(store: MemoryStore) -> None:
    dead, withdrawn = Writer(store).stage(1), Writer(store).stage(2)
    put(dead)
    put(withdrawn)
    withdrawn.withdraw()
    store.put(dead.key + RECEIPT, b"carry")
    age(store, STAGED, 7200_000_000)
    live = Writer(store).stage(3)
    put(live)
    collect(store, Repository.open(store).clock() - 3600_000_000)
    assert listed(store) == [live.key]


def test_a_young_ticket_whose_chunks_are_garbage_goes_before_they_do(store: MemoryStore) -> None:
    dead = Writer(store).stage(1)
    age(store, "chunks/", 7200_000_000)  # of a session that was open for long
    put(dead)
    live = Writer(store).stage(2)
    put(live)
    collect(store, Repository.open(store).clock() - 3600_000_000)
    assert listed(store) == [live.key]
    carrier = Writer(store).stage(3)
    lose_patience(carrier)
    carrier.commit()
    assert history(store) == ["chunk 2", "chunk 3"]
    assert_sound(store)


def test_a_carrier_that_read_a_ticket_before_a_collection_loses_to_it(store: MemoryStore) -> None:
    dead = Writer(store).stage(1)
    age(store, "chunks/", 7200_000_000)
    put(dead)
    writer = Writer(store)
    carrier = writer.stage(2)
    lose_patience(carrier)
    done = list[bool]()

    def before(verb: Verb, key: str) -> None:
        if verb == "put" and key.startswith("snapshots/") and not done:
            done.append(True)
            collect(store, Repository.open(store).clock() - 3600_000_000)

    writer.store.before = before
    assert carrier.commit() is not None
    assert done
    assert history(store) == ["chunk 2"]
    assert_sound(store)


def test_copies_have_no_tickets(store: MemoryStore, tmp_path: Path) -> None:
    put(Writer(store).stage(1))
    source = frazil.Repository.open(frazil.Storage(store))
    target = MemoryStore()
    source.clone_to(frazil.Storage(target))
    assert listed(target) == []
    source.export_bundle(tmp_path / "repo.zip")
    copy = frazil.Repository.open_bundle(tmp_path / "repo.zip")
    assert next(info.message for info in copy.ancestry(branch="main")) == "base"
    assert list(copy.storage.store.list(STAGED)) == []
