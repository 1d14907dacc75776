"""The repository that is written to, wherever it was named."""

from collections.abc import Mapping

from frazil.repo.repository import Repository
from frazil.spark import opened
from frazil.spark.access import NO_ACCESS
from frazil.spark.opened import RepositoryLike, place_of
from frazil.spark.writing.options import WriteOptions


def open_repository(options: WriteOptions) -> Repository:
    """Raises RepositoryNotFoundError if there is none."""
    return opened.open_repository(options.place, options.access)


def open_engine(repo: RepositoryLike, storage: Mapping[str, object] | None) -> Repository:
    """Of what a caller has: an open repository, or where one is. Executors must see it, too."""
    place = place_of(repo, storage)
    if isinstance(repo, Repository):
        return repo
    return (
        repo.engine
        if isinstance(repo, opened.HasEngine)
        else opened.open_repository(place, NO_ACCESS)
    )
