"""The files of one repository: fetched, decoded and cached; encoded and put."""

import math
from collections.abc import Buffer, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import cached_property, partial
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Self
from weakref import ReferenceType, ref

from frazil.dataclass import dataclass
from frazil.engine.files.caches import (
    Caches,
    StoredRepoInfo,
    shared_repo_infos,
    shared_snapshots,
)
from frazil.engine.files.chunk_objects import ChunkFiles
from frazil.engine.files.entry_file import create_entry, replace_entry
from frazil.engine.files.object_keys import (
    OVERWRITTEN,
    REPO_INFO,
    manifest_key,
    snapshot_key,
    transaction_key,
)
from frazil.engine.files.settings import PreloadPlan, Settings, plan_preload
from frazil.errors import FormatError
from frazil.format.limits import MAX_METADATA_BYTES
from frazil.format.repo_info import (
    LogPage,
    RepoInfo,
    decode_log_page,
    encode_incrementally,
    encode_repo_info,
    resume_growth,
)
from frazil.format.snapshot import (
    ManifestFile,
    NodeNames,
    Snapshot,
    SnapshotHead,
    decode_node_names,
    decode_snapshot_head,
    encode_snapshot,
)
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.lazy import lazy_module
from frazil.objectstore.pool import BETWEEN_FORKS, Pool
from frazil.objectstore.protocol import ALWAYS, Blob, Data, ObjectStore, Precondition

if TYPE_CHECKING:
    from frazil.engine.files import virtual_chunks
    from frazil.format import manifest as manifests
    from frazil.format import transaction_log
    from frazil.format.chunk_index import ChunkSet
else:
    transaction_log = lazy_module("frazil.format.transaction_log")
    virtual_chunks = lazy_module("frazil.engine.files.virtual_chunks")
    manifests = lazy_module("frazil.format.manifest")

# Writes of files that are under way while the next files are encoded.

_SLOW_PUT_S = 400e-6  # the least that a small file took: a thread costs 60 us
_MEASURED_EVERY = 16  # commits to a slow directory


@dataclass(slots=True)
class PutPace:
    """Finds out if files are put slowly in a directory: remote, or where many were deleted."""

    _slow_commits: int = 0  # to go until it is measured again

    def is_slow(self) -> bool:
        """True while commits should put their files at once; call it once for each commit."""
        self._slow_commits = max(0, self._slow_commits - 1)
        return self._slow_commits > 0

    def learn(self, least_s: float) -> None:
        """The quickest of a commit's files took so long, with nothing beside it."""
        self._slow_commits = _MEASURED_EVERY if least_s > _SLOW_PUT_S else 0


@dataclass(slots=True)
class Outgoing:
    """Puts of files that nothing refers to before `settle` was called, in any order.

    A far store and a slow directory get them at once. In others a thread costs more than it saves,
    and everything is done in its turn. On leaving the context nothing is under way any more.
    """

    store: ObjectStore
    pool: Pool
    pace: PutPace
    _uses_threads: bool = False
    _least_s: float = math.inf
    _under_way: list[Callable[[], object]] = field(default_factory=list)

    def do(self, work: Callable[[], object], *, long: bool = False) -> None:
        """Does `work` now or in a thread; `long` work gets a thread for any store."""
        if long or self._uses_threads:
            self._under_way.append(self.pool.start(work))
            return
        began = perf_counter()
        work()
        self._least_s = min(self._least_s, perf_counter() - began)

    def put(self, key: str, data: Buffer) -> None:
        self.do(lambda: self.store.put(key, data))

    def settle(self) -> None:
        """Waits until everything has arrived. Raises the first failure, after all have ended."""
        failures = []
        while self._under_way:
            try:
                self._under_way.pop(0)()
            except BaseException as failure:  # noqa: BLE001 -- of whichever kind, it is raised below
                failures.append(failure)
        if failures:
            raise failures[0]

    def __enter__(self) -> Self:
        is_directory = self.store.directory is not None
        self._uses_threads = self.store.far or (is_directory and self.pace.is_slow())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._least_s < math.inf:
            self.pace.learn(self._least_s)
        try:
            self.settle()
        except Exception:
            if failure is None:
                raise


_MANY_CHANGES = 10_000  # from here on it pays to write a log some rows at a time
_BATCHED_LOGS = 13  # and from here on to decode logs together


_MOST_WRITERS = 200.0
_FEWEST = 0.1  # others: less than that is none
_FORGOTTEN_AFTER = 10  # times what a commit takes


@dataclass(slots=True)
class Contention:
    """Guess of the number of writers that commit to the repository: engine/refs/waiting.py."""

    writers: float = 1.0
    try_s: float = 0.0  # of one try, from reading the tip to replacing it
    in_a_row: int = 0  # commits that followed each other at once, and lost no race
    last_s: float = -math.inf

    def others(self, now_s: float) -> float:
        if now_s > self.last_s + _FORGOTTEN_AFTER * self.writers * self.try_s:
            self.writers = 1.0
        if now_s > self.last_s + self.try_s:
            self.in_a_row = 0
        others = self.writers - 1
        return others if others > _FEWEST else 0.0

    def notice(self, try_s: float) -> None:
        """A race was lost after so long: there is at least one other."""
        self.writers = max(self.writers, 2.0)
        self.in_a_row = -1
        self._follow(try_s)

    def learn(self, commit_s: float, try_s: float, *, now_s: float) -> None:
        """A commit took so long, its last try so much of it."""
        self._follow(try_s)
        guess = min(_MOST_WRITERS, commit_s / max(try_s, 1e-6))
        # Slowly down: a writer that got in again and again has seen nothing of those that did not.
        self.writers += (0.3 if guess > self.writers else 0.05) * (guess - self.writers)
        self.in_a_row += 1
        self.last_s = now_s

    def _follow(self, try_s: float) -> None:
        self.try_s += (0.3 if self.try_s else 1.0) * (try_s - self.try_s)


_ROUND_S = 1.0


@dataclass(slots=True)
class GroupPace:
    """Experience of a process with group commits to the repository: engine/group."""

    round_s: float | None = None  # of the last carriers, from reading the entry point to receipts
    budget_s: float = _ROUND_S  # for putting tickets on top of each other, before the swap
    staged_next: int = 0  # commits to be staged at once, without trying alone before

    def follow(self, round_s: float) -> None:
        """`round_s` is what a carrier says, and that may be anything."""
        sound_s = max(0.01, min(round_s, 30.0))
        self.round_s = sound_s if self.round_s is None else (self.round_s + sound_s) / 2

    def lost(self) -> None:
        """A shorter round is less likely to be overtaken again."""
        self.budget_s = max(_ROUND_S / 64, self.budget_s / 2)

    def won(self) -> None:
        self.budget_s = min(_ROUND_S, 2 * self.budget_s)


@contextmanager
def annotate_errors(key: str) -> Iterator[None]:
    """Format errors raised inside say which file they are about."""
    try:
        yield
    except FormatError as error:
        raise error.at(key) from error


class Files:
    """Reads and writes files; caches the immutable ones, within the sizes of the configuration.

    What is put here is durable only after the store's `sync`; names are random, so nothing is
    ever overwritten.
    """

    # Snapshots, manifests and logs are encoded as in versions 1 and 2, so that their bytes may be
    # decoded in bulk, without this object. Subclasses for older generations say otherwise.
    has_current_encoding = True
    max_log_bytes = MAX_METADATA_BYTES

    def __init__(
        self, store: ObjectStore, settings: Settings, caches: Caches | None = None
    ) -> None:
        """`caches` of another object for the same repository are shared if their sizes match."""
        self.store = store
        self.raw_store = store  # by the keys that files really have, where `store` translates them
        self.settings = settings
        self.pool = Pool(settings.io_threads)
        self.caches = Caches.of(settings) if caches is None else caches.fitting(settings)
        self.chunks = ChunkFiles(store, self.pool, self.caches.chunks)
        self.v1_tags = self.caches.v1_tags
        self._newest = self.caches.newest
        self.contention = Contention()
        self.group_pace = GroupPace()
        self.put_pace = PutPace()

    @cached_property
    def virtual(self) -> "virtual_chunks.VirtualChunks":
        made = virtual_chunks.VirtualChunks(self.settings.virtual, self.pool)
        first: virtual_chunks.VirtualChunks = vars(self).setdefault("virtual", made)
        return first  # for all of several threads

    def with_settings(self, settings: Settings) -> Self:
        """The same files with other settings, and with empty caches."""
        return type(self)(self.raw_store, settings)

    # The entry point

    def fetch_repo_info(self) -> StoredRepoInfo:
        """The newest repo info, always compared with the store."""
        known = self._newest.stored
        blob = self.store.reread(REPO_INFO, None if known is None else known.blob)
        if known is not None and blob is known.blob:
            return known
        if known is not None and blob.equals(known.blob):  # the same bytes are not decoded again
            self._newest.stored = stored = StoredRepoInfo(known.info, blob)
            return stored
        with annotate_errors(REPO_INFO):
            info = shared_repo_infos.decode(blob.data, max_size=self._allowed(blob.data))
            stored = StoredRepoInfo(info, blob)
        self._newest.stored = stored
        return stored

    @property
    def newest_repo_info(self) -> RepoInfo | None:
        """The newest repo info that this process has seen."""
        return None if self._newest.stored is None else self._newest.stored.info

    def fetch_to_replace(self) -> StoredRepoInfo:
        """The newest repo info, in a form that its successor is quickly encoded from."""
        stored = self.fetch_repo_info()
        info = resume_growth(stored.info)
        if info is not stored.info:
            self._newest.stored = stored = StoredRepoInfo(info, stored.blob)
        return stored

    def fetch_log_page(self, name: str) -> LogPage:
        """The ops log of an earlier version, by the name the ops log gives."""
        key = OVERWRITTEN + name
        with annotate_errors(key):
            data = self.store.get(key).data
            return decode_log_page(data, max_size=self._allowed(data))

    def create_repo_info(self, info: RepoInfo) -> None:
        data, info = encode_incrementally(info, level=self.settings.bulk_level)
        version = create_entry(self.store, REPO_INFO, data)
        self._newest.stored = StoredRepoInfo(info, Blob(data, version))  # for the first commit

    def replace_repo_info(
        self, old: StoredRepoInfo, new: RepoInfo, *, backup: str, ready: Callable[[], None]
    ) -> None:
        """Keeps `old` by the name `backup` first; see replace_entry for `ready`.

        Raises PreconditionFailedError if the stored one is no longer `old`.
        """
        data, new = encode_incrementally(new, level=self.settings.bulk_level)
        version = replace_entry(
            self.store, REPO_INFO, old.blob, data, backup=OVERWRITTEN + backup, ready=ready
        )
        # The next commit of this object finds it unchanged, and does not decode what it encoded.
        self._newest.stored = StoredRepoInfo(new, Blob(data, version))

    def put_backup(self, name: str, info: RepoInfo) -> None:
        self.store.put(OVERWRITTEN + name, self._encode_repo_info(info))

    def drop_backups(self, names: Iterable[str]) -> None:
        self.store.delete([OVERWRITTEN + name for name in names])

    def _encode_repo_info(self, info: RepoInfo) -> bytes:
        return encode_repo_info(info, level=self.settings.compression_level)

    # Immutable files

    def fetch_snapshot(self, snapshot: SnapshotId) -> Snapshot:
        return self.caches.snapshots.fetch(snapshot, self._load_snapshot)

    def fetch_head(self, snapshot: SnapshotId) -> SnapshotHead:
        """The head of a snapshot of version 1, without its nodes."""
        known = self.caches.snapshots.find(snapshot)
        return self.caches.heads.fetch(snapshot, self._load_head) if known is None else known.head

    def forget_heads(self) -> None:
        """Empties the cache of heads: expiry of version 1 rewrites parents in their files."""
        self.caches.snapshots.clear()
        self.caches.heads.clear()

    def fetch_node_names(self, snapshot: SnapshotId) -> NodeNames:
        """The names of a snapshot's nodes, without the rest of it unless that is cached."""
        known = self.caches.snapshots.find(snapshot)
        if known is not None:
            return NodeNames.of(known.nodes)
        return self.caches.names.fetch(snapshot, self._load_names)

    def fetch_manifest(self, manifest: ManifestId) -> "manifests.Manifest":
        known = self.caches.manifests.find(manifest)
        return self.preload_manifest(manifest) if known is None else known

    def preload_manifest(self, manifest: ManifestId) -> "manifests.Manifest":
        """Fetches a manifest that is known not to be cached."""
        return self.caches.loading.load(manifest, self._load_manifest)

    def find_manifest(self, manifest: ManifestId) -> "manifests.Manifest | None":
        """The manifest if it is in memory."""
        return self.caches.manifests.find(manifest)

    def note_ndims(self, manifest: ManifestId, ndims: Mapping[NodeId, int]) -> None:
        """Notes the dimensions of arrays, which some older generations need to read a manifest."""

    def fetch_log(self, snapshot: SnapshotId) -> "transaction_log.TransactionLog":
        return self.caches.logs.fetch(snapshot, self._load_log)

    def fetch_logs(self, snapshots: Sequence[SnapshotId]) -> "list[transaction_log.TransactionLog]":
        """Fetches several logs with concurrent requests."""
        cache = self.caches.logs
        known = {each: log for each in snapshots if (log := cache.find(each)) is not None}
        missing = [each for each in snapshots if each not in known]
        read_all = self.pool.map if self.store.far else self.pool.map_quickly
        data = read_all(lambda each: self.store.get(transaction_key(each)).data, missing)
        try:
            if len(data) < _BATCHED_LOGS:
                logs = [
                    transaction_log.decode_txlog(each, max_size=self._allowed(each))
                    for each in data
                ]
            else:
                logs = transaction_log.decode_txlogs(data)
        except FormatError:
            logs = [self.fetch_log(each) for each in missing]  # says which file is damaged
        for each, log in zip(missing, logs, strict=True):
            cache.remember(each, log)
            known[each] = log
        return [known[each] for each in snapshots]

    def as_stored(self, user_data: bytes) -> bytes:
        """The metadata of a node as it will be read back. Raises InvalidInputError."""
        return user_data

    def new_node_id(self, is_taken: Callable[[NodeId], bool]) -> NodeId:
        del is_taken  # the same 64 random bits are not drawn twice
        return NodeId.random()

    def outgoing(self) -> Outgoing:
        return Outgoing(self.store, self.pool, self.put_pace)

    def put_snapshot(self, snapshot: Snapshot, *, when: Precondition = ALWAYS) -> None:
        key = snapshot_key(snapshot.id)
        settings = self.settings
        data = encode_snapshot(
            snapshot, level=settings.compression_level, spec_version=settings.spec_version
        )
        self.store.put(key, data, when=when)
        self.caches.snapshots.remember(snapshot.id, snapshot)

    def put_manifest(
        self, manifest: "manifests.Manifest", outgoing: Outgoing | None = None
    ) -> ManifestFile:
        """Returns its entry in a snapshot's list. `outgoing`, if given, uploads it concurrently."""
        data = manifests.encode_manifest(
            manifest,
            level=self.settings.bulk_level,
            location_compression=self.settings.location_compression,
            spec_version=self.settings.spec_version,
        )
        (self.store if outgoing is None else outgoing).put(manifest_key(manifest.id), data)
        return ManifestFile(id=manifest.id, size_bytes=len(data), num_refs=manifest.num_refs)

    def put_log(self, log: "transaction_log.TransactionLog") -> None:
        settings = self.settings
        if log.num_changes > _MANY_CHANGES:
            self.put_log_stream(log, {})
            self.caches.logs.remember(log.id, log)
            return
        data = transaction_log.encode_txlog(
            log, level=settings.compression_level, spec_version=settings.spec_version
        )
        self.store.put(transaction_key(log.id), data)
        self.caches.logs.remember(log.id, log)

    def put_log_stream(
        self, log: "transaction_log.TransactionLog", chunks: "Mapping[NodeId, Sequence[ChunkSet]]"
    ) -> None:
        """Puts a log that lists these chunks too, which may be too many to hold in memory."""
        settings = self.settings
        data = transaction_log.encode_txlog_stream(
            log,
            chunks,
            level=settings.compression_level,
            spec_version=settings.spec_version,
            max_bytes=self.max_log_bytes,
        )
        self.store.put(transaction_key(log.id), data)

    def _load_snapshot(self, snapshot: SnapshotId) -> Snapshot:
        return self._load(snapshot_key(snapshot), shared_snapshots.decode)

    def _load_names(self, snapshot: SnapshotId) -> NodeNames:
        return self._load(snapshot_key(snapshot), decode_node_names)

    def _load_head(self, snapshot: SnapshotId) -> SnapshotHead:
        return self._load(snapshot_key(snapshot), decode_snapshot_head)

    def _load_manifest(self, manifest: ManifestId) -> "manifests.Manifest":
        with BETWEEN_FORKS:  # this may run in the background
            known = self.caches.manifests.find(manifest)
        if known is not None:  # another thread loaded it since the caller looked
            return known
        loaded = self._decode_manifest(manifest)
        with BETWEEN_FORKS:
            self.caches.manifests.remember(manifest, loaded)
        return loaded

    def _decode_manifest(self, manifest: ManifestId) -> "manifests.Manifest":
        return self._load(manifest_key(manifest), manifests.decode_manifest)

    def _load_log(self, snapshot: SnapshotId) -> "transaction_log.TransactionLog":
        key = transaction_key(snapshot)
        data = self.store.get(key).data
        with annotate_errors(key):
            try:
                return transaction_log.decode_txlog(data, max_size=self._allowed(data))
            except FormatError as damage:
                try:
                    return transaction_log.decode_early_log(
                        data, lambda: self.fetch_snapshot(snapshot).nodes
                    )
                except FormatError:
                    raise damage from None

    def _load[T](self, key: str, decode: Callable[..., T]) -> T:
        with annotate_errors(key):
            data = self.store.get(key).data
            return decode(data, max_size=self._allowed(data))

    def _allowed(self, data: Data) -> int:
        """Bytes that a file of that size may hold."""
        return self.settings.limits.payload_bytes(len(data))


_FEW = 16


def preload_manifests(files: Files, snapshot: Snapshot, *, reader: object) -> None:
    """Begins to fetch what the rules choose of the snapshot's manifests; returns at once.

    Ends early once the files or `reader` are gone: neither is kept alive by it. Failures are not
    reported: a reader that needs the manifest meets the error again.
    """
    rules = files.settings.preload
    if rules.are_void or not snapshot.manifest_files:
        return
    if len(snapshot.manifest_files) <= _FEW and _are_cached(files, snapshot):
        return  # as after a commit in this process
    kept, wanted_by = ref(files), ref(reader)
    plan = files.caches.plans.find(snapshot.id)
    if plan is not None and plan.rules == rules:
        _submit(files, plan, wanted_by)
        return

    def begin() -> None:
        if (files := kept()) is not None and wanted_by() is not None:
            plan = plan_preload(snapshot, rules)
            with BETWEEN_FORKS:
                files.caches.plans.remember(snapshot.id, plan)
            _submit(files, plan, wanted_by)

    if len(snapshot.nodes) <= _FEW:  # planning is faster than starting a thread
        with suppress(FormatError):
            begin()
    else:
        files.caches.background.submit(begin)


def _are_cached(files: Files, snapshot: Snapshot) -> bool:
    with BETWEEN_FORKS:
        return all(files.find_manifest(each.id) is not None for each in snapshot.manifest_files)


def _submit(files: Files, plan: PreloadPlan, wanted_by: ReferenceType[object]) -> None:
    kept = ref(files)

    def fetch(manifest: ManifestId) -> None:
        if (files := kept()) is not None and wanted_by() is not None:
            files.preload_manifest(manifest)

    with BETWEEN_FORKS:
        missing = [manifest for manifest in plan.manifests if files.find_manifest(manifest) is None]
    for manifest in missing:
        files.caches.background.submit(partial(fetch, manifest))
