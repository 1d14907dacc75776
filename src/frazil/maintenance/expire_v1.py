"""Expiring in version 1: each snapshot file names its parent, so histories are cut in the files.

Ref by ref, tags first: the oldest snapshot of its history that is young enough is written again,
under its own name, with the root for a parent. What is between is no longer part of that history,
and garbage once it is of no other either. The content of no snapshot changes.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice

from frazil.assets.files import Files
from frazil.assets.layout import snapshot_key
from frazil.errors import FormatError, RefNotFoundError
from frazil.format.envelope import decode_header
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import encode_snapshot
from frazil.format.update_log import UpdateKind
from frazil.ids import SnapshotId
from frazil.maintenance.expire import ExpireRequest, require_writable
from frazil.repo import history, refs
from frazil.repo.commit_keys import CommitKeys, keys_of, with_keys
from frazil.repo.refs import MAIN
from frazil.repo.repository import Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A snapshot to be made a child of another one."""

    snapshot: SnapshotId
    parent: SnapshotId
    keys: CommitKeys = field(default_factory=CommitKeys)  # of the commits in between


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirePlanV1:
    released: frozenset[SnapshotId]
    cuts: tuple[Cut, ...]
    branches: Mapping[str, SnapshotId]  # to be deleted, if they are still there
    tags: tuple[str, ...]

    @property
    def snapshots(self) -> list[str]:
        return sorted(str(each) for each in self.released)


def plan_expire_v1(info: RepoInfo, request: ExpireRequest) -> ExpirePlanV1:
    """Reads the history of every ref."""
    is_expired = _expiry(info, request)
    released, cuts = set[SnapshotId](), dict[SnapshotId, Cut]()
    branches, tags = dict[str, SnapshotId](), list[str]()
    spared = set(request.protects(info.branches, info.tags)) | {(MAIN, False)}
    ordered = [(name, True) for name in sorted(info.tags, key=str.encode)]
    ordered += [(name, False) for name in sorted(info.branches, key=str.encode)]
    for name, is_tag in ordered:
        tip = info.tags[name] if is_tag else info.branches[name]
        if is_expired(tip):
            may_go = request.delete_tags if is_tag else request.delete_branches
            if may_go and (name, is_tag) not in spared:
                if is_tag:
                    tags.append(name)
                else:
                    branches[name] = history.snapshot_id(info, tip)
        for child, parent, between in _gaps(info, tip, is_expired, request):
            released.update(history.snapshot_id(info, row) for row in between)
            target = history.snapshot_id(info, child)
            cuts[target] = Cut(
                snapshot=target,
                parent=history.snapshot_id(info, parent),
                keys=_keys_between(info, child, parent),
            )
    return ExpirePlanV1(
        released=frozenset(released),
        cuts=tuple(cuts.values()),
        branches=branches,
        tags=tuple(tags),
    )


def expire_v1(repository: Repository, request: ExpireRequest) -> ExpirePlanV1:
    require_writable(repository, doing="expiring snapshots")
    plan = plan_expire_v1(repository.maintained_info(), request)
    for cut in plan.cuts:
        _apply(repository.files, cut)
    repository.store.sync()
    for name in plan.tags:
        repository.delete_tag(name)
    for name, tip in plan.branches.items():
        _delete_branch(repository, name, tip)
    return plan


def _delete_branch(repository: Repository, name: str, tip: SnapshotId) -> None:
    """Unless it has moved since the plan: then its tip is young, and it stays."""

    def delete_at(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
        found = history.snapshot_id(info, history.branch_row(info, name))
        if found != tip:
            raise RefNotFoundError(f"branch `{name}` is at {found}, no longer at {tip}")
        return refs.delete_branch(info, name)

    with suppress(RefNotFoundError):
        repository.entry.update(delete_at, doing="expiring snapshots")


def _expiry(info: RepoInfo, request: ExpireRequest) -> Callable[[int], bool]:
    kept = set[int]()
    if request.retain_last:
        for row in list(info.branches.values()):
            kept |= set(islice(info.snapshots.ancestors(row), request.retain_last))
    for name, is_tag in request.protects(info.branches, info.tags):
        row = info.tags[name] if is_tag else info.branches[name]
        kept |= set(info.snapshots.ancestors(row))
    named = request.snapshots
    if named is not None:
        for each in named:
            history.require_row(info, each)

    def is_expired(row: int) -> bool:
        if row in kept or (named is not None and history.snapshot_id(info, row) not in named):
            return False
        limit = request.older_than_us
        return limit is None or info.snapshots.flushed_at(row) < limit

    return is_expired


def _gaps(
    info: RepoInfo, tip: int, is_expired: Callable[[int], bool], request: ExpireRequest
) -> list[tuple[int, int, list[int]]]:
    """Child and new parent of each run of expired snapshots below a tip, and the run."""
    rows = list(info.snapshots.ancestors(tip))
    root = len(rows) - 1
    if not request.leaves_gaps:  # the whole of history before the oldest that is young enough
        oldest = max(at for at, row in enumerate(rows) if at == 0 or not is_expired(row))
        if oldest >= root - 1:
            return []
        between = [row for row in rows[:root] if is_expired(row)]
        return [(rows[oldest], rows[root], between)]
    gaps, start = [], 0
    for at in range(1, len(rows)):
        if at == root or not is_expired(rows[at]):
            if at > start + 1:
                gaps.append((rows[start], rows[at], rows[start + 1 : at]))
            start = at
    return gaps


def _keys_between(info: RepoInfo, child: int, parent: int) -> CommitKeys:
    rows = list(islice(info.snapshots.ancestors(child), 1, None))
    between = rows[: rows.index(parent)]
    return keys_of(info.snapshots.metadata(row) for row in reversed(between))


def _apply(files: Files, cut: Cut) -> None:
    """Idempotent, so that a run that was interrupted may be repeated."""
    key = snapshot_key(cut.snapshot)
    if decode_header(files.store.get(key).data).spec_version != 1:
        raise FormatError("expected a snapshot file of version 1", where=key)
    snapshot = files.fetch_snapshot(cut.snapshot)
    metadata = with_keys(snapshot.metadata, cut.keys)
    edited = replace(snapshot, parent_id=cut.parent, metadata=metadata)
    data = encode_snapshot(edited, level=files.settings.compression_level, spec_version=1)
    files.store.put(key, data)
    files.caches.snapshots.remember(cut.snapshot, edited)
    files.caches.heads.remember(cut.snapshot, edited.head)
