"""The ops log: every change of the entry point, newest first, over as many files as it takes.

A repo info file holds one page. Each entry but the newest cites the backup in which it *is* the
newest; when the page is full, the first entry to be dropped leaves its citation behind as
`before_updates`, and the rest of the log is found by following that.

Several entries may be made by one swap, of which there is one backup (group commit,
docs/design/035). It is cited by the entry before them; the others cite none, since there is no file
in which one of them is the newest, and a page never ends among them.

Each backup lists all snapshots of its time. So garbage collection merges the pages of many into one
(`PageMerge`): another backup of what its swap replaces, with a longer page, in which the log goes
on from that swap. Nothing is overwritten, so that readers and crashes find the log in the old
backups or in the new one.

The log also tells whether an update that the store refused had been stored after all, its reply
lost, and replaced by another client since: each update cites the backup, of a random name, that its
writer made of what it replaced.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from frazil.dataclass import dataclass
from frazil.errors import FormatError, ObjectNotFoundError
from frazil.format.repo_info import LogPage, RepoInfo
from frazil.format.update_log import (
    CommitAmended,
    GrowingLog,
    NewCommit,
    NewDetachedSnapshot,
    Update,
    UpdateKind,
    UpdateLog,
)
from frazil.ids import SnapshotId


def record(
    info: RepoInfo, *kinds: UpdateKind, now_us: int, backup: str, page_size: int
) -> RepoInfo:
    """`info` with one more entry for each of `kinds`, oldest first, all of one swap.

    `backup` is the copy of the file that is about to be replaced. Times strictly increase, as other
    clients require, even where the clock does not.
    """
    if len(kinds) == 1 and isinstance(info.updates, GrowingLog):
        newest_us = info.updates.recent[0].updated_at_us
        grown = info.updates.grown(
            Update(kinds[0], max(now_us, newest_us + 1)), backup=backup, size=page_size
        )
        if grown is not None:
            before = grown.dropped or info.before_updates
            return replace(info, updates=grown.log, before_updates=before)
    log = UpdateLog.of(info.updates)
    first_us = max(now_us, log.newest_us + 1)
    new = [Update(kind, first_us + number) for number, kind in enumerate(kinds)]
    page, dropped = log.recorded(*new[::-1], backup=backup).first_page(page_size)
    return replace(info, updates=page, before_updates=dropped or info.before_updates)


def follow(
    name: str | None, fetch_page: Callable[[str], LogPage]
) -> Iterator[tuple[str, LogPage | None]]:
    """The backups in which the log goes on from `name`; None for one that is missing, the last."""
    seen = set[str]()
    while name is not None and name not in seen:  # a damaged chain may bite its own tail
        seen.add(name)
        try:
            page = fetch_page(name)
        except ObjectNotFoundError:
            yield name, None
            return
        yield name, page
        name = page.before_updates


def pages(
    info: RepoInfo, fetch_info: Callable[[], RepoInfo], fetch_page: Callable[[str], LogPage]
) -> Iterator[UpdateLog]:
    """All entries, newest first. A missing backup ends the log, as for other clients.

    If a collection has merged and deleted it meanwhile, the newest repo info says where they are.
    """
    shown_us: int | None = None
    while True:
        before_us, is_whole = shown_us, True
        for log in _pages_of(info, fetch_page):
            if log is None:
                is_whole = False
                break
            page = log if before_us is None else log.before(before_us)
            if len(page):
                shown_us = int(page.times_us[-1])
                yield page
        if is_whole or shown_us == before_us:
            return
        first, info = info.before_updates, fetch_info()
        if info.before_updates == first:
            return


def _pages_of(info: RepoInfo, fetch_page: Callable[[str], LogPage]) -> Iterator[UpdateLog | None]:
    """The entries, newest first; None at last if a backup is missing."""
    yield UpdateLog.of(info.updates)
    for name, page in follow(info.before_updates, fetch_page):
        yield None if page is None else page.updates.found_in(name)


@dataclass(frozen=True, slots=True, eq=False)
class PageMerge:
    """Merges the pages of the ops log that lie in backups, as many as `max_entries` allow.

    Backups made before `settled_us` may be deleted: entries no longer cite them. So a client that
    works with the merged file as its `repo` never divides the log where one of them is needed.
    """

    fetch_page: Callable[[str], LogPage]
    settled_us: int
    max_entries: int

    def pages(self, info: RepoInfo) -> dict[str, LogPage]:
        """The backups that are merged, by name; none if that would not save one."""
        found: dict[str, LogPage] = {}
        entries = len(info.updates)
        first = info.before_updates if entries <= self.max_entries else None
        for name, page in follow(first, self.fetch_page):
            entries += 0 if page is None else len(page.updates)
            if page is None or entries > self.max_entries:
                break
            found[name] = page
        return found if len(found) > 1 else {}  # there will be one, beside that of `info`

    def merge(self, info: RepoInfo) -> RepoInfo | None:
        """`info` with all of these entries; None if there are none to merge."""
        pages = self.pages(info)
        if not pages:
            return None
        logs = [UpdateLog.of(info.updates)]
        logs += [page.updates.found_in(name) for name, page in pages.items()]
        log = UpdateLog.concat(logs).without_backups_before(self.settled_us)
        *_, last = pages.values()
        return replace(info, updates=log, before_updates=last.before_updates)


@dataclass(frozen=True, slots=True, eq=False)
class RefusedUpdate:
    """An update that the store refused, and the backups that were made for it.

    One of them is cited if it was stored all the same.
    """

    info: RepoInfo
    kind: UpdateKind
    backups: tuple[str, ...]

    @property
    def recorded_us(self) -> int:
        return UpdateLog.of(self.info.updates).newest_us


def was_stored(
    info: RepoInfo, *, refused: RefusedUpdate, fetch_page: Callable[[str], LogPage]
) -> bool | None:
    """True if a refused update is in the log of `info`.

    The log is followed, page after page, until its entries are older than the update. None if it
    cannot be followed that far.
    """
    made = _listed_snapshot(refused.kind)
    if made is not None and info.snapshots.find(made) >= 0:
        return True
    log, following, since_us = UpdateLog.of(info.updates), info.before_updates, refused.recorded_us
    pages = set[str]()
    while {following, *log.backups}.isdisjoint(refused.backups):
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
