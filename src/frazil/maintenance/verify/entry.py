"""The entry point of a repository of any version, or what is left of it."""

from collections.abc import Mapping

from frazil.assets.layout import (
    OVERWRITTEN,
    REFS,
    REPO_INFO,
    SNAPSHOTS,
    TRANSACTIONS,
    V1_MAIN_BRANCH,
    ref_of_key,
)
from frazil.assets.pool import Pool
from frazil.errors import StorageError
from frazil.format.envelope import FileType
from frazil.maintenance.verify.history import Entry, SnapshotTask
from frazil.maintenance.verify.listing import Listing
from frazil.maintenance.verify.opening import Fetched, OpenedFile, fetch, open_file
from frazil.maintenance.verify.ops import NOTHING_KNOWN, check_ops_log
from frazil.maintenance.verify.problems import Problem, problem
from frazil.maintenance.verify.ref_files import check_chain, check_config_yaml, check_refs
from frazil.maintenance.verify.repo_info import check_history, check_repo_info
from frazil.objectstore.protocol import ObjectStore

type EntryFiles = Mapping[str, Fetched]


def fetch_entry(store: ObjectStore) -> EntryFiles:
    """The repo info, or the refs of version 1: read before the storage is listed.

    All that is reachable from them is in a listing made after, even if others commit.
    """
    info = fetch(store, REPO_INFO)
    if info is not None:
        return {REPO_INFO: info}
    keys = [each.key for each in store.list(REFS) if ref_of_key(each.key) is not None]
    return {key: fetch(store, key) for key in keys}


def check_entry(
    store: ObjectStore, pool: Pool, listing: Listing, known: EntryFiles, problems: list[Problem]
) -> Entry:
    """`known` is what `fetch_entry` found before the listing."""
    info = known.get(REPO_INFO)
    if info is not None:
        return _check_version_2(store, listing, info, problems)
    if V1_MAIN_BRANCH in known or (known and not backups(listing)):
        tips = check_refs(known, listing, problems)
        tasks = check_chain(store, pool, listing, tips, problems)
        return Entry(1, tuple(tasks), check_config_yaml(store, problems))
    text = "there is neither a repo info nor a branch main"
    problems.append(problem("repository-missing", REPO_INFO, text))
    return _without_entry(store, listing)


def _check_version_2(
    store: ObjectStore, listing: Listing, data: Fetched, problems: list[Problem]
) -> Entry:
    found: list[Problem] = []
    opened = open_repo_info(REPO_INFO, data, found)
    if opened is None:
        # The reason is the text; files that were reachable from it are still checked.
        problems.append(problem("repo-info-unreadable", REPO_INFO, found[-1].text))
        return _without_entry(store, listing)
    problems += found
    config = check_repo_info(opened, problems)
    facts = check_ops_log(store, opened.root, listing, problems)
    tasks, pruned = check_history(opened.root, facts, problems)
    there = set(listing.names(TRANSACTIONS))
    for log, snapshot in pruned:
        if log not in there:
            text = f"{TRANSACTIONS}{log}, which {snapshot} needs, is not there"
            problems.append(problem("pruned-log-missing", REPO_INFO, text))
    return Entry(2, tuple(tasks), config, frozenset(log for log, _ in pruned))


def open_repo_info(key: str, data: Fetched, problems: list[Problem]) -> OpenedFile | None:
    if data is None:
        problems.append(problem("file-unreadable", key, "it is not there"))
        return None
    if isinstance(data, StorageError):
        problems.append(problem("file-unreadable", key, data.message))
        return None
    return open_file(key, data, FileType.REPO_INFO, problems)


def backups(listing: Listing) -> list[str]:
    """Keys of the copies of the repo info, newest first: their names count down."""
    names = [name for name in listing.overwritten if name.startswith(f"{REPO_INFO}.")]
    return [OVERWRITTEN + name for name in sorted(names)]


def newest_backup(store: ObjectStore, listing: Listing) -> OpenedFile | None:
    """The newest copy that can be read."""
    for key in backups(listing):
        opened = open_repo_info(key, fetch(store, key), [])
        if opened is not None:
            return opened
    return None


def _without_entry(store: ObjectStore, listing: Listing) -> Entry:
    """Snapshots reachable from a backup, and all others in the storage."""
    backup = newest_backup(store, listing)
    tasks: list[SnapshotTask] = []
    if backup is not None:
        tasks, _ = check_history(backup.root, NOTHING_KNOWN, [])
    known = {task.name for task in tasks}
    others = [name for name in listing.names(SNAPSHOTS) if name not in known]
    tasks += [SnapshotTask(name, needs_log=False) for name in others]
    return Entry(None, tuple(tasks), is_complete=False)
