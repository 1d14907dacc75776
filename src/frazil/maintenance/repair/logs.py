"""Transaction logs that are missing or wrong, worked out from what the commit left."""

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from frazil.assets.files import Files
from frazil.assets.layout import TRANSACTIONS
from frazil.errors import IcechunkError
from frazil.format.index_keys import distinct
from frazil.format.snapshot import Snapshot
from frazil.format.txlog import TransactionLog, encode_txlog
from frazil.ids import INITIAL_SNAPSHOT, NodeId, SnapshotId
from frazil.maintenance.repair.steps import RepairStep, find_version
from frazil.maintenance.verify.history import SnapshotTask
from frazil.repo.chunk_differences import chunks_between, refs_reader
from frazil.repo.node_changes import compare

_SOLVED = {
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
        solved = kinds_of.get(key, set()) & _SOLVED
        if not solved:
            continue
        try:
            old = find_version(files.store, key)
            log = recomputed(files, task)
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


def recomputed(files: Files, task: SnapshotTask) -> TransactionLog | None:
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
