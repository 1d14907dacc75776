"""Branches and tags of one repository added to another that goes on with its own.

A branch that both have moves only forward, from a snapshot that the source knows as an ancestor.
Each branch and tag is a change of its own, and each is all or nothing; whoever starts again goes
on with those that are left.
"""

from collections.abc import Callable

from frazil.errors import ConflictError, InvalidInputError
from frazil.format.repo_info import RepoInfo
from frazil.format.updates import BranchCreated, NewCommit, TagCreated, UpdateKind
from frazil.ids import SnapshotId
from frazil.repo.history import record_at
from frazil.repo.repository import Repository


def join(target: Repository, source: RepoInfo) -> bool:
    """Whether anything was new. Raises ConflictError before anything is changed."""
    there = target.repo_info()
    if source.spec_version > there.spec_version:
        raise InvalidInputError("the target is of an older version of the format: migrate it first")
    branches = _tips(source, source.branches)
    tags = _tips(source, source.tags)
    for name, tip in branches.items():
        _require_forward(there, source, name, tip)
    for name, tip in tags.items():
        _require_same_tag(there, name, tip)
    changed = False
    for name, tip in sorted(branches.items()):
        if there.snapshot_of_branch(name) != tip:
            target.entry.update(_branch_change(source, name, tip), doing="importing a branch")
            changed = True
    for name, tip in sorted(tags.items()):
        if name not in there.tags and name not in there.deleted_tags:
            target.entry.update(_tag_change(source, name, tip), doing="importing a tag")
            changed = True
    return changed


type _Change = Callable[[RepoInfo], tuple[RepoInfo, UpdateKind]]


def _branch_change(source: RepoInfo, name: str, tip: SnapshotId) -> _Change:
    def change(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
        _require_forward(info, source, name, tip)
        kind = NewCommit(name, tip) if name in info.branches else BranchCreated(name)
        return _with_history(info, source, tip).with_branch(name, tip), kind

    return change


def _tag_change(source: RepoInfo, name: str, tip: SnapshotId) -> _Change:
    def change(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
        _require_same_tag(info, name, tip)
        return _with_history(info, source, tip).with_tag(name, tip), TagCreated(name)

    return change


def _with_history(info: RepoInfo, source: RepoInfo, tip: SnapshotId) -> RepoInfo:
    """With the snapshots that lead to `tip`, oldest first, as far as they are not listed."""
    new: list[int] = []
    for row in source.snapshots.ancestors(source.snapshots.find(tip)):
        if info.spec_version > 1 and info.snapshots.find(source.snapshots.id(row)) >= 0:
            break
        new.append(row)
    if info.spec_version == 1:  # nothing lists them: their files are there
        return info
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


def _require_forward(info: RepoInfo, source: RepoInfo, name: str, tip: SnapshotId) -> None:
    current = info.snapshot_of_branch(name) if name in info.branches else None
    if current is None:
        return
    row = source.snapshots.find(tip)
    ids = {source.snapshots.id(one) for one in source.snapshots.ancestors(row)}
    if current not in ids:
        raise ConflictError(
            message=f"branch {name!r} at the target is at {current}, which is not part of the"
            f" history of {tip}: it has commits of its own",
            kind="branch-update-conflict",
            expected_parent=str(tip),
            actual_parent=str(current),
        )


def _require_same_tag(info: RepoInfo, name: str, tip: SnapshotId) -> None:
    if name in info.tags and info.snapshot_of_tag(name) != tip:
        raise ConflictError(message=f"tag {name!r} at the target is at another snapshot than {tip}")


def _tips(info: RepoInfo, refs: dict[str, int]) -> dict[str, SnapshotId]:
    return {name: info.snapshots.id(row) for name, row in refs.items()}
