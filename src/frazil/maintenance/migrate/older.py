"""Migration from the generations before version 1: metadata is rewritten, chunks stay if they can.

In place, new files stand beside the old ones, under names of their own (copying/rewrite.py), and
the old ones are there until `confirm`. In another store they keep their names. Chunks whose names
were longer, up to A2a, are copied to the names they have now.

Old files whose names the new repository needs are kept under other names until it is confirmed:

    V2pre       to 2    `repo`, which is the entry point of both
    A2 .. V1pre to 1    tags and `config.yaml`, which have the same names in both; and folders such
                        as `branch:main`, over which clients of version 1 stumble

They are copied aside before anything takes their places, and that is the last thing a migration
does. If it is stopped right there, the next one puts them back before it looks at anything.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import override

from frazil.engine.files.entry_file import create_entry, replace_entry
from frazil.engine.files.object_keys import (
    CHUNKS,
    CONFIG_YAML,
    MANIFESTS,
    OVERWRITTEN,
    REFS,
    REPO_INFO,
    SNAPSHOTS,
    TRANSACTIONS,
    V1_MAIN_BRANCH,
    manifest_key,
    ref_of_key,
    snapshot_key,
    tag_key,
    transaction_key,
)
from frazil.engine.repository import Repository
from frazil.errors import ObjectNotFoundError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.config_codec import encode_config, encode_config_yaml
from frazil.format.generation import Generation
from frazil.format.ref_file import decode_ref, encode_ref
from frazil.format.repo_info import RepoInfo, encode_repo_info
from frazil.format.update_log import RepoStatus
from frazil.ids import INITIAL_SNAPSHOT, SnapshotId
from frazil.maintenance.copying.copied_refs import log_ids
from frazil.maintenance.copying.derived import DerivedPlan, plan_derived
from frazil.maintenance.copying.origin import (
    Entry,
    RefFiles,
    RepoFile,
    Versions,
    exists,
    precondition_as_conflict,
    require_absent,
)
from frazil.maintenance.copying.rewrite_rules import DerivedNames, Names, Rules, SameNames
from frazil.maintenance.copying.transfer import require_elsewhere
from frazil.maintenance.executor import Executor
from frazil.maintenance.inventory import kind_of
from frazil.maintenance.migration_journal import read_journal
from frazil.maintenance.snapshot_list import in_order, synthesize_repo_info
from frazil.objectstore.protocol import Blob, ObjectStore

KEPT = "migration/kept/"
_OLD_FOLDERS = ("r/", "s/", "m/", "c/", "t/", "a/", "attributes/")
_BACKUPS = f"{OVERWRITTEN}{REPO_INFO}."  # of early entry points of version 2
_SHARED_FOLDERS = (REFS, SNAPSHOTS, MANIFESTS, TRANSACTIONS, CHUNKS)


def plan_rewrite(
    repository: Repository, target: ObjectStore | None, executor: Executor, *, to: int
) -> DerivedPlan:
    """Plans a migration to another store, or in place; cleans up an interrupted one first."""
    place = repository.raw_store if target is None else target
    if target is not None:
        require_elsewhere(repository.raw_store, target)
    else:
        put_back(place)
    is_early = target is None and repository.generation is Generation.V2PRE
    early = place.get(REPO_INFO) if is_early else None  # what `info` is computed from
    info = in_order(repository.repo_info())
    names = _names(repository, info, place) if target is None else SameNames()
    config = _config(repository)
    deleted = _deleted_tags(repository.store, info, names)

    def finished(made: RepoInfo) -> RepoInfo:
        if to == 1:
            return replace(made, spec_version=1)
        new = synthesize_repo_info(
            made,
            deleted,
            config=config,
            now_us=repository.clock(),
            from_version=repository.spec_version,
        )
        if repository.generation is not Generation.V2PRE:
            return new
        return replace(new, metadata=made.metadata, status=_status(made, new))

    def entry(made: RepoInfo) -> Entry:
        if to == 1:
            text = None if config is None else encode_config_yaml(config)
            if target is not None:
                return RefFiles(repository.store, made, text)
            displaced = in_the_way_of_version_1(place)
            return ReplacedRefFiles(repository.store, made, text, displaced, deleted)
        data = encode_repo_info(made)
        return RepoFile(made, data) if early is None else ReplacedRepoFile(made, data, early)

    return plan_derived(
        repository,
        place,
        info,
        Rules(names=names),
        executor,
        finished=finished,
        entry_of=entry,
    )


def old_files(plan: DerivedPlan) -> Iterator[str]:
    """Keys of files of the older generation that the new repository does not use.

    A second try finds new files of the first beside them. So files count that the first try has
    noted in the journal, and of later ones those that can only be of the older generation.
    """
    store = plan.repository.raw_store
    journal = read_journal(store)
    later = {snapshot_key(plan.info.snapshots.id(row)) for row in range(len(plan.info.snapshots))}
    later |= {transaction_key(SnapshotId(raw)) for raw in log_ids(plan.info)}
    later |= {manifest_key(manifest) for manifest in plan.survey.manifests}
    beside = (*_OLD_FOLDERS, *((_BACKUPS,) if plan.repository.spec_version == 2 else ()))
    for info in store.list():
        key = info.key
        if key.startswith(CHUNKS) and kind_of(key) is not None:
            continue  # where it would be today
        if plan.spec_version == 1 and (key == CONFIG_YAML or ref_of_key(key) is not None):
            continue  # of the new repository by then
        if journal is None:
            is_old = key.startswith((*beside, *_SHARED_FOLDERS)) or key == CONFIG_YAML
        else:
            is_old = key in journal.keys or key in later or key.startswith((*beside, REFS))
        if is_old:
            yield key
    yield from (KEPT + key for key in displaced_files(plan))


def displaced_files(plan: DerivedPlan) -> tuple[str, ...]:
    """Old files that are kept under other names, since the new repository needs theirs."""
    match plan.entry:
        case ReplacedRepoFile():
            return (REPO_INFO,)
        case ReplacedRefFiles(displaced=displaced):
            return displaced
        case _:
            return ()


def _names(repository: Repository, info: RepoInfo, store: ObjectStore) -> Names:
    """The first snapshot gets the name it has in every repository, unless an old file has it."""
    roots = [row for row in range(len(info.snapshots)) if info.snapshots.parent(row) < 0]
    first = info.snapshots.id(roots[0]) if len(roots) == 1 else None
    if first is not None and len(repository.files.fetch_snapshot(first).nodes):
        first = None
    taken = _is_old(store)
    purpose = f"migrated from {repository.generation}"
    return DerivedNames(purpose, first=first, root=None if taken else INITIAL_SNAPSHOT)


def _is_old(store: ObjectStore) -> bool:
    """True if a file has the name of the first snapshot, and is not of an earlier try."""
    key, journal = snapshot_key(INITIAL_SNAPSHOT), read_journal(store)
    return exists(store, key) if journal is None else key in journal.keys


def _config(repository: Repository) -> Json | None:
    stored = Repository.fetch_config(repository.raw_store)
    return None if stored is None else encode_config(stored)


def _status(old: RepoInfo, new: RepoInfo) -> RepoStatus:
    """The status of a pre-release of version 2, unless its entry point had none."""
    return old.status if old.status.set_at_us else new.status


def _deleted_tags(store: ObjectStore, info: RepoInfo, names: Names) -> dict[str, SnapshotId]:
    found: dict[str, SnapshotId] = {}
    for name in info.deleted_tags:
        try:
            old = decode_ref(store.get(tag_key(name)).data)
        except ObjectNotFoundError:
            old = info.snapshots.id(info.branches["main"])
        found[name] = names.snapshot(old)
    return found


def keep_aside(store: ObjectStore, keys: Iterable[str]) -> None:
    """Copies files aside, unless an earlier try has kept them."""
    kept = {info.key for info in store.list(KEPT)}
    for key in keys:
        if KEPT + key not in kept:
            store.copy(key, KEPT + key)
    store.sync()


def put_back(store: ObjectStore) -> None:
    """Restores files that an unfinished migration to version 1 has kept aside."""
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
        with precondition_as_conflict():
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
        with precondition_as_conflict():
            create_entry(target, V1_MAIN_BRANCH, main)
        target.sync()
        target.delete(key for key in self.displaced if _is_strange(key))
        return True
