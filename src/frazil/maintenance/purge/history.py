"""All snapshots that are stored, whoever lists them, and what a path has left in them. Reading."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import batched

import numpy as np
import numpy.typing as npt

from frazil.assets.files import Files
from frazil.format.snapshot import Node, Snapshot
from frazil.ids import NodeId, SnapshotId
from frazil.maintenance.id_sets import GrowingIdSet, IdSet
from frazil.maintenance.inventory import FileKind, StoredInventory, list_files
from frazil.maintenance.purge.remaining import (
    Remaining,
    mentions_by_nodes,
    mentions_by_snapshot,
)
from frazil.maintenance.purge.scrub import without_path
from frazil.paths import NodePath

_AT_ONCE = 64


def stored_ids(files: Files, kind: FileKind) -> npt.NDArray[np.uint8]:
    """(n, 12), in ascending order."""
    return IdSet.of(list_files(StoredInventory(files.store), kind).ids).ids()


def stored_snapshots(files: Files) -> Iterator[Snapshot]:
    """Also those that no branch leads to; some are in memory at a time."""
    ids = [SnapshotId(raw.tobytes()) for raw in stored_ids(files, FileKind.SNAPSHOT)]
    for some in batched(ids, _AT_ONCE):
        yield from files.pool.map(files.fetch_snapshot, some)


@dataclass(slots=True)
class Traces:
    """What was found in the snapshots looked at so far."""

    path: NodePath
    snapshots: list[SnapshotId] = field(default_factory=list)  # that must be written anew
    removed: dict[NodeId, Node] = field(default_factory=dict)  # one of each node's versions
    manifests: GrowingIdSet = field(default_factory=GrowingIdSet)  # of what is removed
    kept_manifests: GrowingIdSet = field(default_factory=GrowingIdSet)
    kept_nodes: dict[NodeId, str] = field(default_factory=dict)  # of `removed`: path elsewhere
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

    def look_for_moved(self, snapshot: Snapshot) -> None:
        """Once all are known that are removed: which of them are elsewhere too."""
        raw = b"".join(each.raw for each in self.removed)
        wanted = np.frombuffer(raw, dtype=np.uint64)
        ids = np.ascontiguousarray(snapshot.nodes.table.struct("id").values)
        for row in np.flatnonzero(np.isin(ids.view(np.uint64).reshape(-1), wanted)).tolist():
            place = snapshot.nodes.path_text(row)
            if place != self.path.text and not place.startswith(self.path.descendant_prefix):
                self.kept_nodes[NodeId(ids[row].tobytes())] = place


def json_text(path: NodePath) -> str:
    """How attributes usually name a node: as a string, without the leading slash."""
    return f'"{path.text[1:]}"'


def find_traces(files: Files, path: NodePath) -> Traces:
    traces = Traces(path)
    for snapshot in stored_snapshots(files):
        traces.look_at(snapshot)
    if traces.removed:
        for snapshot in stored_snapshots(files):
            traces.look_for_moved(snapshot)
    return traces
