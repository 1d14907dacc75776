"""Tells whether an update that was refused had been stored after all.

The store recognises a write of its own whose reply was lost, as long as it is still there. If
another client has replaced it since, only the ops log tells: each update cites the backup, of a
random name, that its writer made of what it replaced.
"""

from collections.abc import Callable
from dataclasses import dataclass

from frazil.errors import FormatError, ObjectNotFoundError
from frazil.format.repo_info import LogPage, RepoInfo
from frazil.format.update_log import (
    CommitAmended,
    NewCommit,
    NewDetachedSnapshot,
    UpdateKind,
    UpdateLog,
)
from frazil.ids import SnapshotId


@dataclass(frozen=True, slots=True, eq=False)
class RefusedUpdate:
    """An update that the store refused. `backup` is the copy of what it would have replaced."""

    info: RepoInfo
    kind: UpdateKind
    backup: str

    @property
    def recorded_us(self) -> int:
        return UpdateLog.of(self.info.updates).newest_us


def was_stored(
    info: RepoInfo, *, refused: RefusedUpdate, fetch_page: Callable[[str], LogPage]
) -> bool | None:
    """True if a refused update is one of those that led to `info`.

    The log is followed, page after page, until its entries are older than the update. None if it
    cannot be followed that far.
    """
    made = _listed_snapshot(refused.kind)
    if made is not None and info.snapshots.find(made) >= 0:
        return True
    log, following, since_us = UpdateLog.of(info.updates), info.before_updates, refused.recorded_us
    pages = set[str]()
    while not (refused.backup == following or refused.backup in log.backups):
        if following is None or (len(log) and int(log.times_us[-1]) < since_us):
            return False
        if following in pages:
            return None
        pages.add(following)
        try:
            page = fetch_page(following)
        except (ObjectNotFoundError, FormatError):
            return None
        log, following = page.updates, page.before_updates
    return True


def _listed_snapshot(kind: UpdateKind) -> SnapshotId | None:
    """The snapshot that an update lists, which no other client knows before it is stored."""
    match kind:
        case NewCommit(_, new) | NewDetachedSnapshot(new) | CommitAmended(_, _, new):
            return new
    return None


def was_committed(
    new: SnapshotId,
    *,
    parent: SnapshotId,
    tip: SnapshotId | None,
    parent_of: Callable[[SnapshotId], SnapshotId | None],
) -> bool:
    """True if `new`, made on top of `parent`, is in the history of `tip`.

    For version 1, which has no ops log. Looks at the snapshots that came after `parent` only.
    """
    at = tip
    while at is not None and at not in (new, parent):
        at = parent_of(at)
    return at == new
