"""Where a command takes something from or brings it to: a folder, a bucket, or a bundle."""

from pathlib import Path

from frazil.cli.reaching import reach
from frazil.cli.repositories import open_repository, store_at
from frazil.objectstore.archive import ArchiveStore
from frazil.objectstore.protocol import ObjectStore
from frazil.repo.repository import Repository


def open_source(location: str) -> Repository:
    """The repository in a folder, in a bucket (s3://bucket/prefix), or in a bundle."""
    if "://" not in location and Path(location).is_file():
        return Repository.open(ArchiveStore(location))
    return open_repository(location)


def open_target(location: str) -> ObjectStore:
    """A folder or a bucket; nothing has to be there."""
    return store_at(location, reach().target)
