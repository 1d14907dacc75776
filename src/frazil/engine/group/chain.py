"""Commits on top of each other, none of which is in the history yet: what one swap will make.

A ticket fits if it is not in the ops log, if its base is in the history, and if no commit since,
of the history or of the chain, conflicts with it by the strictest rule. It must fit on the history
alone as well: what an author finds not to fit there, no one will carry (docs/design/035).
"""

import os
from collections.abc import Sequence

from frazil.clock import Clock
from frazil.dataclass import dataclass
from frazil.engine.changes.change_set import ChangeSet
from frazil.engine.changes.transaction_logs import unite_logs
from frazil.engine.commit.commit import CommitRequest, transaction_log, write_files
from frazil.engine.files.files import Files, Outgoing
from frazil.engine.files.object_keys import TICKET_BYTES
from frazil.engine.group.ticket import Ticket
from frazil.engine.merge.rebase import rebase_strictly, steps_since
from frazil.engine.refs.repo_settings import commits_in_groups
from frazil.errors import InternalError, ObjectNotFoundError
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import Snapshot
from frazil.format.transaction_log import TransactionLog
from frazil.format.update_log import Availability, NewCommit, UpdateLog
from frazil.ids import SnapshotId
from frazil.objectstore.protocol import ABSENT

_RANDOM_BYTES = SnapshotId.size - TICKET_BYTES

type Logs = dict[SnapshotId, TransactionLog]
"""Transaction logs that were read; they never change."""


@dataclass(frozen=True, slots=True, eq=False)
class LoggedTickets:
    """Snapshots of the commits on one page of the ops log, by the ticket they would be of."""

    snapshots: dict[bytes, SnapshotId]
    since_us: int  # the page has every entry after this time

    @classmethod
    def of(cls, log: UpdateLog, *, is_last: bool) -> "LoggedTickets":
        _, ids = log.commits()
        found = [SnapshotId(raw.tobytes()) for raw in ids]
        oldest_us = 0 if is_last or not len(log) else int(log.times_us[-1])
        return cls({each.raw[:TICKET_BYTES]: each for each in found}, oldest_us)


class Chain:
    """Commits to be made on top of `info`, in order, with the files that they need."""

    def __init__(self, files: Files, clock: Clock, info: RepoInfo, branch: str, logs: Logs) -> None:
        """`logs` are those that were read before; more are added."""
        self.branch = branch
        self.info = info
        self.carried: list[Snapshot] = []
        self.logged = LoggedTickets.of(
            UpdateLog.of(info.updates), is_last=info.before_updates is None
        )
        self._files, self._clock, self._logs = files, clock, logs
        tip = info.snapshot_of_branch(branch)
        is_open = info.status.availability is Availability.ONLINE and commits_in_groups(info)
        # None if nothing can be committed
        self._start = files.fetch_snapshot(tip) if is_open and tip is not None else None
        self._since: dict[SnapshotId, _Since] = {}
        self._on_top: TransactionLog | None = None

    @property
    def kinds(self) -> list[NewCommit]:
        return [NewCommit(self.branch, each.id) for each in self.carried]

    @property
    def result(self) -> RepoInfo:
        """The repo info with the commits of the chain."""
        info = self.info
        parent = info.snapshot_of_branch(self.branch)
        for snapshot in self.carried:
            info = info.with_snapshot(
                snapshot.id,
                parent=parent,
                flushed_at_us=snapshot.flushed_at_us,
                message=snapshot.message,
                metadata=snapshot.metadata,
            ).with_branch(self.branch, snapshot.id)
            parent = snapshot.id
        return info

    def moved_to(self, info: RepoInfo, tickets: Sequence[tuple[bytes, Ticket]]) -> "Chain | None":
        """The same commits on top of a later version of the entry point, without new files.

        `tickets` are those of the chain. None if one of them does not fit there, or if the branch
        is elsewhere; how the tickets fit on each other depends on nothing else.
        """
        chain = Chain(self._files, self._clock, info, self.branch, self._logs)
        if self._start is None or chain._start is None or chain._start.id != self._start.id:
            return None
        if any(chain.fit(number, ticket) is None for number, ticket in tickets):
            return None
        chain.carried, chain._on_top = self.carried, self._on_top
        return chain

    def refuses(self, ticket: Ticket) -> bool:
        """True if no one will ever carry the ticket from this version of the entry point.

        False also where others may know more, such as a log that was deleted meanwhile.
        """
        if self._start is None or ticket.branch != self.branch:
            return True
        since = self._history_since(ticket.base)
        if since.log is None:
            return since.is_apart
        return self._rebase(ticket, self._start, since.log) is None

    def fit(self, number: bytes, ticket: Ticket) -> ChangeSet | None:
        """The changes relative to the end of the chain; None if the ticket does not fit."""
        if self._start is None or ticket.branch != self.branch:
            return None
        if number in self.logged.snapshots or ticket.logged_us < self.logged.since_us:
            return None
        if (log := self._history_since(ticket.base).log) is None:
            return None
        changes = self._rebase(ticket, self._start, log)
        if changes is None or self._on_top is None:
            return changes
        together = unite_logs(self._on_top.id, [log, self._on_top])
        return self._rebase(ticket, self.carried[-1], together)

    def append(
        self, number: bytes, ticket: Ticket, changes: ChangeSet, outgoing: Outgoing
    ) -> SnapshotId:
        """Puts the files of the commit; `changes` are what `fit` returned."""
        base = self.carried[-1] if self.carried else self._start
        if base is None:
            raise InternalError("there is nothing that a commit could be put on")
        request = CommitRequest(
            branch=self.branch,
            base=base,
            changes=changes,
            message=ticket.message,
            metadata=ticket.metadata,
            when=ABSENT,
            checks_clock=not self.carried,
        )
        new_id = SnapshotId(number + os.urandom(_RANDOM_BYTES))
        snapshot = write_files(self._files, self._clock, request, new_id, outgoing)
        log = transaction_log(new_id, changes)
        self._logs[new_id] = log
        self._on_top = log if self._on_top is None else unite_logs(new_id, [self._on_top, log])
        self.carried.append(snapshot)
        return new_id

    def _rebase(self, ticket: Ticket, onto: Snapshot, log: TransactionLog) -> ChangeSet | None:
        return rebase_strictly(ticket.changes, ticket.changes.base, onto.nodes, log)

    def _history_since(self, base: SnapshotId) -> "_Since":
        if base not in self._since:
            self._since[base] = self._unite_since(base)
        return self._since[base]

    def _unite_since(self, base: SnapshotId) -> "_Since":
        if not _is_in_history(self.info, self.branch, base):
            return _Since(None, is_apart=True)
        steps = steps_since(self.info, self.branch, base)
        wanted = [log for step in steps for log in step.logs]
        try:
            logs = fetch_logs(self._files, wanted, self._logs)
        except ObjectNotFoundError:
            return _Since(None)
        return _Since(None if any(log.moved for log in logs) else unite_logs(base, logs))


@dataclass(frozen=True, slots=True, eq=False)
class _Since:
    """All changes of the history since a snapshot; None if a log is missing, or nodes moved."""

    log: TransactionLog | None
    is_apart: bool = False  # the snapshot is not in the history


def fetch_logs(files: Files, wanted: Sequence[SnapshotId], known: Logs) -> list[TransactionLog]:
    missing = [each for each in wanted if each not in known]
    known.update(zip(missing, files.fetch_logs(missing) if missing else (), strict=True))
    return [known[each] for each in wanted]


def _is_in_history(info: RepoInfo, branch: str, snapshot: SnapshotId) -> bool:
    """True also if the snapshot was expired, and its log is named by a successor."""
    snapshots = info.snapshots
    return any(
        snapshots.id(row) == snapshot or snapshot.raw in snapshots.pruned_logs(row)
        for row in snapshots.ancestors(info.branches[branch])
    )
