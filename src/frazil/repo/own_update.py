"""Whether an update that was refused had been stored after all.

The store recognises a write of its own whose answer was lost, as long as it is still there. If
somebody else has replaced it since, only the ops log tells: each update cites the backup, of a
random name, that its writer made of what it replaced.
"""

from frazil.format.repo_info import RepoInfo
from frazil.format.update_log import UpdateLog


def was_stored(info: RepoInfo, *, backup: str) -> bool:
    """Whether the update that made `backup` is one of those that led to `info`."""
    if info.before_updates == backup:
        return True
    return backup in UpdateLog.of(info.updates).table.string("backup_path").to_texts()
