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
from frazil.maintenance.summaries import PurgeSummary
from frazil.paths import ROOT, NodePath
from frazil.repo import repository as engine

type CommitMethod = Literal["new_commit", "amend"]


@dataclass(frozen=True, slots=True, kw_only=True)
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
        return plan.summary() if dry_run else actions.purge_path(self._engine, plan, message)

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
        return plan.summary() if dry_run else actions.purge_messages(self._engine, plan)

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
