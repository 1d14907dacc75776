"""The repo info of version 2 for the files of an older repository: snapshots, refs, ops log.

Snapshots of version 1 are read many at a time: each names only its parent. The
ops log is invented as far as the files tell. Commits have times; the time at which a branch or a
tag was made is not stored, and is taken to be a millisecond after its commit, the earliest that
can be. The reference does the same, in this order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import batched

import numpy as np

from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import SNAPSHOTS
from frazil.engine.refs.ancestry import SnapshotChain
from frazil.engine.refs.refs import MAIN
from frazil.errors import FormatError, InvalidInputError, ObjectNotFoundError
from frazil.flatbuf.columns import ScalarColumn
from frazil.flatbuf.decode import decode_batch
from frazil.flatbuf.flexbuffers import Json
from frazil.flatbuf.table import Table
from frazil.format.envelope import FileType, decode_envelope
from frazil.format.metadata import decode_metadata_of
from frazil.format.repo_info import RepoInfo
from frazil.format.schemas import SNAPSHOT_HEAD
from frazil.format.snapshot import SnapshotHead
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.format.update_log import (
    Availability,
    BranchCreated,
    NewCommit,
    RepoInitialized,
    RepoMigrated,
    RepoStatus,
    TagCreated,
    TagDeleted,
    Update,
    UpdateKind,
)
from frazil.ids import SnapshotId
from frazil.objectstore.pool import Pool
from frazil.objectstore.protocol import Data

PREFETCHED = 64  # snapshots at a time
_TOGETHER = 64  # decoded
_MILLISECOND = 1000


def synthesize_repo_info(
    info: RepoInfo,
    deleted: Mapping[str, SnapshotId],
    *,
    config: Json | None,
    now_us: int,
    from_version: int = 1,
) -> RepoInfo:
    """Repo info with an invented ops log, and the snapshots reachable from branches and tags."""
    sorted_info = in_order(info)
    return replace(
        sorted_info,
        spec_version=2,
        deleted_tags=tuple(sorted(deleted, key=str.encode)),
        status=RepoStatus(Availability.ONLINE, creation_time_us(info)),
        metadata={},
        updates=invent_log(
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


def prefetch_heads(
    files: Files, *, width: int = PREFETCHED
) -> Callable[[SnapshotId], SnapshotHead]:
    """Returns a function that reads a head, from memory if it was listed."""
    names = (one.key.removeprefix(SNAPSHOTS) for one in files.store.list(SNAPSHOTS))
    ids = [found for name in names if (found := _parse(name)) is not None]

    def find_all(some: Sequence[SnapshotId]) -> list[Data | None]:
        return [_find(files, snapshot) for snapshot in some]

    pool = Pool(max(1, width))
    heads: dict[SnapshotId, SnapshotHead] = {}
    for some in batched(ids, _TOGETHER * (pool.width if files.store.far else 1)):
        if files.store.far:
            groups = list(batched(some, -(-len(some) // pool.width)))
            data = [each for part in pool.map(find_all, groups) for each in part]
        else:  # a file in memory is read before another thread has begun to work
            data = pool.map_quickly(partial(_find, files), some)
        for few in batched(zip(some, data, strict=True), _TOGETHER):
            heads.update(_decode([(key, each) for key, each in few if each is not None]))

    def load(snapshot: SnapshotId) -> SnapshotHead:
        return heads.get(snapshot) or files.fetch_head(snapshot)

    return load


def _find(files: Files, snapshot: SnapshotId) -> Data | None:
    try:
        return files.store.get(f"{SNAPSHOTS}{snapshot}").data
    except ObjectNotFoundError:  # raised again if it is part of history
        return None


def _decode(files: Sequence[tuple[SnapshotId, Data]]) -> dict[SnapshotId, SnapshotHead]:
    """Decodes what can be read; the rest is read again, alone, if it is part of history."""
    try:
        opened = [decode_envelope(data, FileType.SNAPSHOT) for _, data in files]
        if len({each.spec_version for each in opened}) != 1:
            return {}
        table = decode_batch([each.data for each in opened], SNAPSHOT_HEAD)
        heads = list(_heads(table, opened[0].spec_version))
    except FormatError:
        return {}
    return dict(zip((snapshot for snapshot, _ in files), heads, strict=True))


def _heads(table: Table, spec_version: int) -> Iterator[SnapshotHead]:
    ids, parents = table.struct("id").values, table.struct("parent_id")
    times = table.scalar("flushed_at").values.tolist()
    messages = table.string("message").to_texts()
    metadata = decode_metadata_of(table.tables("metadata"), spec_version=spec_version)
    for row, said in enumerate(metadata):
        yield SnapshotHead(
            id=SnapshotId(ids[row].tobytes()),
            parent_id=SnapshotId(parents.values[row].tobytes()) if parents.present[row] else None,
            flushed_at_us=times[row],
            message=messages[row] or "",
            metadata=said,
        )


def _parse(name: str) -> SnapshotId | None:
    try:
        return SnapshotId.parse(name)
    except InvalidInputError:
        return None


@dataclass(frozen=True, slots=True)
class _Event:
    at_us: int
    kind: UpdateKind


def invent_log(
    info: RepoInfo,
    deleted: Mapping[str, SnapshotId],
    *,
    now_us: int,
    from_version: int,
    to_version: int,
) -> tuple[Update, ...]:
    """Newest first; times strictly decrease. `deleted` are tags with where they were."""
    events = sorted(_events(info, deleted), key=lambda event: event.at_us)
    events.append(_Event(now_us, RepoMigrated(from_version, to_version)))
    updates: list[Update] = []
    last_us = -1
    for event in events:
        last_us = max(event.at_us, last_us + 1)
        updates.append(Update(event.kind, last_us))
    return tuple(reversed(updates))


def creation_time_us(info: RepoInfo) -> int:
    """Time of the oldest snapshot without a parent."""
    snapshots = info.snapshots
    roots = [row for row in range(len(snapshots)) if snapshots.parent(row) < 0]
    return min((snapshots.flushed_at(row) for row in roots), default=0)


def _events(info: RepoInfo, deleted: Mapping[str, SnapshotId]) -> Iterator[_Event]:
    """Events in the order that counts where times are equal."""
    snapshots, start_us = info.snapshots, creation_time_us(info)
    yield _Event(start_us, RepoInitialized())
    yield from _commits(info)
    for name in sorted(info.branches, key=str.encode):
        if name != MAIN:
            made_us = snapshots.flushed_at(info.branches[name]) + _MILLISECOND
            yield _Event(made_us, BranchCreated(name))
    for name in sorted(info.tags, key=str.encode):
        yield _Event(snapshots.flushed_at(info.tags[name]) + _MILLISECOND, TagCreated(name))
    listed = {snapshots.id(row): row for row in range(len(snapshots))}
    for name in sorted(deleted, key=str.encode):
        row = listed.get(deleted[name])
        tip_us = start_us if row is None else snapshots.flushed_at(row)
        yield _Event(tip_us + _MILLISECOND, TagCreated(name))
        yield _Event(tip_us + 2 * _MILLISECOND, TagDeleted(name, deleted[name]))


def _commits(info: RepoInfo) -> Iterator[_Event]:
    """Commits of branches: those of main are its own, others belong to the first by name."""
    seen = set[int]()
    for name in sorted(info.branches, key=lambda name: (name != MAIN, name.encode())):
        own: list[int] = []
        for row in info.snapshots.ancestors(info.branches[name]):
            if row in seen:
                break
            seen.add(row)
            if info.snapshots.parent(row) >= 0:
                own.append(row)
        for row in reversed(own):
            new = info.snapshots.id(row)
            yield _Event(info.snapshots.flushed_at(row), NewCommit(name, new))
