"""A repo info with fewer snapshots: what stays, whose child it is now, what history it takes over.

A snapshot whose parent goes becomes the child of an older one. The transaction logs of those in
between are named by it from then on (spec 2.1), so that diffs and rebases still know them. Their
idempotency keys are added to its metadata in the list.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError
from frazil.flatbuf.columns import ScalarColumn, VectorColumn
from frazil.flatbuf.flexbuffers import Json
from frazil.flatbuf.ragged import splits_of
from frazil.flatbuf.table import Table, TableVectorColumn
from frazil.format.metadata import encode_metadata
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.ids import SnapshotId
from frazil.repo.commit_keys import CommitKeys, keys_of, with_keys
from frazil.repo.commit_metadata import NOTES

type Ids = npt.NDArray[np.uint8]  # (n, 12)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Adoption:
    """A snapshot that gets another parent, by rows of the old repo info."""

    parent: int
    logs: Ids  # all that it names from now on, oldest first
    keys: CommitKeys  # of the commits in between


def adoptions(
    info: RepoInfo, keep: npt.NDArray[np.bool_], parent_of: Callable[[int], int]
) -> dict[int, Adoption]:
    """Adoptions of the snapshots that stay while their parent goes, by row.

    `parent_of` finds the new parent. Logs are those of all ancestors younger than the new parent,
    each after those that it named itself, oldest first.
    """
    parents = info.snapshots.parents.tolist()
    named = [row for row in np.flatnonzero(keep).tolist() if parents[row] >= 0]
    orphans = {row: parent_of(row) for row in named if not keep[parents[row]]}
    adopted, noted = {}, _rows_with_notes(info) if orphans else set[int]()
    for row, parent in orphans.items():
        path = _path(parents, row, parent)
        between = (info.snapshots.metadata(each) for each in path[:0:-1] if each in noted)
        adopted[row] = Adoption(parent=parent, logs=_logs(info, path), keys=keys_of(between))
    return adopted


def root_of(info: RepoInfo) -> Callable[[int], int]:
    """The oldest ancestor of a snapshot."""
    parents = info.snapshots.parents.tolist()
    known: dict[int, int] = {}

    def find(row: int) -> int:
        start = row
        while row not in known and (above := parents[row]) >= 0:
            row = above
        root = known[start] = known.get(row, row)
        return root

    return find


def nearest_of(info: RepoInfo, keep: npt.NDArray[np.bool_]) -> Callable[[int], int]:
    """The youngest ancestor of a snapshot that stays; its oldest ancestor if none does."""
    parents, stays = info.snapshots.parents.tolist(), keep.tolist()

    def find(row: int) -> int:
        row = parents[row]
        while not stays[row] and parents[row] >= 0:
            row = parents[row]
        return row

    return find


def retained(
    info: RepoInfo,
    keep: npt.NDArray[np.bool_],
    adopted: Mapping[int, Adoption],
    *,
    without_branches: Collection[str] = (),
    without_tags: Collection[str] = (),
) -> RepoInfo:
    """Only the snapshots to keep. Refs that point to others must be among those left out."""
    rows = np.flatnonzero(keep)
    place = np.full(len(keep), -1, np.int64)
    place[rows] = np.arange(len(rows))
    parents = info.snapshots.parents.astype(np.int64)
    for row, adoption in adopted.items():
        parents[row] = adoption.parent
    moved = np.where(parents[rows] < 0, -1, place[parents[rows]])
    table = info.snapshots.table.take(rows)
    if adopted:
        before = info.snapshots.table.vector("pruned_ancestor_tx_logs")
        named = bool(before.splits[-1])
        nothing = np.zeros((0, SnapshotId.size), np.uint8)
        logs = [
            adopted[row].logs if row in adopted else (before.row(row) if named else nothing)
            for row in rows.tolist()
        ]
        table = table.replace(pruned_ancestor_tx_logs=_log_column(logs))
        for row, adoption in adopted.items():
            if adoption.keys:
                said = with_keys(info.snapshots.metadata(row), adoption.keys)
                table = with_metadata(table, int(place[row]), said)
    table = table.replace(parent_offset=ScalarColumn.of(moved, "i4"))
    kept = replace(
        info,
        snapshots=SnapshotInfos(table),
        branches={
            name: int(place[row])
            for name, row in info.branches.items()
            if name not in without_branches
        },
    )
    for name in without_tags:
        kept = kept.without_tag(name)
    return replace(kept, tags={name: int(place[row]) for name, row in kept.tags.items()})


def with_metadata(snapshots: Table, row: int, metadata: Mapping[str, Json]) -> Table:
    """The list of snapshots with other metadata of one."""
    items = TableVectorColumn.of(encode_metadata(metadata))
    own = snapshots.take(slice(row, row + 1)).replace(metadata=items)
    before, after = snapshots.take(slice(0, row)), snapshots.take(slice(row + 1, None))
    return Table.concat([before, own, after])


def _rows_with_notes(info: RepoInfo) -> set[int]:
    """Snapshots whose metadata may have idempotency keys: decoding that of all takes long."""
    items = info.snapshots.table.tables("metadata")
    names = items.rows.string("name").to_list()
    noted = [at for at, name in enumerate(names) if name == NOTES.encode()]
    return set((np.searchsorted(items.splits, noted, side="right") - 1).tolist())


def _path(parents: Sequence[int], row: int, stop: int) -> list[int]:
    """A snapshot and its ancestors younger than `stop`, from it on."""
    path, each = list[int](), row
    for _ in range(len(parents) + 1):
        if each in (stop, -1):
            return path
        path.append(each)
        each = parents[each]
    raise FormatError("the parents of a snapshot form a cycle", where="repo")


def _logs(info: RepoInfo, path: list[int]) -> Ids:
    ids: Ids = info.snapshots.ids[path]
    named = info.snapshots.table.vector("pruned_ancestor_tx_logs")
    if not named.splits[-1]:
        return ids[:0:-1]  # nothing was expired before
    found = list[Ids]()
    for number in range(len(path) - 1, -1, -1):
        found.append(named.row(path[number]))
        if number:
            found.append(ids[number : number + 1])
    return np.concatenate(found)


def _log_column(logs: Sequence[Ids]) -> VectorColumn:
    counts = np.array([len(some) for some in logs], np.int64)
    return VectorColumn(np.concatenate(logs), splits_of(counts), counts > 0)
