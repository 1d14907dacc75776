"""Branches and tags: what each step makes of the repo info. Pure; applied by the entry point.

Branches may move, `main` is always there. Tags never move, and the name of a deleted one is never
given again.
"""

from frazil.engine.refs import ancestry as history
from frazil.engine.refs import repo_settings
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    RefNotFoundError,
    SessionStateError,
    require_type,
)
from frazil.format.repo_info import RepoInfo
from frazil.format.update_log import (
    BranchCreated,
    BranchDeleted,
    BranchReset,
    TagCreated,
    TagDeleted,
    UpdateKind,
)
from frazil.ids import SnapshotId

MAIN = "main"

type Step = tuple[RepoInfo, UpdateKind]


def create_branch(info: RepoInfo, name: str, snapshot: SnapshotId) -> Step:
    _require_name(name)
    history.require_row(info, snapshot)
    if name in info.branches:
        raise _branch_exists_error(info, name)
    return info.with_branch(name, snapshot), BranchCreated(name)


def _branch_exists_error(info: RepoInfo, name: str) -> AlreadyExistsError | ConflictError:
    tip = history.snapshot_id(info, info.branches[name])
    message = f"branch already exists `{name} -> {tip}`"
    if info.spec_version == 1:
        message = f"branch update conflict: {message}"
        return ConflictError(actual_parent=str(tip), message=message, kind="branch-update-conflict")
    return AlreadyExistsError(message, kind="branch-already-exists")


def reset_branch(
    info: RepoInfo, name: str, snapshot: SnapshotId, *, expected: SnapshotId | None
) -> Step:
    """Moves the branch to any snapshot; if `expected` is given, only from there."""
    if info.spec_version == 1:  # what is wrong first is what the reference says, in either version
        history.require_row(info, snapshot)
    previous = _require_tip(info, name, expected=expected)
    history.require_row(info, snapshot)
    return info.with_branch(name, snapshot), BranchReset(name, previous)


def _require_tip(info: RepoInfo, name: str, *, expected: SnapshotId | None) -> SnapshotId:
    """The tip of the branch; if `expected` is given, the tip must be that."""
    if expected is None:
        return history.snapshot_id(info, history.branch_row(info, name))
    if name in info.branches:
        actual = history.snapshot_id(info, info.branches[name])
    elif info.spec_version == 1:
        actual = None
    else:
        raise RefNotFoundError(f"branch not found `{name}`", kind="branch-not-found")
    if actual != expected:
        raise ConflictError(
            message=f"branch update conflict: `{name}` is at {actual}, expected {expected}",
            kind="branch-update-conflict",
            expected_parent=str(expected),
            actual_parent=None if actual is None else str(actual),
        )
    return actual


def require_deletable(name: str) -> None:
    if name == MAIN:
        raise SessionStateError("main branch cannot be deleted", kind="cannot-delete-main")


def delete_branch(info: RepoInfo, name: str) -> Step:
    require_deletable(name)
    previous = history.snapshot_id(info, history.branch_row(info, name))
    return info.without_branch(name), BranchDeleted(name, previous)


def create_tag(info: RepoInfo, name: str, snapshot: SnapshotId) -> Step:
    history.require_row(info, snapshot)
    repo_settings.require_enabled(info, repo_settings.CREATE_TAG, doing="tag creation")
    _require_name(name)
    if name in info.tags:
        raise AlreadyExistsError(
            f"tag already exists, tags are immutable: `{name}`", kind="tag-already-exists"
        )
    if name in info.deleted_tags:
        raise AlreadyExistsError(
            f"icechunk does not allow tag reuse and tag was already deleted `{name}`",
            kind="tag-previously-deleted",
        )
    return info.with_tag(name, snapshot), TagCreated(name)


def delete_tag(info: RepoInfo, name: str) -> Step:
    repo_settings.require_enabled(info, repo_settings.DELETE_TAG, doing="tag delete")
    previous = history.snapshot_id(info, history.tag_row(info, name))
    return info.without_tag(name), TagDeleted(name, previous)


def _require_name(name: str) -> None:
    """The format would take anything; names that cannot be typed or seen are refused."""
    require_type(name, str)
    if not name.strip() or not name.isprintable():
        raise InvalidInputError(f"invalid ref name `{name}`", kind="invalid-ref-name")
