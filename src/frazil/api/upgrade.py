"""Upgrade of a repository in place, with Icechunk's name and signature."""

from typing import TYPE_CHECKING, NoReturn

from frazil.api.repository import Repository
from frazil.lazy import lazy_module

if TYPE_CHECKING:
    from frazil.api import actions
else:
    actions = lazy_module("frazil.api.actions")


def upgrade_icechunk_repository[R: Repository](
    repo: R,
    *,
    dry_run: bool,
    delete_unused_v1_files: bool = True,
    prefetch_concurrency: int | None = None,
) -> R:
    """Upgrades a repository from version 1 of the format to version 2, in place.

    No one else should use it at the same time. `repo` cannot be used afterwards, but for a dry run.
    The configuration is the one that the repository has saved. Without `delete_unused_v1_files` the
    refs of version 1 stay, for clients that only know these; see `frazil migrate`.
    """
    upgraded = actions.upgrade(
        repo.engine,
        dry_run=dry_run,
        delete_old_files=delete_unused_v1_files,
        prefetch=prefetch_concurrency,
    )
    result = type(repo)(upgraded, repo.storage, repo.attribution)
    if not dry_run:
        repo._engine = _Invalidated()  # type: ignore[assignment]  # noqa: SLF001 -- not to be used
    return result


class _Invalidated:
    """Replaces the engine of a repository that was upgraded."""

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(
            "This repository has been invalidated by upgrade_icechunk_repository()."
            " Use the new Repository object returned by that function instead."
        )
