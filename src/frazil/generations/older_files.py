"""Files of older repositories, decoded to the records of version 2.

What those generations left out is derived here: names that files do not contain, first snapshots
that have another id inside, histories that only the refs have, logs that were not kept.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from frazil.engine.files.caches import Caches
from frazil.engine.files.files import Files, Outgoing, annotate_errors
from frazil.engine.files.object_keys import (
    OVERWRITTEN,
    REPO_INFO,
    manifest_key,
    snapshot_key,
    transaction_key,
)
from frazil.engine.files.settings import Settings
from frazil.errors import FormatError, ObjectNotFoundError
from frazil.format.chunk_index import ChunkSet
from frazil.format.chunk_refs import ChunkRefs, RefKind
from frazil.format.generation import Generation, require_writable
from frazil.format.manifest import Manifest
from frazil.format.nodes import Node, Nodes, id_column
from frazil.format.repo_info import LogPage, RepoInfo
from frazil.format.snapshot import ManifestFile, NodeNames, Snapshot, SnapshotHead
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.format.transaction_log import TransactionLog
from frazil.generations.alpha_encoder import (
    encode_old_manifest,
    encode_old_snapshot,
    roundtrip_metadata,
)
from frazil.generations.alpha_manifest import decode_old_manifest
from frazil.generations.alpha_refs import (
    OldRef,
    RefFiles,
    decode_old_ref,
    parse_ref_key,
    refs_folder,
)
from frazil.generations.alpha_snapshot import BARE, OldSnapshot, decode_old_log, decode_old_snapshot
from frazil.generations.older_layout import OlderLayout
from frazil.generations.v2pre import (
    decode_early_log_page,
    decode_early_repo_info,
    decode_early_snapshot,
)
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.objectstore.protocol import ALWAYS, ObjectStore, Precondition

# Transaction logs derived from the snapshots before and after a commit that wrote none.

type RefsOf = Callable[[Node], ChunkRefs]  # all of an array's references


@dataclass(slots=True)
class _Found:
    groups: list[bytes]
    arrays: list[bytes]

    def add(self, node: Node) -> None:
        (self.groups if node.array is None else self.arrays).append(node.id.raw)


def compute_log(
    name: SnapshotId, before: Snapshot | None, after: Snapshot, refs_of: RefsOf
) -> TransactionLog:
    """Nodes are known by id; `refs_of` is asked for arrays whose manifests are not the same."""
    old = {} if before is None else {node.id: node for node in before.nodes}
    new = {node.id: node for node in after.nodes}
    made, gone, changed = (_Found([], []) for _ in range(3))
    chunks: dict[NodeId, npt.NDArray[np.uint32]] = {}
    for node_id, node in new.items():
        earlier = old.get(node_id)
        if earlier is not None and earlier.path != node.path:  # nothing could move: a number again
            gone.add(earlier)
            earlier = None
        if earlier is None:
            made.add(node)
        elif earlier.user_data != node.user_data:
            changed.add(node)
        if node.array is not None and _manifests(earlier) != _manifests(node):
            touched = changed_rows(None if earlier is None else refs_of(earlier), refs_of(node))
            if len(touched):
                chunks[node_id] = touched
    for node_id in old.keys() - new.keys():
        gone.add(old[node_id])
    return TransactionLog(
        id=name,
        new_groups=_ids(made.groups),
        new_arrays=_ids(made.arrays),
        deleted_groups=_ids(gone.groups),
        deleted_arrays=_ids(gone.arrays),
        updated_arrays=_ids(changed.arrays),
        updated_groups=_ids(changed.groups),
        updated_chunks=chunks,
    )


def _manifests(node: Node | None) -> set[ManifestId]:
    if node is None or node.array is None:
        return set()
    return {ref.id for ref in node.array.manifests}


def changed_rows(before: ChunkRefs | None, after: ChunkRefs) -> npt.NDArray[np.uint32]:
    """Indices, (n, ndim), of chunks that only one has, or that are not the same in both."""
    if before is None or before.ndim != after.ndim:
        return after.index
    at = before.lookup(after.index)
    both = np.flatnonzero(at >= 0)
    differs = np.ones(len(after), dtype=np.bool_)
    differs[both] = ~_equal_rows(before.take(at[both]), after.take(both))
    gone = after.lookup(before.index) < 0
    return np.concatenate([after.index[differs], before.index[gone]])


def _equal_rows(one: ChunkRefs, other: ChunkRefs) -> npt.NDArray[np.bool_]:
    same: npt.NDArray[np.bool_]
    same = (one.kind == other.kind) & (one.offset == other.offset) & (one.length == other.length)
    same &= (one.chunk_id == other.chunk_id).all(axis=1)
    same &= one.last_modified == other.last_modified
    for row in np.flatnonzero(same & (one.kind != RefKind.NATIVE)).tolist():
        same[row] = one.payload(row) == other.payload(row)
    return same


def _ids(raw: list[bytes]) -> npt.NDArray[np.uint8]:
    return id_column(sorted(raw), NodeId.size)


_HISTORY_ONLY_IN_REFS = BARE


class OlderFiles(Files):
    """Shows files by today's keys. Refuses changes unless the generation is one that is written."""

    def __init__(
        self, store: ObjectStore, settings: Settings, caches: Caches | None = None
    ) -> None:
        super().__init__(OlderLayout(store, settings.generation), settings, caches)
        self.raw_store = store
        self.generation = settings.generation


class AlphaFiles(OlderFiles):
    """The files of a generation before version 1, those of V1pre1 and V1pre2 included."""

    has_current_encoding = False

    def __init__(
        self, store: ObjectStore, settings: Settings, caches: Caches | None = None
    ) -> None:
        super().__init__(store, settings, caches)
        self._names = dict[SnapshotId, SnapshotId]()  # of first snapshots: own id to file
        self._lost = dict[SnapshotId, SnapshotHead]()  # first snapshots without a file
        self._ndims = dict[ManifestId, dict[NodeId, int]]()
        self._noted = set[SnapshotId]()
        self._newest_history: tuple[SnapshotId, tuple[SnapshotHead, ...]] | None = None
        self._reflog: dict[SnapshotId, tuple[SnapshotId | None, int]] | None = None

    # Refs

    def list_refs(self) -> RefFiles:
        documented = self.generation is Generation.ALPHA1
        found = self.store.list(refs_folder(self.generation))
        return RefFiles.of(parse_ref_key(each.key, documented=documented) for each in found)

    def find_damaged_refs(self) -> dict[str, FormatError]:
        """Files of branches and tags that cannot be read, those of former tips included."""
        refs = self.list_refs()
        files = [*(each for some in refs.branches.values() for each in some), *refs.tags.values()]
        keys = [file.key for file in files]

        def read(key: str) -> FormatError | None:
            try:
                self.fetch_ref(key)
            except FormatError as error:
                return error
            return None

        found = zip(keys, self.pool.map(read, keys), strict=True)
        return {key: error for key, error in found if error is not None}

    def fetch_ref(self, key: str) -> OldRef:
        with annotate_errors(key):
            return decode_old_ref(self.store.get(key).data)

    # Snapshots

    def fetch_snapshot(self, snapshot: SnapshotId) -> Snapshot:
        found = super().fetch_snapshot(snapshot)
        self._note_dimensions(found)
        return found

    def fetch_node_names(self, snapshot: SnapshotId) -> NodeNames:
        return NodeNames.of(self.fetch_snapshot(snapshot).nodes)

    def fetch_old_snapshot(self, snapshot: SnapshotId) -> OldSnapshot:
        """A snapshot with the id and the history in its file. Never cached."""
        key = snapshot_key(snapshot)
        with annotate_errors(key):
            return decode_old_snapshot(self.store.get(key).data, snapshot)

    def _load_snapshot(self, snapshot: SnapshotId) -> Snapshot:
        try:
            return self._placed(self.fetch_old_snapshot(snapshot))
        except ObjectNotFoundError:
            if snapshot not in self._lost:
                raise
            head = self._lost[snapshot]
            return Snapshot(
                id=snapshot,
                parent_id=None,
                flushed_at_us=head.flushed_at_us,
                message=head.message,
                metadata=head.metadata,
                manifest_files=(),
                nodes=Nodes.empty(),  # no first snapshot ever had any
            )

    def _load_head(self, snapshot: SnapshotId) -> SnapshotHead:
        return self._load_snapshot(snapshot).head

    def _placed(self, found: OldSnapshot) -> Snapshot:
        """The snapshot with the file name of its parent."""
        snapshot = found.snapshot
        if found.fields == _HISTORY_ONLY_IN_REFS:
            parent, written_at_us = self._fetch_reflog().get(snapshot.id, (None, 0))
            return replace(snapshot, parent_id=parent, flushed_at_us=written_at_us)
        if len(found.history) != 1:
            return snapshot
        return replace(snapshot, parent_id=self._find_first(found.history[0]))

    def _find_first(self, head: SnapshotHead) -> SnapshotId:
        """The file name of the first snapshot, whose id its child has."""
        own = head.id
        if own in self._lost:
            return own
        if own not in self._names:
            try:
                self._names[own] = self._look_for_first(own)
            except ObjectNotFoundError:
                self._lost[own] = replace(head, parent_id=None)
                return own
        return self._names[own]

    def _look_for_first(self, own: SnapshotId) -> SnapshotId:
        try:
            self.store.head(snapshot_key(own))
        except ObjectNotFoundError:
            for files in self.list_refs().branches.values():
                first = self.fetch_ref(files[-1].key).snapshot
                if self.fetch_old_snapshot(first).own_id == own:
                    return first
            raise
        return own

    def _fetch_reflog(self) -> Mapping[SnapshotId, tuple[SnapshotId | None, int]]:
        """The parent and the time of each snapshot, from the files of all branches."""
        if self._reflog is None:
            self._reflog = {}
            for files in self.list_refs().branches.values():
                parent: SnapshotId | None = None
                for file in reversed(files):
                    ref = self.fetch_ref(file.key)
                    known = self._reflog.get(ref.snapshot)
                    if known is None or (known[0] is None and parent != ref.snapshot):
                        self._reflog[ref.snapshot] = parent, ref.written_at_us or 0
                    parent = ref.snapshot
        return self._reflog

    # Manifests

    def _note_dimensions(self, snapshot: Snapshot) -> None:
        """Notes dimensions for manifests with chunks of other arrays: see alpha_manifest.py."""
        if snapshot.id in self._noted:
            return
        for node in snapshot.nodes:
            if node.array is not None:
                for ref in node.array.manifests:
                    self._ndims.setdefault(ref.id, {})[node.id] = len(node.array.shape)
        self._noted.add(snapshot.id)

    def note_ndims(self, manifest: ManifestId, ndims: Mapping[NodeId, int]) -> None:
        """Notes the dimensions of snapshots that were read in another process."""
        self._ndims.setdefault(manifest, {}).update(ndims)

    def _decode_manifest(self, manifest: ManifestId) -> Manifest:
        key = manifest_key(manifest)
        with annotate_errors(key):
            found = decode_old_manifest(self.store.get(key).data, manifest)
        return found.resolved(self._ndims.get(manifest, {}))

    # Writing

    def as_stored(self, user_data: bytes) -> bytes:
        return roundtrip_metadata(user_data, self.generation)

    def new_node_id(self, is_taken: Callable[[NodeId], bool]) -> NodeId:
        """A random number of 32 bits: concurrent sessions that count would take the same one."""
        while True:
            new = NodeId(bytes(4) + secrets.token_bytes(4))
            if not is_taken(new):
                return new

    def put_snapshot(self, snapshot: Snapshot, *, when: Precondition = ALWAYS) -> None:
        del when  # only group commits have a condition, and they are not for older generations
        require_writable(self.generation)
        history = self._history_of(snapshot.parent_id)
        data = encode_old_snapshot(snapshot, history, self.generation)
        self.store.put(snapshot_key(snapshot.id), data)
        self._newest_history = snapshot.id, (snapshot.head, *history)
        found = decode_old_snapshot(data, snapshot.id).snapshot
        self.caches.snapshots.remember(snapshot.id, found)

    def _history_of(self, parent: SnapshotId | None) -> tuple[SnapshotHead, ...]:
        """The parent and its ancestors."""
        if parent is None:
            return ()
        known = self._newest_history
        if known is not None and known[0] == parent:
            return known[1]
        found = self.fetch_old_snapshot(parent)
        return (replace(found.snapshot.head, id=found.own_id), *found.history)

    def put_manifest(self, manifest: Manifest, outgoing: Outgoing | None = None) -> ManifestFile:
        require_writable(self.generation)
        data = encode_old_manifest(manifest, self.generation)
        (self.store if outgoing is None else outgoing).put(manifest_key(manifest.id), data)
        return ManifestFile(id=manifest.id, size_bytes=len(data), num_refs=manifest.num_refs)

    def put_log(self, log: TransactionLog) -> None:
        """Stores nothing: logs are derived from snapshots when they are read."""

    def put_log_stream(
        self, log: TransactionLog, chunks: Mapping[NodeId, Sequence[ChunkSet]]
    ) -> None:
        """Stores nothing, as `put_log`."""

    # Logs

    def fetch_logs(self, snapshots: Sequence[SnapshotId]) -> list[TransactionLog]:
        return self.pool.map(self.fetch_log, list(snapshots))

    def _load_log(self, snapshot: SnapshotId) -> TransactionLog:
        after = self.fetch_snapshot(snapshot)
        key = transaction_key(snapshot)
        try:
            data = self.store.get(key).data
        except ObjectNotFoundError:
            parent = after.parent_id
            before = None if parent is None else self.fetch_snapshot(parent)
            return compute_log(snapshot, before, after, self._refs_of)
        with annotate_errors(key):
            return decode_old_log(data, snapshot).resolved(after.nodes)

    def _refs_of(self, node: Node) -> ChunkRefs:
        array = node.array
        ndim = 0 if array is None else len(array.shape)
        found = [ChunkRefs.empty(ndim)]
        for ref in () if array is None else array.manifests:
            refs = self.fetch_manifest(ref.id).arrays.get(node.id)
            if refs is not None and refs.ndim == ndim:
                found.append(refs)
        whole = ChunkRefs.concat(found)
        return whole if array is None else whole.within(array.num_chunks)


class V2preFiles(OlderFiles):
    """The files of a pre-release of version 2."""

    def __init__(
        self, store: ObjectStore, settings: Settings, caches: Caches | None = None
    ) -> None:
        super().__init__(store, settings, caches)
        self._info: RepoInfo | None = None

    def fetch_early_info(self) -> RepoInfo:
        """Reads the entry point."""
        data = self.store.get(REPO_INFO).data
        with annotate_errors(REPO_INFO):
            self._info = info = decode_early_repo_info(data, max_size=self._allowed(data))
        return info

    def fetch_log_page(self, name: str) -> LogPage:
        key = OVERWRITTEN + name
        with annotate_errors(key):
            data = self.store.get(key).data
            return decode_early_log_page(data, max_size=self._allowed(data))

    def _load_snapshot(self, snapshot: SnapshotId) -> Snapshot:
        snapshots = self._listed_snapshots()
        row = snapshots.find(snapshot)
        stated = None if row < 0 else snapshots.metadata(row)
        key = snapshot_key(snapshot)
        with annotate_errors(key):
            data = self.store.get(key).data
            return decode_early_snapshot(data, stated, max_size=self._allowed(data))

    def _load_head(self, snapshot: SnapshotId) -> SnapshotHead:
        return self._load_snapshot(snapshot).head

    def _listed_snapshots(self) -> SnapshotInfos:
        return (self._info or self.fetch_early_info()).snapshots
