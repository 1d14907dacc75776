"""Collecting garbage: the execution of a plan.

First the repo info is written without the snapshots that go, so that nobody can start from them.
Then files are deleted, snapshots before what they name; a failure leaves files that nothing leads
to, for the next time. If the repo info changed meanwhile in a way that matters (a ref or a new
snapshot stands on one that is to go), everything is worked out again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from frazil.errors import SessionStateError
from frazil.format.nodes import id_column
from frazil.format.repo_info import RepoInfo
from frazil.format.update_log import GCRan, UpdateKind
from frazil.ids import SnapshotId
from frazil.maintenance.deleting import Deleted, DeleteLimits, delete_files
from frazil.maintenance.expire import require_writable
from frazil.maintenance.garbage import (
    PHASES,
    GarbagePlan,
    GarbageRequest,
    GarbageWork,
    Kept,
    kept_by,
    plan_garbage,
)
from frazil.maintenance.id_sets import IdSet
from frazil.maintenance.inventory import FileKind, Listing
from frazil.maintenance.migrate.journal import read_journal
from frazil.maintenance.reachable import ids_of_rows, reachable_rows, root_rows
from frazil.maintenance.retained import adoptions, nearest_of, retained
from frazil.repo.entry import exhausted, require_online, tries
from frazil.repo.repository import Repository

type Delete = Callable[[Listing], Deleted]

_AT_ONCE = 50_000  # files deleted between two looks at the repo info

PHASE_NAMES = {
    FileKind.SNAPSHOT: "snapshots",
    FileKind.TRANSACTION: "transaction_logs",
    FileKind.MANIFEST: "manifests",
    FileKind.CHUNK: "chunks",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Collected:
    """What a collection deleted; in a dry run, what it would delete."""

    deleted: dict[FileKind, Deleted]
    skipped: tuple[FileKind, ...] = ()
    memory_bytes: int = 0
    foreseen: Mapping[FileKind, Listing] = field(default_factory=dict)  # in a dry run: the files

    @property
    def total(self) -> Deleted:
        total = Deleted()
        for each in self.deleted.values():
            total.add(each)
        return total


class _RestartError(Exception):
    """The plan no longer fits the repository."""


def collect(
    repository: Repository,
    work: GarbageWork,
    request: GarbageRequest,
    *,
    dry_run: bool = False,
    delete: Delete | None = None,
) -> Collected:
    doing = "collecting garbage"
    require_writable(repository, doing=doing)
    require_online(repository.repo_info(), doing=doing)
    _require_confirmed(repository)
    if dry_run:
        return foreseen(plan_garbage(repository, work, request))
    for _ in tries(repository.files.settings):
        plan = plan_garbage(repository, work, request)
        try:
            return execute(repository, work, plan, delete or _deleter(repository, request))
        except _RestartError:
            continue
    raise exhausted(repository.files.settings)


def _require_confirmed(repository: Repository) -> None:
    """A migration keeps the old files until it is confirmed: they would be garbage."""
    if read_journal(repository.store) is not None:
        raise SessionStateError(
            "the repository was migrated, and its old files are kept until that is confirmed:"
            " confirm the migration first (frazil migrate --confirm)"
        )


def foreseen(plan: GarbagePlan) -> Collected:
    """What executing the plan would delete."""
    deleted = {
        kind: Deleted(len(listing), listing.total_bytes) for kind, listing in plan.garbage.items()
    }
    return Collected(deleted=deleted, memory_bytes=plan.memory_bytes, foreseen=dict(plan.garbage))


def execute(
    repository: Repository, work: GarbageWork, plan: GarbagePlan, delete: Delete
) -> Collected:
    kept = _caught_up(plan.kept, work, _let_go(repository, plan))
    deleted: dict[FileKind, Deleted] = {}
    phases = list(PHASES[::-1] if plan.request.incremental else PHASES)
    # Incrementally, files are found by the snapshots that name them, which therefore go last.
    while phases:
        kind = phases.pop(0)
        listing, total = plan.garbage[kind], Deleted()
        deleted[kind] = total
        for start in range(0, len(listing), _AT_ONCE):
            # Deleting takes long: what was committed meanwhile stays (docs/design/029).
            kept = _caught_up(kept, work, repository.repo_info())
            some = listing.take(slice(start, start + _AT_ONCE))
            total.add(delete(some.take(~kept.of(kind).contains(some.ids))))
            if total.failed:
                break
        if total.failed:
            break
    return Collected(deleted=deleted, skipped=tuple(phases), memory_bytes=plan.memory_bytes)


def _let_go(repository: Repository, plan: GarbagePlan) -> RepoInfo:
    """The repo info from now on. Raises _RestartError."""
    if repository.spec_version == 1:
        return repository.repo_info()  # nobody lists snapshots: those that go are in no history
    known = IdSet.of(plan.info.snapshots.ids)

    def change(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
        ids, parents = info.snapshots.ids, info.snapshots.parents
        goes = plan.dropped.contains(ids)
        refs = [*info.branches.values(), *info.tags.values()]
        is_new = ~known.contains(ids)
        on_one_that_goes = goes[parents] & (parents >= 0)
        if goes[refs].any() or (is_new & on_one_that_goes).any():
            raise _RestartError
        adopted = adoptions(info, ~goes, nearest_of(info, ~goes))
        return retained(info, ~goes, adopted), GCRan()

    return repository.entry.update(change, doing="collecting garbage")


def _caught_up(kept: Kept, work: GarbageWork, info: RepoInfo) -> Kept:
    """What is kept, and what snapshots that have come since lead to."""
    ids = info.snapshots.ids
    if info.spec_version == 1:
        ids = ids_of_rows(info, reachable_rows(info, root_rows(info)))
    new = ~kept.snapshots.contains(ids)
    if not new.any():
        return kept
    logs = [info.snapshots.pruned_logs(row) for row in np.flatnonzero(new).tolist()]
    named = id_column([raw for some in logs for raw in some], SnapshotId.size)
    return kept.united(kept_by(work, ids[new], named))


def _deleter(repository: Repository, request: GarbageRequest) -> Delete:
    limits = DeleteLimits(older_than_us=request.cutoff_us)
    return lambda listing: delete_files(repository.store, listing, limits)
