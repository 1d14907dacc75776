"""What a clone begins with and ends with: see frazil.maintenance.copying.origin.

Here as plain values, which executors can be given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from frazil.assets.layout import TRANSACTIONS, transaction_key
from frazil.ids import SnapshotId
from frazil.maintenance.copying import origin as engine
from frazil.maintenance.copying.origin import Entry, Versions
from frazil.maintenance.copying.refs import log_ids, tips_of
from frazil.objectstore.protocol import ObjectStore
from frazil.repo.repository import Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A source, as of now, with the refs that were chosen."""

    branches: Mapping[str, SnapshotId]
    tags: Mapping[str, SnapshotId]
    snapshots: tuple[SnapshotId, ...]
    logs: Mapping[str, SnapshotId]  # by key, a snapshot that the transaction log belongs to
    kept: tuple[str, ...]  # keys of earlier versions of the entry point
    entry: Entry

    def find_clone(self, target: ObjectStore) -> Versions:
        return self.entry.find(target)


def read_origin(repository: Repository, refs: Sequence[str] | None) -> Origin:
    """Raises RefNotFoundError for refs that are not there."""
    found = engine.read_origin(repository, refs, repository.files)
    info = found.info
    # The first snapshot of version 1 has no log, nor has that of a repository migrated from it.
    there = {one.key for one in repository.store.list(TRANSACTIONS)}
    ids = [info.snapshots.id(row) for row in range(len(info.snapshots))]
    logs = {
        transaction_key(SnapshotId(raw)): ids[row]
        for row in reversed(range(len(ids)))
        for raw in log_ids(info, [row])
    }
    return Origin(
        branches=tips_of(info, info.branches),
        tags=tips_of(info, info.tags),
        snapshots=tuple(ids),
        logs={key: owner for key, owner in logs.items() if key in there},
        kept=found.kept,
        entry=found.entry,
    )
