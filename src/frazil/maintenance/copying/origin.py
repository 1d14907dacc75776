"""The entry point of a copy: refs of the source, from which everything else is reachable.

    version 2   one file, `repo`, copied as it is or made again for fewer refs
    version 1   a file for each branch and tag, and `config.yaml`

They are read before anything is copied. A new copy gets them after all of it. In a repository that
is there already they are joined, by updates of its entry point; branches and tags are two
namespaces, and each ref is treated as `git fetch` would:

    only at the source    created at the target
    at both               a branch moves forward, from a snapshot that the source knows as an
                          ancestor; a tag must be at the same snapshot. All else is a ConflictError
    only at the target    stays, with its commits; also if it was deleted at the source

Each ref is an update of the entry point of its own, with a backup and an entry in the ops log, and
each is all or nothing; starting again goes on with those that are left. Conflicts are found before
the first of them. Settings, status and metadata of the target stay; virtual chunk containers that
it does not have are added, since it could not read chunks in them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from frazil.clock import Clock
from frazil.engine.files.entry_file import create_entry
from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import (
    CONFIG_YAML,
    OVERWRITTEN,
    REFS,
    REPO_INFO,
    V1_MAIN_BRANCH,
    branch_key,
    tag_key,
    tombstone_key,
)
from frazil.engine.refs.ancestry import record_at
from frazil.engine.refs.refs import MAIN
from frazil.engine.repository import Repository
from frazil.errors import (
    ConflictError,
    InternalError,
    InvalidInputError,
    ObjectNotFoundError,
    PreconditionFailedError,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.config import RepositoryConfig
from frazil.format.config_codec import decode_config, decode_config_yaml, encode_config
from frazil.format.generation import CURRENT, Generation
from frazil.format.ref_file import encode_ref
from frazil.format.repo_info import RepoInfo, decode_repo_info, encode_repo_info
from frazil.format.storage_config import VirtualChunkContainer
from frazil.format.update_log import BranchCreated, ConfigChanged, NewCommit, TagCreated, UpdateKind
from frazil.ids import SnapshotId
from frazil.maintenance.copying.copied_refs import choose_refs, chooses_main, tips_of
from frazil.maintenance.id_sets import IdSet
from frazil.maintenance.reachable import ids_of_rows, reachable_rows, root_rows
from frazil.maintenance.snapshot_list import in_order, prefetch_heads, with_history
from frazil.objectstore.protocol import ObjectStore

type Versions = Mapping[str, str]
"""Versions of objects found at the target, by key."""


class Entry(Protocol):
    """Entry point as a version of the format stores it."""

    @property
    def joined(self) -> RepoInfo | None:
        """Refs that are joined to a repository that is there; None if it is replaced."""
        ...

    def find(self, target: ObjectStore) -> Versions:
        """Finds the repository at the target. Raises ConflictError if it cannot be joined."""
        ...

    def publish(self, target: ObjectStore, found: Versions) -> bool:
        """Makes the copy a repository, or replaces one; False if there is nothing to do."""
        ...


def publish_entry(
    entry: Entry, target: ObjectStore, found: Versions, settled: IdSet, clock: Clock
) -> bool:
    """Makes what was copied visible; True if there was anything new. Raises ConflictError.

    `settled` are snapshots of the target that the copy relies on: see `join`.
    """
    refs = entry.joined
    if found and refs is not None:
        return join(Repository.open(target, clock=clock), refs, settled)
    return entry.publish(target, found)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Origin:
    """A source at one moment, with the refs that were chosen. `kept` are more files to copy."""

    info: RepoInfo
    kept: tuple[str, ...]
    entry: Entry


def read_origin(repository: Repository, refs: Sequence[str] | None, files: Files) -> Origin:
    """Reads refs; snapshots are in `files`. Raises RefNotFoundError for refs that do not exist."""
    require_current(repository.generation)
    if repository.spec_version == 1:
        return _read_ref_files(repository, refs, files)
    return _read_repo_file(repository, refs)


def require_current(generation: Generation) -> None:
    if generation not in CURRENT:
        raise InvalidInputError(
            f"the repository is of generation {generation}, which is not copied as it is:"
            " `frazil migrate` makes one of version 2, in place or in another store"
        )


@dataclass(frozen=True, slots=True, eq=False)
class RepoFile:
    """Version 2."""

    info: RepoInfo
    data: bytes
    invents_main: bool = field(default=False, kw_only=True)  # main was not chosen; see choose_refs

    @property
    def joined(self) -> RepoInfo | None:
        return _refs_to_join(self.info, invents_main=self.invents_main)

    def find(self, target: ObjectStore) -> Versions:
        require_absent(target, V1_MAIN_BRANCH, version=1)
        try:
            blob = target.get(REPO_INFO)
        except ObjectNotFoundError:
            return {}
        refs = _refs_to_join(self.info, invents_main=self.invents_main)
        require_joinable(decode_repo_info(blob.data), refs)
        return {REPO_INFO: blob.version}

    def publish(self, target: ObjectStore, found: Versions) -> bool:
        del found
        with precondition_as_conflict():
            create_entry(target, REPO_INFO, self.data)
        return True


@dataclass(frozen=True, slots=True, eq=False)
class RefFiles:
    """Version 1. The branch main is written last: before it there is no repository."""

    source: ObjectStore
    info: RepoInfo
    config: bytes | None
    invents_main: bool = field(default=False, kw_only=True)

    @property
    def joined(self) -> RepoInfo | None:
        config = None if self.config is None else decode_config_yaml(self.config)
        return replace(_refs_to_join(self.info, invents_main=self.invents_main), config=config)

    def find(self, target: ObjectStore) -> Versions:
        require_absent(target, REPO_INFO, version=2)
        try:
            blob = target.get(V1_MAIN_BRANCH)
        except ObjectNotFoundError:
            return {}
        refs = _refs_to_join(self.info, invents_main=self.invents_main)
        require_joinable(Repository.open(target).repo_info(), refs)
        return {V1_MAIN_BRANCH: blob.version}

    def publish(self, target: ObjectStore, found: Versions) -> bool:
        del found
        files = self._files(target)
        main = files.pop(V1_MAIN_BRANCH)
        # Without a branch main, refs that are there were left by an interrupted copy.
        target.delete([one.key for one in target.list(REFS) if one.key not in files])
        if self.config is not None:
            target.put(CONFIG_YAML, self.config)
        for key, data in files.items():
            target.put(key, data)
        target.sync()
        with precondition_as_conflict():
            create_entry(target, V1_MAIN_BRANCH, main)
        return True

    def _files(self, target: ObjectStore) -> dict[str, bytes]:
        """Files of refs in the order in which they are written."""
        del target
        tags = tips_of(self.info, self.info.tags)
        made = {tag_key(name): encode_ref(tip) for name, tip in tags.items()}
        for name in self.info.deleted_tags:
            with suppress(ObjectNotFoundError):
                made[tag_key(name)] = bytes(self.source.get(tag_key(name)).data)
            made[tombstone_key(name)] = b""
        tips = tips_of(self.info, self.info.branches)
        branches = {branch_key(name): encode_ref(tip) for name, tip in tips.items()}
        main = {V1_MAIN_BRANCH: branches.pop(V1_MAIN_BRANCH)}
        return {**made, **branches, **main}


@dataclass(frozen=True, slots=True, eq=False)
class JoinedRefs:
    """Branches and tags for a repository of either version, which keeps its settings."""

    info: RepoInfo
    invents_main: bool

    @property
    def joined(self) -> RepoInfo | None:
        return replace(_refs_to_join(self.info, invents_main=self.invents_main), config=None)

    def find(self, target: ObjectStore) -> Versions:
        refs = _refs_to_join(self.info, invents_main=self.invents_main)
        require_joinable(Repository.open(target).repo_info(), refs)
        return {"": ""}

    def publish(self, target: ObjectStore, found: Versions) -> bool:
        raise InternalError(f"refs alone make no repository: {found!r} at {target!r}")


def _read_repo_file(repository: Repository, refs: Sequence[str] | None) -> Origin:
    store = repository.store
    data = bytes(store.get(REPO_INFO).data)
    info = decode_repo_info(data)
    chosen = choose_refs(info, refs, clock=repository.clock)
    return Origin(
        info=chosen,
        kept=() if refs is not None else tuple(one.key for one in store.list(OVERWRITTEN)),
        entry=RepoFile(
            chosen,
            data if refs is None else encode_repo_info(chosen),
            invents_main=not chooses_main(refs),
        ),
    )


def _read_ref_files(repository: Repository, refs: Sequence[str] | None, files: Files) -> Origin:
    found = in_order(with_history(repository.repo_info(), prefetch_heads(files)))
    info = choose_refs(found, refs, clock=repository.clock)
    try:
        config: bytes | None = bytes(repository.store.get(CONFIG_YAML).data)
    except ObjectNotFoundError:
        config = None
    entry = RefFiles(repository.store, info, config, invents_main=not chooses_main(refs))
    return Origin(info=info, kept=(), entry=entry)


def exists(store: ObjectStore, key: str) -> bool:
    try:
        store.head(key)
    except ObjectNotFoundError:
        return False
    return True


def require_absent(target: ObjectStore, key: str, *, version: int) -> None:
    if exists(target, key):
        raise ConflictError(message=f"there is a repository of version {version} at the target")


def _refs_to_join(info: RepoInfo, *, invents_main: bool) -> RepoInfo:
    if not invents_main:
        return info
    branches = {name: row for name, row in info.branches.items() if name != MAIN}
    return replace(info, branches=branches)


@contextmanager
def precondition_as_conflict() -> Iterator[None]:
    try:
        yield
    except PreconditionFailedError as error:
        raise ConflictError(message="the target was changed while it was copied to") from error


# ---- Joining refs to a repository that is there --------------------------------------------------


def settled_snapshots(target: ObjectStore) -> IdSet:
    """Snapshots reachable from the refs at the target: garbage collection keeps their files."""
    if not Repository.exists(target):
        return IdSet.empty()
    return _reachable(Repository.open(target).repo_info())


def require_joinable(there: RepoInfo, source: RepoInfo) -> None:
    """Raises ConflictError, InvalidInputError."""
    if source.spec_version > there.spec_version:
        raise InvalidInputError("the target is of an older version of the format: migrate it first")
    for name, tip in tips_of(source, source.branches).items():
        _require_forward(there, source, name, tip)
    for name, tip in tips_of(source, source.tags).items():
        _require_same_tag(there, name, tip)


def join(target: Repository, source: RepoInfo, settled: IdSet) -> bool:
    """True if anything was new. Raises ConflictError before anything is changed.

    `settled` are snapshots that were found at the target when the copy was planned, and were
    neither copied nor refreshed: they must still be there.
    """
    there = target.repo_info()
    require_joinable(there, source)
    changed = _join_containers(target, source.config)
    for name, tip in sorted(tips_of(source, source.branches).items()):
        if name not in there.branches or there.snapshot_of_branch(name) != tip:
            step = _branch_change(source, settled, name, tip)
            target.entry.update(step, doing="updating a branch of a copy")
            changed = True
    for name, tip in sorted(tips_of(source, source.tags).items()):
        if name not in there.tags and name not in there.deleted_tags:
            step = _tag_change(source, settled, name, tip)
            target.entry.update(step, doing="adding a tag to a copy")
            changed = True
    return changed


type _Change = Callable[[RepoInfo], tuple[RepoInfo, UpdateKind]]


def _branch_change(source: RepoInfo, settled: IdSet, name: str, tip: SnapshotId) -> _Change:
    def change(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
        _require_forward(info, source, name, tip)
        kind = NewCommit(name, tip) if name in info.branches else BranchCreated(name)
        return _with_history(info, source, settled, tip).with_branch(name, tip), kind

    return change


def _tag_change(source: RepoInfo, settled: IdSet, name: str, tip: SnapshotId) -> _Change:
    def change(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
        _require_same_tag(info, name, tip)
        return _with_history(info, source, settled, tip).with_tag(name, tip), TagCreated(name)

    return change


def _with_history(info: RepoInfo, source: RepoInfo, settled: IdSet, tip: SnapshotId) -> RepoInfo:
    """Lists the ancestors of `tip`, oldest first, as far as they are not listed.

    A collection of garbage takes snapshots from the list before it deletes anything. So one that
    was there and is not listed any more may be gone, with all that it consists of.
    """
    rows = list(source.snapshots.ancestors(source.snapshots.find(tip)))
    if info.spec_version == 1:  # nothing lists them: their files are there
        _require_settled(source, rows, settled, lost=~_reachable(info).contains(settled.ids()))
        return info
    new: list[int] = []
    for row in rows:
        if info.snapshots.find(source.snapshots.id(row)) >= 0:
            break
        new.append(row)
    _require_settled(source, new, settled)
    for row in reversed(new):
        record = record_at(source, row)
        info = info.with_snapshot(
            record.id,
            record.parent_id,
            record.flushed_at_us,
            record.message,
            record.metadata,
            pruned_logs=source.snapshots.pruned_logs(row),
        )
    return info


def _require_settled(
    source: RepoInfo,
    rows: list[int],
    settled: IdSet,
    *,
    lost: npt.NDArray[np.bool_] | None = None,
) -> None:
    """Raises ConflictError if one of the rows was settled; if `lost` is given, and is lost."""
    gone = settled if lost is None else IdSet.of(settled.ids()[lost])
    ids = ids_of_rows(source, rows)
    found = ids[gone.contains(ids)]
    if len(found):
        raise ConflictError(
            message=f"snapshot {SnapshotId(found[0].tobytes())} was removed from the history of"
            " the target while it was copied to: start again"
        )


def _reachable(info: RepoInfo) -> IdSet:
    return IdSet.of(ids_of_rows(info, reachable_rows(info, root_rows(info))))


def _require_forward(info: RepoInfo, source: RepoInfo, name: str, tip: SnapshotId) -> None:
    current = info.snapshot_of_branch(name) if name in info.branches else None
    if current is None:
        return
    row = source.snapshots.find(tip)
    ids = {source.snapshots.id(one) for one in source.snapshots.ancestors(row)}
    if current not in ids:
        raise ConflictError(
            message=f"branch {name!r} at the target is at {current}, which is not part of the"
            f" history of {tip}: it has commits of its own, or the branch was reset at the source",
            kind="branch-update-conflict",
            expected_parent=str(tip),
            actual_parent=str(current),
        )


def _require_same_tag(info: RepoInfo, name: str, tip: SnapshotId) -> None:
    if name in info.tags and (there := info.snapshot_of_tag(name)) != tip:
        raise ConflictError(
            message=f"tag {name!r} at the target is at {there}, at the source at {tip}"
        )


def _join_containers(target: Repository, source: Json | None) -> bool:
    """True if the target's configuration lacked a virtual chunk container of the source."""
    offered = None if source is None else decode_config(source).virtual_chunk_containers
    if not _missing_containers(Repository.fetch_config(target.store), offered):
        return False

    def change(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
        if info.spec_version == 1:  # which keeps the configuration beside the refs
            stored = Repository.fetch_config(target.store)
        else:
            stored = None if info.config is None else decode_config(info.config)
        config = stored or RepositoryConfig()
        for container in _missing_containers(stored, offered):
            config.set_virtual_chunk_container(container)
        return replace(info, config=encode_config(config)), ConfigChanged()

    target.entry.update(change, doing="adding virtual chunk containers to a copy")
    return True


def _missing_containers(
    stored: RepositoryConfig | None, offered: Mapping[str, VirtualChunkContainer] | None
) -> list[VirtualChunkContainer]:
    """Containers that are not stored: neither their prefix nor their name is taken."""
    known = (stored and stored.virtual_chunk_containers) or {}
    names = {one.name for one in known.values() if one.name is not None}
    return [
        one
        for prefix, one in (offered or {}).items()
        if prefix not in known and one.name not in names
    ]
