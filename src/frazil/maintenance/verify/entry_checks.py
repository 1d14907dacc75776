"""The entry point of a repository of any version, or what is left of it; refs of version 1."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from frazil.engine.files.object_keys import (
    CONFIG_YAML,
    OVERWRITTEN,
    REFS,
    REPO_INFO,
    SNAPSHOTS,
    TRANSACTIONS,
    V1_MAIN_BRANCH,
    ref_of_key,
)
from frazil.errors import FormatError, IcechunkError, ObjectNotFoundError, StorageError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.config_codec import decode_config_yaml
from frazil.format.envelope import FileType
from frazil.format.ref_file import decode_ref
from frazil.format.snapshot import SnapshotHead, decode_snapshot_head
from frazil.ids import INITIAL_SNAPSHOT
from frazil.maintenance.verify.file_reader import Fetched, OpenedFile, fetch, open_file
from frazil.maintenance.verify.problems import Problem, problem
from frazil.maintenance.verify.repo_info_checks import (
    NOTHING_KNOWN,
    Entry,
    SnapshotTask,
    check_config,
    check_history,
    check_ops_log,
    check_repo_info,
    rows_in_cycles,
)
from frazil.maintenance.verify.stored_objects import Listing
from frazil.objectstore.pool import Pool
from frazil.objectstore.protocol import ObjectStore


@dataclass(slots=True)
class _Heads:
    """Heads of snapshots by name; those that cannot be read are not there."""

    known: dict[str, SnapshotHead] = field(default_factory=dict)

    def parent(self, name: str) -> str | None:
        head = self.known.get(name)
        return None if head is None or head.parent_id is None else str(head.parent_id)


def check_refs(
    files: Mapping[str, Fetched], listing: Listing, problems: list[Problem]
) -> list[str]:
    """Names of the snapshots that branches and tags, by their files, point to."""
    targets: dict[str, str] = {}
    deleted = {name for key in files if (name := _deleted_tag(key)) is not None}
    for key, data in sorted(files.items(), key=lambda item: item[0]):
        ref = ref_of_key(key)
        if ref is None or ref[2] or (ref[0] == "tag" and ref[1] in deleted):
            continue
        if data is None:
            continue  # deleted since it was listed
        try:
            if isinstance(data, StorageError):
                raise data
            targets[key] = str(decode_ref(data))
        except IcechunkError as error:
            problems.append(problem("ref-unreadable", key, error.message))
    if V1_MAIN_BRANCH not in files:
        problems.append(problem("branch-main-missing", V1_MAIN_BRANCH, "there is no such file"))
    there = set(listing.names(SNAPSHOTS))
    for key, target in targets.items():
        if target not in there:
            text = f"{SNAPSHOTS}{target} is not there"
            problems.append(problem("ref-snapshot-missing", key, text))
    return sorted(set(targets.values()) & there)


def _deleted_tag(key: str) -> str | None:
    match ref_of_key(key):
        case "tag", name, True:
            return name
    return None


def check_chain(
    store: ObjectStore, pool: Pool, listing: Listing, tips: list[str], problems: list[Problem]
) -> list[SnapshotTask]:
    """Snapshots reachable from refs, oldest first. Files of version 1 name their parents."""
    names = listing.names(SNAPSHOTS)

    def head_of(name: str) -> SnapshotHead | None:
        try:
            return decode_snapshot_head(store.get(SNAPSHOTS + name).data)
        except (FormatError, ObjectNotFoundError):
            return None  # said when the whole file is looked at

    found = pool.map(head_of, names)
    heads = _Heads({n: head for n, head in zip(names, found, strict=True) if head is not None})
    there = set(names)
    reached = _reachable_snapshots(heads, tips, there)
    for name in sorted(reached):
        parent = heads.parent(name)
        if parent is not None and parent not in there:
            text = f"the parent is {parent}, which is not there"
            problems.append(problem("parent-dangling", SNAPSHOTS + name, text))
    problems += _check_roots(heads, sorted(reached))
    problems += _check_cycles(heads, sorted(reached))
    times = {name: head.flushed_at_us for name, head in heads.known.items()}
    ordered = sorted(reached, key=lambda name: (times.get(name, 0), name))
    return [
        SnapshotTask(
            name=name,
            parent=parent if (parent := heads.parent(name)) in there else None,
            needs_log=parent is not None,
        )
        for name in ordered
    ]


def _reachable_snapshots(heads: _Heads, tips: list[str], there: set[str]) -> set[str]:
    reached, waiting = set[str](), list(tips)
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        parent = heads.parent(name)
        if parent is not None and parent in there:
            waiting.append(parent)
    return reached


def _check_roots(heads: _Heads, names: list[str]) -> list[Problem]:
    """All of history goes back to one snapshot: that with the well-known id, or the oldest."""
    roots = [name for name in names if name in heads.known and heads.parent(name) is None]
    first = str(INITIAL_SNAPSHOT)
    if first not in roots:
        first = min(roots, key=lambda name: heads.known[name].flushed_at_us, default=first)
    text = f"and it is not the first snapshot, which is {first}"
    return [problem("parent-absent", SNAPSHOTS + name, text) for name in roots if name != first]


def _check_cycles(heads: _Heads, names: list[str]) -> list[Problem]:
    rows: Mapping[str | None, int] = {name: row for row, name in enumerate(names)}
    parents = np.array([rows.get(heads.parent(name), -1) for name in names], dtype=np.int64)
    problems = []
    for cycle in rows_in_cycles(parents):
        text = " -> ".join(names[row] for row in cycle[:4])
        problems.append(problem("parent-cycle", SNAPSHOTS + names[cycle[0]], text))
    return problems


def check_config_yaml(store: ObjectStore, problems: list[Problem]) -> Json | None:
    try:
        config = decode_config_yaml(store.get(CONFIG_YAML).data)
    except ObjectNotFoundError:
        return None
    except IcechunkError as error:
        problems.append(problem("config-invalid", CONFIG_YAML, error.message))
        return None
    if config is not None:
        problems += check_config(CONFIG_YAML, config)
    return config


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
