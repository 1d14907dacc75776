"""The repo info file of version 2."""

import numpy as np
import numpy.typing as npt

from frazil.assets.layout import REPO_INFO
from frazil.errors import FormatError
from frazil.flatbuf.flexbuffers import Json, decode_flexbuffer
from frazil.flatbuf.table import Table
from frazil.format.metadata import decode_metadata
from frazil.format.update_log import Availability
from frazil.ids import format_base32, format_ids
from frazil.maintenance.verify.config import check_config
from frazil.maintenance.verify.history import ListedInfo, SnapshotTask, rows_in_cycles
from frazil.maintenance.verify.opening import OpenedFile
from frazil.maintenance.verify.ops import OpsFacts
from frazil.maintenance.verify.orders import (
    descents,
    first_descent,
    first_repeat,
    id_keys,
    repeats,
)
from frazil.maintenance.verify.problems import Problem, problem
from frazil.maintenance.verify.texts import check_texts

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
