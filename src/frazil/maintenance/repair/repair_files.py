"""Repairs of manifests, of snapshots that list them, and of transaction logs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import MANIFESTS, SNAPSHOTS, TRANSACTIONS
from frazil.engine.merge.comparison import chunks_between, compare, refs_reader
from frazil.errors import IcechunkError
from frazil.format.chunk_index import distinct
from frazil.format.envelope import FileType, decode_header
from frazil.format.locations import LocationCompression
from frazil.format.manifest import decode_manifest, encode_manifest
from frazil.format.snapshot import ManifestFile, Snapshot, decode_snapshot, encode_snapshot
from frazil.format.transaction_log import TransactionLog, encode_txlog
from frazil.ids import INITIAL_SNAPSHOT, ManifestId, NodeId, SnapshotId
from frazil.maintenance.repair.repair_steps import RepairStep, find_version
from frazil.maintenance.verify.file_reader import open_file
from frazil.maintenance.verify.repo_info_checks import SnapshotTask
from frazil.objectstore.protocol import ObjectStore

SHUFFLED = {"manifest-arrays-unsorted", "chunk-refs-unsorted"}
# It is unknown which of these is to be kept
_AMBIGUOUS_MANIFEST = {
    "file-id",
    "manifest-array-duplicate",
    "chunk-ref-duplicate",
    "chunk-ref-kind",
    "chunk-dimensions",
    "location-compression",
}


def plan_manifest(store: ObjectStore, key: str, kinds: set[str]) -> list[RepairStep]:
    """Its array and chunks in order."""
    solved = kinds & SHUFFLED
    if not solved or kinds & _AMBIGUOUS_MANIFEST:
        return []
    try:
        blob = store.get(key)
        data = blob.data
        manifest = decode_manifest(data)
    except IcechunkError:
        return []
    opened = open_file(key, data, FileType.MANIFEST, [])
    is_compressed = opened is not None and bool(opened.root.string("location_dictionary").item(0))
    version = decode_header(data).spec_version
    written = encode_manifest(
        type(manifest)(manifest.id, {n: refs.sorted() for n, refs in manifest.arrays.items()}),
        location_compression=LocationCompression(min_num_chunks=0) if is_compressed else None,
        spec_version=version,
    )
    text = "written again, in order"
    return [RepairStep(key, tuple(sorted(solved)), text, written, blob.version)]


_LISTS = {"manifest-size", "manifest-count"}
_SOLVED_SNAPSHOT = {
    *_LISTS,
    "snapshot-parent-present",
    "snapshot-metadata-unsorted",
    "manifest-list-version",
    "manifest-list-unsorted",
    "manifest-list-duplicate",
    "manifest-unlisted",
    "manifest-unused",
    "nodes-unsorted",
    "shape-version",
}
_AMBIGUOUS_SNAPSHOT = {"file-id", "node-path-duplicate", "node-id-duplicate", "node-kind"}


@dataclass(slots=True)
class _ManifestFiles:
    """Sizes and numbers of references as they are, or will be once manifests are repaired."""

    store: ObjectStore
    rewritten: Mapping[str, bytes]
    known: dict[ManifestId, ManifestFile | None] = field(default_factory=dict)

    def find(self, manifest: ManifestId) -> ManifestFile | None:
        """None if it cannot be read."""
        if manifest not in self.known:
            self.known[manifest] = self._read(manifest)
        return self.known[manifest]

    def _read(self, manifest: ManifestId) -> ManifestFile | None:
        key = f"{MANIFESTS}{manifest}"
        try:
            data = self.rewritten.get(key) or self.store.get(key).data
            return ManifestFile(manifest, len(data), decode_manifest(data).num_refs)
        except IcechunkError:
            return None


def plan_snapshots(
    store: ObjectStore,
    names: list[str],
    kinds_of: Mapping[str, set[str]],
    manifests: Mapping[str, bytes],
) -> Iterator[RepairStep]:
    """`kinds_of` problems by key; `manifests` will be other files, with other sizes.

    A wrong size is reported for one of the snapshots that say it, so all are looked at then.
    """
    all_of_them = bool(manifests) or any(kinds & _LISTS for kinds in kinds_of.values())
    files = _ManifestFiles(store, manifests)
    for name in names:
        key = SNAPSHOTS + name
        kinds = kinds_of.get(key, set())
        if not all_of_them and not kinds & _SOLVED_SNAPSHOT:
            continue
        step = _plan_one(store, key, kinds, files)
        if step is not None:
            yield step


def _plan_one(
    store: ObjectStore, key: str, kinds: set[str], files: _ManifestFiles
) -> RepairStep | None:
    if kinds & _AMBIGUOUS_SNAPSHOT:
        return None
    try:
        blob = store.get(key)
        data = blob.data
        snapshot = decode_snapshot(data)
    except IcechunkError:
        return None
    right = _right_list(snapshot, files)
    if right is None:
        return None
    if not kinds & _SOLVED_SNAPSHOT and right == snapshot.manifest_files:
        return None
    version = decode_header(data).spec_version
    written = encode_snapshot(replace(snapshot, manifest_files=right), spec_version=version)
    solved = tuple(sorted(kinds & _SOLVED_SNAPSHOT)) or ("manifest-size",)
    text = "written again, in order"
    if right != snapshot.manifest_files:
        text += ", with the manifests that its arrays use as they are"
    return RepairStep(key, solved, text, written, blob.version)


def _right_list(snapshot: Snapshot, files: _ManifestFiles) -> tuple[ManifestFile, ...] | None:
    """One entry for each manifest that an array uses; None if one can be neither read nor kept."""
    listed = {file.id: file for file in snapshot.manifest_files}
    right = []
    for raw in sorted({raw.tobytes() for raw in snapshot.nodes.manifest_ids()}):
        manifest = ManifestId(raw)
        found = files.find(manifest) or listed.get(manifest)
        if found is None:
            return None
        right.append(found)
    return tuple(right)


_SOLVED_LOG = {
    "log-missing",
    "log-initial-not-empty",
    "log-nodes-unsorted",
    "log-node-repeated",
    "log-chunks-unsorted",
    "log-dimensions",
    "log-moves-unsorted",
    "log-move-invalid",
    "log-moves-version",
    "log-unknown-node",
    "log-incomplete",
    "file-damaged",
    "file-type",
    "file-id",
    "header-invalid",
}


def plan_logs(
    files: Files, tasks: tuple[SnapshotTask, ...], kinds_of: Mapping[str, set[str]]
) -> Iterator[RepairStep]:
    for task in tasks:
        key = TRANSACTIONS + task.name
        solved = kinds_of.get(key, set()) & _SOLVED_LOG
        if not solved:
            continue
        try:
            old = find_version(files.store, key)
            log = recompute_log(files, task)
        except IcechunkError:
            continue  # a snapshot or manifest that it takes cannot be read
        if log is None:
            continue
        data = encode_txlog(log, spec_version=files.settings.spec_version)
        yield RepairStep(key, tuple(sorted(solved)), _text(task), data, old)


def _text(task: SnapshotTask) -> str:
    if task.name == str(INITIAL_SNAPSHOT):
        return "the log of a first snapshot: empty"
    return f"worked out from the snapshot and its parent {task.parent}"


def recompute_log(files: Files, task: SnapshotTask) -> TransactionLog | None:
    """The log of a commit that would make the snapshot from its parent.

    None if the parent is not known. A chunk that was written again with the very same reference
    is not in it: it cannot be told apart.
    """
    snapshot = SnapshotId.parse(task.name)
    if snapshot == INITIAL_SNAPSHOT:
        return TransactionLog(id=snapshot)
    if task.parent is None:
        return None
    before = files.fetch_snapshot(SnapshotId.parse(task.parent))
    after = files.fetch_snapshot(snapshot)
    changes = compare(before.nodes, after.nodes)
    return changes.as_log(snapshot, updated_chunks=_chunks(files, before, after))


def _chunks(
    files: Files, before: Snapshot, after: Snapshot
) -> dict[NodeId, npt.NDArray[np.uint32]]:
    changes, read = compare(before.nodes, after.nodes), refs_reader(files)
    pairs = [(None, node) for node in changes.created.values()]
    updated: dict[NodeId, npt.NDArray[np.uint32]] = {}
    for old, new in [*pairs, *changes.changed.values()]:
        if new.array is None:
            continue
        index = distinct(chunks_between(old, new, read).index)
        if len(index):
            updated[new.id] = index
    return updated
