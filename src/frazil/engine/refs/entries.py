"""The files and the entry point of a repository, by the generation that the store holds.

Versions 1 and 2 are opened here. Everything older is behind `OlderGenerations`, the seam to
`frazil.generations`.
"""

from collections.abc import Buffer
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from frazil.clock import Clock
from frazil.dataclass import dataclass
from frazil.engine.files.caches import Caches
from frazil.engine.files.files import Files, annotate_errors
from frazil.engine.files.object_keys import CONFIG_YAML, V1_MAIN_BRANCH
from frazil.engine.files.settings import DEFAULT, Settings
from frazil.engine.refs.entry import EntryPoint, RepoInfoEntry
from frazil.errors import FormatError, ObjectNotFoundError, RepositoryNotFoundError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.config import RepositoryConfig
from frazil.format.generation import CURRENT, Generation
from frazil.format.limits import DEFAULT_LIMITS, Limits
from frazil.format.repo_info import RepoInfo
from frazil.lazy import lazy_module
from frazil.objectstore.protocol import ObjectStore

if TYPE_CHECKING:
    from frazil.engine.refs import entry_v1
    from frazil.format import config_codec
else:  # repositories of version 1, and those that have a configuration
    entry_v1 = lazy_module("frazil.engine.refs.entry_v1")
    config_codec = lazy_module("frazil.format.config_codec")

# August 2025, and the release of 2.0 in April 2026: no other repository is asked for the file
_FIRST_US, _RELEASED_US = 1_754_000_000_000_000, 1_775_000_000_000_000


class OlderGenerations(Protocol):
    """Repositories older than version 1, and pre-releases of version 2."""

    def recognise(self, store: ObjectStore) -> Generation | None:
        """The generation before version 1 that the store holds; None if it holds none."""
        ...

    def holds_v2pre(self, store: ObjectStore, limits: Limits) -> bool:
        """True if the entry point is of a pre-release of version 2."""
        ...

    def open_files(self, store: ObjectStore, settings: Settings, caches: Caches | None) -> Files:
        """The files of a repository of the generation in `settings`."""
        ...

    def open_entry(self, files: Files, clock: Clock) -> EntryPoint:
        """The entry point beside files that `open_files` returned."""
        ...

    def dump(self, data: Buffer, *, max_rows: int | None) -> dict[str, Json] | None:
        """A metadata file as JSON; None if it is no file of these generations."""
        ...


def older_generations() -> OlderGenerations:
    """Loads the package at first use: it builds on the engine, so the engine cannot import it."""
    opener: OlderGenerations = import_module("frazil.generations.opener").OPENER
    return opener


def _is_early(info: RepoInfo) -> bool:
    """True if an entry point that decodes as one of version 2 may be of a pre-release."""
    return bool(import_module("frazil.generations.early_v2").has_early_values(info))


@dataclass(frozen=True, slots=True, eq=False)
class StoredRepository:
    """A repository that exists: its generation, and what was read to recognise it."""

    generation: Generation
    config: Json | None  # as stored in the repository
    caches: Caches


def files_of(store: ObjectStore, settings: Settings, caches: Caches | None = None) -> Files:
    """The files of a repository of any generation."""
    if settings.generation in CURRENT:
        return Files(store, settings, caches)
    return older_generations().open_files(store, settings, caches)


def entry_of(files: Files, clock: Clock) -> EntryPoint:
    """The entry point of a repository of any generation."""
    if files.settings.generation not in CURRENT:
        return older_generations().open_entry(files, clock)
    if files.settings.spec_version == 1:
        return entry_v1.RefFilesEntry(files, clock)
    return RepoInfoEntry(files, clock)


def find_repository(
    store: ObjectStore, config: RepositoryConfig, clock: Clock, limits: Limits = DEFAULT_LIMITS
) -> StoredRepository:
    """Recognises what the store holds. Raises RepositoryNotFoundError.

    A repository that has the files of both versions is half migrated, and counts as version 2.
    """
    settings = replace(Settings.of(config), limits=limits)
    files = Files(store, settings)
    try:
        stored = RepoInfoEntry(files, clock).fetch_config()
    except RepositoryNotFoundError:
        pass
    except FormatError:
        if not older_generations().holds_v2pre(store, limits):
            raise
        return _find_older(store, Generation.V2PRE, settings, clock)
    else:
        info = files.newest_repo_info
        if info is not None and _is_early(info) and older_generations().holds_v2pre(store, limits):
            return _find_older(store, Generation.V2PRE, settings, clock)
        if stored is None and info is not None and _may_have_config_yaml(info):
            stored = fetch_config_yaml(store)
        return StoredRepository(Generation.V2, stored, files.caches)
    files = Files(store, replace(settings, spec_version=1, generation=Generation.V1))
    try:
        stored = entry_v1.RefFilesEntry(files, clock).fetch_config()
    except RepositoryNotFoundError:
        pass
    else:
        return StoredRepository(Generation.V1, stored, files.caches)
    generation = older_generations().recognise(store)
    if generation is None:
        raise RepositoryNotFoundError("the repository doesn't exist")
    return _find_older(store, generation, settings, clock)


def _find_older(
    store: ObjectStore, generation: Generation, settings: Settings, clock: Clock
) -> StoredRepository:
    version = generation.spec_version
    files = files_of(store, replace(settings, spec_version=version, generation=generation))
    return StoredRepository(generation, entry_of(files, clock).fetch_config(), files.caches)


def _may_have_config_yaml(info: RepoInfo) -> bool:
    """True if the last commit is from before version 2 had a place for the configuration."""
    times = info.snapshots.flushed_at_us
    return bool(len(times)) and _FIRST_US <= int(times.max()) < _RELEASED_US


def fetch_config_yaml(store: ObjectStore) -> Json | None:
    """The configuration in `config.yaml`; None if there is no such file."""
    try:
        data = store.get(CONFIG_YAML).data
    except ObjectNotFoundError:
        return None
    with annotate_errors(CONFIG_YAML):
        return config_codec.decode_config_yaml(data)


def find_spec_version(store: ObjectStore) -> int | None:
    """The version of the repository in the store; None if there is no repository."""
    files = Files(store, DEFAULT)
    try:
        return files.fetch_repo_info().info.spec_version
    except ObjectNotFoundError:
        pass
    except FormatError:
        if not older_generations().holds_v2pre(store, DEFAULT_LIMITS):
            raise
        return 2
    try:
        store.head(V1_MAIN_BRANCH)
    except ObjectNotFoundError:
        generation = older_generations().recognise(store)
        return None if generation is None else generation.spec_version
    return 1
