"""Repositories stored otherwise than before: manifests cut anew, chunks packed, things purged.

`rewrite_manifests` is Icechunk's; the others are frazil's own.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from frazil.api import actions
from frazil.ids import SnapshotId
from frazil.maintenance.defaults import PACK_BYTES, REPLACEMENT, SMALL_BYTES
from frazil.maintenance.progress import Progress
from frazil.paths import ROOT, NodePath
from frazil.repo import repository as engine

type CommitMethod = Literal["new_commit", "amend"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeSummary:
    """What was purged, or would be, and what still refers to it.

    Snapshots and transaction logs are written anew, under the ids they have. `commits` are those
    that were made on top of branches; none after a dry run.
    """

    snapshots: list[str]
    transaction_logs: int
    manifests: int
    chunks: int
    chunk_bytes: int
    backups: int
    nodes: list[str]
    commits: dict[str, str]
    remaining: "list[actions.Remaining]"


class RewritingRepository:
    """The part of Repository that stores what there is in another way."""

    _engine: engine.Repository

    def rewrite_manifests(
        self,
        message: str,
        *,
        branch: str,
        metadata: dict[str, Any] | None = None,
        commit_method: CommitMethod = "new_commit",
    ) -> str:
        """Writes all manifests of the branch's tip anew, cut as the configuration says now.

        The new commit, or with "amend" the one in the place of the tip, holds what the tip held;
        its metadata tells of the splitting. Returns its id.
        """
        plan = actions.plan_rewrite_manifests(self._engine, branch, commit_method)
        done = actions.rewrite_manifests(self._engine, plan, message, metadata=metadata)
        return done.snapshot

    async def rewrite_manifests_async(
        self,
        message: str,
        *,
        branch: str,
        metadata: dict[str, Any] | None = None,
        commit_method: CommitMethod = "new_commit",
    ) -> str:
        return await asyncio.to_thread(
            self.rewrite_manifests,
            message,
            branch=branch,
            metadata=metadata,
            commit_method=commit_method,
        )

    def pack(
        self,
        message: str | None = None,
        *,
        branch: str,
        paths: Sequence[str] = (),
        small_bytes: int = SMALL_BYTES,
        pack_bytes: int = PACK_BYTES,
        metadata: dict[str, Any] | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> "actions.PackResult":
        """Puts small chunk objects of the branch's tip together, by one commit.

        Of arrays at or below `paths`, by default of all, chunks of at most `small_bytes` go into
        objects of about `pack_bytes`. What others commit meanwhile is kept. The old objects stay
        until snapshots that use them are expired and garbage is collected. `progress` is called
        with what is being done, how much of it is done, and how much there is.
        """
        executor = actions.ThreadExecutor(actions.quiet_files(self._engine), progress)
        plan = actions.plan_pack(
            self._engine,
            branch,
            _paths(paths),
            executor,
            small_bytes=small_bytes,
            pack_bytes=pack_bytes,
        )
        if dry_run:
            return plan.result()
        return actions.pack(self._engine, plan, message, executor, metadata=metadata)

    async def pack_async(
        self,
        message: str | None = None,
        *,
        branch: str,
        paths: Sequence[str] = (),
        small_bytes: int = SMALL_BYTES,
        pack_bytes: int = PACK_BYTES,
        metadata: dict[str, Any] | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> "actions.PackResult":
        return await asyncio.to_thread(
            self.pack,
            message,
            branch=branch,
            paths=paths,
            small_bytes=small_bytes,
            pack_bytes=pack_bytes,
            metadata=metadata,
            dry_run=dry_run,
            progress=progress,
        )

    def unpack(
        self,
        message: str | None = None,
        *,
        branch: str,
        paths: Sequence[str] = (),
        metadata: dict[str, Any] | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> "actions.PackResult":
        """Gives every chunk that is in a pack an object of its own again, by one commit."""
        executor = actions.ThreadExecutor(actions.quiet_files(self._engine), progress)
        plan = actions.plan_unpack(self._engine, branch, _paths(paths), executor)
        if dry_run:
            return plan.result()
        return actions.unpack(self._engine, plan, message, executor, metadata=metadata)

    async def unpack_async(
        self,
        message: str | None = None,
        *,
        branch: str,
        paths: Sequence[str] = (),
        metadata: dict[str, Any] | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> "actions.PackResult":
        return await asyncio.to_thread(
            self.unpack,
            message,
            branch=branch,
            paths=paths,
            metadata=metadata,
            dry_run=dry_run,
            progress=progress,
        )

    def purge_path(
        self, path: str, *, message: str = "Purge", dry_run: bool = False
    ) -> PurgeSummary:
        """Takes a node, and all below it, out of every snapshot there is. It cannot be undone.

        Snapshots keep their ids, and get other content. Branches whose tips had the path get a
        commit with this message, so that open sessions notice.
        """
        plan = actions.plan_purge_path(self._engine, NodePath(path))
        done = None if dry_run else actions.purge_path(self._engine, plan, message)
        commits = {} if done is None else done.commits
        return PurgeSummary(
            snapshots=[str(each) for each in plan.snapshots],
            transaction_logs=len(plan.logs),
            manifests=len(plan.manifests),
            chunks=len(plan.chunks),
            chunk_bytes=plan.chunk_bytes,
            backups=0,
            nodes=[node.path.text for node in plan.nodes],
            commits={branch: str(snapshot) for branch, snapshot in commits.items()},
            remaining=list(plan.remaining),
        )

    async def purge_path_async(
        self, path: str, *, message: str = "Purge", dry_run: bool = False
    ) -> PurgeSummary:
        return await asyncio.to_thread(self.purge_path, path, message=message, dry_run=dry_run)

    def purge_messages(
        self,
        snapshot_ids: Sequence[str],
        *,
        replacement: str = REPLACEMENT,
        with_metadata: bool = False,
        dry_run: bool = False,
    ) -> PurgeSummary:
        """Replaces the messages of commits wherever they are stored. It cannot be undone.

        With `with_metadata` their metadata goes as well, but for what Icechunk and frazil note.
        """
        plan = actions.plan_purge_messages(
            self._engine,
            [SnapshotId.parse(each) for each in snapshot_ids],
            replacement=replacement,
            with_metadata=with_metadata,
        )
        if not dry_run:
            actions.purge_messages(self._engine, plan)
        return PurgeSummary(
            snapshots=[str(each) for each in plan.snapshots],
            transaction_logs=0,
            manifests=0,
            chunks=0,
            chunk_bytes=0,
            backups=len(plan.backups),
            nodes=[],
            commits={},
            remaining=list(plan.remaining),
        )

    async def purge_messages_async(
        self,
        snapshot_ids: Sequence[str],
        *,
        replacement: str = REPLACEMENT,
        with_metadata: bool = False,
        dry_run: bool = False,
    ) -> PurgeSummary:
        return await asyncio.to_thread(
            self.purge_messages,
            snapshot_ids,
            replacement=replacement,
            with_metadata=with_metadata,
            dry_run=dry_run,
        )


def _paths(given: Sequence[str]) -> tuple[NodePath, ...]:
    if isinstance(given, str):
        raise TypeError("`paths` is a list of paths, not a string")
    return tuple(map(NodePath, given)) or (ROOT,)
