"""Where a command takes something from or brings it to: a folder, a bucket, or a bundle."""

from pathlib import Path

from frazil.cli.repositories import open_repository
from frazil.errors import InvalidInputError, RepositoryNotFoundError
from frazil.objectstore.archive import ArchiveStore
from frazil.objectstore.protocol import ObjectStore
from frazil.repo.repository import Repository
from frazil.spark.place import format_path, open_place


def open_source(location: str) -> Repository:
    """The repository in a folder, in a bucket (s3://bucket/prefix), or in a bundle."""
    if "://" not in location:
        if Path(location).is_file():
            return Repository.open(ArchiveStore(location))
        return open_repository(location)
    try:
        return Repository.open(open_place(format_path(location)))
    except RepositoryNotFoundError as error:
        raise RepositoryNotFoundError(f"there is no repository at {location}") from error


def open_target(location: str) -> ObjectStore:
    """A folder or a bucket; nothing has to be there."""
    if "://" not in location and Path(location).is_file():
        raise InvalidInputError(f"{location} is a file, not the directory of a repository")
    return open_place(format_path(location))
