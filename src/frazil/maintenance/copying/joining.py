"""Branches and tags of one repository added to another that is there already.

Branches and tags are two namespaces, and each ref is treated as `git fetch` would:

    only at the source    created at the target
    at both               a branch moves forward, from a snapshot that the source knows as an
                          ancestor; a tag must be at the same snapshot. All else is a ConflictError
    only at the target    stays, with its commits; also if it was deleted at the source

Each ref is an update of the entry point of its own, with a backup and an entry in the ops log, and
each is all or nothing; starting again goes on with those that are left. Conflicts are found before
the first of them. Settings, status and metadata of the target stay; virtual chunk containers that
it does not have are added, since it could not read chunks in them.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from frazil.errors import ConflictError, InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.config import RepositoryConfig
from frazil.format.config_codec import decode_config, encode_config
from frazil.format.repo_info import RepoInfo
from frazil.format.storage_config import VirtualChunkContainer
from frazil.format.update_log import (
    BranchCreated,
    ConfigChanged,
    NewCommit,
    TagCreated,
    UpdateKind,
)
from frazil.ids import SnapshotId
from frazil.maintenance.copying.refs import tips_of
from frazil.maintenance.id_sets import IdSet
from frazil.maintenance.reachable import ids_of_rows, reachable_rows, root_rows
from frazil.objectstore.protocol import ObjectStore
from frazil.repo.history import record_at
from frazil.repo.repository import Repository


def settled_snapshots(target: ObjectStore) -> IdSet:
    """Snapshots that the refs at the target lead to: no collection deletes what they consist of."""
    if not Repository.exists(target):
        return IdSet.empty()
    return _reachable(Repository.open(target).repo_info())


def require_joinable(there: RepoInfo, source: RepoInfo) -> None:
    """Raises ConflictError, InvalidInputError."""
    if source.spec_version > there.spec_version:
        raise InvalidInputError("the target is of an older version of the format: migrate it first")
    for name, tip in tips_of(source, source.branches).items():
        _require_forward(there, source, name, tip)
    for name, tip in tips_of(source, source.tags).items():
        _require_same_tag(there, name, tip)


def join(target: Repository, source: RepoInfo, settled: IdSet) -> bool:
    """True if anything was new. Raises ConflictError before anything is changed.

    `settled` are snapshots that were found at the target when the copy was planned, and were
    neither copied nor refreshed: they must still be there.
    """
    there = target.repo_info()
    require_joinable(there, source)
    changed = _join_containers(target, source.config)
    for name, tip in sorted(tips_of(source, source.branches).items()):
        if name not in there.branches or there.snapshot_of_branch(name) != tip:
            step = _branch_change(source, settled, name, tip)
            target.entry.update(step, doing="updating a branch of a copy")
            changed = True
    for name, tip in sorted(tips_of(source, source.tags).items()):
        if name not in there.tags and name not in there.deleted_tags:
            step = _tag_change(source, settled, name, tip)
            target.entry.update(step, doing="adding a tag to a copy")
            changed = True
    return changed


type _Change = Callable[[RepoInfo], tuple[RepoInfo, UpdateKind]]


def _branch_change(source: RepoInfo, settled: IdSet, name: str, tip: SnapshotId) -> _Change:
    def change(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
        _require_forward(info, source, name, tip)
        kind = NewCommit(name, tip) if name in info.branches else BranchCreated(name)
        return _with_history(info, source, settled, tip).with_branch(name, tip), kind

    return change


def _tag_change(source: RepoInfo, settled: IdSet, name: str, tip: SnapshotId) -> _Change:
    def change(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
        _require_same_tag(info, name, tip)
        return _with_history(info, source, settled, tip).with_tag(name, tip), TagCreated(name)

    return change


def _with_history(info: RepoInfo, source: RepoInfo, settled: IdSet, tip: SnapshotId) -> RepoInfo:
    """Lists the snapshots that lead to `tip`, oldest first, as far as they are not listed.

    A collection of garbage takes snapshots from the list before it deletes anything. So one that
    was there and is not listed any more may be gone, with all that it consists of.
    """
    rows = list(source.snapshots.ancestors(source.snapshots.find(tip)))
    if not info.lists_snapshots:  # their files are there
        _require_settled(source, rows, settled, lost=~_reachable(info).contains(settled.ids()))
        return info
    new: list[int] = []
    for row in rows:
        if info.snapshots.find(source.snapshots.id(row)) >= 0:
            break
        new.append(row)
    _require_settled(source, new, settled)
    for row in reversed(new):
        record = record_at(source, row)
        info = info.with_snapshot(
            record.id,
            record.parent_id,
            record.flushed_at_us,
            record.message,
            record.metadata,
            pruned_logs=source.snapshots.pruned_logs(row),
        )
    return info


def _require_settled(
    source: RepoInfo,
    rows: list[int],
    settled: IdSet,
    *,
    lost: npt.NDArray[np.bool_] | None = None,
) -> None:
    """Raises ConflictError if one of the rows was settled; if `lost` is given, and is lost."""
    gone = settled if lost is None else IdSet.of(settled.ids()[lost])
    ids = ids_of_rows(source, rows)
    found = ids[gone.contains(ids)]
    if len(found):
        raise ConflictError(
            message=f"snapshot {SnapshotId(found[0].tobytes())} was removed from the history of"
            " the target while it was copied to: start again"
        )


def _reachable(info: RepoInfo) -> IdSet:
    return IdSet.of(ids_of_rows(info, reachable_rows(info, root_rows(info))))


def _require_forward(info: RepoInfo, source: RepoInfo, name: str, tip: SnapshotId) -> None:
    current = info.snapshot_of_branch(name) if name in info.branches else None
    if current is None:
        return
    row = source.snapshots.find(tip)
    ids = {source.snapshots.id(one) for one in source.snapshots.ancestors(row)}
    if current not in ids:
        raise ConflictError(
            message=f"branch {name!r} at the target is at {current}, which is not part of the"
            f" history of {tip}: it has commits of its own, or the branch was reset at the source",
            kind="branch-update-conflict",
            expected_parent=str(tip),
            actual_parent=str(current),
        )


def _require_same_tag(info: RepoInfo, name: str, tip: SnapshotId) -> None:
    if name in info.tags and (there := info.snapshot_of_tag(name)) != tip:
        raise ConflictError(
            message=f"tag {name!r} at the target is at {there}, at the source at {tip}"
        )


def _join_containers(target: Repository, source: Json | None) -> bool:
    """True if the target's configuration lacked a virtual chunk container of the source."""
    offered = None if source is None else decode_config(source).virtual_chunk_containers
    if not _lacking(Repository.fetch_config(target.store), offered):
        return False

    def change(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
        if info.spec_version == 1:  # which keeps the configuration beside the refs
            stored = Repository.fetch_config(target.store)
        else:
            stored = None if info.config is None else decode_config(info.config)
        config = stored or RepositoryConfig()
        for container in _lacking(stored, offered):
            config.set_virtual_chunk_container(container)
        return replace(info, config=encode_config(config)), ConfigChanged()

    target.entry.update(change, doing="adding virtual chunk containers to a copy")
    return True


def _lacking(
    stored: RepositoryConfig | None, offered: Mapping[str, VirtualChunkContainer] | None
) -> list[VirtualChunkContainer]:
    """Containers that are not stored: neither their prefix nor their name is taken."""
    known = (stored and stored.virtual_chunk_containers) or {}
    names = {one.name for one in known.values() if one.name is not None}
    return [
        one
        for prefix, one in (offered or {}).items()
        if prefix not in known and one.name not in names
    ]
