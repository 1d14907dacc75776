"""What belongs to a repository as a whole: configuration, metadata, status, feature flags."""

import asyncio
from copy import deepcopy
from typing import Any

from frazil.api.attribution import Attribution
from frazil.api.display import repository_view
from frazil.api.storage import Storage
from frazil.api.values import FeatureFlag, RepoStatus, SpecVersion
from frazil.errors import require_type
from frazil.format.config import RepositoryConfig
from frazil.format.records import Displayed, View
from frazil.repo import repo_settings
from frazil.repo import repository as engine
from frazil.repo.commit_metadata import require_json
from frazil.repo.repo_settings import require_version_2


class AdministeredRepository(Displayed):
    """The part of Repository that needs no snapshot."""

    def __init__(
        self,
        repository: engine.Repository,
        storage: Storage,
        attribution: Attribution | None = None,
    ) -> None:
        self._engine = repository
        self._storage = storage
        self._attribution = attribution or Attribution()

    def __view__(self) -> View:
        return repository_view(
            storage=self._storage,
            config=self._engine.config,
            generation=self._engine.generation,
        )

    @property
    def engine(self) -> engine.Repository:
        """What does the work: synchronous, typed, for frazil's own layers."""
        return self._engine

    @property
    def storage(self) -> Storage:
        return self._storage

    @property
    def attribution(self) -> Attribution:
        return self._attribution

    @property
    def spec_version(self) -> SpecVersion:
        """What there is in the format: before version 1 there was less still, see `generation`."""
        return SpecVersion(self._engine.spec_version)

    @property
    def generation(self) -> str:
        """Which state of the format it is in: "V1", "V2", or one from before, such as "A2e"."""
        return str(self._engine.generation)

    # Configuration

    @property
    def config(self) -> RepositoryConfig:
        """A copy: changing it changes nothing."""
        return deepcopy(self._engine.config)

    def save_config(self) -> None:
        """Makes this configuration the one that everybody gets who opens the repository."""
        self._engine.save_config()

    async def save_config_async(self) -> None:
        await asyncio.to_thread(self.save_config)

    def set_default_commit_metadata(self, metadata: dict[str, Any]) -> None:
        """For the commits of sessions made from now on; what a commit says itself wins.

        Not stored: it belongs to this object and its copies.
        """
        self._engine.default_commit_metadata = require_json(metadata)

    def default_commit_metadata(self) -> dict[str, Any]:
        return deepcopy(self._engine.default_commit_metadata)

    # Metadata

    @property
    def metadata(self) -> dict[str, Any]:
        return self.get_metadata()

    def get_metadata(self) -> dict[str, Any]:
        return deepcopy(self._engine.info_of_version_2().metadata)

    async def get_metadata_async(self) -> dict[str, Any]:
        return await asyncio.to_thread(self.get_metadata)

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replaces all of it. Metadata is JSON."""
        self._engine.set_metadata(metadata)

    async def set_metadata_async(self, metadata: dict[str, Any]) -> None:
        await asyncio.to_thread(self.set_metadata, metadata)

    def update_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Replaces the keys given, keeps the others, and returns the whole.

        Nothing is lost if somebody else updates other keys at the same time.
        """
        return deepcopy(self._engine.update_metadata(metadata))

    async def update_metadata_async(self, metadata: dict[str, Any]) -> dict[str, Any]:
        return await asyncio.to_thread(self.update_metadata, metadata)

    # Status

    @property
    def status(self) -> RepoStatus:
        return self.get_status()

    def get_status(self) -> RepoStatus:
        return RepoStatus.of(self._engine.info_of_version_2().status)

    async def get_status_async(self) -> RepoStatus:
        return await asyncio.to_thread(self.get_status)

    def set_status(self, status: RepoStatus) -> None:
        """A repository that is not online can be read; this is the only change it takes."""
        if not isinstance(status, RepoStatus):
            raise TypeError(f"{type(status).__name__!r} object is not a RepoStatus")
        self._engine.set_status(status.stored())

    async def set_status_async(self, status: RepoStatus) -> None:
        await asyncio.to_thread(self.set_status, status)

    # Feature flags

    def feature_flags(self) -> list[FeatureFlag]:
        """Operations that can be switched off, all of them."""
        info = self._engine.info_of_version_2()
        return [
            FeatureFlag.of(flag, repo_settings.setting(info, flag)) for flag in repo_settings.FLAGS
        ]

    async def feature_flags_async(self) -> list[FeatureFlag]:
        return await asyncio.to_thread(self.feature_flags)

    def enabled_feature_flags(self) -> list[FeatureFlag]:
        return [flag for flag in self.feature_flags() if flag.enabled]

    async def enabled_feature_flags_async(self) -> list[FeatureFlag]:
        return await asyncio.to_thread(self.enabled_feature_flags)

    def disabled_feature_flags(self) -> list[FeatureFlag]:
        return [flag for flag in self.feature_flags() if not flag.enabled]

    async def disabled_feature_flags_async(self) -> list[FeatureFlag]:
        return await asyncio.to_thread(self.disabled_feature_flags)

    def set_feature_flag(self, name: str, setting: bool | None) -> None:  # noqa: FBT001 -- the reference's signature
        """Allows or forbids an operation for everybody; None goes back to the default."""
        if setting is not None and not isinstance(setting, bool):
            raise TypeError(f"{type(setting).__name__!r} object is not a bool")
        require_type(name, str)
        require_version_2(self._engine.spec_version)
        self._engine.set_flag(repo_settings.require_flag(name), setting)

    async def set_feature_flag_async(self, name: str, setting: bool | None) -> None:  # noqa: FBT001 -- the reference's signature
        await asyncio.to_thread(self.set_feature_flag, name, setting)
