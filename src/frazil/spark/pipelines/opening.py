"""The repository of a pipeline, where executors see it too."""

from frazil.repo.repository import Repository
from frazil.spark.opened import RepositoryLike, place_of
from frazil.spark.writing.opening import open_engine


def open_shared(repo: RepositoryLike) -> Repository:
    """Raises InvalidInputError for storage that other processes would not see."""
    place_of(repo)
    return open_engine(repo)
