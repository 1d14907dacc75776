"""Whether an update that was refused had been stored after all.

The store recognises a write of its own whose answer was lost, as long as it is still there. If
somebody else has replaced it since, only the ops log tells: each update cites the backup, of a
random name, that its writer made of what it replaced.
"""

from collections.abc import Callable

from frazil.format.repo_info import RepoInfo
from frazil.format.update_log import UpdateLog
from frazil.ids import SnapshotId


def was_stored(info: RepoInfo, *, backup: str) -> bool:
    """Whether the update that made `backup` is one of those that led to `info`."""
    if info.before_updates == backup:
        return True
    return backup in UpdateLog.of(info.updates).table.string("backup_path").to_texts()


def was_committed(
    new: SnapshotId,
    *,
    parent: SnapshotId,
    tip: SnapshotId | None,
    parent_of: Callable[[SnapshotId], SnapshotId | None],
) -> bool:
    """Whether `new`, made on top of `parent`, is in the history of `tip`.

    For version 1, which has no ops log. Looks at the snapshots that came after `parent` only.
    """
    at = tip
    while at is not None and at not in (new, parent):
        at = parent_of(at)
    return at == new
