"""The repository of a pipeline, and the place that it writes to, where executors see them too."""

import os
from collections.abc import Mapping
from pathlib import Path

from frazil.engine.repository import Repository
from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.objectstore.protocol import ObjectStore
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote.redirect import RedirectedStore
from frazil.spark.runtime.storage_options import open_place, require_shared
from frazil.spark.table.opened import RepositoryLike, place_of
from frazil.spark.writing.options import open_engine

type StorageOptions = Mapping[str, object]
"""How a bucket is reached, by the names of `frazil.s3_storage` and such; without the prefix."""


def open_shared(repo: RepositoryLike, storage: StorageOptions | None = None) -> Repository:
    """Raises InvalidInputError for storage that other processes would not see."""
    return open_engine(repo, storage)


def find_store(repo: RepositoryLike, storage: StorageOptions | None) -> ObjectStore:
    """The store of a repository, which need not be sound enough to be opened."""
    if isinstance(repo, str | os.PathLike) or storage:
        return open_place(place_of(repo, storage))
    return require_shared((repo if isinstance(repo, Repository) else repo.engine).raw_store)


def open_target(target: str | os.PathLike[str], storage: StorageOptions | None) -> ObjectStore:
    """Opens the store of a new target: a folder, or a prefix of a bucket."""
    return open_place(place_of(target, storage))


def require_folder(store: ObjectStore, target: object) -> None:
    """There may be nothing yet, but no file."""
    if store.directory is not None and Path(store.directory).is_file():
        raise AlreadyExistsError(f"there is a file at {target}")


def require_elsewhere(source: ObjectStore, target: ObjectStore) -> None:
    """Refuses a target at the place of its own source, which it would destroy."""
    one, other = _location_key(source), _location_key(target)
    if one and other and (one.startswith(other) or other.startswith(one)):
        raise InvalidInputError(f"the target {other} is in the place of the source, {one}")


def _location_key(store: ObjectStore) -> str:
    """Equal for equal places, and the beginning of that of a place inside; empty if unknown."""
    if store.directory is not None:
        return os.path.realpath(store.directory).rstrip("/") + "/"
    if isinstance(store, RedirectedStore):
        return _location_key(store.target)
    if isinstance(store, RemoteStore):
        endpoint = getattr(store.place, "endpoint_url", None) or ""
        return f"{endpoint} {store.place.location}".strip().rstrip("/") + "/"
    return ""
