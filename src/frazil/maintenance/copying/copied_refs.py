"""Restricts a repository to some branches and tags, and the snapshots reachable from them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from frazil.clock import Clock
from frazil.engine.refs.refs import MAIN
from frazil.errors import RefNotFoundError
from frazil.flatbuf.columns import ScalarColumn
from frazil.flatbuf.ragged import Ints
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.format.update_log import RepoInitialized, Update
from frazil.ids import SnapshotId
from frazil.maintenance.reachable import reachable_rows


def choose_refs(info: RepoInfo, refs: Sequence[str] | None, *, clock: Clock) -> RepoInfo:
    """The repository with these branches and tags alone, and the snapshots reachable from them.

    By default all of it. A name means the branch and the tag of that name; `branch:NAME` and
    `tag:NAME` mean one of them. Every repository has a branch main: if it is not among them, it is
    where the first of them is. The ops log starts again, without earlier versions of it.
    Raises RefNotFoundError.
    """
    if refs is None:
        return info
    branches, tags, rows = dict[str, int](), dict[str, int](), list[int]()
    for ref in refs:
        found = _find(info.branches, ref, "branch"), _find(info.tags, ref, "tag")
        if not any(found):
            raise RefNotFoundError(f"no branch or tag {ref!r}")
        branches |= found[0]
        tags |= found[1]
        rows += [*found[0].values(), *found[1].values()]
    if not refs:
        raise RefNotFoundError("no branch or tag is named")
    branches = {MAIN: rows[0], **branches}
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


def _find(known: Mapping[str, int], ref: str, kind: str) -> dict[str, int]:
    """The branch or the tag that `ref` means, with its row, if there is one."""
    name = ref if ref in known else ref.removeprefix(f"{kind}:")
    return {name: known[name]} if name in known else {}


def chooses_main(refs: Sequence[str] | None) -> bool:
    """True if the branch main is among the chosen refs."""
    return refs is None or MAIN in refs or f"branch:{MAIN}" in refs


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
