"""The repository that is written to, wherever it was named."""

import os
from collections.abc import Mapping

from frazil.repo.repository import Repository
from frazil.spark import opened
from frazil.spark.access import NO_ACCESS
from frazil.spark.opened import RepositoryLike, place_of
from frazil.spark.place import require_shared
from frazil.spark.writing.options import WriteOptions


def open_repository(options: WriteOptions) -> Repository:
    """Raises RepositoryNotFoundError if there is none."""
    return opened.open_repository(options.place, options.access)


def open_engine(repo: RepositoryLike, storage: Mapping[str, object] | None) -> Repository:
    """Of what a caller has: an open repository, or where one is. Executors must see it, too."""
    if isinstance(repo, str | os.PathLike) or storage:
        return opened.open_repository(place_of(repo, storage), NO_ACCESS)
    engine = repo if isinstance(repo, Repository) else repo.engine
    require_shared(engine.store)
    return engine
