"""A repository: an object store with an entry point, and what can be asked of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from frazil.clock import Clock, system_clock
from frazil.engine.files.caches import Caches
from frazil.engine.files.files import Files, preload_manifests
from frazil.engine.files.object_stores import portable_settings, with_settings
from frazil.engine.files.settings import Settings, limited_config
from frazil.engine.files.virtual_access import (
    NO_AUTHORIZATION,
    VirtualAccess,
    VirtualChunkAccess,
    trust_home_endpoint,
)
from frazil.engine.refs import ancestry as history
from frazil.engine.refs import refs, repo_settings
from frazil.engine.refs.ancestry import SnapshotBlock, SnapshotRecord, ancestor_blocks, ancestors
from frazil.engine.refs.commit_metadata import require_json
from frazil.engine.refs.entries import entry_of, files_of, find_repository, find_spec_version
from frazil.engine.refs.entry import EntryPoint, is_clean, require_online
from frazil.engine.refs.repo_settings import require_config, require_version_2
from frazil.engine.refs.version import Branch, Version, fetch_for_session, resolve
from frazil.engine.session.session import Session
from frazil.errors import (
    InvalidInputError,
    ObjectNotFoundError,
    ReadOnlyError,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.config import RepositoryConfig
from frazil.format.generation import Generation, require_writable
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import ManifestFile
from frazil.format.update_log import ConfigChanged, RepoStatus, Update, UpdateLog
from frazil.ids import SnapshotId
from frazil.lazy import lazy_module
from frazil.objectstore.protocol import ObjectStore

if TYPE_CHECKING:
    from frazil.engine.changes import diff as diffs
    from frazil.engine.refs import ops_log
    from frazil.format import config_codec
else:  # most repositories have the default configuration
    config_codec = lazy_module("frazil.format.config_codec")
    diffs = lazy_module("frazil.engine.changes.diff")
    ops_log = lazy_module("frazil.engine.refs.ops_log")


class Repository:
    """Holds no state of the repository itself: every question is answered from the store.

    `config` is what the caller gave, over what the repository stores, over the defaults.
    """

    def __init__(
        self,
        store: ObjectStore,
        config: RepositoryConfig,
        clock: Clock,
        *,
        spec_version: int = 2,
        generation: Generation | None = None,
        access: VirtualChunkAccess = NO_AUTHORIZATION,
        caches: Caches | None = None,
    ) -> None:
        """`generation` unless it is the one of the version.

        `caches` are those of another object for the same repository.
        """
        self.config = config
        self.clock = clock
        self.spec_version = spec_version
        self.access = access  # to virtual chunks; never stored
        self.containers_are_given = False  # by who opened it, not by the repository
        self.default_commit_metadata: dict[str, Json] = {}  # of sessions made from now on
        self.generation = generation or Generation.of_version(spec_version)
        settings = Settings.of(
            config, spec_version=spec_version, generation=self.generation, access=access
        )
        self._files = files_of(store, settings, caches)
        self.store = self._files.store  # shows the files of every generation by today's keys
        self.raw_store = self._files.raw_store  # shows them by the keys that they have
        self._entry = entry_of(self._files, clock)

    def __reduce__(self) -> tuple[object, ...]:
        make = partial(
            type(self),
            spec_version=self.spec_version,
            generation=self.generation,
            access=self.access,
        )
        state = {
            "default_commit_metadata": self.default_commit_metadata,
            "containers_are_given": self.containers_are_given,
        }
        return make, (self.raw_store, self.config, self.clock), state

    @property
    def files(self) -> Files:
        """The files of the repository, for maintenance."""
        return self._files

    @property
    def entry(self) -> EntryPoint:
        """The entry point, for maintenance."""
        return self._entry

    @property
    def virtual(self) -> VirtualAccess:
        """Permission to read virtual chunks."""
        return self._files.settings.virtual

    @property
    def lists_snapshots(self) -> bool:
        """True if the entry point lists all snapshots; before version 2 it has only refs."""
        return self.spec_version >= 2

    @property
    def has_ops_log(self) -> bool:
        """True if the entry point has an ops log and a status, which version 2 introduced."""
        return self.spec_version >= 2

    # Opening

    @classmethod
    def create(
        cls,
        store: ObjectStore,
        config: RepositoryConfig | None = None,
        *,
        spec_version: int = 2,
        generation: Generation | None = None,
        check_clean_root: bool = True,
        clock: Clock = system_clock,
        access: VirtualChunkAccess = NO_AUTHORIZATION,
    ) -> "Repository":
        """A new repository with one empty snapshot on branch main.

        Of several that are created in one place at once, one succeeds.
        """
        if not store.writable:
            raise ReadOnlyError("the storage is read-only", kind="read-only-storage")
        if check_clean_root and not is_clean(store):
            raise InvalidInputError(
                "repositories can only be created in clean prefixes",
                kind="parent-directory-not-clean",
            )
        given = require_config(config)
        store = _apply_storage_settings(store, given)
        access = trust_home_endpoint(access, store, is_given=True)
        generation = generation or Generation.of_version(spec_version)
        repository = cls(
            store,
            given,
            clock,
            spec_version=generation.spec_version,
            generation=generation,
            access=access,
        )
        repository.containers_are_given = True
        stored = None if repository.config == RepositoryConfig() else repository.config
        repository._entry.create(
            config=None if stored is None else config_codec.encode_config(stored)
        )
        return repository

    @classmethod
    def open(
        cls,
        store: ObjectStore,
        config: RepositoryConfig | None = None,
        *,
        clock: Clock = system_clock,
        access: VirtualChunkAccess = NO_AUTHORIZATION,
    ) -> "Repository":
        """Raises RepositoryNotFoundError if there is none."""
        given = require_config(config)
        store = _apply_storage_settings(store, given)
        there = find_repository(store, given, clock, access.limits)
        merged = given
        if there.config is not None:
            found = limited_config(config_codec.decode_config(there.config), access.limits)
            elsewhere = replace(found, storage=portable_settings(found.storage))
            store = _apply_storage_settings(_apply_storage_settings(store, elsewhere), given)
            merged = found.merge(given)
        is_given = given.virtual_chunk_containers is not None
        repository = cls(
            store,
            merged,
            clock,
            spec_version=there.generation.spec_version,
            generation=there.generation,
            access=trust_home_endpoint(access, store, is_given=is_given),
            caches=there.caches,
        )
        repository.containers_are_given = is_given
        return repository

    def reopened(
        self, config: RepositoryConfig | None = None, access: VirtualChunkAccess | None = None
    ) -> "Repository":
        """The same repository, with `config` over the configuration it has here.

        What was read is kept, as far as the sizes of the caches stay the same; nothing is kept for
        a reader with other limits, which might have refused it.
        """
        given = require_config(config)
        allowed = self.access if access is None else access
        is_given = self.containers_are_given or given.virtual_chunk_containers is not None
        again = type(self)(
            _apply_storage_settings(self.raw_store, given),
            self.config.merge(given),
            self.clock,
            spec_version=self.spec_version,
            generation=self.generation,
            access=trust_home_endpoint(allowed, self.raw_store, is_given=is_given),
            caches=self._files.caches if allowed.limits == self.access.limits else None,
        )
        again.containers_are_given = is_given
        again.default_commit_metadata = self.default_commit_metadata
        return again

    @classmethod
    def exists(cls, store: ObjectStore) -> bool:
        return cls.fetch_spec_version(store) is not None

    @staticmethod
    def fetch_spec_version(store: ObjectStore) -> int | None:
        """None if there is no repository."""
        return find_spec_version(store)

    @staticmethod
    def fetch_config(store: ObjectStore) -> RepositoryConfig | None:
        """The configuration the repository stores; None if it has only defaults."""
        stored = find_repository(store, RepositoryConfig(), system_clock).config
        return None if stored is None else config_codec.decode_config(stored)

    def save_config(self) -> None:
        """Stores the configuration for all clients that open the repository from now on."""
        config = config_codec.encode_config(self.config)
        self._entry.update(
            lambda info: (replace(info, config=config), ConfigChanged()), doing="saving the config"
        )

    # Administration

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        checked = require_json(metadata)
        self._entry.update(
            lambda info: repo_settings.set_metadata(info, checked), doing="setting the metadata"
        )

    def update_metadata(self, changes: Mapping[str, Any]) -> dict[str, Json]:
        """Merges `changes` into what is there when they arrive; returns the whole."""
        checked = require_json(changes)
        return self._entry.update(
            lambda info: repo_settings.update_metadata(info, checked), doing="updating the metadata"
        ).metadata

    def set_status(self, status: RepoStatus) -> None:
        """The one change that a repository takes that is not online."""
        self._entry.update(
            lambda info: repo_settings.set_status(info, status),
            doing="setting the status",
            even_if_read_only=True,
        )

    def set_flag(self, flag: repo_settings.Flag, value: bool | None) -> None:  # noqa: FBT001 -- three values
        self._entry.update(
            lambda info: repo_settings.set_flag(info, flag, value), doing="setting a feature flag"
        )

    # Sessions

    def readonly_session(self, version: Version) -> Session:
        info = fetch_for_session(self._files, self._entry, version)
        return self._session(history.snapshot_id(info, resolve(info, version)))

    def writable_session(self, branch: str) -> Session:
        return self._session_on(branch, self._require_online("creating a writable session", branch))

    def rearrange_session(self, branch: str) -> Session:
        """Opens a session that can only move nodes."""
        require_version_2(self.spec_version)
        doing = "creating a rearrange session"
        info = self._require_online(doing, branch)
        repo_settings.require_enabled(info, repo_settings.MOVE_NODE, doing=doing)
        return self._session_on(branch, info, rearranges=True)

    # Refs

    def create_branch(self, name: str, snapshot: SnapshotId) -> None:
        self._entry.update(
            lambda info: refs.create_branch(info, name, snapshot), doing="creating a branch"
        )

    def reset_branch(
        self, name: str, snapshot: SnapshotId, *, expected: SnapshotId | None = None
    ) -> None:
        self._entry.update(
            lambda info: refs.reset_branch(info, name, snapshot, expected=expected),
            doing="resetting a branch",
        )

    def delete_branch(self, name: str) -> None:
        refs.require_deletable(name)  # no status of the repository would change that
        self._entry.update(lambda info: refs.delete_branch(info, name), doing="deleting a branch")

    def create_tag(self, name: str, snapshot: SnapshotId) -> None:
        self._entry.update(
            lambda info: refs.create_tag(info, name, snapshot), doing="creating a tag"
        )

    def delete_tag(self, name: str) -> None:
        self._entry.update(lambda info: refs.delete_tag(info, name), doing="deleting a tag")

    def branches(self) -> dict[str, SnapshotId]:
        info = self._entry.fetch()
        return {name: history.snapshot_id(info, row) for name, row in info.branches.items()}

    def tags(self) -> dict[str, SnapshotId]:
        info = self._entry.fetch()
        return {name: history.snapshot_id(info, row) for name, row in info.tags.items()}

    def lookup_branch(self, name: str) -> SnapshotId:
        info = self._entry.fetch()
        return history.snapshot_id(info, history.branch_row(info, name))

    def lookup_tag(self, name: str) -> SnapshotId:
        info = self._entry.fetch()
        return history.snapshot_id(info, history.tag_row(info, name))

    # History

    def repo_info(self) -> RepoInfo:
        return self._entry.fetch()

    def maintained_info(self) -> RepoInfo:
        """The repo info for maintenance, with all of its history as it is stored now.

        In version 1 that is in snapshot files, of which some may be cached as they were before
        another client expired their parents. Expired snapshots may be collected at the same time:
        then it is read once more.
        """
        if self.lists_snapshots:
            return self.repo_info()
        try:
            return self._walked_info()
        except ObjectNotFoundError:
            return self._walked_info()

    def _walked_info(self) -> RepoInfo:
        self._files.forget_heads()
        info = self.repo_info()
        len(info.snapshots)  # makes every ancestor known
        return info

    def info_of_version_2(self) -> RepoInfo:
        """The repo info of version 2. Raises FormatError for version 1."""
        require_version_2(self.spec_version)
        return self._entry.fetch()

    def lookup_snapshot(self, snapshot: SnapshotId) -> SnapshotRecord:
        info = self._entry.fetch()
        return history.record_at(info, history.require_row(info, snapshot))

    def ancestry(self, version: Version) -> Iterator[SnapshotRecord]:
        """The snapshot, its parent, and so on to the root, as of this moment."""
        info = self._entry.fetch()
        return ancestors(info, resolve(info, version))

    def ancestry_blocks(self, version: Version) -> Iterator[tuple[SnapshotBlock, int]]:
        """The same in blocks of columns, with the size of each."""
        info = self._entry.fetch()
        return ancestor_blocks(info, resolve(info, version))

    def ops_log(self) -> Iterator[Update]:
        """Every change of the repository, newest first."""
        return chain.from_iterable(self.ops_log_pages())

    def ops_log_pages(self) -> Iterator[UpdateLog]:
        """The same, as the tables that the files hold."""
        info = self.info_of_version_2()
        return ops_log.pages(info, self._entry.fetch, self._files.fetch_log_page)

    def manifest_files(self, snapshot: SnapshotId) -> Sequence[ManifestFile]:
        history.require_row(self._entry.fetch(), snapshot)
        return self._files.fetch_snapshot(snapshot).manifest_files

    def diff(self, start: SnapshotId, end: SnapshotId) -> "diffs.Diff":
        """Changes from `start` to its descendant `end`."""
        info = self._entry.fetch()
        first, last = history.require_row(info, start), history.require_row(info, end)
        logs = history.log_ids_between(info, first, last)
        path_of = diffs.SnapshotPaths(*map(self._files.fetch_node_names, (end, start)))
        return diffs.summarise(self._files.fetch_logs(logs), path_of)

    # Shared parts

    def _require_online(self, doing: str, branch: str) -> RepoInfo:
        if not self.store.writable:
            raise ReadOnlyError("the storage is read-only", kind="read-only-storage")
        require_writable(self.generation)
        info = fetch_for_session(self._files, self._entry, Branch(branch))
        require_online(info, doing=doing)
        return info

    def _session_on(self, branch: str, info: RepoInfo, *, rearranges: bool = False) -> Session:
        tip = history.snapshot_id(info, history.branch_row(info, branch))
        return self._session(tip, branch=branch, rearranges=rearranges)

    def _session(
        self, snapshot: SnapshotId, *, branch: str | None = None, rearranges: bool = False
    ) -> Session:
        base = self._files.fetch_snapshot(snapshot)
        session = Session(
            self._files,
            self.clock,
            base,
            branch=branch,
            rearranges=rearranges,
            default_metadata=self.default_commit_metadata,
        )
        preload_manifests(self._files, base, reader=session)
        return session


def _apply_storage_settings(store: ObjectStore, config: RepositoryConfig) -> ObjectStore:
    return with_settings(store, config.storage, max_requests=config.max_concurrent_requests)
