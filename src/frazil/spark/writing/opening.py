"""The repository that write options name."""

import os

from frazil.api.repository import Repository as OpenRepository
from frazil.repo.repository import Repository
from frazil.spark.opened import RepositoryLike
from frazil.spark.place import PlaceText, open_place
from frazil.spark.storage_options import storage_of
from frazil.spark.writing.options import WriteOptions


def open_repository(options: WriteOptions) -> Repository:
    """Raises RepositoryNotFoundError if there is none."""
    if options.secret_storage:
        return Repository.open(open_place(PlaceText(options.path, options.secret_storage)))
    return OpenRepository.open(storage_of({"path": options.path, **options.storage})).engine


def open_engine(repo: RepositoryLike) -> Repository:
    """Of what a caller has: an open repository, or where one is."""
    if isinstance(repo, str | os.PathLike):
        return OpenRepository.open(storage_of({"path": os.fspath(repo)})).engine
    return repo if isinstance(repo, Repository) else repo.engine
