"""Branches and tags of version 1, and their history."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from frazil.assets.layout import CONFIG_YAML, SNAPSHOTS, V1_MAIN_BRANCH, ref_of_key
from frazil.assets.pool import Pool
from frazil.errors import FormatError, IcechunkError, ObjectNotFoundError, StorageError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.config_yaml import decode_config_yaml
from frazil.format.ref_file import decode_ref
from frazil.format.snapshot import SnapshotHead, decode_snapshot_head
from frazil.ids import INITIAL_SNAPSHOT
from frazil.maintenance.verify.config import check_config
from frazil.maintenance.verify.history import SnapshotTask, rows_in_cycles
from frazil.maintenance.verify.listing import Listing
from frazil.maintenance.verify.opening import Fetched
from frazil.maintenance.verify.problems import Problem, problem
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
    reached = _reached(heads, tips, there)
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


def _reached(heads: _Heads, tips: list[str], there: set[str]) -> set[str]:
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
