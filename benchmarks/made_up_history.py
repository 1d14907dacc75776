"""A history that is made up rather than lived through, for benchmarks.

The repo info lists many snapshots, of which only the first and the last have files, and the pages
of the ops log are there. Their files list no more snapshots than they have entries: with all of
them, as in real backups, they would take 14 GB for a million commits. Both engines get the same.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import zarr

import frazil
from benchmarks.storages import storage
from frazil.engine.files.object_keys import OVERWRITTEN, REPO_INFO
from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn
from frazil.flatbuf.table import Table, TableVectorColumn
from frazil.format.metadata import encode_metadata
from frazil.format.repo_info import RepoInfo, decode_repo_info, encode_repo_info
from frazil.format.schemas import SNAPSHOT_INFO
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.format.update_log import NewCommit, Update
from frazil.ids import SnapshotId

PAGE = 1000  # entries of the ops log in one file, the default


def build_history(root: Path, commits: int, chunks: int) -> None:
    """A repository of so many commits with an array `a` of so many chunks, by frazil."""
    repo = frazil.Repository.create(storage(frazil, root))
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(chunks,), chunks=(1,), dtype="i4")
    session.commit("array")
    store = storage(frazil, root).store
    old = decode_repo_info(store.get(REPO_INFO).data)
    ids, times = _ids(old, commits), _times(old, commits)
    for stop in [*range(PAGE, commits, PAGE), commits]:
        key = REPO_INFO if stop == commits else OVERWRITTEN + _backup(stop)
        listed = 0 if key == REPO_INFO else max(0, stop - PAGE)
        state = _state_after(old, ids[:stop], times[:stop], listed)
        store.put(key, encode_repo_info(state))


def _ids(old: RepoInfo, commits: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """The first snapshot, as many made up, and the last, oldest first: (commits, 12)."""
    rows = np.random.default_rng(0).integers(0, 256, (commits, SnapshotId.size), np.uint8)
    tip = old.branches["main"]
    rows[0], rows[-1] = old.snapshots.ids[old.snapshots.parent(tip)], old.snapshots.ids[tip]
    return rows


def _times(old: RepoInfo, commits: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """A second apart, up to now: (commits,)."""
    last = old.snapshots.flushed_at(old.branches["main"])
    ago = np.arange(commits - 1, -1, -1, dtype=np.int64) * 1_000_000
    return (last - ago).astype(np.uint64)


def _backup(stop: int) -> str:
    return f"{stop:08}.of.the.benchmark"


def _state_after(old: RepoInfo, ids: np.ndarray, times: np.ndarray, listed: int) -> RepoInfo:
    """The repo info after these commits, each on top of the one before; it lists the last ones."""
    count, kept = len(ids), len(ids) - listed
    order = np.lexsort(ids[listed:].T[::-1])
    rows = np.empty(kept, np.int64)
    rows[order] = np.arange(kept)
    parents = np.append(-1, rows[:-1])
    author = encode_metadata({"author": "A. Uthor"}).take(np.zeros(kept, np.int64))
    table = Table.build(
        SNAPSHOT_INFO,
        kept,
        id=StructColumn.of(ids[listed:][order]),
        parent_offset=ScalarColumn.of(parents[order], "i4"),
        flushed_at=ScalarColumn.of(times[listed:][order]),
        message=StringColumn.from_list([f"commit number {listed + at}" for at in order.tolist()]),
        metadata=TableVectorColumn.of(author, np.arange(kept + 1)),
    )
    updates = [
        Update(
            kind=NewCommit("main", SnapshotId(ids[at].tobytes())),
            updated_at_us=int(times[at]) + 1,
            backup_path=None if at == count - 1 else f"{at:08}.never.asked.for",
        )
        for at in range(count - 1, max(count - PAGE, 0) - 1, -1)
    ]
    older = (count - 1) // PAGE * PAGE if count > PAGE else None
    return replace(
        old,
        snapshots=SnapshotInfos(table),
        branches={"main": int(rows[-1])},
        updates=updates,
        before_updates=None if older is None else _backup(older),
    )
