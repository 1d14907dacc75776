"""Which entry point a repository has."""

from frazil.assets.caches import Caches
from frazil.assets.files import Files
from frazil.assets.layout import V1_MAIN_BRANCH
from frazil.assets.settings import Settings
from frazil.clock import Clock
from frazil.errors import ObjectNotFoundError, RepositoryNotFoundError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.config import RepositoryConfig
from frazil.objectstore.protocol import ObjectStore
from frazil.repo.entry import EntryPoint, RepoInfoEntry
from frazil.repo.entry_v1 import RefFilesEntry


def entry_of(files: Files, clock: Clock) -> EntryPoint:
    if files.settings.spec_version == 1:
        return RefFilesEntry(files, clock)
    return RepoInfoEntry(files, clock)


def stored_config(
    store: ObjectStore, config: RepositoryConfig, clock: Clock
) -> tuple[int, Json | None, Caches]:
    """The version of the repository, the configuration it stores, and what was read for that.

    One that is of both versions is half migrated, and of version 2.
    Raises RepositoryNotFoundError.
    """
    files = Files(store, Settings.of(config))
    try:
        return 2, RepoInfoEntry(files, clock).fetch_config(), files.caches
    except RepositoryNotFoundError:
        files = Files(store, Settings.of(config, spec_version=1))
        return 1, RefFilesEntry(files, clock).fetch_config(), files.caches


def stored_version(store: ObjectStore) -> int | None:
    """None if there is no repository."""
    files = Files(store, Settings.of(RepositoryConfig()))
    try:
        return files.fetch_repo_info().info.spec_version
    except ObjectNotFoundError:
        pass
    try:
        store.head(V1_MAIN_BRANCH)
    except ObjectNotFoundError:
        return None
    return 1
