"""The ops log of a repository that never kept one, as far as its files tell.

Commits have times. When a branch or a tag was made nobody knows: a millisecond after the commit it
is at, which is the earliest that can be. The reference does the same, in this order.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from frazil.format.repo_info import RepoInfo
from frazil.format.update_log import (
    BranchCreated,
    NewCommit,
    RepoInitialized,
    RepoMigrated,
    TagCreated,
    TagDeleted,
    Update,
    UpdateKind,
)
from frazil.ids import SnapshotId
from frazil.repo.refs import MAIN

_MILLISECOND = 1000


@dataclass(frozen=True, slots=True)
class _Event:
    at_us: int
    kind: UpdateKind


def invented_log(
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


def initialized_us(info: RepoInfo) -> int:
    """When the oldest snapshot without a parent was made."""
    snapshots = info.snapshots
    roots = [row for row in range(len(snapshots)) if snapshots.parent(row) < 0]
    return min((snapshots.flushed_at(row) for row in roots), default=0)


def _events(info: RepoInfo, deleted: Mapping[str, SnapshotId]) -> Iterator[_Event]:
    """In the order that counts where times are equal."""
    snapshots, start_us = info.snapshots, initialized_us(info)
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
    """Of each snapshot that a branch leads to: main's are its own, others of the first by name."""
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
