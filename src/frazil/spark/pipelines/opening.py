"""The repository of a pipeline, and the place that it writes to, where executors see them too."""

import os
from collections.abc import Mapping

from frazil.objectstore.protocol import ObjectStore
from frazil.repo.repository import Repository
from frazil.spark.opened import RepositoryLike, place_of
from frazil.spark.place import open_place
from frazil.spark.writing.opening import open_engine

type StorageOptions = Mapping[str, object]
"""How a bucket is reached, by the names of `frazil.s3_storage` and such; without the prefix."""


def open_shared(repo: RepositoryLike, storage: StorageOptions | None = None) -> Repository:
    """Raises InvalidInputError for storage that other processes would not see."""
    return open_engine(repo, storage)


def open_target(target: str | os.PathLike[str], storage: StorageOptions | None) -> ObjectStore:
    """Where something is to be made: a folder, or a part of a bucket."""
    return open_place(place_of(target, storage))
