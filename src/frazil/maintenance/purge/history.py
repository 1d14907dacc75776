"""Searches all stored snapshots, listed or not, for traces of a path."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from frazil.assets.files import Files
from frazil.errors import FormatError
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import Node, Snapshot
from frazil.ids import NodeId, SnapshotId
from frazil.maintenance.executor import Executor
from frazil.maintenance.id_sets import GrowingIdSet, IdSet
from frazil.maintenance.inventory import FileKind, StoredInventory, list_files
from frazil.maintenance.purge.remaining import (
    Remaining,
    mentions_by_nodes,
    mentions_by_snapshot,
)
from frazil.maintenance.purge.scrub import without_path
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
