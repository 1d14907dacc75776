"""Everything that the storage holds, in one pass: files by id as columns, the others by name."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import batched

import numpy as np

from frazil.assets.layout import (
    CHUNKS,
    CONFIG_YAML,
    MANIFESTS,
    OVERWRITTEN,
    REFS,
    REPO_INFO,
    SNAPSHOTS,
    TRANSACTIONS,
    ref_of_key,
)
from frazil.ids import format_ids, parse_ids
from frazil.maintenance.verify.objects import Objects
from frazil.maintenance.verify.problems import Problem, problem
from frazil.objectstore.protocol import ObjectInfo, ObjectStore

FOLDERS = (SNAPSHOTS, MANIFESTS, TRANSACTIONS, CHUNKS)
DAMAGED = f"{OVERWRITTEN}damaged."  # what repairs replaced
_BACKUP = re.compile(r"(?:repo|config\.yaml)\.\d{14}\.[0-9A-HJKMNP-TV-Z]{20}")
_PIECE = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    folders: dict[str, Objects]
    sizes: dict[str, int]  # of all files but chunks, by key
    overwritten: frozenset[str]  # names below that folder
    refs: tuple[str, ...]  # keys, of version 1
    total_files: int
    total_bytes: int

    @property
    def chunks(self) -> Objects:
        return self.folders[CHUNKS]

    def names(self, folder: str) -> list[str]:
        """Of the files of a folder, ascending."""
        return format_ids(self.folders[folder].ids.ids())


@dataclass(slots=True)
class _Gathered:
    ids: list[np.ndarray] = field(default_factory=list)
    sizes: list[np.ndarray] = field(default_factory=list)


def list_everything(store: ObjectStore, problems: list[Problem]) -> Listing:
    folders = {folder: _Gathered() for folder in FOLDERS}
    sizes: dict[str, int] = {}
    overwritten, refs = set[str](), list[str]()
    files = total = 0
    for some in batched(store.list(), _PIECE):
        files += len(some)
        total += sum(info.size_bytes for info in some)
        by_folder: dict[str, list[ObjectInfo]] = {}
        for info in some:
            folder, slash, _ = info.key.partition("/")
            by_folder.setdefault(folder + slash, []).append(info)
        for folder, infos in by_folder.items():
            if folder in folders:
                problems += _gather(folder, infos, folders[folder])
            if folder != CHUNKS:
                sizes.update((info.key, info.size_bytes) for info in infos)
            if folder == OVERWRITTEN:
                overwritten |= {info.key[len(OVERWRITTEN) :] for info in infos}
            elif folder == REFS:
                refs += [info.key for info in infos]
            elif folder not in {*FOLDERS, REPO_INFO, CONFIG_YAML}:
                problems += [_unknown(info.key) for info in infos]
    problems += [_unknown(key) for key in refs if ref_of_key(key) is None]
    problems += _check_backups(overwritten)
    return Listing(
        folders={folder: _objects(found) for folder, found in folders.items()},
        sizes=sizes,
        overwritten=frozenset(overwritten),
        refs=tuple(sorted(refs)),
        total_files=files,
        total_bytes=total,
    )


def _gather(folder: str, infos: list[ObjectInfo], into: _Gathered) -> list[Problem]:
    names = [info.key[len(folder) :] for info in infos]
    ids, good = parse_ids(names)
    sizes = np.fromiter((info.size_bytes for info in infos), np.int64, len(infos))
    into.ids.append(ids[good])
    into.sizes.append(sizes[good])
    if good.all():
        return []
    odd = [infos[row].key for row in np.flatnonzero(~good).tolist()]
    return [problem("file-name", key, "expected 20 characters of base 32") for key in odd]


def _objects(found: _Gathered) -> Objects:
    none = np.zeros((0, 12), np.uint8)
    sizes = np.concatenate([np.zeros(0, np.int64), *found.sizes])
    return Objects.of(np.concatenate([none, *found.ids]), sizes)


def _check_backups(names: Iterable[str]) -> list[Problem]:
    text = "expected repo, 14 digits and 20 characters of base 32"
    return [
        problem("backup-name", OVERWRITTEN + name, text)
        for name in sorted(names)
        if not _BACKUP.fullmatch(name) and not (OVERWRITTEN + name).startswith(DAMAGED)
    ]


def _unknown(key: str) -> Problem:
    return problem("file-unknown", key, "not part of a repository")
