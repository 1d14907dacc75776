"""Snapshots in disorder, or with wrong lists of manifests."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from frazil.assets.layout import MANIFESTS, SNAPSHOTS
from frazil.errors import IcechunkError
from frazil.format.envelope import decode_header
from frazil.format.manifest import decode_manifest
from frazil.format.snapshot import ManifestFile, Snapshot, decode_snapshot, encode_snapshot
from frazil.ids import ManifestId
from frazil.maintenance.repair.steps import RepairStep
from frazil.objectstore.protocol import ObjectStore

_LISTS = {"manifest-size", "manifest-count"}
_SOLVED = {
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
_AMBIGUOUS = {"file-id", "node-path-duplicate", "node-id-duplicate", "node-kind"}


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
        if not all_of_them and not kinds & _SOLVED:
            continue
        step = _plan_one(store, key, kinds, files)
        if step is not None:
            yield step


def _plan_one(
    store: ObjectStore, key: str, kinds: set[str], files: _ManifestFiles
) -> RepairStep | None:
    if kinds & _AMBIGUOUS:
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
    if not kinds & _SOLVED and right == snapshot.manifest_files:
        return None
    version = decode_header(data).spec_version
    written = encode_snapshot(replace(snapshot, manifest_files=right), spec_version=version)
    solved = tuple(sorted(kinds & _SOLVED)) or ("manifest-size",)
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
