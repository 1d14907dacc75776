"""Old files whose names the new repository needs: kept under other names until it is confirmed.

    V2pre       to 2    `repo`, which is the entry point of both
    A2 .. V1pre to 1    tags and `config.yaml`, which have the same names in both; and folders such
                        as `branch:main`, over which clients of version 1 stumble

They are copied aside before anything takes their places, and that is the last thing a migration
does. If it is stopped right there, the next one puts them back before it looks at anything.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import override

from frazil.assets.entry_file import create_entry, replace_entry
from frazil.assets.layout import (
    CONFIG_YAML,
    REFS,
    REPO_INFO,
    V1_MAIN_BRANCH,
    ref_of_key,
    tag_key,
)
from frazil.format.ref_file import encode_ref
from frazil.ids import SnapshotId
from frazil.maintenance.copying.origin import (
    RefFiles,
    RepoFile,
    Versions,
    exists,
    moved_is_conflict,
    require_absent,
)
from frazil.maintenance.migrate.journal import read_journal
from frazil.objectstore.protocol import Blob, ObjectStore

KEPT = "migration/kept/"


def keep_aside(store: ObjectStore, keys: Iterable[str]) -> None:
    """Copies, unless an earlier try has kept them."""
    kept = {info.key for info in store.list(KEPT)}
    for key in keys:
        if KEPT + key not in kept:
            store.copy(key, KEPT + key)
    store.sync()


def put_back(store: ObjectStore) -> None:
    """What a migration to version 1 has kept aside, if it did not get to its end."""
    kept = [info.key for info in store.list(KEPT)]
    if not kept or exists(store, V1_MAIN_BRANCH) or exists(store, REPO_INFO):
        return
    for key in kept:
        store.copy(key, key.removeprefix(KEPT))
    store.sync()


def in_the_way_of_version_1(store: ObjectStore) -> tuple[str, ...]:
    """Old files of names that version 1 needs, or cannot have beside its own."""
    journal = read_journal(store)
    listed = [info.key for info in (*store.list(REFS), *store.list(CONFIG_YAML))]
    return tuple(
        key
        for key in listed
        if key == CONFIG_YAML
        or _is_strange(key)
        or (ref_of_key(key) is not None and (journal is None or KEPT + key in journal.keys))
    )


def _is_strange(key: str) -> bool:
    return key.startswith(REFS) and ":" in key.removeprefix(REFS)[:7]


@dataclass(frozen=True, slots=True, eq=False)
class ReplacedRepoFile(RepoFile):
    """The entry point of version 2 in the place of `old`, an early one."""

    old: Blob

    @property
    @override
    def joined(self) -> None:
        return None

    @override
    def find(self, target: ObjectStore) -> Versions:
        del target
        return {REPO_INFO: self.old.version}

    @override
    def publish(self, target: ObjectStore, found: Versions) -> bool:
        del found
        with moved_is_conflict():
            replace_entry(target, REPO_INFO, self.old, self.data, backup=KEPT + REPO_INFO)
        return True


@dataclass(frozen=True, slots=True, eq=False)
class ReplacedRefFiles(RefFiles):
    """Refs of version 1, in the place of older ones. With the branch main it is a repository."""

    displaced: tuple[str, ...]
    deleted: Mapping[str, SnapshotId]  # by name of a tag, where it was

    @override
    def find(self, target: ObjectStore) -> Versions:
        require_absent(target, REPO_INFO, version=2)
        require_absent(target, V1_MAIN_BRANCH, version=1)
        return {}

    @override
    def publish(self, target: ObjectStore, found: Versions) -> bool:
        del found
        made = self._files(target)
        made |= {tag_key(name): encode_ref(tip) for name, tip in self.deleted.items()}
        main = made.pop(V1_MAIN_BRANCH)
        keep_aside(target, self.displaced)
        # First what is beside the old refs, then what takes their places.
        for key in sorted(made, key=lambda key: key in self.displaced):
            target.put(key, made[key])
        if self.config is not None:
            target.put(CONFIG_YAML, self.config)
        target.sync()
        with moved_is_conflict():
            create_entry(target, V1_MAIN_BRANCH, main)
        target.sync()
        target.delete(key for key in self.displaced if _is_strange(key))
        return True
