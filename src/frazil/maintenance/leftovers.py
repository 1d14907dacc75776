"""Leftovers of killed writers that are not garbage by their ids.

backups         `overwritten/`: a copy of the entry point for each change, kept for ever
staging         branches on which a killed job was working
temporary       files beside those of a local directory
"""

from dataclasses import dataclass

from frazil.assets.layout import OVERWRITTEN, branch_key
from frazil.errors import ObjectNotFoundError
from frazil.format.update_log import BranchCreated, BranchReset, CommitAmended, NewCommit, UpdateLog
from frazil.maintenance.inventory import Inventory
from frazil.objectstore.protocol import ObjectInfo, ObjectStore
from frazil.repo.repository import Repository

STAGING = "frazil-staging-"  # how names of such branches begin


@dataclass(frozen=True, slots=True)
class OldBackups:
    keys: tuple[str, ...]
    size_bytes: int


def old_backups(repository: Repository, inventory: Inventory, older_than_us: int) -> OldBackups:
    """Backups that are older and that the ops log does not need: it goes on in some of them."""
    needed = pages_of_log(repository)
    found: list[ObjectInfo] = [
        info
        for info in inventory.others(OVERWRITTEN)
        if info.modified_at_us < older_than_us and info.key not in needed
    ]
    return OldBackups(tuple(info.key for info in found), sum(info.size_bytes for info in found))


def pages_of_log(repository: Repository) -> set[str]:
    """Keys of the backups in which the ops log goes on, or may: each that an entry names.

    Whenever there are more entries than fit, the log goes on in the backup that the first one
    which does not names.
    """
    if not repository.has_ops_log:
        return set()
    info = repository.repo_info()
    named = UpdateLog.of(info.updates).table.string("backup_path").to_texts()
    needed = {OVERWRITTEN + each for each in named if each is not None}
    name = info.before_updates
    passed = set[str]()
    while name is not None and name not in passed:
        passed.add(name)
        needed.add(OVERWRITTEN + name)
        try:
            name = repository.files.fetch_log_page(name).before_updates
        except ObjectNotFoundError:  # the log was cut short before
            break
    return needed


def stale_branches(repository: Repository, older_than_us: int) -> tuple[str, ...]:
    """Branches of jobs that died: nothing was done to them since."""
    names = [name for name in sorted(repository.branches()) if name.startswith(STAGING)]
    if not names:
        return ()
    if not repository.has_ops_log:
        head = repository.store.head
        return tuple(n for n in names if head(branch_key(n)).modified_at_us < older_than_us)
    alive = set[str]()
    for update in repository.ops_log():
        if update.updated_at_us < older_than_us:
            break
        match update.kind:
            case BranchCreated(name) | BranchReset(name, _):
                alive.add(name)
            case NewCommit(name, _) | CommitAmended(name, _, _):
                alive.add(name)
            case _:
                pass
    return tuple(name for name in names if name not in alive)


def collect_temporary(store: ObjectStore, older_than_us: int, now_us: int) -> int:
    """The number of temporary files removed. Only local directories have any."""
    return store.collect_leftovers(max(0.0, (now_us - older_than_us) / 1e6))
