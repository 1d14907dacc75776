"""A repository of 10,000 commits: what each of the small operations costs there.

The history is made up rather than lived through: the repo info lists 10,000 snapshots, of which
only the last few have files, and the pages of the ops log are there. Both engines get the same.
"""

import os
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import zarr

import frazil
from benchmarks.storages import storage
from benchmarks.timing import Stopwatch
from frazil.assets.layout import OVERWRITTEN, REPO_INFO
from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn
from frazil.flatbuf.table import Table, TableVectorColumn
from frazil.format.metadata import encode_metadata
from frazil.format.repo_info import RepoInfo, SnapshotInfos, decode_repo_info, encode_repo_info
from frazil.format.schemas import SNAPSHOT_INFO
from frazil.format.updates import NewCommit, Update
from frazil.ids import SnapshotId
from frazil.objectstore.local import LocalStore

COMMITS = int(os.environ.get("BENCH_COMMITS", "10000"))
PAGE = 1000  # entries of the ops log in one file, the default
TIMES = 20
CHUNKS = 4 * TIMES


def build(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    """Not measured, and always by frazil."""
    del engine, stopwatch
    repo = frazil.Repository.create(storage(frazil, root))
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(CHUNKS,), chunks=(1,), dtype="i4")
    session.commit("array")
    store = LocalStore(root, fsync=False)
    old = decode_repo_info(store.get(REPO_INFO).data)
    ids, times = _ids(old), _times(old)
    for stop in [*range(PAGE, COMMITS, PAGE), COMMITS]:
        key = REPO_INFO if stop == COMMITS else OVERWRITTEN + _backup(stop)
        store.delete([key])
        store.put(key, encode_repo_info(_state_after(old, ids[:stop], times[:stop])))


def _ids(old: RepoInfo) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """The first snapshot, as many made up, and the last, oldest first: (COMMITS, 12)."""
    rows = np.random.default_rng(0).integers(0, 256, (COMMITS, SnapshotId.size), np.uint8)
    tip = old.branches["main"]
    rows[0], rows[-1] = old.snapshots.ids[old.snapshots.parent(tip)], old.snapshots.ids[tip]
    return rows


def _times(old: RepoInfo) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """A second apart, up to now: (COMMITS,)."""
    last = old.snapshots.flushed_at(old.branches["main"])
    ago = np.arange(COMMITS - 1, -1, -1, dtype=np.int64) * 1_000_000
    return (last - ago).astype(np.uint64)


def _backup(stop: int) -> str:
    return f"{stop:08}.of.the.benchmark"


def _state_after(old: RepoInfo, ids: np.ndarray, times: np.ndarray) -> RepoInfo:
    """The repo info when it listed these snapshots, each the parent of the next."""
    count = len(ids)
    order = np.lexsort(ids.T[::-1])
    rows = np.empty(count, np.int64)
    rows[order] = np.arange(count)
    parents = np.append(-1, rows[:-1])
    author = encode_metadata({"author": "A. Uthor"}).take(np.zeros(count, np.int64))
    table = Table.build(
        SNAPSHOT_INFO,
        count,
        id=StructColumn.of(ids[order]),
        parent_offset=ScalarColumn.of(parents[order], "i4"),
        flushed_at=ScalarColumn.of(times[order]),
        message=StringColumn.from_list([f"commit number {at}" for at in order.tolist()]),
        metadata=TableVectorColumn.of(author, np.arange(count + 1)),
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


def look(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    place = storage(engine, root)
    with stopwatch("cold: open, tip"):
        engine.Repository.open(place).lookup_branch("main")
    with stopwatch(f"{TIMES} opens"):
        for _ in range(TIMES):
            repo = engine.Repository.open(place)
    with stopwatch(f"{TIMES} branches listed"):
        for _ in range(TIMES):
            assert repo.list_branches() == {"main"}
    with stopwatch(f"{TIMES} sessions"):
        for _ in range(TIMES):
            repo.readonly_session("main")
    with stopwatch("ancestry"):
        assert sum(1 for _ in repo.ancestry(branch="main")) == COMMITS
    with stopwatch("ancestry, everything read"):
        found = [(s.id, s.parent_id, s.message, s.metadata) for s in repo.ancestry(branch="main")]
        assert len(found) == COMMITS
    with stopwatch("10 newest of the ancestry"):
        newest = [snapshot.id for _, snapshot in zip(range(10), repo.ancestry(branch="main"))]  # noqa: B905 -- on purpose
        assert len(newest) == 10
    with stopwatch("ops log"):
        assert sum(1 for _ in repo.ops_log()) == COMMITS


def change(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    _commits(engine, storage(engine, root), stopwatch, f"{TIMES} commits", 0)
    repo = engine.Repository.open(storage(engine, root))
    tip = repo.lookup_branch("main")
    start = [snapshot.id for snapshot in repo.ancestry(branch="main")][TIMES]
    with stopwatch(f"{TIMES} tags"):
        for i in range(TIMES):
            repo.create_tag(f"v{i}", tip)
    with stopwatch(f"{TIMES} branches"):
        for i in range(TIMES):
            repo.create_branch(f"b{i}", tip)
    with stopwatch(f"{TIMES} diffs over {TIMES} commits"):
        for _ in range(TIMES):
            repo = engine.Repository.open(storage(engine, root))
            found = repo.diff(from_snapshot_id=start, to_snapshot_id=tip)
            assert len(found.updated_chunks["/a"]) == TIMES
    synced = storage(engine, root, durable=True)
    _commits(engine, synced, stopwatch, f"{TIMES} commits, frazil's synced to disk", TIMES)


def _commits(engine: ModuleType, place: object, stopwatch: Stopwatch, name: str, at: int) -> None:
    repo = engine.Repository.open(place)
    _commit(repo, at)  # so that what is loaded on first use is not measured
    with stopwatch(name):
        for i in range(at + 1, at + 1 + TIMES):
            _commit(repo, i)


def _commit(repo: object, i: int) -> None:
    session = repo.writable_session("main")  # type: ignore[attr-defined]  # of either engine
    zarr.open_array(session.store, path="a")[i] = i + 1
    session.commit(f"{i}")


STAGES = {"build": build, "look": look, "change": change}
