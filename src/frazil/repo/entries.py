"""Finds the entry point of a repository, whichever version it is."""

from dataclasses import dataclass, replace

from frazil.assets.caches import Caches
from frazil.assets.files import Files
from frazil.assets.layout import V1_MAIN_BRANCH
from frazil.assets.old_files import EarlyFiles, OldFiles, files_of
from frazil.assets.old_layout import OldLayout
from frazil.assets.settings import DEFAULT, Settings
from frazil.clock import Clock
from frazil.errors import FormatError, ObjectNotFoundError, RepositoryNotFoundError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.alpha.v2pre import has_early_values
from frazil.format.config import RepositoryConfig
from frazil.format.generation import CURRENT, Generation
from frazil.format.limits import DEFAULT_LIMITS, Limits
from frazil.format.repo_info import RepoInfo
from frazil.objectstore.protocol import ObjectStore
from frazil.repo.detection import old_generation
from frazil.repo.entry import EntryPoint, RepoInfoEntry
from frazil.repo.entry_alpha import SequenceEntry
from frazil.repo.entry_v1 import RefFilesEntry
from frazil.repo.entry_v2pre import EarlyRepoInfoEntry, fetch_config_yaml, is_early

# August 2025, and the release of 2.0 in April 2026: no other repository is asked for the file
_FIRST_US, _RELEASED_US = 1_754_000_000_000_000, 1_775_000_000_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A repository that is there: where, of which generation, and what it takes to go on."""

    store: ObjectStore  # with today's names
    generation: Generation
    config: Json | None  # that it stores
    caches: Caches  # with what was read to find that out


def entry_of(files: Files, clock: Clock) -> EntryPoint:
    if isinstance(files, OldFiles):
        return SequenceEntry(files, clock)
    if isinstance(files, EarlyFiles):
        return EarlyRepoInfoEntry(files, clock)
    if files.settings.spec_version == 1:
        return RefFilesEntry(files, clock)
    return RepoInfoEntry(files, clock)


def with_names_of(store: ObjectStore, generation: Generation) -> ObjectStore:
    """`store` with the names that files have today, and without what must not be written."""
    if generation in CURRENT or isinstance(store, OldLayout):
        return store
    return OldLayout(store, generation)


def stored_config(
    store: ObjectStore, config: RepositoryConfig, clock: Clock, limits: Limits = DEFAULT_LIMITS
) -> Stored:
    """Recognises the version and reads the configuration. Raises RepositoryNotFoundError.

    A repository that has the files of both versions is half migrated, and counts as version 2.
    """
    settings = replace(Settings.of(config), limits=limits)
    files = Files(store, settings)
    try:
        found = RepoInfoEntry(files, clock).fetch_config()
    except RepositoryNotFoundError:
        pass
    except FormatError:
        if not is_early(store, limits):
            raise
        return _stored_otherwise(store, Generation.V2PRE, settings, clock)
    else:
        info = files.newest_repo_info
        if info is not None and has_early_values(info) and is_early(store, limits):
            return _stored_otherwise(store, Generation.V2PRE, settings, clock)
        if found is None and info is not None and _may_have_config_yaml(info):
            found = fetch_config_yaml(store)
        return Stored(store, Generation.V2, found, files.caches)
    files = Files(store, replace(settings, spec_version=1, generation=Generation.V1))
    try:
        found = RefFilesEntry(files, clock).fetch_config()
    except RepositoryNotFoundError:
        pass
    else:
        return Stored(store, Generation.V1, found, files.caches)
    generation = old_generation(store)
    if generation is None:
        raise RepositoryNotFoundError("the repository doesn't exist")
    return _stored_otherwise(store, generation, settings, clock)


def _may_have_config_yaml(info: RepoInfo) -> bool:
    """True of what was written last before version 2 had a place for the configuration."""
    times = info.snapshots.flushed_at_us
    return bool(len(times)) and _FIRST_US <= int(times.max()) < _RELEASED_US


def _stored_otherwise(
    store: ObjectStore, generation: Generation, settings: Settings, clock: Clock
) -> Stored:
    store = with_names_of(store, generation)
    version = generation.spec_version
    files = files_of(store, replace(settings, spec_version=version, generation=generation))
    return Stored(store, generation, entry_of(files, clock).fetch_config(), files.caches)


def stored_version(store: ObjectStore) -> int | None:
    """None if there is no repository."""
    files = Files(store, DEFAULT)
    try:
        return files.fetch_repo_info().info.spec_version
    except ObjectNotFoundError:
        pass
    except FormatError:
        if not is_early(store):
            raise
        return 2
    try:
        store.head(V1_MAIN_BRANCH)
    except ObjectNotFoundError:
        found = old_generation(store)
        return None if found is None else found.spec_version
    return 1
