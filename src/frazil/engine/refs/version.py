"""Versions: the ways to name a snapshot, and their resolution."""

from collections.abc import Mapping
from contextlib import suppress
from typing import assert_never

from frazil.dataclass import dataclass
from frazil.engine.files.files import Files
from frazil.engine.refs import ancestry as history
from frazil.engine.refs.entry import EntryPoint
from frazil.errors import IcechunkError, InvalidInputError
from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId


@dataclass(frozen=True, slots=True)
class Branch:
    """The tip of a branch."""

    name: str


@dataclass(frozen=True, slots=True)
class BranchAsOf:
    """The newest snapshot in the history of a branch that was there at a time."""

    name: str
    when_us: int


@dataclass(frozen=True, slots=True)
class Tag:
    name: str


@dataclass(frozen=True, slots=True)
class Exactly:
    snapshot: SnapshotId


type Version = Branch | BranchAsOf | Tag | Exactly


def resolve(info: RepoInfo, version: Version) -> int:
    """Row of the snapshot in the repo info. Raises RefNotFoundError or SnapshotNotFoundError."""
    match version:
        case Branch(name):
            return history.branch_row(info, name)
        case BranchAsOf(name, when_us):
            return history.row_as_of(info, name, when_us)
        case Tag(name):
            return history.tag_row(info, name)
        case Exactly(snapshot):
            return history.require_row(info, snapshot)
        case _:
            assert_never(version)


def find_ref(
    branches: Mapping[str, SnapshotId], tags: Mapping[str, SnapshotId], name: str
) -> SnapshotId | None:
    """The snapshot of the branch or the tag of that name, where either may be meant.

    Branches and tags are two namespaces: `branch:NAME` and `tag:NAME` say which. Raises
    InvalidInputError if there are both, at different snapshots, and the name has no prefix.
    """
    branch, tag = branches.get(name), tags.get(name)
    if branch is not None and tag is not None and branch != tag:
        raise InvalidInputError(
            f"{name!r} is a branch and a tag: write 'branch:{name}' or 'tag:{name}'"
        )
    if branch is not None or tag is not None:
        return tag if branch is None else branch
    kind, _, rest = name.partition(":")
    return {"branch": branches, "tag": tags}.get(kind, {}).get(rest)


def fetch_for_session(files: Files, entry: EntryPoint, version: Version) -> RepoInfo:
    """Fetches the repo info; from a far store, with the snapshot last known as `version`."""
    expected = _predict_snapshot(files, version)
    if expected is None:
        return entry.fetch()

    def fetch_expected() -> None:
        with suppress(IcechunkError):  # the caller that needs it gets the error
            files.fetch_snapshot(expected)

    return files.pool.beside(fetch_expected, entry.fetch)


def _predict_snapshot(files: Files, version: Version) -> SnapshotId | None:
    """The snapshot that is likely to be needed, unless it is cached."""
    known = files.newest_repo_info
    if known is None or not files.store.far:
        return None
    try:
        snapshot = history.snapshot_id(known, resolve(known, version))
    except IcechunkError:
        return None
    return None if files.caches.snapshots.find(snapshot) is not None else snapshot
