"""Repositories brought to a newer version of the format."""

import asyncio
from dataclasses import dataclass
from typing import NoReturn

from frazil.api import actions
from frazil.api.administration import AdministeredRepository
from frazil.api.storage import Storage
from frazil.api.values import SpecVersion
from frazil.maintenance.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedMigration:
    """Files of the old repository that were, or in a dry run would be, removed."""

    dry_run: bool
    generation: str
    files: int
    bytes: int


class MigratedRepository(AdministeredRepository):
    """The part of Repository that outlives its format."""

    def migrate(
        self,
        to: SpecVersion | int = 2,
        *,
        storage: Storage | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> "actions.MigrateResult":
        """Makes a repository of version 2 of this one, which is older; or of version 1.

        History, branches, tags, metadata, messages, times and data come along, and are compared
        before anybody can see the new repository. In place, nothing of the old one is touched until
        `confirm_migration`; open it anew to see the new one. A migration that was interrupted is
        taken up by the next.

        Args:
            to: 2, or 1 for a repository from before version 1.
            storage: another place for the new repository.
            dry_run: only tells what would be written.
            progress: called with what is being done, how much of it is done, and how much there is.

        Raises:
            InvalidInputError: it is of that version already, or cannot be migrated in place.
            ConflictError: the target has another repository.
        """
        target = None if storage is None else storage.store
        executor = actions.ThreadExecutor(actions.quiet_files(self._engine), progress)
        plan = actions.plan_migration(self._engine, executor, to=int(to), target=target)
        return plan.result(dry_run=True) if dry_run else actions.migrate(plan, executor)

    async def migrate_async(
        self,
        to: SpecVersion | int = 2,
        *,
        storage: Storage | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> "actions.MigrateResult":
        return await asyncio.to_thread(
            self.migrate, to, storage=storage, dry_run=dry_run, progress=progress
        )

    def confirm_migration(self, *, dry_run: bool = False) -> ConfirmedMigration:
        """Removes what a migration in place has kept of the old repository.

        Raises ConflictError if somebody has committed to the old one since.
        """
        store = self._storage.store
        leftovers = actions.find_leftovers(store)
        if not dry_run:
            actions.confirm(store, leftovers)
        return ConfirmedMigration(
            dry_run=dry_run,
            generation=leftovers.generation,
            files=len(leftovers.keys),
            bytes=leftovers.bytes,
        )

    async def confirm_migration_async(self, *, dry_run: bool = False) -> ConfirmedMigration:
        return await asyncio.to_thread(self.confirm_migration, dry_run=dry_run)


def upgrade_icechunk_repository[R: AdministeredRepository](
    repo: R,
    *,
    dry_run: bool,
    delete_unused_v1_files: bool = True,
    prefetch_concurrency: int | None = None,
) -> R:
    """The repository in version 2 of the format, from version 1, in place.

    Nobody else should use it meanwhile. `repo` cannot be used afterwards, but for a dry run. The
    configuration is the one that the repository has saved. Without `delete_unused_v1_files` the
    refs of version 1 stay, for clients that only know these; see `frazil migrate`.
    """
    width = actions.PREFETCHED if prefetch_concurrency is None else prefetch_concurrency
    plan = actions.plan_upgrade(repo.engine, prefetch=width)
    if dry_run:
        return type(repo)(repo.engine.reopened(), repo.storage, repo.attribution)
    upgraded = actions.upgrade(plan)
    if delete_unused_v1_files:
        actions.finish(upgraded.store, actions.plan_finish(upgraded.store))
    made = type(repo)(upgraded, repo.storage, repo.attribution)
    repo._engine = _Invalidated()  # type: ignore[assignment]  # noqa: SLF001 -- nobody goes on with it
    return made


class _Invalidated:
    """In place of the engine of a repository that has become another."""

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(
            "This repository has been invalidated by upgrade_icechunk_repository()."
            " Use the new Repository object returned by that function instead."
        )
