"""The ops log: every change of the entry point, newest first, over as many files as it takes.

A repo info file holds one page. Each entry but the newest cites the backup in which it *is* the
newest; when the page is full, the first entry to be dropped leaves its citation behind as
`before_updates`, and the rest of the log is found by following that.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from frazil.errors import ObjectNotFoundError
from frazil.format.repo_info import LogPage, RepoInfo
from frazil.format.update_log import GrowingLog, Update, UpdateKind, UpdateLog


def record(
    info: RepoInfo, kind: UpdateKind, *, now_us: int, backup: str, page_size: int
) -> RepoInfo:
    """`info` with one more entry; `backup` is the copy of the file that is about to be replaced.

    Times strictly increase, as other clients require, even where the clock does not.
    """
    if isinstance(info.updates, GrowingLog):
        newest_us = info.updates.recent[0].updated_at_us
        update = Update(kind=kind, updated_at_us=max(now_us, newest_us + 1), backup_path=None)
        grown = info.updates.grown(update, backup=backup, size=page_size)
        if grown is not None:
            before = grown.dropped or info.before_updates
            return replace(info, updates=grown.log, before_updates=before)
    log = UpdateLog.of(info.updates)
    update = Update(kind=kind, updated_at_us=max(now_us, log.newest_us + 1), backup_path=None)
    page, dropped = log.recorded(update, backup=backup).first_page(page_size)
    return replace(info, updates=page, before_updates=dropped or info.before_updates)


def pages(info: RepoInfo, fetch_page: Callable[[str], LogPage]) -> Iterator[UpdateLog]:
    """All entries, newest first. A missing backup ends the log, as for other clients."""
    yield UpdateLog.of(info.updates)
    seen = set[str]()
    name = info.before_updates
    while name is not None and name not in seen:  # a damaged chain may bite its own tail
        seen.add(name)
        try:
            page = fetch_page(name)
        except ObjectNotFoundError:
            return
        yield page.updates.found_in(name)
        name = page.before_updates
