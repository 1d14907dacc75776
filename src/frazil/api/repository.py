"""A repository, with Icechunk's names and signatures."""

from __future__ import annotations  # most of the types are imported only when they are needed

from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from frazil.api import values
from frazil.api.attribution import Attribution, with_user_agent
from frazil.api.storage import Storage, noting_location, require_prefix, store_of
from frazil.api.values import RepoStatus, SnapshotInfo, SpecVersion, require_version
from frazil.api.virtual_access import access_of, container_access
from frazil.engine import repository as engine
from frazil.engine.files.object_stores import with_settings
from frazil.engine.refs.ancestry import SnapshotList
from frazil.engine.refs.commit_metadata import require_json
from frazil.errors import ConflictError, RepositoryNotFoundError
from frazil.format.records import Displayed
from frazil.ids import ManifestId, SnapshotId
from frazil.lazy import lazy_module
from frazil.maintenance.executor import PACK_BYTES, REPLACEMENT, SMALL_BYTES
from frazil.twins import async_constructor, async_twin, run_on_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime, timedelta

    from frazil.api import actions, display, history, session, updates
    from frazil.api.conflicts import ConflictSolver
    from frazil.api.history import AncestryGraph, HistoryEdit, Squash
    from frazil.api.session import IcechunkStore, Session
    from frazil.api.updates import Update
    from frazil.api.values import AlphaVersion, CommitMethod, Diff, FeatureFlag, ManifestFileInfo
    from frazil.api.virtual_access import ContainerAccess, GivenAccess
    from frazil.describe import graph, inspect
    from frazil.engine.history import history_editing
    from frazil.format.config import RepositoryConfig
    from frazil.format.limits import Limits
    from frazil.format.records import View
    from frazil.format.storage_config import StorageSettings, VirtualChunkContainer
    from frazil.maintenance.executor import Progress
    from frazil.maintenance.summaries import GCSummary
    from frazil.objectstore import archive
    from frazil.twins import AsyncCloseableIterator
    from frazil.zarrstore.virtual_listing import VirtualChunkTable
else:
    actions, display = lazy_module("frazil.api.actions"), lazy_module("frazil.api.display")
    history, session = lazy_module("frazil.api.history"), lazy_module("frazil.api.session")
    updates = lazy_module("frazil.api.updates")
    graph, inspect = lazy_module("frazil.describe.graph"), lazy_module("frazil.describe.inspect")
    history_editing = lazy_module("frazil.engine.history.history_editing")
    archive = lazy_module("frazil.objectstore.archive")

MIB = 1 << 20


class Repository(Displayed):
    """Versions of one Zarr hierarchy. Made by `create`, `open` or `open_or_create`.

    Methods that read or write storage have twins named `..._async`, which run them on a thread.
    """

    def __init__(
        self, repository: engine.Repository, storage: Storage,
        attribution: Attribution | None = None) -> None:  # fmt: skip
        self._engine = repository
        self._storage = storage
        self._attribution = attribution or Attribution()

    def __repr__(self) -> str:
        return f"Repository(storage={self._storage!r}, config={self.config!r})"

    def __view__(self) -> View:
        return display.repository_view(self._engine, self._storage)

    # Creating and opening

    @classmethod
    def create(  # noqa: PLR0917 -- the reference's order
        cls, storage: Storage, config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: GivenAccess = None,
        spec_version: SpecVersion | int | AlphaVersion | None = None,
        check_clean_root: bool = True,  # noqa: FBT001, FBT002 -- the reference's signature
        attribution: Attribution | None = None) -> Self:  # fmt: skip
        """Creates a repository, with one empty snapshot on branch `main`.

        `spec_version` may also be "alpha2" or "alpha1", states of the format before version 1.
        """
        require_prefix(storage)
        store, generation = store_of(storage), values.require_spec_version(spec_version)
        created = engine.Repository.create(
            with_user_agent(store, attribution), config, generation=generation,
            check_clean_root=check_clean_root,
            access=access_of(authorize_virtual_chunk_access, storage))  # fmt: skip
        return cls(created, storage, attribution)

    @classmethod
    def open(
        cls, storage: Storage, config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: GivenAccess = None, attribution: Attribution | None = None,
        *, limits: Limits | None = None) -> Self:  # fmt: skip
        """Opens a repository, with `config` over the configuration that it has saved.

        Virtual chunks can be read from the containers that `authorize_virtual_chunk_access` names
        by their url prefix, with the credentials that it gives; nothing of it is ever saved.
        `limits` are those of an untrusted repository. Raises RepositoryNotFoundError.
        """
        access = access_of(authorize_virtual_chunk_access, storage, limits)
        store = with_user_agent(store_of(storage), attribution)
        with noting_location(storage):
            return cls(engine.Repository.open(store, config, access=access), storage, attribution)

    @classmethod
    def open_or_create(  # noqa: PLR0917 -- the reference's order
        cls, storage: Storage, config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: GivenAccess = None,
        create_version: SpecVersion | int | AlphaVersion | None = None,
        check_clean_root: bool = True,  # noqa: FBT001, FBT002 -- the reference's signature
        attribution: Attribution | None = None) -> Self:  # fmt: skip
        """Opens the repository if there is one, otherwise creates it."""
        given = authorize_virtual_chunk_access
        try:
            return cls.open(storage, config, given, attribution)
        except RepositoryNotFoundError:
            pass
        try:
            return cls.create(storage, config, given, create_version, check_clean_root, attribution)
        except ConflictError:  # another process created it at the same time
            return cls.open(storage, config, given, attribution)

    @classmethod
    def open_bundle(
        cls, path: actions.FilePath, config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: GivenAccess = None) -> Self:  # fmt: skip
        """Opens the repository in a bundle, which is read in place."""
        storage = Storage(archive.ArchiveStore(path))
        access = access_of(authorize_virtual_chunk_access, storage)
        return cls(engine.Repository.open(storage.store, config, access=access), storage)

    def reopen(
        self, config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: GivenAccess = None) -> Self:  # fmt: skip
        """Returns another object for the same repository, with `config` over this one's.

        It has the same default commit metadata and attribution, and the same access to virtual
        chunks unless another is given.
        """
        given = authorize_virtual_chunk_access
        access = None if given is None else access_of(given, self._storage)
        return type(self)(self._engine.reopened(config, access), self._storage, self._attribution)

    @staticmethod
    def exists(storage: Storage, storage_settings: StorageSettings | None = None) -> bool:
        return engine.Repository.exists(with_settings(store_of(storage), storage_settings))

    @staticmethod
    def fetch_spec_version(
        storage: Storage, storage_settings: StorageSettings | None = None
    ) -> SpecVersion | None:
        """Returns None if there is no repository."""
        store = with_settings(store_of(storage), storage_settings)
        version = engine.Repository.fetch_spec_version(store)
        return None if version is None else SpecVersion(version)

    @staticmethod
    def fetch_config(storage: Storage) -> RepositoryConfig | None:
        """Returns the saved configuration; None if the repository uses only defaults."""
        with noting_location(storage):
            return engine.Repository.fetch_config(store_of(storage))

    create_async = async_constructor(create)
    open_async = async_constructor(open)  # noqa: A003 -- the method above is meant
    open_or_create_async = async_constructor(open_or_create)
    open_bundle_async = async_constructor(open_bundle)
    reopen_async = async_twin(reopen)
    exists_async = staticmethod(async_twin(exists))
    fetch_spec_version_async = staticmethod(async_twin(fetch_spec_version))
    fetch_config_async = staticmethod(async_twin(fetch_config))

    # Properties

    @property
    def engine(self) -> engine.Repository:
        """The engine's repository: synchronous, typed, for frazil's own layers."""
        return self._engine

    @property
    def storage(self) -> Storage:
        return self._storage

    @property
    def attribution(self) -> Attribution:
        return self._attribution

    @property
    def spec_version(self) -> SpecVersion:
        """Version of the format; 1 also for repositories from before it, see `generation`."""
        return SpecVersion(self._engine.spec_version)

    @property
    def generation(self) -> str:
        """State of the format: "V1", "V2", or one from before version 1, such as "A2e"."""
        return str(self._engine.generation)

    # Configuration

    @property
    def config(self) -> RepositoryConfig:
        """A copy: changing it has no effect."""
        return deepcopy(self._engine.config)

    def save_config(self) -> None:
        """Saves this configuration, for everyone who opens the repository."""
        self._engine.save_config()

    def set_default_commit_metadata(self, metadata: dict[str, Any]) -> None:
        """Sets metadata, which is not stored, for commits of sessions made from now on."""
        self._engine.default_commit_metadata = require_json(metadata)

    def default_commit_metadata(self) -> dict[str, Any]:
        return deepcopy(self._engine.default_commit_metadata)

    @property
    def authorized_virtual_container_prefixes(self) -> set[str]:
        """The url prefixes given when it was opened, even if there are no such containers."""
        return set(self._engine.access.credentials)

    def virtual_containers(self) -> list[ContainerAccess]:
        """Lists the virtual chunk containers, and which of them can be read."""
        return container_access(self._engine)

    save_config_async = async_twin(save_config)

    # Metadata, status, feature flags

    @property
    def metadata(self) -> dict[str, Any]:
        return self.get_metadata()

    def get_metadata(self) -> dict[str, Any]:
        return deepcopy(self._engine.info_of_version_2().metadata)

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replaces all of it. Metadata is JSON."""
        self._engine.set_metadata(metadata)

    def update_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Replaces these keys, keeps the others (also of other writers), and returns all."""
        return deepcopy(self._engine.update_metadata(metadata))

    @property
    def status(self) -> RepoStatus:
        return self.get_status()

    def get_status(self) -> RepoStatus:
        return RepoStatus.of(self._engine.info_of_version_2().status)

    def set_status(self, status: RepoStatus) -> None:
        """Sets the availability. If it is not online, nothing else can be changed until it is."""
        self._engine.set_status(values.require_status(status).stored())

    def feature_flags(self) -> list[FeatureFlag]:
        """Lists all operations that can be switched off."""
        return values.feature_flags(self._engine)

    def enabled_feature_flags(self) -> list[FeatureFlag]:
        return [flag for flag in self.feature_flags() if flag.enabled]

    def disabled_feature_flags(self) -> list[FeatureFlag]:
        return [flag for flag in self.feature_flags() if not flag.enabled]

    def set_feature_flag(self, name: str, setting: bool | None) -> None:  # noqa: FBT001 -- the reference's signature
        """Allows or forbids an operation for all users; None goes back to the default."""
        values.set_feature_flag(self._engine, name, setting)

    get_metadata_async = async_twin(get_metadata)
    set_metadata_async = async_twin(set_metadata)
    update_metadata_async = async_twin(update_metadata)
    get_status_async = async_twin(get_status)
    set_status_async = async_twin(set_status)
    feature_flags_async = async_twin(feature_flags)
    enabled_feature_flags_async = async_twin(enabled_feature_flags)
    disabled_feature_flags_async = async_twin(disabled_feature_flags)
    set_feature_flag_async = async_twin(set_feature_flag)

    # Sessions

    def readonly_session(
        self, branch: str | None = None, *, tag: str | None = None, snapshot_id: str | None = None,
        as_of: datetime | None = None) -> Session:  # fmt: skip
        """Returns a session at the tip of a branch, at a tag or at a snapshot: exactly one.

        With `as_of`, at the newest snapshot of the branch's history that is not younger.
        """
        version = require_version(branch=branch, tag=tag, snapshot_id=snapshot_id, as_of=as_of)
        return session.Session(self._engine.readonly_session(version), self._engine.config)

    def writable_session(self, branch: str) -> Session:
        return session.Session(self._engine.writable_session(branch), self._engine.config)

    def rearrange_session(self, branch: str) -> Session:
        """Returns a session that can move nodes (`Session.move`), and do nothing else."""
        return session.Session(self._engine.rearrange_session(branch), self._engine.config)

    @contextmanager
    def transaction(
        self, branch: str, *, message: str, metadata: dict[str, Any] | None = None,
        rebase_with: ConflictSolver | None = None, rebase_tries: int = 1_000,
    ) -> Iterator[IcechunkStore]:  # fmt: skip
        """Gives a store whose changes are committed at the end of the block, but for an error."""
        session = self.writable_session(branch)
        yield session.store
        session.commit(message, metadata, rebase_with=rebase_with, rebase_tries=rebase_tries)

    def virtual_chunks(
        self, branch: str | None = None, *, tag: str | None = None, snapshot_id: str | None = None,
        prefix: str | None = None, path: str = "/") -> VirtualChunkTable:  # fmt: skip
        """Lists the locations of the virtual chunks of a version; see `Session.virtual_chunks`."""
        session = self.readonly_session(branch, tag=tag, snapshot_id=snapshot_id)
        return session.virtual_chunks(prefix=prefix, path=path)

    readonly_session_async = async_twin(readonly_session)
    writable_session_async = async_twin(writable_session)
    rearrange_session_async = async_twin(rearrange_session)
    virtual_chunks_async = async_twin(virtual_chunks)

    # Branches and tags

    def create_branch(self, branch: str, snapshot_id: str) -> None:
        self._engine.create_branch(branch, SnapshotId.parse(snapshot_id))

    def list_branches(self) -> set[str]:
        return set(self._engine.branches())

    def lookup_branch(self, branch: str) -> str:
        """Returns the id of the snapshot at the tip."""
        return str(self._engine.lookup_branch(branch))

    def reset_branch(
        self, branch: str, snapshot_id: str, *, from_snapshot_id: str | None = None
    ) -> None:
        """Moves the tip; if `from_snapshot_id` is given, only from there."""
        expected = None if from_snapshot_id is None else SnapshotId.parse(from_snapshot_id)
        self._engine.reset_branch(branch, SnapshotId.parse(snapshot_id), expected=expected)

    def delete_branch(self, branch: str) -> None:
        self._engine.delete_branch(branch)

    def create_tag(self, tag: str, snapshot_id: str) -> None:
        self._engine.create_tag(tag, SnapshotId.parse(snapshot_id))

    def list_tags(self) -> set[str]:
        return set(self._engine.tags())

    def lookup_tag(self, tag: str) -> str:
        """Returns the id of the tagged snapshot."""
        return str(self._engine.lookup_tag(tag))

    def delete_tag(self, tag: str) -> None:
        """Deletes the tag for good: the name cannot be used again."""
        self._engine.delete_tag(tag)

    create_branch_async = async_twin(create_branch)
    list_branches_async = async_twin(list_branches)
    lookup_branch_async = async_twin(lookup_branch)
    reset_branch_async = async_twin(reset_branch)
    delete_branch_async = async_twin(delete_branch)
    create_tag_async = async_twin(create_tag)
    list_tags_async = async_twin(list_tags)
    lookup_tag_async = async_twin(lookup_tag)
    delete_tag_async = async_twin(delete_tag)

    # History

    def lookup_snapshot(self, snapshot_id: str) -> SnapshotInfo:
        snapshot = self._engine.lookup_snapshot(SnapshotId.parse(snapshot_id))
        return SnapshotInfo(SnapshotList.of(snapshot), 0)

    def ancestry(
        self, *, branch: str | None = None, tag: str | None = None, snapshot_id: str | None = None,
    ) -> AsyncCloseableIterator[SnapshotInfo]:  # fmt: skip
        """Iterates over the snapshot and its ancestors, newest first, by `for` or `async for`."""
        version = require_version(branch=branch, tag=tag, snapshot_id=snapshot_id)
        return history.snapshot_infos(self._engine.ancestry_blocks(version))

    def async_ancestry(
        self, *, branch: str | None = None, tag: str | None = None, snapshot_id: str | None = None,
    ) -> AsyncCloseableIterator[SnapshotInfo]:  # fmt: skip
        """Like `ancestry`, but reads nothing before the first snapshot is asked for."""
        version = require_version(branch=branch, tag=tag, snapshot_id=snapshot_id)
        blocks = history.defer(lambda: self._engine.ancestry_blocks(version))
        return history.snapshot_infos(blocks)

    def ancestry_graph(
        self, *, branch: str | None = None, tag: str | None = None, snapshot_id: str | None = None,
        plain: bool = False) -> AncestryGraph:  # fmt: skip
        """Draws the history of a version, or of all branches; in colour unless `plain`."""
        version = None
        if not branch is tag is snapshot_id is None:
            version = require_version(branch=branch, tag=tag, snapshot_id=snapshot_id)
        return history.AncestryGraph(graph.graph_of(self._engine.repo_info(), version), plain=plain)

    def ops_log(self) -> AsyncCloseableIterator[Update]:
        """Iterates over all changes of the repository, newest first, by `for` or `async for`."""
        return history.History("OpsLog", map(updates.entries, self._engine.ops_log_pages()))

    def ops_log_async(self) -> AsyncCloseableIterator[Update]:
        """Like `ops_log`, but reads nothing before the first entry is asked for."""
        pages = history.defer(self._engine.ops_log_pages)
        return history.History("OpsLog", map(updates.entries, pages))

    def diff(
        self, *, from_branch: str | None = None, from_tag: str | None = None,
        from_snapshot_id: str | None = None, to_branch: str | None = None,
        to_tag: str | None = None, to_snapshot_id: str | None = None) -> Diff:  # fmt: skip
        """Compares a snapshot with a later one; one `from_` and one `to_` are needed."""
        start = require_version(branch=from_branch, tag=from_tag, snapshot_id=from_snapshot_id)
        end = require_version(branch=to_branch, tag=to_tag, snapshot_id=to_snapshot_id)
        return history.diff_between(self._engine, start, end)

    def list_manifest_files(self, snapshot_id: str) -> list[ManifestFileInfo]:
        files = self._engine.manifest_files(SnapshotId.parse(snapshot_id))
        return [values.ManifestFileInfo.of(file) for file in files]

    lookup_snapshot_async = async_twin(lookup_snapshot)
    ancestry_graph_async = async_twin(ancestry_graph)
    diff_async = async_twin(diff)
    list_manifest_files_async = async_twin(list_manifest_files)

    # Contents of files

    def inspect_snapshot(self, snapshot_id: str) -> dict[str, Any]:
        """Returns the contents of its file: message, metadata, manifests, nodes."""
        return inspect.inspect_snapshot(self._engine, SnapshotId.parse(snapshot_id))

    def inspect_repo_info(self) -> dict[str, Any]:
        """Returns branches, tags, snapshots and the newest part of the ops log."""
        return inspect.inspect_repo_info(self._engine)

    def inspect_manifest(self, manifest_id: str) -> dict[str, Any]:
        """Counts the chunk references of the manifest by kind, in all and by array."""
        return inspect.inspect_manifest(self._engine, ManifestId.parse(manifest_id))

    def inspect_transaction_log(self, snapshot_id: str) -> dict[str, Any]:
        """Returns nodes and chunks that the commit changed, or that expired ones before it did."""
        return inspect.inspect_transaction_log(self._engine, SnapshotId.parse(snapshot_id))

    inspect_snapshot_async = async_twin(inspect_snapshot)
    inspect_repo_info_async = async_twin(inspect_repo_info)
    inspect_manifest_async = async_twin(inspect_manifest)
    inspect_transaction_log_async = async_twin(inspect_transaction_log)

    # Edits of history, frazil's own. Conflicts are those of `Session.rebase`: "ours" are changes
    # being applied, "theirs" those on the branch. If some remain, RebaseFailedError is raised and
    # nothing has changed; with `dry_run` they are returned and nothing changes in any case.

    def revert(
        self, snapshot_id: str, *, branch: str, message: str | None = None,
        metadata: dict[str, Any] | None = None, solver: ConflictSolver | None = None,
        dry_run: bool = False) -> HistoryEdit:  # fmt: skip
        """Undoes the changes of one commit in the branch's history, by a new commit."""
        edit = history.edit_of(branch, message, metadata, solver, dry_run=dry_run)
        snapshot = SnapshotId.parse(snapshot_id)
        return history.HistoryEdit.of(history_editing.revert(self._engine, snapshot, edit))

    def cherry_pick(
        self, snapshot_id: str, *, branch: str, message: str | None = None,
        metadata: dict[str, Any] | None = None, solver: ConflictSolver | None = None,
        dry_run: bool = False) -> HistoryEdit:  # fmt: skip
        """Applies the changes of a commit to the branch; with its message unless one is given."""
        edit = history.edit_of(branch, message, metadata, solver, dry_run=dry_run)
        snapshot = SnapshotId.parse(snapshot_id)
        return history.HistoryEdit.of(history_editing.cherry_pick(self._engine, snapshot, edit))

    def merge(
        self, source_branch: str, *, into: str, message: str | None = None,
        metadata: dict[str, Any] | None = None, solver: ConflictSolver | None = None,
        dry_run: bool = False) -> HistoryEdit:  # fmt: skip
        """Merges the changes of one branch into another, chunk by chunk.

        If `into` has no commits of its own, it is moved to the tip of the other (`fast_forward`).
        Otherwise there is one ordinary commit, whose metadata names the merged snapshot as
        `["frazil"]["merged"]`: the next merge of the two begins there.
        """
        edit = history.edit_of(into, message, metadata, solver, dry_run=dry_run)
        return history.HistoryEdit.of(history_editing.merge(self._engine, source_branch, edit))

    def squash(
        self, first_snapshot_id: str, last_snapshot_id: str | None = None, *, branch: str,
        message: str, metadata: dict[str, Any] | None = None, dry_run: bool = False,
    ) -> Squash:  # fmt: skip
        """Makes a range of the branch's history, both ends included, one commit.

        The range ends at the tip if no end is given; commits after it get new ids. Old snapshots
        stay until they are collected, and other branches and tags stay where they are.
        """
        return history.squash_range(
            self._engine, first_snapshot_id, last_snapshot_id, branch=branch, message=message,
            metadata=metadata, dry_run=dry_run)  # fmt: skip

    revert_async = async_twin(revert)
    cherry_pick_async = async_twin(cherry_pick)
    merge_async = async_twin(merge)
    squash_async = async_twin(squash)

    # Expiration, garbage collection, statistics

    def expire_snapshots(
        self, older_than: datetime | None, *, delete_expired_branches: bool = False,
        delete_expired_tags: bool = False, snapshot_ids: Iterable[str] | None = None,
        retain_last: int = 0, protect_branches: Iterable[str] = (),
        protect_tags: Iterable[str] = (), dry_run: bool = False) -> set[str]:  # fmt: skip
        """Removes snapshots older than a time from history, and returns their ids.

        The first snapshot and the tip of main always stay, the tips of other branches and tags
        unless they are to be deleted as well. The files go with the next `garbage_collect`.

        frazil's own: `snapshot_ids` takes only these (of any age, if `older_than` is None),
        `retain_last` keeps so many of each branch, `protect_branches` and `protect_tags` are
        patterns (`release-*`) of refs that stay with all of their history. With these, what stays
        becomes the child of the youngest ancestor that stays, otherwise of the first snapshot.
        """
        return actions.expire_snapshots(
            self._engine, older_than, delete_expired_branches=delete_expired_branches,
            delete_expired_tags=delete_expired_tags, snapshot_ids=snapshot_ids,
            retain_last=retain_last, protect_branches=protect_branches, protect_tags=protect_tags,
            dry_run=dry_run)  # fmt: skip

    def garbage_collect(
        self, delete_object_older_than: datetime, *, dry_run: bool = False,
        max_snapshots_in_memory: int = 50, max_compressed_manifest_mem_bytes: int = 512 * MIB,
        max_decoded_manifest_mem_bytes: int = 4096 * MIB,
        max_concurrent_manifest_fetches: int = 500, max_concurrent_deletes: int = 10,
        max_consecutive_delete_failures: int = 50, max_concurrent_listings: int | None = None,
        incremental: bool = False, inventory: actions.GivenInventory | None = None,
        safety_age: timedelta | None = None, backups_older_than: datetime | None = None,
        leftovers: bool = False, progress: Progress | None = None) -> GCSummary:  # fmt: skip
        """Deletes files that are not reachable from a branch or tag and are older than a time.

        The time must lie further back than any session has been open: its chunks are not reachable
        until it is committed. `safety_age` refuses times that are less far back.

        frazil's own: `incremental` looks only at the files of expired snapshots, without listing
        everything; `inventory` is a listing in files (CSV, Parquet) to be used in place of listing
        the storage; `backups_older_than` also deletes old copies of the entry point, but not those
        in which the ops log goes on; `leftovers` what killed jobs left: staging branches and
        temporary files. For `progress` see `clone_to`.
        """
        memory = actions.MemoryLimits(
            max_snapshots_in_memory, max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes, max_concurrent_manifest_fetches)  # fmt: skip
        return actions.garbage_collect(
            self._engine, delete_object_older_than, memory,
            max_concurrent_deletes=max_concurrent_deletes,
            max_consecutive_delete_failures=max_consecutive_delete_failures,
            max_concurrent_listings=max_concurrent_listings, incremental=incremental,
            inventory=inventory, safety_age=safety_age, backups_older_than=backups_older_than,
            leftovers=leftovers, dry_run=dry_run, progress=progress)  # fmt: skip

    def chunk_storage_stats(
        self, *, max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * MIB,
        max_decoded_manifest_mem_bytes: int = 4096 * MIB,
        max_concurrent_manifest_fetches: int = 500) -> actions.ChunkStorageStats:  # fmt: skip
        """Counts the bytes of chunks that are reachable from branches and tags."""
        memory = actions.MemoryLimits(
            max_snapshots_in_memory, max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes, max_concurrent_manifest_fetches)  # fmt: skip
        return actions.chunk_storage_stats(self._engine, memory)

    def total_chunks_storage(
        self, *, max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * MIB,
        max_decoded_manifest_mem_bytes: int = 4096 * MIB,
        max_concurrent_manifest_fetches: int = 500) -> int:  # fmt: skip
        """Deprecated: the native bytes of `chunk_storage_stats`."""
        actions.warn_of_total_chunks_storage()
        memory = actions.MemoryLimits(
            max_snapshots_in_memory, max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes, max_concurrent_manifest_fetches)  # fmt: skip
        return actions.chunk_storage_stats(self._engine, memory).native_bytes

    async def total_chunks_storage_async(  # by hand: the warning names the caller's line
        self, *, max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * MIB,
        max_decoded_manifest_mem_bytes: int = 4096 * MIB,
        max_concurrent_manifest_fetches: int = 500) -> int:  # fmt: skip
        """Deprecated: the native bytes of `chunk_storage_stats_async`."""
        actions.warn_of_total_chunks_storage("_async")
        memory = actions.MemoryLimits(
            max_snapshots_in_memory, max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes, max_concurrent_manifest_fetches)  # fmt: skip
        counting = partial(actions.chunk_storage_stats, self._engine, memory)
        return (await run_on_thread(self, counting)).native_bytes

    def stats(self, *, progress: Progress | None = None) -> actions.StorageStats:
        """Counts bytes by kind, in all and of each branch, tag and array. frazil's own.

        The `exclusive` bytes of a ref could be collected if the ref were deleted.
        """
        return actions.storage_stats(self._engine, progress)

    expire_snapshots_async = async_twin(expire_snapshots)
    garbage_collect_async = async_twin(garbage_collect)
    chunk_storage_stats_async = async_twin(chunk_storage_stats)
    stats_async = async_twin(stats)

    # Rewriting. All but `rewrite_manifests` are frazil's own.

    def rewrite_manifests(
        self, message: str, *, branch: str, metadata: dict[str, Any] | None = None,
        commit_method: CommitMethod = "new_commit") -> str:  # fmt: skip
        """Rewrites all manifests of the branch's tip, split as the configuration says now.

        The new commit, or with "amend" the one in place of the tip, has the contents of the tip;
        its metadata records the splitting. Returns its id.
        """
        return actions.rewrite_manifests(self._engine, branch, message, metadata, commit_method)

    def pack(
        self, message: str | None = None, *, branch: str, paths: Sequence[str] = (),
        small_bytes: int = SMALL_BYTES, pack_bytes: int = PACK_BYTES,
        metadata: dict[str, Any] | None = None, dry_run: bool = False,
        progress: Progress | None = None) -> actions.PackResult:  # fmt: skip
        """Packs small chunk objects of the branch's tip into larger ones, by one commit.

        Chunks of at most `small_bytes`, of arrays at or below `paths` (by default of all), go into
        objects of about `pack_bytes`. Commits of others at the same time are kept. The old objects
        stay until snapshots that use them are expired and garbage is collected.
        """
        return actions.pack(
            self._engine, branch, paths, message, metadata, small_bytes=small_bytes,
            pack_bytes=pack_bytes, dry_run=dry_run, progress=progress)  # fmt: skip

    def unpack(
        self, message: str | None = None, *, branch: str, paths: Sequence[str] = (),
        metadata: dict[str, Any] | None = None, dry_run: bool = False,
        progress: Progress | None = None) -> actions.PackResult:  # fmt: skip
        """Gives every chunk that is in a pack an object of its own again, by one commit."""
        return actions.unpack(
            self._engine, branch, paths, message, metadata, dry_run=dry_run, progress=progress
        )

    def purge_path(
        self, path: str, *, message: str = "Purge", dry_run: bool = False
    ) -> actions.PurgeSummary:
        """Removes a node, and all below it, from every snapshot there is. It cannot be undone.

        Snapshots keep their ids, and get other content. Branches whose tips had the path get a
        commit with this message, so that open sessions notice.
        """
        return actions.purge_path(self._engine, path, message, dry_run=dry_run)

    def purge_messages(
        self, snapshot_ids: Sequence[str], *, replacement: str = REPLACEMENT,
        with_metadata: bool = False, dry_run: bool = False) -> actions.PurgeSummary:  # fmt: skip
        """Replaces the messages of commits in all files that have them. It cannot be undone.

        `with_metadata` removes their metadata as well, but for that of Icechunk and frazil.
        """
        return actions.purge_messages(
            self._engine, snapshot_ids, replacement=replacement, with_metadata=with_metadata,
            dry_run=dry_run)  # fmt: skip

    rewrite_manifests_async = async_twin(rewrite_manifests)
    pack_async = async_twin(pack)
    unpack_async = async_twin(unpack)
    purge_path_async = async_twin(purge_path)
    purge_messages_async = async_twin(purge_messages)

    # Copies, bundles, migration. frazil's own.

    def clone_to(
        self, storage: Storage, *, refs: Sequence[str] | None = None, paths: Iterable[str] = (),
        shallow: bool = False, container: VirtualChunkContainer | None = None,
        check_contents: bool = False, dry_run: bool = False, progress: Progress | None = None,
    ) -> actions.CloneResult:  # fmt: skip
        """Copies the repository, or updates a copy.

        Args:
            storage: the target. New refs are added to a repository that is there, its branches
                move forward, and what only it has stays.
            refs: branches and tags with their history, by default all: NAME, `branch:NAME` or
                `tag:NAME`.
            paths: groups and arrays, by default all. Such a copy has the same history, in snapshots
                of its own, and is of version 2.
            shallow: without chunks: they become virtual references to those of this repository,
                which must keep them.
            container: for a shallow copy of a repository in a bucket: how to reach its `chunks/`.
            check_contents: reads everything back. Sizes are compared in any case.
            dry_run: only counts what would be copied.
            progress: called with the name of a step, how much of it is done and of how much.

        Raises:
            ConflictError: a branch of both has commits of its own at the target, or was reset at
                the source; or a tag differs. Nothing is changed then.
            RefNotFoundError, NodeNotFoundError: there is no such branch, tag or node.
            StorageError: an object is missing, or did not arrive in full.
        """
        return actions.clone_to(
            self._engine, storage, refs=refs, paths=paths, shallow=shallow, container=container,
            check_contents=check_contents, dry_run=dry_run, progress=progress)  # fmt: skip

    def export_bundle(
        self, path: actions.FilePath, *, refs: Sequence[str] | None = None,
        since: Iterable[str] = (), dry_run: bool = False, progress: Progress | None = None,
    ) -> actions.CloneResult:  # fmt: skip
        """Writes the repository to one file, and replaces one that is there.

        With `since`, ids of snapshots, only what these and their ancestors do not have.
        """
        return actions.export_to_bundle(
            self._engine, path, refs=refs, since=since, dry_run=dry_run, progress=progress
        )

    @staticmethod
    def import_bundle(
        path: actions.FilePath, storage: Storage, *, dry_run: bool = False,
        progress: Progress | None = None) -> actions.CloneResult:  # fmt: skip
        """Makes a repository of a bundle, or updates one.

        Branches move forward, new branches and tags are added, others stay as they are. Raises
        ConflictError if a branch has commits of its own, and then changes nothing.
        """
        return actions.import_bundle(path, storage, dry_run=dry_run, progress=progress)

    def migrate(
        self, to: SpecVersion | int = 2, *, storage: Storage | None = None, dry_run: bool = False,
        progress: Progress | None = None) -> actions.MigrateResult:  # fmt: skip
        """Migrates this repository to version 2 of the format, or to version 1.

        History, branches, tags, metadata, messages, times and data are kept, and are compared
        before any reader can see the new repository: in `storage`, or in place, where the files of
        the old one are kept until `confirm_migration`. Open it again to see the new one. The next
        migration resumes one that was interrupted.

        Raises:
            InvalidInputError: it is of that version already, or cannot be migrated in place.
            ConflictError: the target has another repository.
        """
        return actions.migrate(self._engine, to, storage, dry_run=dry_run, progress=progress)

    def confirm_migration(self, *, dry_run: bool = False) -> actions.ConfirmedMigration:
        """Removes the files of the old repository that a migration in place has kept.

        Raises ConflictError if there were commits to the old one since.
        """
        return actions.confirm_migration(self._storage, dry_run=dry_run)

    clone_to_async = async_twin(clone_to)
    export_bundle_async = async_twin(export_bundle)
    import_bundle_async = staticmethod(async_twin(import_bundle))
    migrate_async = async_twin(migrate)
    confirm_migration_async = async_twin(confirm_migration)

    # Verification and repair. frazil's own.

    def verify(
        self, *, decode: bool = False, virtual: bool = False, progress: Progress | None = None
    ) -> actions.VerifyReport:
        """Checks all files of the repository and reports problems, worst first.

        `decode` reads and decodes every chunk, `virtual` looks up the objects of virtual chunks,
        as far as access to them was given. Nothing is written.
        """
        return actions.verify(self._engine, decode=decode, virtual=virtual, progress=progress)

    def repair(
        self, *, dry_run: bool = False, progress: Progress | None = None
    ) -> actions.RepairResult:
        """Repairs what can be repaired without guessing, and reports the rest.

        Replaced files are kept under `overwritten/damaged.`. Open the repository again afterwards:
        this object may have cached one.
        """
        return actions.repair(self._engine.raw_store, dry_run=dry_run, progress=progress)

    @staticmethod
    def verify_storage(
        storage: Storage, authorize_virtual_chunk_access: GivenAccess = None, *,
        decode: bool = False, virtual: bool = False, progress: Progress | None = None,
    ) -> actions.VerifyReport:  # fmt: skip
        """Like `verify`, for a repository that cannot be opened, or a part or nothing of one."""
        given = authorize_virtual_chunk_access
        return actions.verify_storage(
            storage, given, decode=decode, virtual=virtual, progress=progress)  # fmt: skip

    @staticmethod
    def repair_storage(
        storage: Storage, *, dry_run: bool = False, progress: Progress | None = None
    ) -> actions.RepairResult:
        """Like `repair`, for a repository that perhaps cannot be opened."""
        return actions.repair(storage.store, dry_run=dry_run, progress=progress)

    verify_async = async_twin(verify)
    repair_async = async_twin(repair)
    verify_storage_async = staticmethod(async_twin(verify_storage))
    repair_storage_async = staticmethod(async_twin(repair_storage))
