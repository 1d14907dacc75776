"""Changes of history: revert, cherry-pick, merge, squash. frazil's own, not in Icechunk."""

import asyncio
from dataclasses import dataclass
from typing import Any

from frazil.api.conflicts import ConflictSolver, policy_of
from frazil.api.inspection import InspectedRepository
from frazil.api.values import Diff
from frazil.errors import Conflict
from frazil.ids import SnapshotId
from frazil.repo import history_editing as engine
from frazil.repo.solver import Policy
from frazil.repo.squash import SquashRequest, squash


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEdit:
    """What came of a revert, a cherry-pick or a merge.

    `snapshot_id` is the tip of the branch from now on, None after a dry run and where there was
    nothing to do. `conflicts` are those that were met; in a dry run `solved` tells whether the
    solver would have dealt with them, otherwise an error is raised if it did not.
    """

    snapshot_id: str | None
    applied: Diff
    conflicts: list[Conflict]
    solved: bool
    fast_forward: bool

    @classmethod
    def of(cls, edited: engine.Edited) -> "HistoryEdit":
        return cls(
            snapshot_id=None if edited.snapshot is None else str(edited.snapshot),
            applied=Diff.of(edited.applied),
            conflicts=list(edited.conflicts),
            solved=edited.solved,
            fast_forward=edited.fast_forward,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Squash:
    """A range of history that became, or in a dry run would become, one commit.

    `snapshot_id` is that commit and `tip` the new tip of the branch, both None after a dry run.
    `squashed` are the old ids of the range, `followers` those of the commits after it, which were
    listed anew on top; oldest first.
    """

    snapshot_id: str | None
    tip: str | None
    squashed: list[str]
    followers: list[str]
    applied: Diff


class EditedRepository(InspectedRepository):
    """The part of Repository that makes commits from other commits.

    Conflicts are those of `Session.rebase`: "ours" are the changes being applied, "theirs" what
    is on the branch. If some remain, RebaseFailedError is raised and nothing has changed; with
    `dry_run` they are returned and nothing changes in any case.
    """

    def revert(
        self,
        snapshot_id: str,
        *,
        branch: str,
        message: str | None = None,
        metadata: dict[str, Any] | None = None,
        solver: ConflictSolver | None = None,
        dry_run: bool = False,
    ) -> HistoryEdit:
        """Undoes on the branch what one commit of its history did, by a new commit."""
        edit = _edit(branch, message, metadata, solver, dry_run=dry_run)
        snapshot = SnapshotId.parse(snapshot_id)
        return HistoryEdit.of(engine.revert(self._engine, snapshot, edit))

    async def revert_async(
        self,
        snapshot_id: str,
        *,
        branch: str,
        message: str | None = None,
        metadata: dict[str, Any] | None = None,
        solver: ConflictSolver | None = None,
        dry_run: bool = False,
    ) -> HistoryEdit:
        return await asyncio.to_thread(
            self.revert,
            snapshot_id,
            branch=branch,
            message=message,
            metadata=metadata,
            solver=solver,
            dry_run=dry_run,
        )

    def cherry_pick(
        self,
        snapshot_id: str,
        *,
        branch: str,
        message: str | None = None,
        metadata: dict[str, Any] | None = None,
        solver: ConflictSolver | None = None,
        dry_run: bool = False,
    ) -> HistoryEdit:
        """Does on the branch what a commit did elsewhere; with its message unless given one."""
        edit = _edit(branch, message, metadata, solver, dry_run=dry_run)
        snapshot = SnapshotId.parse(snapshot_id)
        return HistoryEdit.of(engine.cherry_pick(self._engine, snapshot, edit))

    async def cherry_pick_async(
        self,
        snapshot_id: str,
        *,
        branch: str,
        message: str | None = None,
        metadata: dict[str, Any] | None = None,
        solver: ConflictSolver | None = None,
        dry_run: bool = False,
    ) -> HistoryEdit:
        return await asyncio.to_thread(
            self.cherry_pick,
            snapshot_id,
            branch=branch,
            message=message,
            metadata=metadata,
            solver=solver,
            dry_run=dry_run,
        )

    def merge(
        self,
        source_branch: str,
        *,
        into: str,
        message: str | None = None,
        metadata: dict[str, Any] | None = None,
        solver: ConflictSolver | None = None,
        dry_run: bool = False,
    ) -> HistoryEdit:
        """Brings what was done on one branch to another, chunk by chunk.

        If `into` has nothing of its own, it is moved to the tip of the other (`fast_forward`).
        Otherwise there is one ordinary commit, whose metadata names the merged snapshot as
        `["frazil"]["merged"]`: the next merge of the two begins there.
        """
        edit = _edit(into, message, metadata, solver, dry_run=dry_run)
        return HistoryEdit.of(engine.merge(self._engine, source_branch, edit))

    async def merge_async(
        self,
        source_branch: str,
        *,
        into: str,
        message: str | None = None,
        metadata: dict[str, Any] | None = None,
        solver: ConflictSolver | None = None,
        dry_run: bool = False,
    ) -> HistoryEdit:
        return await asyncio.to_thread(
            self.merge,
            source_branch,
            into=into,
            message=message,
            metadata=metadata,
            solver=solver,
            dry_run=dry_run,
        )

    def squash(
        self,
        first_snapshot_id: str,
        last_snapshot_id: str | None = None,
        *,
        branch: str,
        message: str,
        metadata: dict[str, Any] | None = None,
        dry_run: bool = False,
    ) -> Squash:
        """Makes a range of the branch's history, both ends included, one commit.

        The range ends at the tip if no end is given; commits after it get new ids. Old snapshots
        stay until they are collected, and other branches and tags stay where they are.
        """
        request = SquashRequest(
            branch=branch,
            first=SnapshotId.parse(first_snapshot_id),
            last=None if last_snapshot_id is None else SnapshotId.parse(last_snapshot_id),
            message=message,
            metadata=metadata or {},
            dry_run=dry_run,
        )
        done = squash(self._engine, request)
        return Squash(
            snapshot_id=None if done.snapshot is None else str(done.snapshot),
            tip=None if done.tip is None else str(done.tip),
            squashed=[str(each) for each in done.squashed],
            followers=[str(each) for each in done.followers],
            applied=Diff.of(done.applied),
        )

    async def squash_async(
        self,
        first_snapshot_id: str,
        last_snapshot_id: str | None = None,
        *,
        branch: str,
        message: str,
        metadata: dict[str, Any] | None = None,
        dry_run: bool = False,
    ) -> Squash:
        return await asyncio.to_thread(
            self.squash,
            first_snapshot_id,
            last_snapshot_id,
            branch=branch,
            message=message,
            metadata=metadata,
            dry_run=dry_run,
        )


def _edit(
    branch: str,
    message: str | None,
    metadata: dict[str, Any] | None,
    solver: ConflictSolver | None,
    *,
    dry_run: bool,
) -> engine.Edit:
    return engine.Edit(
        branch=branch,
        message=message,
        metadata=metadata or {},
        policy=Policy() if solver is None else policy_of(solver),
        dry_run=dry_run,
    )
