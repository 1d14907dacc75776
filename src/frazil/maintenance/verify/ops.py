"""The ops log, over all the files that hold it."""

from dataclasses import dataclass

import numpy as np

from frazil.assets.layout import OVERWRITTEN, REPO_INFO
from frazil.errors import ObjectNotFoundError, StorageError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.schema import String
from frazil.flatbuf.table import Table, UnionColumn
from frazil.format.envelope import FileType
from frazil.format.schemas import UPDATE_KINDS
from frazil.ids import format_ids
from frazil.maintenance.verify.listing import Listing
from frazil.maintenance.verify.opening import open_file
from frazil.maintenance.verify.problems import Problem, problem
from frazil.maintenance.verify.texts import check_texts
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
    """Checks the ops log from the repo info on, page after page."""
    key, rewritten, complete = REPO_INFO, False, False
    pages, cited, amended = set[str](), set[str](), set[str]()
    while True:
        rewritten |= _check_page(key, root, problems)
        amended.update(_amended(root))
        cited.update(_cited(root))
        name = root.string("repo_before_updates").item(0)
        if not name:
            complete = True
            break
        text = name.decode("utf-8", "replace")
        if text in pages:
            problems.append(problem("ops-log-cycle", key, f"it goes on in {text}, again"))
            break
        pages.add(text)
        found = _open_page(store, text, key, problems)
        if found is None:
            break
        key, root = OVERWRITTEN + text, found
    if complete:  # where it is cut short, it is unknown which of them are pages
        problems += _check_backups(cited - pages, pages, listing)
    return OpsFacts(rewritten or not complete, frozenset(amended), complete)


def _check_backups(cited: set[str], pages: set[str], listing: Listing) -> list[Problem]:
    """Checks that states named by entries have a copy, except the oldest: those are collected."""
    others = {name for name in listing.overwritten if name.startswith(f"{REPO_INFO}.")} - pages
    oldest = max(others, default="")  # names count down
    return [
        problem("backup-missing", REPO_INFO, f"{OVERWRITTEN}{name}, though older ones are there")
        for name in sorted(cited - listing.overwritten)
        if name < oldest
    ]


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


def _check_page(key: str, root: Table, problems: list[Problem]) -> bool:
    """Checks one page; True if an entry rewrote parents."""
    updates = root.tables("latest_updates").rows
    if not len(updates):
        problems.append(problem("ops-log-empty", key, "not even the creation is recorded"))
        return True
    union = updates.union("update_type")
    types = union.types
    problems += check_texts(key, {"backup_path": updates.string("backup_path"), **_names(union)})
    for number in np.setdiff1d(types, list(UPDATE_KINDS)).tolist():
        text = f"an update of type {number}"
        problems.append(problem("ops-log-unknown-update", key, text))
    times = updates.scalar("updated_at").values
    late = np.flatnonzero(times[1:] > times[:-1])
    if len(late):
        text = f"entry {int(late[0]) + 1} is later than the one before it"
        problems.append(problem("ops-log-order", key, text))
    return bool(np.isin(types, _REWRITES_PARENTS).any())


def _names(union: UnionColumn) -> dict[str, StringColumn]:
    """Branches and tags in entries."""
    return {
        f"{table.schema.name}.{field.name}": table.string(field.name)
        for table in union.variants.values()
        for field in table.schema.fields
        if isinstance(field.kind, String) and len(table)
    }


def _cited(root: Table) -> list[str]:
    paths = root.tables("latest_updates").rows.string("backup_path").to_list()
    return [path.decode("utf-8", "replace") for path in paths if path]
