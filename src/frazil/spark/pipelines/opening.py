"""The repository of a pipeline, where executors see it too."""

from frazil.repo.repository import Repository
from frazil.spark.opened import RepositoryLike
from frazil.spark.writing.opening import open_engine


def open_shared(repo: RepositoryLike) -> Repository:
    """Raises InvalidInputError for storage that other processes would not see."""
    return open_engine(repo, None)
