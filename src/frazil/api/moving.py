"""Repositories brought to another format or another place."""

from typing import NoReturn

from frazil.api.administration import AdministeredRepository
from frazil.maintenance.migrate import upgrade as engine


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
    width = engine.PREFETCHED if prefetch_concurrency is None else prefetch_concurrency
    plan = engine.plan_upgrade(repo.engine, prefetch=width)
    if dry_run:
        return type(repo)(repo.engine.reopened(), repo.storage, repo.attribution)
    upgraded = engine.upgrade(plan)
    if delete_unused_v1_files:
        engine.finish(upgraded.store, engine.plan_finish(upgraded.store))
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
