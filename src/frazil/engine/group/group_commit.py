"""A commit that is staged, and made by whichever writer swaps next. See docs/design/035.

    waiting    polls for an answer, until one comes or patience is over
    carrying   reads the entry point, then the tickets; puts the commits of all that fit on top of
               the tip, and swaps; then answers and deletes the tickets
    giving up  buries the ticket, then reads the entry point; if the ticket fits there, someone may
               be about to carry it, and the entry point has to change once before the ops log tells

The orders "reads, then lists" and "buries, then reads" are what makes it safe: the models in
proofs/ show what happens without them.
"""

import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import field
from enum import Enum, auto
from functools import cached_property

from frazil.clock import Clock
from frazil.dataclass import dataclass
from frazil.engine.changes.change_set import ChangeSet
from frazil.engine.files.caches import StoredRepoInfo
from frazil.engine.files.files import Files, GroupPace, Outgoing
from frazil.engine.files.object_keys import RECEIPT, TICKET_BYTES, ticket_key
from frazil.engine.group.chain import Chain, LoggedTickets, Logs
from frazil.engine.group.staging import (
    CARRY,
    NEXT,
    SKIPPED,
    Receipt,
    StagedTicket,
    StagingArea,
)
from frazil.engine.group.ticket import (
    MAX_BYTES,
    Ticket,
    can_be_staged,
    decode_ticket,
    encode_ticket,
)
from frazil.engine.refs.entry import RepoInfoEntry
from frazil.engine.refs.ops_log import RefusedUpdate
from frazil.errors import (
    ConflictError,
    FormatError,
    IcechunkError,
    InternalError,
    PreconditionFailedError,
    SessionStateError,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.generation import Generation
from frazil.format.repo_info import RepoInfo
from frazil.format.update_log import MetadataChanged, UpdateLog
from frazil.ids import SnapshotId
from frazil.objectstore.protocol import ABSENT, ALWAYS

_PATIENCE = 4.0  # rounds, if the first in line does not carry
_PATIENCE_BY_RANK = 1.0  # and so many for each ticket in front: one loses patience at a time
_GUESSED_S, _GUESSED_TICKET_S = 0.3, 0.02  # a round, and for each ticket, of one that met no other
_FIRST_LOOK, _NEXT_LOOKS = 0.9, 0.25  # after so many rounds
_LOOK_S = 0.006  # of all who wait together no more often: looking must not slow down who carries
_NEXT_LOOK_S = 0.05  # of the one who is to carry next
_RANKED_EVERY = 4.0  # rounds
_MOST_CARRIED = 250
_MANY = 8  # tickets: a round is worth an announcement
_SWAPS = 4  # tries with the same files
# Of others: written by a client that means harm, or by one of another version with a bug.
_BAD_TICKET = (FormatError, InternalError, LookupError, ValueError, ArithmeticError)
_PAGE_SHARE = 4  # so much of a page of the ops log is the most that one swap may add
_STAGED_IN_A_ROW = 3  # commits after one that met others


class _Turn(Enum):
    """The end of carrying, if the commit was not made."""

    OVERTAKEN = auto()  # the swap was refused
    ONLY_OTHERS = auto()  # the ticket did not fit on top of those that were carried
    REFUSED = auto()  # the ticket does not fit


class _NameTakenError(Exception):
    """Another try of a ticket has drawn the same name for its snapshot."""


@dataclass(slots=True, eq=False)
class _Group:
    """Tickets that one carrier has read, and what became of them."""

    chosen: Sequence[StagedTicket]
    data: Mapping[str, bytes]  # by key, without withdrawn ones
    carried: dict[str, tuple[bytes, Ticket]] = field(default_factory=dict)
    made: dict[str, SnapshotId] = field(default_factory=dict)  # true once the chain is swapped
    skipped: list[str] = field(default_factory=list)  # do not fit
    announced: str | None = None  # who was told to be the next to carry


def is_possible(files: Files) -> bool:
    """True if commits can be staged. Local directories have a queue instead: refs/waiting.py."""
    return files.settings.generation is Generation.V2 and files.store.directory is None


def should_stage(pace: GroupPace) -> bool:
    """True if the last commits met others, so that one alone would probably lose."""
    if not pace.staged_next:
        return False
    pace.staged_next -= 1
    return True


def meet_others(pace: GroupPace) -> None:
    pace.staged_next = _STAGED_IN_A_ROW


def look_for_others(files: Files, branch: str) -> None:
    """Notices tickets, in the background: who always wins alone would not learn of them."""

    def look() -> None:
        if StagingArea(files, branch).list().tickets:
            meet_others(files.group_pace)

    files.caches.background.submit(look)


def stage(
    files: Files,
    clock: Clock,
    *,
    branch: str,
    base: SnapshotId,
    changes: ChangeSet,
    message: str,
    metadata: dict[str, Json],
    tries: int,
) -> "StagedCommit | None":
    """A commit to be staged; None if only its author can make it."""
    info = files.newest_repo_info
    if info is None or not can_be_staged(changes):
        return None
    ticket = Ticket(
        branch=branch,
        base=base,
        message=message,
        metadata=metadata,
        logged_us=UpdateLog.of(info.updates).newest_us,
        changes=changes,
    )
    data = encode_ticket(ticket)
    is_small = len(data) <= MAX_BYTES
    return StagedCommit(files, clock, ticket, data, tries=tries) if is_small else None


class StagedCommit:
    """One commit, from its staging to the answer; `data` is the ticket as it is staged."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        ticket: Ticket,
        data: bytes,
        *,
        tries: int = 1000,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._data = data
        self._branch, self._logged_us = ticket.branch, ticket.logged_us
        self.number = os.urandom(TICKET_BYTES)
        self.key = ticket_key(ticket.branch, clock(), self.number)
        self._files, self._clock = files, clock
        self._entry = RepoInfoEntry(files, clock)
        self._area = StagingArea(files, ticket.branch)
        self._tries = tries
        self._sleep, self._now, self._uniform = sleep, now, uniform
        self.made: SnapshotId | None = None
        self._staged_at = now()
        self._pace = files.group_pace
        self._logs: Logs = {}

    @cached_property
    def _ticket(self) -> Ticket:
        """The ticket as it is decoded: its author judges by the same values as others."""
        return decode_ticket(self._data)

    def commit(self) -> SnapshotId | None:
        """The snapshot; None if the commit was not made, and never will be.

        If it fails or is interrupted, the commit is withdrawn; if it turns out to be made, that is
        returned, or noted with an interruption.
        """
        try:
            self._area.stage(self.key, self._data)
            self._staged_at = self._now()
            self.made = self._wait_or_carry()
        except BaseException as failure:
            self.made = self._withdraw_after(failure)
            if self.made is None:
                raise
            if not isinstance(failure, Exception):
                failure.add_note(f"the commit was made: snapshot {self.made}")
                raise
        return self.made

    # Waiting

    def _wait(self) -> SnapshotId | None:
        """None if it is this writer's turn to carry."""
        staged = self._area.list()
        rank = staged.before(self.key)
        if not rank:
            return None
        meet_others(self._pace)
        ranked, round_s = self._now(), self._pace.round_s
        if round_s is None:
            round_s = _GUESSED_S + _GUESSED_TICKET_S * rank
        end = ranked + round_s * (_PATIENCE + _PATIENCE_BY_RANK * rank)
        least_s = _LOOK_S * len(staged.tickets)
        pause_s = max(_FIRST_LOOK * round_s, least_s)
        while self._now() < end:
            self._sleep(pause_s * self._uniform(0.7, 1.3))
            answer = self._area.answer(self.key)
            if (receipt := Receipt.parse(answer, self.number)) is not None:
                self._pace.follow(receipt.round_s)
                self._forget([self.key + RECEIPT])
                return receipt.snapshot
            if answer is not None and answer != NEXT:
                return None
            pause_s = max(_NEXT_LOOKS * round_s, least_s) if answer is None else _NEXT_LOOK_S
            if self._now() - ranked > _RANKED_EVERY * round_s:
                before, rank, ranked = rank, self._area.list().before(self.key), self._now()
                if not rank:
                    return None
                if rank < before:  # someone carries: no need to help
                    end = ranked + round_s * (_PATIENCE + _PATIENCE_BY_RANK * rank)
        return None

    # Carrying

    def _wait_or_carry(self) -> SnapshotId | None:
        for _ in range(max(1, self._tries)):
            if (answer := self._wait()) is not None:
                return answer
            match self._carry():
                case SnapshotId() as made:
                    return made
                case _Turn.OVERTAKEN:
                    self._pace.lost()
                case _Turn.ONLY_OTHERS:
                    pass
                case _Turn.REFUSED:
                    return self.withdraw()
        if (late := self.withdraw()) is None:
            raise ConflictError(message=f"the commit lost {self._tries} races in a row")
        return late

    def _carry(self) -> "SnapshotId | _Turn":
        began = self._now()
        old = self._entry.read()
        if (made := self._find(old.info)) is not None:
            self._forget([self.key, self.key + RECEIPT])
            return made
        # The tickets are listed and read after the entry point, and at the same time as the tip.
        group = self._files.pool.beside(lambda: self._cache_tip(old.info), self._read_group)
        chain = Chain(self._files, self._clock, old.info, self._branch, self._logs)
        if chain.fit(self.number, self._ticket) is None:
            return _Turn.REFUSED
        if len(group.chosen) > 1:
            meet_others(self._pace)
        try:
            with self._files.outgoing() as outgoing:
                self._build(chain, group, outgoing)
                if not chain.carried:
                    return _Turn.REFUSED
                if len(chain.carried) >= _MANY:
                    self._files.caches.background.submit(lambda: self._announce(group))
                is_done = self._swap(old, chain, group, outgoing)
        except (_NameTakenError, PreconditionFailedError):
            is_done = False
        if not is_done:
            return _Turn.OVERTAKEN
        self._pace.won()
        own, round_s = group.made.pop(self.key, None), self._now() - began
        self._pace.follow(round_s)
        self._answer(group, round_s, is_own_made=own is not None)
        return _Turn.ONLY_OTHERS if own is None else own

    def _cache_tip(self, info: RepoInfo) -> None:
        tip = info.snapshot_of_branch(self._branch)
        with suppress(IcechunkError):  # raised again when it is needed
            if tip is not None:
                self._files.fetch_snapshot(tip)

    def _read_group(self) -> "_Group":
        age_us = int((self._now() - self._staged_at) * 1e6)
        chosen = self._choose(self._area.list().young(self.key, age_us))
        others = [each.key for each in chosen if each.key != self.key]
        return _Group(chosen, self._area.read(others))

    def _swap(self, old: StoredRepoInfo, chain: Chain, group: "_Group", outgoing: Outgoing) -> bool:
        """True if the chain is part of the history.

        If the entry point was changed, but not the branch, the chain may fit there just as well.
        """

        def settle() -> None:
            try:
                outgoing.settle()
            except PreconditionFailedError as error:  # not to be taken for a refused swap
                raise _NameTakenError from error

        for _ in range(_SWAPS):
            result = self._entry.replace_once(old, chain.result, chain.kinds, ready=settle)
            if not isinstance(result, RefusedUpdate):
                return True
            old = self._entry.read()
            if self._entry.was_done(old.info, result):
                return True
            # Read again after the entry point: one of them may have been withdrawn.
            others = [key for key in group.carried if key != self.key]
            there = self._area.read(others)
            moved = chain.moved_to(old.info, list(group.carried.values()))
            if moved is None or len(there) < len(others):
                return False
            chain = moved
        return False

    def _choose(self, tickets: Sequence[StagedTicket]) -> list[StagedTicket]:
        """Oldest first, and its own among them."""
        most = max(1, min(_MOST_CARRIED, self._files.settings.updates_per_file // _PAGE_SHARE))
        others = [each for each in tickets if each.key != self.key][: most - 1]
        own = StagedTicket(self.key, self.number, 0, is_skipped=False)
        return sorted([*others, own], key=lambda each: each.key)

    def _build(self, chain: Chain, group: "_Group", outgoing: Outgoing) -> None:
        """Puts all that fit on the chain, while there is time; its own in any case."""
        end = self._now() + self._pace.budget_s
        data, skipped = group.data, group.skipped
        for each in group.chosen:
            if self._now() > end and each.key != self.key:
                continue
            if (made := chain.logged.snapshots.get(each.number)) is not None:
                group.made[each.key] = made  # by a carrier that died before it said so
                continue
            try:
                if each.key == self.key:
                    ticket = self._ticket
                elif each.key in data:
                    ticket = decode_ticket(data[each.key])
                else:
                    continue
                changes = chain.fit(each.number, ticket)
                if changes is None:
                    skipped.append(each.key)
                else:
                    group.made[each.key] = chain.append(each.number, ticket, changes, outgoing)
                    group.carried[each.key] = each.number, ticket
            except _BAD_TICKET:
                if each.key == self.key:
                    raise
                skipped.append(each.key)

    def _answer(self, group: "_Group", round_s: float, *, is_own_made: bool) -> None:
        """Receipts, and a hint for the next to carry. What fails here only costs others time."""
        made, skipped = group.made, group.skipped
        answers = {key: Receipt(each, round_s).encode() for key, each in made.items()}
        with suppress(IcechunkError):
            self._area.put_answers(answers | dict.fromkeys(skipped, SKIPPED))
            own = [self.key, self.key + RECEIPT] if is_own_made else []
            first = self._files.pool.beside(
                lambda: self._area.remove([*answers, *own]),
                lambda: self._first_waiting({*answers, *skipped, self.key}),
            )
            if first is not None:
                when = ALWAYS if first == group.announced else ABSENT
                self._area.put_answers({first: CARRY}, when=when)

    def _announce(self, group: "_Group") -> None:
        """Lets the next to carry look more often: it comes too late for this group."""
        with suppress(IcechunkError):
            if first := self._first_waiting({each.key for each in group.chosen}):
                group.announced = first
                self._area.put_answers({first: NEXT}, when=ABSENT)

    def _first_waiting(self, answered: AbstractSet[str]) -> str | None:
        """The key of the oldest ticket that is not one of these."""
        waiting = (each for each in self._area.list().tickets if each.key not in answered)
        return next((each.key for each in waiting if not each.is_skipped), None)

    # Giving up

    def withdraw(self) -> SnapshotId | None:
        """None if the commit was not made, and never will be; otherwise the snapshot."""
        self._area.bury(self.key)
        old = self._entry.read()  # after the ticket was buried
        if (made := self._find(old.info)) is not None:
            return made
        self._forget([self.key + RECEIPT])
        chain = Chain(self._files, self._clock, old.info, self._branch, self._logs)
        if chain.refuses(self._ticket):
            return None
        # A carrier may have read the ticket: only from here on no one can win with it.
        self._entry.replace_once(old, old.info, [MetadataChanged()])
        return self._find(self._entry.fetch())

    def _withdraw_after(self, failure: BaseException) -> SnapshotId | None:
        """None if it was not made, or if that cannot be found out because of another failure."""
        try:
            return self.withdraw()
        except Exception as second:  # noqa: BLE001 -- the first failure is the one to report
            failure.add_note(f"the commit could not be withdrawn, and may still be made: {second}")
            return None

    def _find(self, info: RepoInfo) -> SnapshotId | None:
        """The snapshot of this ticket in the ops log, to any page."""
        log, following, seen = UpdateLog.of(info.updates), info.before_updates, set[str]()
        while True:
            page = LoggedTickets.of(log, is_last=following is None)
            if (made := page.snapshots.get(self.number)) is not None:
                return made
            if following is None or page.since_us <= self._logged_us:
                return None
            if following in seen:
                break
            seen.add(following)
            try:
                found = self._files.fetch_log_page(following)
            except IcechunkError as error:
                raise _lost_log_error() from error
            log, following = found.updates, found.before_updates
        raise _lost_log_error()

    def _forget(self, keys: list[str]) -> None:
        """Deletes objects that no one needs any more, when there is time."""
        area = self._area
        self._files.caches.background.submit(lambda: area.remove(keys))


def _lost_log_error() -> SessionStateError:
    return SessionStateError(
        "it cannot be told whether the commit was made: the ops log does not reach back far enough"
    )
