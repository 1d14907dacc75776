"""Checks of the repo info: snapshots and their parents, configuration, ops log."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from frazil.engine.files.object_keys import OVERWRITTEN, REPO_INFO
from frazil.errors import (
    FormatError,
    IcechunkError,
    InvalidInputError,
    ObjectNotFoundError,
    StorageError,
)
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.flexbuffers import Json, decode_flexbuffer
from frazil.flatbuf.schema import String
from frazil.flatbuf.table import Table, UnionColumn
from frazil.format.config import RepositoryConfig
from frazil.format.config_codec import decode_config
from frazil.format.envelope import FileType
from frazil.format.metadata import decode_metadata
from frazil.format.schemas import UPDATE_KINDS
from frazil.format.storage_config import Containers, add_final_slash, require_container
from frazil.format.update_log import Availability
from frazil.ids import format_base32, format_ids
from frazil.maintenance.verify.column_checks import (
    check_texts,
    descents,
    first_descent,
    first_repeat,
    id_keys,
    repeats,
)
from frazil.maintenance.verify.file_reader import OpenedFile, open_file
from frazil.maintenance.verify.problems import Problem, problem
from frazil.maintenance.verify.stored_objects import Listing
from frazil.objectstore.protocol import ObjectStore

type Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ListedInfo:
    """A snapshot as listed in the repo info, to be compared with its file."""

    flushed_at_us: int
    message: bytes
    metadata: dict[str, Json] | None  # None if it cannot be decoded


@dataclass(frozen=True, slots=True)
class SnapshotTask:
    """A snapshot to check, together with its log."""

    name: str
    parent: str | None = None
    info: ListedInfo | None = None
    compares_parent: bool = False  # whether the log says all that changed since the parent
    needs_log: bool = True
    amended: bool = False  # or perhaps: its log may list a node as new and as updated


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Snapshots reachable from the entry point, and the configuration."""

    spec_version: int | None  # None if unknown
    tasks: tuple[SnapshotTask, ...] = ()  # oldest first
    config: Json | None = None
    pruned_logs: frozenset[str] = field(default_factory=frozenset)  # names
    is_complete: bool = True  # False: snapshots may be in use that are not among the tasks


def rows_in_cycles(parents: Rows) -> list[list[int]]:
    """Each cycle of parents once, from its smallest row; `parents` are rows, -1 for none."""
    count = len(parents)
    reach = parents.copy()
    for _ in range(max(count, 1).bit_length() + 1):  # twice as far each time
        reach = np.where(reach >= 0, reach[reach], -1)
        if (reach < 0).all():
            return []
    left = set(np.flatnonzero(reach >= 0).tolist())
    cycles = []
    while left:
        row, walked = min(left), dict[int, int]()
        while row not in walked and row in left:
            walked[row] = len(walked)
            row = int(parents[row])
        if row in walked:
            members = list(walked)[walked[row] :]
            start = members.index(min(members))
            cycles.append(members[start:] + members[:start])
        left -= walked.keys()
    return cycles


def check_config(file: str, stored: Json) -> list[Problem]:
    try:
        config = decode_config(stored)
    except FormatError as error:
        return [problem("config-invalid", file, error.message)]
    problems = []
    for prefix, container in (config.virtual_chunk_containers or {}).items():
        try:
            require_container(add_final_slash(container))
        except InvalidInputError as error:
            problems.append(problem("container-invalid", file, f"{prefix}: {error.message}"))
    return problems


def containers_of(stored: Json | None) -> Containers | None:
    """Containers that chunks can be in; None if they are not known."""
    try:
        config = RepositoryConfig() if stored is None else decode_config(stored)
    except IcechunkError:
        return None
    usable = []
    for container in map(add_final_slash, (config.virtual_chunk_containers or {}).values()):
        try:
            require_container(container)
        except InvalidInputError:
            continue
        usable.append(container)
    return Containers.of(usable)


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
        amended.update(_amended_snapshots(root))
        cited.update(_backup_paths(root))
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


def _amended_snapshots(root: Table) -> list[str]:
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


def _backup_paths(root: Table) -> list[str]:
    paths = root.tables("latest_updates").rows.string("backup_path").to_list()
    return [path.decode("utf-8", "replace") for path in paths if path]


MAIN = b"main"


def check_repo_info(opened: OpenedFile, problems: list[Problem]) -> Json | None:
    """All but history and ops log; returns the configuration."""
    root = opened.root
    said = int(root.scalar("spec_version").values[0])
    if (opened.spec_version, said) != (2, 2):
        text = f"the header says version {opened.spec_version}, the repo info {said}"
        problems.append(problem("repo-info-version", REPO_INFO, text))
    _check_refs(root, problems)
    _check_flags(root, problems)
    status = root.subtable("status")
    problems += check_texts(
        REPO_INFO,
        {
            "branches": root.tables("branches").rows.string("name"),
            "tags": root.tables("tags").rows.string("name"),
            "deleted_tags": root.strings("deleted_tags").strings,
            "message": root.tables("snapshots").rows.string("message"),
            "metadata": root.tables("metadata").rows.string("name"),
            "limited_availability_reason": status.rows.string("limited_availability_reason"),
            "repo_before_updates": root.string("repo_before_updates"),
        },
    )
    number = int(status.rows.scalar("availability").values[int(status.index[0])])
    if number not in set(Availability):
        text = f"availability is {number}"
        problems.append(problem("status-unknown", REPO_INFO, text))
    try:
        decode_metadata(root.tables("metadata").rows)
    except FormatError as error:
        problems.append(problem("repo-metadata-invalid", REPO_INFO, error.message))
    return _config(root, problems)


def _check_refs(root: Table, problems: list[Problem]) -> None:
    count = len(root.tables("snapshots").rows)
    names: dict[str, list[bytes]] = {}
    for what in ("branches", "tags"):
        refs = root.tables(what).rows
        names[what] = [name or b"" for name in refs.string("name").to_list()]
        problems += _check_names(what, names[what])
        rows = refs.scalar("snapshot_index").values
        for row in np.flatnonzero(rows >= count).tolist():
            text = f"{what}: {_text(names[what][row])!r} points to row {rows[row]} of {count}"
            problems.append(problem("ref-dangling", REPO_INFO, text))
    if MAIN not in names["branches"]:
        problems.append(problem("branch-main-missing", REPO_INFO, "no branch is called main"))
    deleted = root.strings("deleted_tags").row(0)
    if first_descent(deleted) is not None:
        text = "names of deleted tags do not ascend"
        problems.append(problem("deleted-tags-unsorted", REPO_INFO, text))
    for name in sorted({*deleted} & {*names["tags"]}):
        text = f"tag {_text(name)!r} is deleted, and there"
        problems.append(problem("tag-deleted-and-present", REPO_INFO, text))


def _check_names(what: str, names: list[bytes]) -> list[Problem]:
    problems = []
    row = first_descent(names)
    if row is not None:
        text = f"{what}: {_text(names[row])!r} comes after {_text(names[row - 1])!r}"
        problems.append(problem("refs-unsorted", REPO_INFO, text))
    row = first_repeat(names)
    if row is not None:
        text = f"{what}: {_text(names[row])!r} is there twice"
        problems.append(problem("ref-duplicate", REPO_INFO, text))
    if b"" in names:
        problems.append(problem("ref-name", REPO_INFO, f"{what}: an empty name"))
    return problems


def _check_flags(root: Table, problems: list[Problem]) -> None:
    flags = {
        name: root.vector(f"{name}_feature_flags").values.tolist()
        for name in ("enabled", "disabled")
    }
    for name, numbers in flags.items():
        if numbers != sorted(set(numbers)):
            problems.append(problem("flags-unsorted", REPO_INFO, f"{name}: {numbers}"))
    both = sorted({*flags["enabled"]} & {*flags["disabled"]})
    problems += [problem("flag-contradiction", REPO_INFO, f"flag {number}") for number in both]


def _config(root: Table, problems: list[Problem]) -> Json | None:
    stored = root.string("config").item(0)
    if stored is None:
        return None
    try:
        config = decode_flexbuffer(stored)
    except FormatError as error:
        problems.append(problem("config-invalid", REPO_INFO, error.message))
        return None
    problems += check_config(REPO_INFO, config)
    return config


# History


def check_history(
    root: Table, facts: OpsFacts, problems: list[Problem]
) -> tuple[list[SnapshotTask], list[tuple[str, str]]]:
    """Snapshots to look at, oldest first; and logs of expired ones, with who needs them."""
    table = root.tables("snapshots").rows
    ids = table.struct("id").values
    keys, names = id_keys(ids), format_ids(ids)
    for row in descents(keys)[:1].tolist():
        text = f"{names[row]} comes after {names[row - 1]}"
        problems.append(problem("snapshots-unsorted", REPO_INFO, text))
    for row in repeats(keys).tolist():
        text = f"{names[row]} is listed again"
        problems.append(problem("snapshot-duplicate", REPO_INFO, text))
    parents = _check_parents(table, names, problems)
    pruned = table.vector("pruned_ancestor_tx_logs")
    needed = [
        (format_base32(raw.tobytes()), names[row])
        for row in np.flatnonzero(np.diff(pruned.splits)).tolist()
        for raw in pruned.row(row)
    ]
    infos = _listed_infos(table, names, problems)
    has_pruned = np.diff(pruned.splits) > 0
    order = np.lexsort((keys, table.scalar("flushed_at").values))
    tasks: dict[str, SnapshotTask] = {}
    for row in order.tolist():
        parent = int(parents[row])
        tasks.setdefault(
            names[row],
            SnapshotTask(
                name=names[row],
                parent=names[parent] if parent >= 0 else None,
                info=infos[row],
                compares_parent=not facts.parents_rewritten and not bool(has_pruned[row]),
                amended=names[row] in facts.amended or not facts.complete,
            ),
        )
    return list(tasks.values()), needed


def _check_parents(
    table: Table, names: list[str], problems: list[Problem]
) -> npt.NDArray[np.int64]:
    """Rows of parents, without those that are none."""
    parents = table.scalar("parent_offset").values.astype(np.int64)
    outside = (parents < -1) | (parents >= len(parents))
    for row in np.flatnonzero(outside).tolist():
        text = f"the parent of {names[row]} is row {int(parents[row])} of {len(names)}"
        problems.append(problem("parent-dangling", REPO_INFO, text))
    known: npt.NDArray[np.int64] = np.where(outside, -1, parents)
    for cycle in rows_in_cycles(known):
        text = " -> ".join(names[row] for row in cycle[:4]) + (" ..." if len(cycle) > 4 else "")
        problems.append(problem("parent-cycle", REPO_INFO, f"{text}, {len(cycle)} in all"))
    return known


def _listed_infos(table: Table, names: list[str], problems: list[Problem]) -> list[ListedInfo]:
    times = table.scalar("flushed_at").values.tolist()
    messages = table.string("message").to_list()
    items = table.tables("metadata")
    found = []
    for row, (at, message) in enumerate(zip(times, messages, strict=True)):
        metadata: dict[str, Json] | None = None
        rows = slice(int(items.splits[row]), int(items.splits[row + 1]))
        try:
            metadata = decode_metadata(items.rows.take(rows))
        except FormatError as error:
            text = f"of {names[row]}: {error.message}"
            problems.append(problem("snapshot-metadata-invalid", REPO_INFO, text))
        found.append(ListedInfo(at, message or b"", metadata))
    return found


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")
