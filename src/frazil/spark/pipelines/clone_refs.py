"""A repository with some of its branches and tags, and the snapshots that they lead to."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from frazil.clock import system_clock
from frazil.errors import RefNotFoundError
from frazil.flatbuf.columns import ScalarColumn
from frazil.format.repo_info import RepoInfo, SnapshotInfos
from frazil.format.updates import RepoInitialized, Update

MAIN = "main"


def choose_refs(info: RepoInfo, refs: Sequence[str] | None) -> RepoInfo:
    """The repository with these branches and tags alone, and the snapshots they lead to.

    All, if nothing is said. Every repository has a branch main: if it is not among them, it is
    where the first of them is. The ops log starts anew.
    """
    if refs is None:
        return info
    unknown = [name for name in refs if name not in info.branches and name not in info.tags]
    if unknown or not refs:
        raise RefNotFoundError(f"no branch or tag {', '.join(map(repr, unknown)) or 'is named'}")
    branches = {name: row for name, row in info.branches.items() if name in refs}
    tags = {name: row for name, row in info.tags.items() if name in refs}
    first = branches.get(refs[0], tags.get(refs[0], 0))
    branches = {MAIN: first, **branches}
    tips = {*branches.values(), *tags.values()}
    rows = np.array(sorted({row for tip in tips for row in info.snapshots.ancestors(tip)}))
    new_row = np.full(len(info.snapshots) + 1, -1)
    new_row[rows] = np.arange(len(rows))
    return replace(
        info,
        branches={name: int(new_row[row]) for name, row in branches.items()},
        tags={name: int(new_row[row]) for name, row in tags.items()},
        snapshots=_only(info.snapshots, rows, new_row),
        deleted_tags=(),
        updates=(Update(kind=RepoInitialized(), updated_at_us=system_clock(), backup_path=None),),
        before_updates=None,
    )


def _only(
    snapshots: SnapshotInfos, rows: npt.NDArray[np.int64], new_row: npt.NDArray[np.int64]
) -> SnapshotInfos:
    table = snapshots.table.take(rows)
    parents = new_row[table.scalar("parent_offset").values]
    return SnapshotInfos(table.replace(parent_offset=ScalarColumn.of(parents, "i4")))
