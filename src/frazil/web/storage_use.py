"""How much is stored: what one snapshot's list of manifests says, and a full count if asked for."""

from dataclasses import asdict

from frazil.ids import SnapshotId
from frazil.maintenance.stats import storage_stats
from frazil.maintenance.summaries import StorageStats
from frazil.web.explored import Explored


def storage_facts(explored: Explored, snapshot: SnapshotId) -> dict[str, object]:
    """At once, whatever the size of the repository."""
    info = explored.info()
    files = explored.repository.manifest_files(snapshot)
    return {
        "snapshot": str(snapshot),
        "snapshots": len(info.snapshots),
        "branches": len(info.branches),
        "tags": len(info.tags),
        "manifests": len(files),
        "manifest_bytes": sum(file.size_bytes for file in files),
        "references": sum(file.num_refs for file in files),
    }


def counted_storage(explored: Explored) -> dict[str, object]:
    """Reads every manifest there is, once for each state of the repository."""

    def make() -> dict[str, object]:
        return asdict(StorageStats.of(storage_stats(explored.repository)))

    return explored.recall_of(explored.info(), "storage", make)
