"""Chunks of an array that differ between two snapshots, found by comparing references."""

from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from frazil.engine.changes.diff import Diff, PathSet
from frazil.engine.refs import ancestry as history
from frazil.engine.refs.ancestry import merge_base
from frazil.errors import InvalidInputError
from frazil.flatbuf.columns import StringColumn
from frazil.format.chunk_index import distinct
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.transaction_log import Move
from frazil.ids import SnapshotId
from frazil.maintenance.executor import ThreadExecutor
from frazil.maintenance.stats import plan_stats, storage_stats
from frazil.paths import NodePath
from frazil.web.explored import Explored
from frazil.web.trees import path_before

CHANGES = ("added", "changed", "removed")
ADDED, CHANGED, REMOVED = range(3)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkChanges:
    grid: tuple[int, ...]
    index: npt.NDArray[np.uint32]  # (n, ndim), ascending
    change: npt.NDArray[np.uint8]  # (n,) into CHANGES

    def counts(self) -> dict[str, int]:
        found = np.bincount(self.change, minlength=len(CHANGES)).tolist()
        return dict(zip(CHANGES, found, strict=True))

    def page(self, offset: int, limit: int) -> dict[str, object]:
        chosen = slice(offset, offset + limit)
        return {
            "total": len(self.index),
            "offset": offset,
            "grid": self.grid,
            "index": self.index[chosen].tolist(),
            "change": [CHANGES[code] for code in self.change[chosen].tolist()],
            "counts": self.counts(),
        }


def chunk_changes(
    explored: Explored, start: SnapshotId, end: SnapshotId, path: NodePath
) -> ChunkChanges:
    make = partial(_compare, explored, start, end, path)
    return explored.recall_of(explored.info(), ("changes", start, end, path), make)


def _compare(
    explored: Explored, start: SnapshotId, end: SnapshotId, path: NodePath
) -> ChunkChanges:
    before_path = path_before(explored, start, end, path)
    sides = [_side(explored, start, before_path), _side(explored, end, path)]
    grids = [grid for grid, _ in sides if grid is not None]
    if not grids:
        explored.session(end).node(path)  # raises
    ndim = len(grids[-1])
    before, after = (refs if refs.ndim == ndim else ChunkRefs.empty(ndim) for _, refs in sides)
    index = distinct(np.concatenate([before.index, after.index]))
    was, now = before.lookup(index), after.lookup(index)
    change = np.full(len(index), CHANGED, np.uint8)
    change[was < 0], change[now < 0] = ADDED, REMOVED
    both = np.flatnonzero((was >= 0) & (now >= 0))
    equal = both[_is_same(before, was[both], after, now[both])]
    kept = np.ones(len(index), np.bool_)
    kept[equal] = False
    grid = tuple(max(sizes) for sizes in zip(*(g for g in grids if len(g) == ndim), strict=True))
    return ChunkChanges(grid=grid, index=index[kept], change=change[kept])


def _side(
    explored: Explored, snapshot: SnapshotId, path: NodePath
) -> tuple[tuple[int, ...] | None, ChunkRefs]:
    node = explored.session(snapshot).find_node(path)
    if node is None or node.array is None:
        return None, ChunkRefs.empty(0)
    chunks = explored.chunks(snapshot, path)
    return chunks.grid, chunks.refs


def _is_same(
    one: ChunkRefs,
    rows: npt.NDArray[np.int64],
    other: ChunkRefs,
    others: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    """True where both references are equal, row by row."""
    same = np.ones(len(rows), np.bool_)
    for name in ("kind", "offset", "length", "last_modified"):
        same &= getattr(one, name)[rows] == getattr(other, name)[others]
    same &= (one.chunk_id[rows] == other.chunk_id[others]).all(axis=1)
    for name in ("location", "etag", "inline"):
        same &= _equal_texts(getattr(one, name), rows, getattr(other, name), others)
    return same


def _equal_texts(
    one: StringColumn,
    rows: npt.NDArray[np.int64],
    other: StringColumn,
    others: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    joined = StringColumn.concat([one.take(rows), other.take(others)]).pruned()
    codes, _ = joined.strings.unique()
    numbers = np.append(codes, -1)[joined.codes]
    equal: npt.NDArray[np.bool_] = numbers[: len(rows)] == numbers[len(rows) :]
    return equal


# Changes between two snapshots, whichever way they are related.

MAX_PATHS = 2000  # of each kind
NO_CHAIN = "bad-snapshot-chain-for-diff"


def difference(explored: Explored, start: SnapshotId, end: SnapshotId) -> dict[str, object]:
    """One list of changes if one snapshot is an ancestor of the other, else one for each side."""
    info = explored.info()
    rows = [history.require_row(info, each) for each in (start, end)]
    base = merge_base(info, *rows)
    common = None if base is None else history.snapshot_id(info, base)
    if start == end:
        sides = []
    elif common == start:
        sides = [_changes_between(explored, start, end)]
    elif common == end:
        sides = [_changes_between(explored, end, start)]
    elif common is None:
        sides = []
    else:
        sides = [_changes_between(explored, common, each) for each in (start, end)]
    return {
        "from": str(start),
        "to": str(end),
        "common": None if common is None else str(common),
        "sides": sides,
    }


def _changes_between(explored: Explored, start: SnapshotId, end: SnapshotId) -> dict[str, object]:
    try:
        found = explored.repository.diff(start, end)
    except InvalidInputError as error:
        if error.kind != NO_CHAIN:
            raise
        # Joined by a merge: no chain of transaction logs tells what changed, the two trees do.
        found = _compare_trees(explored, start, end)
    return {"from": str(start), "to": str(end), **_as_lists(found)}


def _compare_trees(explored: Explored, start: SnapshotId, end: SnapshotId) -> Diff:
    """Changes between any two snapshots, from their nodes. A node that is moved keeps its id."""
    before, after = (
        {node.id: node for node in explored.session(each).nodes()} for each in (start, end)
    )
    both = [(before[key], after[key]) for key in before.keys() & after.keys()]
    edited = [new for old, new in both if old.user_data != new.user_data]
    written = [
        new.path for old, new in both
        if old.array and new.array and old.array.manifests != new.array.manifests
    ]  # fmt: skip
    chunks = {path: chunk_changes(explored, start, end, path).index for path in written}
    new, gone = (
        [one[key] for key in one.keys() - other.keys()]
        for one, other in ((after, before), (before, after))
    )
    moves = [Move(a.path, b.path, b.id, b.is_array) for a, b in both if a.path != b.path]
    return Diff(
        new_groups=PathSet(node.path for node in new if not node.is_array),
        new_arrays=PathSet(node.path for node in new if node.is_array),
        deleted_groups=PathSet(node.path for node in gone if not node.is_array),
        deleted_arrays=PathSet(node.path for node in gone if node.is_array),
        updated_groups=PathSet(node.path for node in edited if not node.is_array),
        updated_arrays=PathSet(node.path for node in edited if node.is_array),
        updated_chunks={path: index for path, index in chunks.items() if len(index)},
        moved=tuple(sorted(moves, key=lambda move: move.to_path.text)),
    )


def _as_lists(found: Diff) -> dict[str, object]:
    names = (
        "new_groups",
        "new_arrays",
        "deleted_groups",
        "deleted_arrays",
        "updated_groups",
        "updated_arrays",
    )
    texts = {name: sorted(getattr(found, name).texts) for name in names}
    chunks = sorted((path.text, len(index)) for path, index in found.updated_chunks.items())
    return {
        **{name: listed[:MAX_PATHS] for name, listed in texts.items()},
        "updated_chunks": {
            "path": [path for path, _ in chunks[:MAX_PATHS]],
            "chunks": [count for _, count in chunks[:MAX_PATHS]],
        },
        "moved": [[move.from_path.text, move.to_path.text] for move in found.moved[:MAX_PATHS]],
        "counts": {
            **{name: len(listed) for name, listed in texts.items()},
            "updated_chunks": sum(count for _, count in chunks),
            "moved": len(found.moved),
        },
    }


# Storage use: from one snapshot's list of manifests, and a full count on request.


def storage_facts(explored: Explored, snapshot: SnapshotId) -> dict[str, object]:
    """Returns the storage facts that need no listing, for a repository of any size."""
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


def count_storage(explored: Explored) -> dict[str, object]:
    """Reads every manifest there is, once for each state of the repository."""

    def make() -> dict[str, object]:
        repository = explored.repository
        executor = ThreadExecutor(repository.files)
        return asdict(storage_stats(repository, plan_stats(repository, executor), executor))

    return explored.recall_of(explored.info(), "storage", make)
