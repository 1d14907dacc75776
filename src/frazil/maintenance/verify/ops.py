"""The ops log, over all the files that hold it."""

from dataclasses import dataclass

import numpy as np

from frazil.assets.layout import OVERWRITTEN, REPO_INFO
from frazil.errors import ObjectNotFoundError, StorageError
from frazil.flatbuf.table import Table
from frazil.format.envelope import FileType
from frazil.format.schemas import UPDATE_KINDS
from frazil.ids import format_ids
from frazil.maintenance.verify.listing import Listing
from frazil.maintenance.verify.opening import open_file
from frazil.maintenance.verify.problems import Problem, problem
from frazil.objectstore.protocol import ObjectStore

_REWRITES_PARENTS = (2, 14)  # RepoMigrated, ExpirationRan
_COMMIT_AMENDED = 11


@dataclass(frozen=True, slots=True)
class OpsFacts:
    """`parents_rewritten`: logs may not tell what changed since the parents that are listed."""

    parents_rewritten: bool
    amended: frozenset[str]  # names of snapshots
    complete: bool  # whether the log was read to its end


NOTHING_KNOWN = OpsFacts(parents_rewritten=True, amended=frozenset(), complete=False)


def check_ops_log(
    store: ObjectStore, root: Table, listing: Listing, problems: list[Problem]
) -> OpsFacts:
    """From the repo info on, page after page."""
    key, rewritten = REPO_INFO, False
    seen, amended = set[str](), set[str]()
    while True:
        rewritten |= _check_page(key, root, listing, problems)
        amended.update(_amended(root))
        name = root.string("repo_before_updates").item(0)
        if not name:
            return OpsFacts(rewritten, frozenset(amended), complete=True)
        text = name.decode("utf-8", "replace")
        if text in seen:
            problems.append(problem("ops-log-cycle", key, f"it goes on in {text}, again"))
            break
        seen.add(text)
        found = _open_page(store, text, key, problems)
        if found is None:
            break
        key, root = OVERWRITTEN + text, found
    return OpsFacts(parents_rewritten=True, amended=frozenset(amended), complete=False)


def _amended(root: Table) -> list[str]:
    updates = root.tables("latest_updates").rows.union("update_type")
    return format_ids(updates.variants[_COMMIT_AMENDED].struct("new_snap_id").values)


def _open_page(
    store: ObjectStore, name: str, cited_by: str, problems: list[Problem]
) -> Table | None:
    key = OVERWRITTEN + name
    try:
        data = store.get(key).data
    except ObjectNotFoundError:
        problems.append(problem("backup-missing", cited_by, f"the ops log goes on in {key}"))
        return None
    except StorageError as error:
        problems.append(problem("backup-unreadable", key, error.message))
        return None
    found: list[Problem] = []
    opened = open_file(key, data, FileType.REPO_INFO, found)
    if opened is None:
        problems.append(problem("backup-unreadable", key, found[-1].text))
        return None
    return opened.root


def _check_page(key: str, root: Table, listing: Listing, problems: list[Problem]) -> bool:
    """Whether an entry says that parents were rewritten."""
    updates = root.tables("latest_updates").rows
    if not len(updates):
        problems.append(problem("ops-log-empty", key, "not even the creation is recorded"))
        return True
    types = updates.union("update_type").types
    for number in np.setdiff1d(types, list(UPDATE_KINDS)).tolist():
        text = f"an update of type {number}"
        problems.append(problem("ops-log-unknown-update", key, text))
    times = updates.scalar("updated_at").values
    late = np.flatnonzero(times[1:] > times[:-1])
    if len(late):
        text = f"entry {int(late[0]) + 1} is later than the one before it"
        problems.append(problem("ops-log-order", key, text))
    paths = {path.decode("utf-8", "replace") for path in _cited(updates)}
    for name in sorted(paths - listing.overwritten):
        text = f"{OVERWRITTEN}{name} is not there"
        problems.append(problem("backup-missing", key, text))
    return bool(np.isin(types, _REWRITES_PARENTS).any())


def _cited(updates: Table) -> list[bytes]:
    return [path for path in updates.string("backup_path").to_list() if path]
