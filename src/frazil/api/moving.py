"""Repositories copied to another place."""

import asyncio
import os
from collections.abc import Iterable, Sequence
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
    ) -> "actions.CloneResult":
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
        executor = actions.ThreadExecutor(actions.quiet_files(self._engine), progress)
        if nodes or shallow:
            plan = actions.plan_partial(
                self._engine,
                storage.store,
                executor,
                paths=nodes,
                shallow=shallow,
                container=container,
                refs=refs,
            )
            return plan.result(dry_run=True) if dry_run else actions.derive(plan, executor)
        whole = actions.plan_clone(self._engine, storage.store, executor, refs=refs)
        if dry_run:
            return whole.result(dry_run=True)
        return actions.clone(whole, executor, check_contents=check_contents)

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
    ) -> "actions.CloneResult":
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
    ) -> "actions.CloneResult":
        """Writes the repository to one file, which replaces one that is there.

        With `since`, ids of snapshots, only what these and their ancestors do not have.
        """
        basis = [SnapshotId.parse(one) for one in since]
        executor = actions.ThreadExecutor(actions.quiet_files(self._engine), progress)
        plan = actions.plan_export(self._engine, executor, refs=refs, basis=basis)
        if dry_run:
            return plan.result(dry_run=True)
        return actions.export_bundle(plan, path, executor, basis=basis)

    async def export_bundle_async(
        self,
        path: FilePath,
        *,
        refs: Sequence[str] | None = None,
        since: Iterable[str] = (),
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> "actions.CloneResult":
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
    ) -> "actions.CloneResult":
        """Makes a repository of a file, or brings one up to date.

        Branches move forward, new branches and tags are added, others stay as they are. Raises
        ConflictError if a branch has commits of its own, and then changes nothing.
        """
        plan = actions.plan_import(path, storage.store, progress=progress)
        if dry_run:
            return plan.result(dry_run=True)
        executor = actions.ThreadExecutor(actions.quiet_files(plan.repository), progress)
        return actions.clone(plan, executor)

    @staticmethod
    async def import_bundle_async(
        path: FilePath,
        storage: Storage,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> "actions.CloneResult":
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
