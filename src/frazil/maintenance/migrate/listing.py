"""The repo info of version 2 that says what the files of an older repository say."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from frazil.flatbuf.columns import ScalarColumn
from frazil.flatbuf.flexbuffers import Json
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import SnapshotHead
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.format.update_log import Availability, RepoStatus
from frazil.ids import SnapshotId
from frazil.maintenance.migrate.invented_log import initialized_us, invented_log
from frazil.repo.snapshot_chain import SnapshotChain


def listed_info(
    info: RepoInfo,
    deleted: Mapping[str, SnapshotId],
    *,
    config: Json | None,
    now_us: int,
    from_version: int = 1,
) -> RepoInfo:
    """With an invented ops log. Lists what branches and tags lead to, nothing else."""
    sorted_info = in_order(info)
    return replace(
        sorted_info,
        spec_version=2,
        deleted_tags=tuple(sorted(deleted, key=str.encode)),
        status=RepoStatus(Availability.ONLINE, initialized_us(info)),
        metadata={},
        updates=invented_log(
            sorted_info, deleted, now_us=now_us, from_version=from_version, to_version=2
        ),
        before_updates=None,
        config=config,
    )


def with_history(info: RepoInfo, load: Callable[[SnapshotId], SnapshotHead]) -> RepoInfo:
    """A repo info of version 1 whose snapshots are read by `load`."""
    branches = {name: info.snapshots.id(row) for name, row in dict(info.branches).items()}
    tags = {name: info.snapshots.id(row) for name, row in dict(info.tags).items()}
    chain = SnapshotChain(load, [*branches.values(), *tags.values()])
    return replace(
        info,
        branches={name: chain.row_of(tip) for name, tip in branches.items()},
        tags={name: chain.row_of(tip) for name, tip in tags.items()},
        snapshots=chain,
    )


def in_order(info: RepoInfo) -> RepoInfo:
    """The same with snapshots sorted by id, as columns, and refs as plain rows."""
    table = info.snapshots.table  # first: makes every ancestor known
    ids = table.struct("id").values
    order = np.lexsort(ids.T[::-1]).astype(np.int64)
    new_row = np.full(len(order) + 1, -1, dtype=np.int64)  # the last is that of no parent
    new_row[order] = np.arange(len(order))
    parents = new_row[table.scalar("parent_offset").values]
    table = table.replace(parent_offset=ScalarColumn.of(parents, "i4")).take(order)
    return replace(
        info,
        snapshots=SnapshotInfos(table),
        branches={name: int(new_row[row]) for name, row in dict(info.branches).items()},
        tags={name: int(new_row[row]) for name, row in dict(info.tags).items()},
    )
