"""Tasks that overwrite files without what is purged, and blank objects. Each may run twice."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from frazil.engine.changes.transaction_logs import ids_in
from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import chunk_key
from frazil.engine.merge.comparison import refs_reader
from frazil.engine.merge.conflicts import rows_by_id
from frazil.format.manifest import Manifest
from frazil.format.snapshot import ManifestFile
from frazil.format.transaction_log import TransactionLog
from frazil.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.maintenance.purge.scrub import MovedNodes, with_manifests, without_nodes, without_path
from frazil.maintenance.purge.traces import Ids, snapshot_ids
from frazil.maintenance.relocate import Parts, id_keys
from frazil.paths import NodePath


@dataclass(frozen=True, slots=True)
class WriteManifests:
    """New ones in the place of manifests that arrays share, without those that are gone."""

    manifests: tuple[ManifestId, ...]
    gone: frozenset[NodeId]

    def __call__(self, files: Files, rows: range) -> list[ManifestFile]:
        written = files.pool.map(
            lambda old: self._write(files, old), self.manifests[rows.start : rows.stop]
        )
        files.store.sync()
        return written

    def _write(self, files: Files, old: ManifestId) -> ManifestFile:
        arrays = files.fetch_manifest(old).arrays
        kept = {node: refs for node, refs in arrays.items() if node not in self.gone}
        return files.put_manifest(Manifest(id=ManifestId.random(), arrays=kept))


@dataclass(frozen=True, slots=True, eq=False)
class WriteSnapshots:
    """Task: rewrites snapshots under their ids, without the path and with other manifests."""

    ids: Ids
    path: NodePath
    new: Mapping[ManifestId, ManifestFile]

    def __call__(self, files: Files, rows: range) -> list[SnapshotId]:
        ids = snapshot_ids(self.ids, rows)
        written = files.pool.map(lambda each: self._write(files, each), ids)
        files.store.sync()
        return [each for each, is_new in zip(ids, written, strict=True) if is_new]

    def _write(self, files: Files, snapshot: SnapshotId) -> bool:
        old = files.fetch_snapshot(snapshot)
        found = without_path(old, self.path)
        scrubbed = old if found is None else found.snapshot
        scrubbed = with_manifests(scrubbed, self.new) or scrubbed
        if scrubbed is old:
            return False
        files.put_snapshot(scrubbed)
        return True


@dataclass(frozen=True, slots=True, eq=False)
class FindLogs:
    """Transaction logs that tell of the path, or of nodes that are gone.

    Also of snapshots that have expired: their logs may be kept for those after them.
    """

    ids: Ids
    path: NodePath
    gone: frozenset[NodeId]
    moved_nodes: MovedNodes

    def __call__(self, files: Files, rows: range) -> list[SnapshotId]:
        return [after.id for _, after in self.changed(files, rows)]

    def changed(self, files: Files, rows: range) -> Iterator[tuple[TransactionLog, TransactionLog]]:
        for log in files.fetch_logs(snapshot_ids(self.ids, rows)):
            kept = self.moved_nodes.around(log.id)
            changed = without_nodes(log, set(self.gone), self.path, kept)
            if changed is not None:
                yield log, changed


@dataclass(frozen=True, slots=True, eq=False)
class WriteLogs:
    """Logs without it, under the ids they have."""

    find: FindLogs

    def __call__(self, files: Files, rows: range) -> list[SnapshotId]:
        written = [
            _with_chunks(files, after, ids_in(after.new_arrays) - ids_in(before.new_arrays))
            for before, after in self.find.changed(files, rows)
        ]
        files.pool.map(files.put_log, written)
        files.store.sync()
        return [log.id for log in written]


def _with_chunks(files: Files, log: TransactionLog, new: set[NodeId]) -> TransactionLog:
    """Lists the chunks that arrays have from the beginning which the log now says are new."""
    if not new:
        return log
    nodes, read = files.fetch_snapshot(log.id).nodes, refs_reader(files)
    chunks = dict(log.updated_chunks)
    for node_id, row in rows_by_id(nodes, new).items():
        node = nodes.node(row)
        refs = None if node.array is None else read(node, node.array.manifests)
        if refs is not None and len(refs):
            chunks[node_id] = refs.index
    return replace(log, updated_chunks=chunks)


@dataclass(frozen=True, slots=True, eq=False)
class Blank:
    """Zeros in place of parts of packs: what else is in them stays where it is."""

    objects: Ids
    parts: Parts

    @classmethod
    def of(cls, parts: Parts) -> "Blank":
        _, first = np.unique(id_keys(parts.chunk_id), return_index=True)
        return cls(parts.chunk_id[first], parts)

    def __call__(self, files: Files, rows: range) -> int:
        keys = id_keys(self.parts.chunk_id)
        for row in rows:
            raw = self.objects[row]
            mine = self.parts.take(np.flatnonzero(keys == id_keys(raw.reshape(1, -1))[0]))
            _blank(files, ChunkId(raw.tobytes()), mine)
        files.store.sync()
        return len(rows)


def _blank(files: Files, chunk: ChunkId, parts: Parts) -> None:
    key = chunk_key(chunk)
    data = bytearray(files.store.get(key).data)
    for start, length in zip(parts.offset, parts.length, strict=True):
        stop = min(int(start + length), len(data))
        data[int(start) : stop] = bytes(max(0, stop - int(start)))
    files.store.put(key, data)


@dataclass(frozen=True, slots=True)
class Delete:
    keys: tuple[str, ...]

    def __call__(self, files: Files, rows: range) -> int:
        files.store.delete(self.keys[rows.start : rows.stop])
        return len(rows)
