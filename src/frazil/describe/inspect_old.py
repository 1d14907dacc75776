"""The same records of files from before version 1, which have no header or one that says little."""

import numpy as np

from frazil.assets.layout import manifest_key
from frazil.assets.old_files import OldFiles
from frazil.describe.inspect import Record, log_record, node_record, time_text
from frazil.format.chunk_refs import RefKind
from frazil.ids import ManifestId, SnapshotId


def inspect_old_snapshot(files: OldFiles, snapshot: SnapshotId) -> Record:
    found = files.fetch_snapshot(snapshot)
    return {
        "id": str(found.id),
        "header": _header(files),
        "flushed_at": time_text(found.flushed_at_us),
        "commit_message": found.message,
        "metadata": found.metadata,
        "manifests": [
            {"id": str(file.id), "size_bytes": file.size_bytes, "num_chunk_refs": file.num_refs}
            for file in found.manifest_files
        ],
        "nodes": [node_record(node) for node in found.nodes],
    }


def inspect_old_manifest(files: OldFiles, manifest: ManifestId) -> Record:
    found = files.fetch_manifest(manifest)
    kinds = {"inline": RefKind.INLINE, "native": RefKind.NATIVE, "virtual": RefKind.VIRTUAL}
    counts = {
        name: [int(np.count_nonzero(refs.kind == kind)) for refs in found.arrays.values()]
        for name, kind in kinds.items()
    }
    return {
        "id": str(found.id),
        "header": _header(files),
        "size_bytes": files.store.head(manifest_key(manifest)).size_bytes,
        "num_arrays": len(found.arrays),
        "total_chunk_refs": found.num_refs,
        **{f"total_{name}": sum(each) for name, each in counts.items()},
        "arrays": [
            {
                "node_id": str(node),
                "num_chunk_refs": len(refs),
                **{f"num_{name}": each[at] for name, each in counts.items()},
            }
            for at, (node, refs) in enumerate(found.arrays.items())
        ],
        "compression": {"uses_location_compression": False, "num_compressed_refs": 0},
    }


def inspect_old_log(files: OldFiles, snapshot: SnapshotId) -> Record:
    """Made up from the snapshots where none was kept."""
    return {"header": _header(files), **log_record(files.fetch_log(snapshot))}


def _header(files: OldFiles) -> Record:
    return {"generation": str(files.generation)}
