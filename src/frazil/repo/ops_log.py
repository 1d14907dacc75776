"""The ops log: every change of the entry point, newest first, over as many files as it takes.

A repo info file holds one page. Each entry but the newest cites the backup in which it *is* the
newest; when the page is full, the first entry to be dropped leaves its citation behind as
`before_updates`, and the rest of the log is found by following that.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from frazil.errors import ObjectNotFoundError
from frazil.format.repo_info import RepoInfo
from frazil.format.updates import Update, UpdateKind


def record(
    info: RepoInfo, kind: UpdateKind, *, now_us: int, backup: str, page_size: int
) -> RepoInfo:
    """`info` with one more entry; `backup` is the copy of the file that is about to be replaced.

    Times strictly increase, as other clients require, even where the clock does not.
    """
    newest, *older = info.updates
    at_us = max(now_us, newest.updated_at_us + 1)
    updates = [Update(kind=kind, updated_at_us=at_us, backup_path=None)]
    updates += [replace(newest, backup_path=backup), *older]
    for place in range(max(1, page_size), len(updates)):
        if (dropped := updates[place].backup_path) is not None:
            # Entries without a backup (a migration made them) exist nowhere else: kept.
            return replace(info, updates=tuple(updates[:place]), before_updates=dropped)
    return replace(info, updates=tuple(updates))


def read(info: RepoInfo, fetch_backup: Callable[[str], RepoInfo]) -> Iterator[Update]:
    """All entries, newest first. A missing backup ends the log, as for other clients."""
    yield from info.updates
    seen = set[str]()
    name = info.before_updates
    while name is not None and name not in seen:  # a damaged chain may bite its own tail
        seen.add(name)
        try:
            page = fetch_backup(name)
        except ObjectNotFoundError:
            return
        newest, *older = page.updates
        yield replace(newest, backup_path=name)
        yield from older
        name = page.before_updates
