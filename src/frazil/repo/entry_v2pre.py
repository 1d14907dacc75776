"""The entry point of a repository of version 2 from before its release: only to be read."""

from collections.abc import Callable
from dataclasses import dataclass

from frazil.assets.entry_file import nothing
from frazil.assets.files import naming
from frazil.assets.layout import CONFIG_YAML, REPO_INFO
from frazil.assets.old_files import EarlyFiles
from frazil.assets.old_layout import read_only
from frazil.clock import Clock
from frazil.errors import ObjectNotFoundError, RepositoryNotFoundError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.alpha.v2pre import is_early_repo_info
from frazil.format.config_codec import decode_config_yaml
from frazil.format.generation import Generation
from frazil.format.limits import DEFAULT_LIMITS, Limits
from frazil.format.repo_info import RepoInfo
from frazil.objectstore.protocol import ObjectStore
from frazil.repo.entry import Change


def is_early(store: ObjectStore, limits: Limits = DEFAULT_LIMITS) -> bool:
    """Whether there is one."""
    try:
        data = store.get(REPO_INFO).data
    except ObjectNotFoundError:
        return False
    return is_early_repo_info(data, max_size=limits.payload_bytes(len(data)))


def fetch_config_yaml(store: ObjectStore) -> Json | None:
    """The configuration in a file of its own; None if there is no such file."""
    try:
        data = store.get(CONFIG_YAML).data
    except ObjectNotFoundError:
        return None
    with naming(CONFIG_YAML):
        return decode_config_yaml(data)


@dataclass(frozen=True, slots=True)
class EarlyRepoInfoEntry:
    files: EarlyFiles
    clock: Clock

    def create(self, *, config: Json | None) -> None:
        del config
        raise read_only(Generation.V2PRE)

    def fetch(self) -> RepoInfo:
        try:
            return self.files.fetch_early_info()
        except ObjectNotFoundError as error:
            raise RepositoryNotFoundError("the repository doesn't exist") from error

    def fetch_config(self) -> Json | None:
        """In a file of its own, as in version 1, until February 2026."""
        stored = self.fetch().config
        return fetch_config_yaml(self.files.store) if stored is None else stored

    def update(
        self,
        change: Change,
        *,
        doing: str,
        even_if_read_only: bool = False,
        ready: Callable[[], None] = nothing,
    ) -> RepoInfo:
        del change, doing, even_if_read_only, ready
        raise read_only(Generation.V2PRE)
