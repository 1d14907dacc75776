"""Tickets: what was staged is what is committed, and damaged ones are refused."""

import hashlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.clock import system_clock
from frazil.engine.group.chain import Chain
from frazil.engine.group.ticket import Ticket, can_be_staged, decode_ticket, encode_ticket
from frazil.engine.merge.rebase import Rebasing
from frazil.engine.merge.solver import Policy
from frazil.engine.refs.entry import RepoInfoEntry
from frazil.engine.refs.repo_settings import GROUP_COMMIT
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import FormatError, RebaseFailedError
from frazil.format.repo_info import RepoInfo
from frazil.format.update_log import UpdateLog
from frazil.ids import SnapshotId
from frazil.objectstore.memory import MemoryStore
from tests.examples_count import scaled
from tests.unit.engine.some_changes import BASE, Change, Move, apply, contents, edits

NUMBER = b"a ticket"
changes = st.lists(edits, max_size=6)


def create() -> Repository:
    repository = Repository.create(MemoryStore())
    repository.update_metadata({GROUP_COMMIT: True})
    session = repository.writable_session("main")
    for change in BASE:
        apply(session, change)
    session.commit("base")
    return repository


def edit(repository: Repository, wanted: list[Change]) -> Session:
    session = repository.writable_session("main")
    for change in wanted:
        apply(session, change)
    return session


def ticket_of(repository: Repository, session: Session) -> bytes | None:
    found = session.copy_changes()
    if not can_be_staged(found):
        return None
    logged_us = UpdateLog.of(repository.repo_info().updates).newest_us
    return encode_ticket(
        Ticket(
            branch="main",
            base=session.snapshot_id,
            message="staged",
            metadata={"of": ["an", {"author": 1}]},
            logged_us=logged_us,
            changes=found,
        )
    )


def carry(repository: Repository, data: bytes) -> SnapshotId | None:
    """The snapshot that a carrier makes of the ticket; None if it does not fit."""
    ticket = decode_ticket(data)
    entry = RepoInfoEntry(repository.files, system_clock)
    old = entry.read()
    chain = Chain(repository.files, system_clock, old.info, "main", {})
    fitting = chain.fit(NUMBER, ticket)
    assert fitting is None or not chain.refuses(ticket)
    if fitting is None:
        return None
    with repository.files.outgoing() as outgoing:
        made = chain.append(NUMBER, ticket, fitting, outgoing)
        stored = entry.replace_once(old, chain.result, chain.kinds, ready=outgoing.settle)
        assert isinstance(stored, RepoInfo)
    return made


@given(changes, changes)
@settings(max_examples=scaled(60), deadline=None)
def test_a_carried_commit_is_what_its_author_would_have_made(
    ours: list[Change], theirs: list[Change]
) -> None:
    repository = create()
    session = edit(repository, ours)
    edit(repository, theirs).commit("theirs", allow_empty=True)
    tip = repository.lookup_branch("main")
    data = ticket_of(repository, session)
    if data is None:
        return
    made = carry(repository, data)
    if made is None:
        assert theirs  # what no one was in the way of always fits
        return
    assert made.raw.startswith(NUMBER)
    carried = contents(repository, made)
    log = repository.files.fetch_log(made)
    repository.reset_branch("main", tip)
    own = session.commit("own", allow_empty=True, rebasing=Rebasing(Policy()))
    assert contents(repository, own) == carried
    for (name, ids), (_, others) in zip(
        repository.files.fetch_log(own).node_lists(), log.node_lists(), strict=True
    ):
        assert ids.tolist() == others.tolist(), name
    snapshot = repository.files.fetch_snapshot(made)
    assert (snapshot.message, snapshot.metadata) == ("staged", {"of": ["an", {"author": 1}]})


@given(changes, changes)
@settings(max_examples=scaled(40), deadline=None)
def test_what_an_author_cannot_rebase_is_not_carried(
    ours: list[Change], theirs: list[Change]
) -> None:
    repository = create()
    session = edit(repository, ours)
    data = ticket_of(repository, session)
    edit(repository, theirs).commit("theirs", allow_empty=True)
    try:
        session.rebase(Policy())
    except RebaseFailedError:
        assert data is None or carry(repository, data) is None


@given(changes, st.integers(0, 2**32), st.booleans())
@settings(max_examples=scaled(150), deadline=None)
def test_a_damaged_ticket_is_refused(
    ours: list[Change],
    seed: int,
    is_checksum_mended: bool,  # noqa: FBT001 -- drawn
) -> None:
    repository = create()
    data = ticket_of(repository, edit(repository, ours))
    if data is None:
        return
    rng, damaged = random.Random(seed), bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(40 if is_checksum_mended else 0, len(damaged))
        match rng.choice(["flip", "cut", "insert"]):
            case "flip":
                damaged[at] ^= 1 << rng.randrange(8)
            case "cut":
                del damaged[at : at + rng.randint(1, 30)]
            case _:
                damaged[at:at] = rng.randbytes(rng.randint(1, 5))
        if len(damaged) <= 60:
            break
    if is_checksum_mended:  # by a writer that means harm: no decoder may do worse than refuse it
        damaged[8:40] = hashlib.sha256(damaged[40:]).digest()
        try:
            forged = decode_ticket(damaged)
        except FormatError:
            return
        assert can_be_staged(forged.changes)
        return
    if bytes(damaged) != data:
        with pytest.raises(FormatError):
            decode_ticket(damaged)


def test_moves_and_attached_manifests_are_not_staged() -> None:
    repository = create()
    session = repository.rearrange_session("main")
    apply(session, Move("/b", "/c"))
    assert not can_be_staged(session.copy_changes())


def test_a_ticket_of_another_format_is_refused() -> None:
    repository = create()
    data = bytearray(ticket_of(repository, edit(repository, [])) or b"")
    data[7] += 1
    with pytest.raises(FormatError, match="another format"):
        decode_ticket(data)
    with pytest.raises(FormatError):
        decode_ticket(b"")
