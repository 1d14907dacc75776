"""The repository that write options name."""

from frazil.api.repository import Repository as OpenRepository
from frazil.repo.repository import Repository
from frazil.spark.place import PlaceText, open_place
from frazil.spark.storage_options import storage_of
from frazil.spark.writing.options import WriteOptions


def open_repository(options: WriteOptions) -> Repository:
    """Raises RepositoryNotFoundError if there is none."""
    if options.secret_storage:
        return Repository.open(open_place(PlaceText(options.path, options.secret_storage)))
    return OpenRepository.open(storage_of({"path": options.path, **options.storage})).engine
