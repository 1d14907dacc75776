"""Repositories copied to another place."""

import asyncio
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from frazil.api import actions
from frazil.api.access import GivenAccess, access_of
from frazil.api.administration import AdministeredRepository
from frazil.api.storage import Storage
from frazil.format.config import RepositoryConfig
from frazil.format.storage_config import VirtualChunkContainer
from frazil.ids import SnapshotId
from frazil.maintenance.progress import Progress
from frazil.objectstore.archive import ArchiveStore
from frazil.paths import NodePath
from frazil.repo.repository import Repository as Engine

type FilePath = str | os.PathLike[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySummary:
    """What a copy has, and what was, or in a dry run would be, copied for it.

    `objects` are those of the copy and `copied` those that were not there, with `bytes` in them.
    `updated` tells whether refs were new; False after a dry run.
    """

    dry_run: bool
    exists: bool  # whether there was a copy before
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    snapshots: int
    objects: int
    copied: int
    bytes: int
    updated: bool = False
    seconds: float = 0.0


class MovedRepository(AdministeredRepository):
    """The part of Repository that takes it elsewhere. frazil's own, not in Icechunk."""

    def clone_to(
        self,
        storage: Storage,
        *,
        refs: Sequence[str] | None = None,
        paths: Iterable[str] = (),
        shallow: bool = False,
        container: VirtualChunkContainer | None = None,
        check_contents: bool = False,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> CopySummary:
        """Copies the repository, or what is new of it since it was last copied there.

        Args:
            storage: where to. To a repository that is there, new refs are added, its branches
                move forward, and what only it has stays.
            refs: branches and tags with their history; by default all of them. A name means the
                branch and the tag of that name, `branch:NAME` and `tag:NAME` one of them.
            paths: groups and arrays; by default all of them. Such a copy has the same history, in
                snapshots of its own, and is of version 2.
            shallow: without chunks: they become virtual references to those of this repository,
                which must keep them.
            container: for a shallow copy of a repository in a bucket: how to reach its `chunks/`.
            check_contents: reads everything back. Sizes are compared in any case.
            dry_run: only tells what would be copied.
            progress: called with what is being done, how much of it is done, and how much there is.

        Raises:
            ConflictError: a branch of both has commits of its own at the target, or was reset at
                the source; or a tag is elsewhere. Nothing is changed then.
            RefNotFoundError, NodeNotFoundError: there is no such branch, tag or node.
            StorageError: an object is missing, or did not arrive in full.
        """
        nodes = [NodePath.from_key_prefix(path) for path in paths]
        if nodes or shallow:
            plan = actions.plan_partial(
                self._engine,
                storage.store,
                paths=nodes,
                shallow=shallow,
                container=container,
                refs=refs,
                progress=progress,
            )
            return _derived(plan, None if dry_run else actions.derive(plan, progress=progress))
        whole = actions.plan_clone(self._engine, storage.store, refs=refs, progress=progress)
        if dry_run:
            return _summary(whole, None)
        return _summary(
            whole, actions.clone(whole, check_contents=check_contents, progress=progress)
        )

    async def clone_to_async(
        self,
        storage: Storage,
        *,
        refs: Sequence[str] | None = None,
        paths: Iterable[str] = (),
        shallow: bool = False,
        container: VirtualChunkContainer | None = None,
        check_contents: bool = False,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> CopySummary:
        return await asyncio.to_thread(
            self.clone_to,
            storage,
            refs=refs,
            paths=paths,
            shallow=shallow,
            container=container,
            check_contents=check_contents,
            dry_run=dry_run,
            progress=progress,
        )

    # Bundles

    def export_bundle(
        self,
        path: FilePath,
        *,
        refs: Sequence[str] | None = None,
        since: Iterable[str] = (),
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> CopySummary:
        """Writes the repository to one file, which replaces one that is there.

        With `since`, ids of snapshots, only what these and their ancestors do not have.
        """
        basis = [SnapshotId.parse(one) for one in since]
        plan = actions.plan_export(self._engine, refs=refs, basis=basis, progress=progress)
        if dry_run:
            return _summary(plan, None)
        done = actions.export_bundle(plan, path, basis=basis, progress=progress)
        return _summary(plan, done)

    async def export_bundle_async(
        self,
        path: FilePath,
        *,
        refs: Sequence[str] | None = None,
        since: Iterable[str] = (),
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> CopySummary:
        return await asyncio.to_thread(
            self.export_bundle, path, refs=refs, since=since, dry_run=dry_run, progress=progress
        )

    @staticmethod
    def import_bundle(
        path: FilePath,
        storage: Storage,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> CopySummary:
        """Makes a repository of a file, or brings one up to date.

        Branches move forward, new branches and tags are added, others stay as they are. Raises
        ConflictError if a branch has commits of its own, and then changes nothing.
        """
        plan = actions.plan_import(path, storage.store, progress=progress)
        return _summary(plan, None if dry_run else actions.clone(plan, progress=progress))

    @staticmethod
    async def import_bundle_async(
        path: FilePath,
        storage: Storage,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> CopySummary:
        return await asyncio.to_thread(
            MovedRepository.import_bundle, path, storage, dry_run=dry_run, progress=progress
        )

    @classmethod
    def open_bundle(
        cls,
        path: FilePath,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: GivenAccess = None,
    ) -> Self:
        """The repository in a file, to be read where it is."""
        storage = Storage(ArchiveStore(path))
        access = access_of(authorize_virtual_chunk_access, storage)
        return cls(Engine.open(storage.store, config, access=access), storage)

    @classmethod
    async def open_bundle_async(
        cls,
        path: FilePath,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: GivenAccess = None,
    ) -> Self:
        return await asyncio.to_thread(
            cls.open_bundle, path, config, authorize_virtual_chunk_access
        )


def _summary(plan: "actions.ClonePlan", done: "actions.CloneResult | None") -> CopySummary:
    return CopySummary(
        dry_run=done is None,
        exists=plan.exists,
        branches=plan.branches,
        tags=plan.tags,
        snapshots=plan.snapshots,
        objects=len(plan.needed) + len(plan.origin.kept),
        copied=plan.objects,
        bytes=plan.bytes,
        updated=done is not None and done.updated,
        seconds=0.0 if done is None else done.seconds,
    )


def _derived(plan: "actions.DerivedPlan", done: "actions.CloneResult | None") -> CopySummary:
    return CopySummary(
        dry_run=done is None,
        exists=bool(plan.found),
        branches=tuple(sorted(plan.made.branches)),
        tags=tuple(sorted(plan.made.tags)),
        snapshots=len(plan.made.snapshots),
        objects=plan.objects,
        copied=len(plan.chunks),
        bytes=plan.bytes,
        updated=done is not None and done.updated,
        seconds=0.0 if done is None else done.seconds,
    )
