"""A repository with some of its branches and tags, and the snapshots that they lead to."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from frazil.clock import Clock
from frazil.errors import RefNotFoundError
from frazil.flatbuf.columns import ScalarColumn
from frazil.flatbuf.ragged import Ints
from frazil.format.repo_info import RepoInfo, SnapshotInfos
from frazil.format.updates import RepoInitialized, Update
from frazil.ids import SnapshotId
from frazil.maintenance.reachable import reachable_rows
from frazil.repo.refs import MAIN


def choose_refs(info: RepoInfo, refs: Sequence[str] | None, *, clock: Clock) -> RepoInfo:
    """The repository with these branches and tags alone, and the snapshots they lead to.

    All, if nothing is said. Every repository has a branch main: if it is not among them, it is
    where the first of them is. The ops log starts again, without earlier versions of it.
    """
    if refs is None:
        return info
    require_refs(info, refs)
    branches = {name: row for name, row in info.branches.items() if name in refs}
    tags = {name: row for name, row in info.tags.items() if name in refs}
    first = branches[refs[0]] if refs[0] in branches else tags[refs[0]]
    branches = {MAIN: first, **branches}
    return with_rows(
        replace(
            info,
            branches=branches,
            tags=tags,
            deleted_tags=(),
            updates=(Update(kind=RepoInitialized(), updated_at_us=clock(), backup_path=None),),
            before_updates=None,
        ),
        reachable_rows(info, {*branches.values(), *tags.values()}),
    )


def require_refs(info: RepoInfo, refs: Sequence[str]) -> None:
    unknown = [name for name in refs if name not in info.branches and name not in info.tags]
    if unknown or not refs:
        raise RefNotFoundError(f"no branch or tag {', '.join(map(repr, unknown)) or 'is named'}")


def with_rows(info: RepoInfo, rows: Ints) -> RepoInfo:
    """Only these snapshots, given in ascending order; all refs must be among them."""
    new_row = np.full(len(info.snapshots) + 1, -1, dtype=np.int64)  # the last is that of no parent
    new_row[rows] = np.arange(len(rows))
    table = info.snapshots.table.take(rows)
    parents = new_row[table.scalar("parent_offset").values]
    return replace(
        info,
        snapshots=SnapshotInfos(table.replace(parent_offset=ScalarColumn.of(parents, "i4"))),
        branches={name: int(new_row[row]) for name, row in info.branches.items()},
        tags={name: int(new_row[row]) for name, row in info.tags.items()},
    )


def tips_of(info: RepoInfo, refs: Mapping[str, int]) -> dict[str, SnapshotId]:
    return {name: info.snapshots.id(row) for name, row in refs.items()}


def log_ids(info: RepoInfo, rows: Sequence[int] | None = None) -> list[bytes]:
    """Transaction logs of snapshots, all by default, and those that outlived theirs."""
    chosen = range(len(info.snapshots)) if rows is None else rows
    pruned = {raw for row in chosen for raw in info.snapshots.pruned_logs(row)}
    return [*(info.snapshots.id(row).raw for row in chosen), *sorted(pruned)]
