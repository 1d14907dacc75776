"""Traces of a path in all stored snapshots, and the files that hold its chunks."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from frazil.engine.files.files import Files
from frazil.errors import FormatError
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.manifest import Manifest
from frazil.format.nodes import Node
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import Snapshot
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.maintenance.executor import Executor
from frazil.maintenance.id_sets import GrowingIdSet, IdSet
from frazil.maintenance.inventory import FileKind, StoredInventory, list_files
from frazil.maintenance.purge.scrub import without_path
from frazil.maintenance.relocate import Parts, id_keys
from frazil.maintenance.summaries import SHOWN, Remaining, mentions_by_nodes, mentions_by_snapshot
from frazil.objectstore.protocol import ObjectStore
from frazil.paths import NodePath

type Ids = npt.NDArray[np.uint8]  # (n, 12)


def stored_ids(store: ObjectStore, kind: FileKind) -> Ids:
    """Ids of all files of a kind, in ascending order."""
    return IdSet.of(list_files(StoredInventory(store), kind).ids).ids()


def readable_ids(files: Files, info: RepoInfo, kind: FileKind) -> Ids:
    """Ids of all snapshots or logs that can be read.

    Files that a power failure has cut off are left out: they are listed nowhere.
    """
    ids, snapshots = stored_ids(files.store, kind), info.snapshots
    fetch = files.fetch_snapshot if kind is FileKind.SNAPSHOT else files.fetch_log
    pruned = b"".join(raw for row in range(len(snapshots)) for raw in snapshots.pruned_logs(row))
    listed = [snapshots.ids, np.frombuffer(pruned, np.uint8).reshape(-1, SnapshotId.size)]
    is_good = IdSet.of(np.concatenate(listed)).contains(ids)
    for row in np.flatnonzero(~is_good).tolist():
        with suppress(FormatError):
            fetch(SnapshotId(ids[row].tobytes()))
            is_good[row] = True
    return ids[is_good]


def snapshot_ids(ids: Ids, rows: range) -> list[SnapshotId]:
    return [SnapshotId(raw.tobytes()) for raw in ids[rows.start : rows.stop]]


def snapshots_of(files: Files, ids: Ids, rows: range) -> Iterator[Snapshot]:
    """Snapshots of these rows; as many are in memory at a time as there are threads."""
    for start in range(rows.start, rows.stop, files.pool.width):
        some = range(start, min(start + files.pool.width, rows.stop))
        yield from files.pool.map(files.fetch_snapshot, snapshot_ids(ids, some))


@dataclass(slots=True)
class Traces:
    """Traces of the path in the snapshots read so far."""

    path: NodePath
    snapshots: list[SnapshotId] = field(default_factory=list)  # to be rewritten
    removed: dict[NodeId, Node] = field(default_factory=dict)  # one of each node's versions
    manifests: GrowingIdSet = field(default_factory=GrowingIdSet)  # of what is removed
    kept_manifests: GrowingIdSet = field(default_factory=GrowingIdSet)
    kept_nodes: dict[NodeId, str] = field(default_factory=dict)  # of `removed`: another path
    kept_in: dict[SnapshotId, set[NodeId]] = field(default_factory=dict)  # those nodes
    mentions: list[Remaining] = field(default_factory=list)
    mentioned_by: set[str] = field(default_factory=set)  # paths of nodes

    @property
    def gone(self) -> set[NodeId]:
        """Nodes that are in no snapshot afterwards."""
        return self.removed.keys() - self.kept_nodes.keys()

    def look_at(self, snapshot: Snapshot) -> None:
        found = without_path(snapshot, self.path)
        after = snapshot if found is None else found.snapshot
        if found is not None:
            self.snapshots.append(snapshot.id)
            for node in found.removed:
                self.removed[node.id] = node
                refs = () if node.array is None else node.array.manifests
                raw = b"".join(ref.id.raw for ref in refs)
                self.manifests.add(np.frombuffer(raw, dtype=np.uint8).reshape(-1, 12))
        self.kept_manifests.add(after.nodes.manifest_ids())
        texts = [self.path.text]
        self.mentions += mentions_by_snapshot(snapshot, texts)
        self.mentioned_by |= mentions_by_nodes(after, [*texts, json_text(self.path)])

    def add(self, later: "Traces") -> None:
        """Adds traces in snapshots that come after these."""
        self.snapshots += later.snapshots
        self.removed |= later.removed
        self.manifests.add_set(later.manifests.done())
        self.kept_manifests.add_set(later.kept_manifests.done())
        self.kept_nodes |= later.kept_nodes
        self.mentions += later.mentions
        self.mentioned_by |= later.mentioned_by


def json_text(path: NodePath) -> str:
    """The usual form of a path in attributes: a string, without the leading slash."""
    return f'"{path.text[1:]}"'


def find_traces(ids: Ids, path: NodePath, executor: Executor) -> Traces:
    """Reads the snapshots with these ids."""
    traces = Traces(path)
    for part in executor.run(LookForPath(ids, path), len(ids), "reading snapshots"):
        traces.add(part)
    if traces.removed:
        look = LookForMoved(ids, path, tuple(traces.removed))
        for places in executor.run(look, len(ids), "reading snapshots again"):
            for snapshot, found in places.items():
                traces.kept_nodes |= found
                traces.kept_in[snapshot] = set(found)
    return traces


@dataclass(frozen=True, slots=True, eq=False)
class LookForPath:
    ids: Ids  # of the snapshots
    path: NodePath

    def __call__(self, files: Files, rows: range) -> Traces:
        traces = Traces(self.path)
        for snapshot in snapshots_of(files, self.ids, rows):
            traces.look_at(snapshot)
        return traces


@dataclass(frozen=True, slots=True, eq=False)
class LookForMoved:
    """Task: finds removed nodes that are at another path in some snapshots."""

    ids: Ids  # of the snapshots
    path: NodePath
    removed: Sequence[NodeId]

    def __call__(self, files: Files, rows: range) -> dict[SnapshotId, dict[NodeId, str]]:
        found: dict[SnapshotId, dict[NodeId, str]] = {}
        wanted = np.frombuffer(b"".join(each.raw for each in self.removed), dtype=np.uint64)
        for snapshot in snapshots_of(files, self.ids, rows):
            ids = np.ascontiguousarray(snapshot.nodes.table.struct("id").values)
            for row in np.flatnonzero(np.isin(ids.view(np.uint64).reshape(-1), wanted)).tolist():
                place = snapshot.nodes.path_text(row)
                if place != self.path.text and not place.startswith(self.path.descendant_prefix):
                    found.setdefault(snapshot.id, {})[NodeId(ids[row].tobytes())] = place
        return found


_AT_ONCE = 8  # manifests in memory
_READING = "reading manifests"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contents:
    manifests: IdSet  # that nothing else uses
    shared_manifests: tuple[ManifestId, ...]  # that hold chunks of other arrays too
    chunks: IdSet  # objects that nothing else uses
    chunk_bytes: int  # in these, and blanked in others
    blanked: Parts  # of objects that others use too, for other parts
    remaining: tuple[Remaining, ...]


def find_contents(store: ObjectStore, traces: Traces, executor: Executor) -> Contents:
    """Reads all manifests if the arrays have chunks in the repository."""
    used, kept = traces.manifests.done(), traces.kept_manifests.done()
    found = Found(frozenset(traces.removed), frozenset(traces.gone))
    for part in executor.run(ReadUsed(used.ids(), kept, found.nothing()), len(used), _READING):
        found.add(part)
    shared = tuple(found.manifests)
    only = used.ids()[~kept.contains(used.ids())]
    orphans = _orphans(store, found, IdSet.union([used, kept]), executor) if traces.removed else []
    doomed, others = _split_by_use(found, kept, executor)
    inside = found.parts_in(IdSet.of(others.chunk_id))
    is_shared = overlap_mask(inside, others)
    blanked = inside.take(np.flatnonzero(~is_shared))
    remaining = [*found.virtual_files()]
    if is_shared.any():
        text = f"{int(is_shared.sum())} chunks are those of other arrays too, and stay"
        remaining.append(Remaining("shared-chunks", "chunks/", text))
    return Contents(
        manifests=IdSet.of(np.concatenate([only, _ids(orphans)])),
        shared_manifests=shared,
        chunks=doomed,
        chunk_bytes=found.parts_in(doomed).bytes + blanked.bytes,
        blanked=blanked,
        remaining=tuple(remaining),
    )


@dataclass(slots=True)
class Found:
    """References of removed arrays, in the manifests looked at so far."""

    removed: frozenset[NodeId]
    gone: frozenset[NodeId]
    parts: list[Parts] = field(default_factory=list)
    locations: set[str] = field(default_factory=set)
    manifests: list[ManifestId] = field(default_factory=list)  # those that were looked for

    def nothing(self) -> "Found":
        return Found(self.removed, self.gone)

    def take(self, manifest: Manifest) -> None:
        for node_id, refs in manifest.arrays.items():
            if node_id in self.removed:
                self._take(refs)

    def _take(self, refs: ChunkRefs) -> None:
        self.parts.append(Parts.native(refs))
        self.locations |= {text for text in refs.location.pruned().strings.to_texts() if text}

    def add(self, later: "Found") -> None:
        self.parts += later.parts
        self.locations |= later.locations
        self.manifests += later.manifests

    def chunk_ids(self) -> IdSet:
        return IdSet.of(Parts.concat(self.parts).chunk_id)

    def parts_in(self, chunks: IdSet) -> Parts:
        """Parts of these objects, each once, by object and offset."""
        parts = Parts.concat(self.parts)
        return parts.take(np.flatnonzero(chunks.contains(parts.chunk_id))).distinct()

    def virtual_files(self) -> Iterator[Remaining]:
        places = sorted(self.locations)
        for place in places[:SHOWN]:
            yield Remaining("virtual-file", place, "has chunks of it")
        if len(places) > SHOWN:
            text = f"{len(places) - SHOWN} more files have chunks of it"
            yield Remaining("virtual-file", "...", text)


def overlap_mask(parts: Parts, others: Parts) -> npt.NDArray[np.bool_]:
    """True for the parts that share a byte with one of the others."""
    found = np.zeros(len(parts), dtype=np.bool_)
    keys, other_keys = id_keys(parts.chunk_id), id_keys(others.chunk_id)
    for key in np.unique(other_keys):
        rows, theirs = np.flatnonzero(keys == key), others.take(np.flatnonzero(other_keys == key))
        start, stop = parts.offset[rows], parts.offset[rows] + parts.length[rows]
        for first, length in zip(theirs.offset, theirs.length, strict=True):
            found[rows] |= (start < first + length) & (stop > first)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class ReadUsed:
    """Manifests of removed arrays; those looked for are the ones that other arrays keep."""

    ids: Ids
    kept: IdSet
    wanted: Found

    def __call__(self, files: Files, rows: range) -> Found:
        found = self.wanted.nothing()
        for manifest in _manifests(files, self.ids, rows):
            is_kept = bool(self.kept.contains(_ids([manifest.id]))[0])
            found.take(manifest)
            if is_kept and not found.gone.isdisjoint(manifest.arrays):
                found.manifests.append(manifest.id)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class ReadOthers:
    """Task: parts of some chunk objects that arrays which stay use."""

    ids: Ids
    chunks: IdSet
    gone: frozenset[NodeId]

    def __call__(self, files: Files, rows: range) -> Parts:
        others: list[Parts] = []
        for manifest in _manifests(files, self.ids, rows):
            for node_id, refs in manifest.arrays.items():
                if node_id not in self.gone:
                    parts = Parts.native(refs)
                    others.append(parts.take(np.flatnonzero(self.chunks.contains(parts.chunk_id))))
        return Parts.concat(others).distinct()


@dataclass(frozen=True, slots=True, eq=False)
class ReadOrphans:
    """Manifests that no snapshot uses; those looked for are of arrays that are gone."""

    ids: Ids
    wanted: Found

    def __call__(self, files: Files, rows: range) -> Found:
        found = self.wanted.nothing()
        for row in rows:
            with suppress(FormatError):  # cut off by a power failure: of nothing that is known
                manifest = files.fetch_manifest(ManifestId(self.ids[row].tobytes()))
                if manifest.arrays and manifest.arrays.keys() <= found.gone:
                    found.take(manifest)
                    found.manifests.append(manifest.id)
        return found


def _split_by_use(found: Found, kept: IdSet, executor: Executor) -> tuple[IdSet, Parts]:
    """Chunk objects that no other array uses, and what others use of the rest, each part once."""
    wanted = found.chunk_ids()
    count = len(kept) if len(wanted) else 0
    parts = list(executor.run(ReadOthers(kept.ids(), wanted, found.gone), count, _READING))
    used = Parts.concat(parts).distinct()
    ids = wanted.ids()
    return IdSet.of(ids[~IdSet.of(used.chunk_id).contains(ids)]), used


def _orphans(
    store: ObjectStore, found: Found, known: IdSet, executor: Executor
) -> list[ManifestId]:
    """Manifests that no snapshot uses, of arrays that are gone."""
    stored = stored_ids(store, FileKind.MANIFEST)
    orphans = stored[~known.contains(stored)]
    names: list[ManifestId] = []
    wanted = found.nothing()
    for part in executor.run(ReadOrphans(orphans, wanted), len(orphans), _READING):
        found.add(part)
        names += part.manifests
    return names


def _manifests(files: Files, ids: Ids, rows: range) -> Iterator[Manifest]:
    wanted = [ManifestId(raw.tobytes()) for raw in ids[rows.start : rows.stop]]
    for start in range(0, len(wanted), _AT_ONCE):
        yield from files.pool.map(files.fetch_manifest, wanted[start : start + _AT_ONCE])


def _ids(manifests: Iterable[ManifestId]) -> Ids:
    raw = b"".join(each.raw for each in manifests)
    return np.frombuffer(raw, dtype=np.uint8).reshape(-1, ManifestId.size)
