"""Manifests in disorder."""

from frazil.errors import IcechunkError
from frazil.format.envelope import FileType, decode_header
from frazil.format.manifest import LocationCompression, decode_manifest, encode_manifest
from frazil.maintenance.repair.steps import RepairStep
from frazil.maintenance.verify.opening import open_file
from frazil.objectstore.protocol import ObjectStore

SHUFFLED = {"manifest-arrays-unsorted", "chunk-refs-unsorted"}
# It is unknown which of these is to be kept
_AMBIGUOUS = {
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
    if not solved or kinds & _AMBIGUOUS:
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
