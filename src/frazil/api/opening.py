"""Repositories made and opened."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Self

from frazil.api.access import ContainerAccess, GivenAccess, access_of, container_access
from frazil.api.asking import attributed
from frazil.api.attribution import Attribution
from frazil.api.editing import EditedRepository
from frazil.api.storage import Storage, require_room, store_of
from frazil.api.values import SpecVersion
from frazil.api.versions import AlphaVersion, require_spec_version
from frazil.assets.object_stores import with_settings
from frazil.errors import ConflictError, RepositoryNotFoundError
from frazil.format.config import RepositoryConfig
from frazil.format.limits import Limits
from frazil.format.storage_config import StorageSettings
from frazil.repo import repository as engine


@contextmanager
def noting_place(storage: Storage) -> Iterator[None]:
    """Adds to the error about a missing repository where it was looked for."""
    try:
        yield
    except RepositoryNotFoundError as error:
        error.add_note(f"no repository was found in {storage!r}")
        raise


class OpenedRepository(EditedRepository):
    """The part of Repository that finds one."""

    @classmethod
    def create(  # noqa: PLR0917 -- the reference's order
        cls,
        storage: Storage,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: GivenAccess = None,
        spec_version: SpecVersion | int | AlphaVersion | None = None,
        check_clean_root: bool = True,  # noqa: FBT001, FBT002 -- the reference's signature
        attribution: Attribution | None = None,
    ) -> Self:
        """A new repository, with one empty snapshot on branch `main`.

        `spec_version` may also be "alpha2" or "alpha1", the states of the format that were written
        down before there was a version 1. They need a store that can create an object if there is
        none, and nothing more.
        """
        require_room(storage)
        made = engine.Repository.create(
            attributed(store_of(storage), attribution),
            config,
            generation=require_spec_version(spec_version),
            check_clean_root=check_clean_root,
            access=access_of(authorize_virtual_chunk_access, storage),
        )
        return cls(made, storage, attribution)

    @classmethod
    async def create_async(  # noqa: PLR0917 -- the reference's order
        cls,
        storage: Storage,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: GivenAccess = None,
        spec_version: SpecVersion | int | AlphaVersion | None = None,
        check_clean_root: bool = True,  # noqa: FBT001, FBT002 -- the reference's signature
        attribution: Attribution | None = None,
    ) -> Self:
        return await asyncio.to_thread(
            cls.create,
            storage,
            config,
            authorize_virtual_chunk_access,
            spec_version=spec_version,
            check_clean_root=check_clean_root,
            attribution=attribution,
        )

    @classmethod
    def open(
        cls,
        storage: Storage,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: GivenAccess = None,
        attribution: Attribution | None = None,
        *,
        limits: Limits | None = None,
    ) -> Self:
        """Raises RepositoryNotFoundError. `config` goes over what the repository has saved.

        Virtual chunks can be read from the containers that `authorize_virtual_chunk_access` names
        by their url prefix, with the credentials that it gives; nothing of it is ever saved.
        `limits` are what the repository may make this process use.
        """
        access = access_of(authorize_virtual_chunk_access, storage)
        if limits is not None:
            access = replace(access, limits=limits)
        store = attributed(store_of(storage), attribution)
        with noting_place(storage):
            made = engine.Repository.open(store, config, access=access)
        return cls(made, storage, attribution)

    @classmethod
    async def open_async(
        cls,
        storage: Storage,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: GivenAccess = None,
        attribution: Attribution | None = None,
        *,
        limits: Limits | None = None,
    ) -> Self:
        given = authorize_virtual_chunk_access
        return await asyncio.to_thread(cls.open, storage, config, given, attribution, limits=limits)

    @classmethod
    def open_or_create(  # noqa: PLR0917 -- the reference's order
        cls,
        storage: Storage,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: GivenAccess = None,
        create_version: SpecVersion | int | AlphaVersion | None = None,
        check_clean_root: bool = True,  # noqa: FBT001, FBT002 -- the reference's signature
        attribution: Attribution | None = None,
    ) -> Self:
        """As `open` if there is a repository, as `create` if not."""
        given = authorize_virtual_chunk_access
        try:
            return cls.open(storage, config, given, attribution)
        except RepositoryNotFoundError:
            pass
        try:
            return cls.create(storage, config, given, create_version, check_clean_root, attribution)
        except ConflictError:  # somebody else created it at the same time
            return cls.open(storage, config, given, attribution)

    @classmethod
    async def open_or_create_async(  # noqa: PLR0917 -- the reference's order
        cls,
        storage: Storage,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: GivenAccess = None,
        create_version: SpecVersion | int | AlphaVersion | None = None,
        check_clean_root: bool = True,  # noqa: FBT001, FBT002 -- the reference's signature
        attribution: Attribution | None = None,
    ) -> Self:
        return await asyncio.to_thread(
            cls.open_or_create,
            storage,
            config,
            authorize_virtual_chunk_access,
            create_version=create_version,
            check_clean_root=check_clean_root,
            attribution=attribution,
        )

    def reopen(
        self,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: GivenAccess = None,
    ) -> Self:
        """Another object for the same repository, with `config` over this one's.

        Default commit metadata and attribution go along, and so does the access to virtual chunks
        unless another is given.
        """
        given = authorize_virtual_chunk_access
        access = None if given is None else access_of(given, self._storage)
        return type(self)(self._engine.reopened(config, access), self._storage, self._attribution)

    async def reopen_async(
        self,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: GivenAccess = None,
    ) -> Self:
        return await asyncio.to_thread(self.reopen, config, authorize_virtual_chunk_access)

    @property
    def authorized_virtual_container_prefixes(self) -> set[str]:
        """The url prefixes that were given when it was opened, whether or not there are such."""
        return set(self._engine.access.credentials)

    def virtual_containers(self) -> list[ContainerAccess]:
        """Where virtual chunks may be, and whether they can be read from there."""
        return container_access(self._engine)

    @staticmethod
    def exists(storage: Storage, storage_settings: StorageSettings | None = None) -> bool:
        return engine.Repository.exists(with_settings(store_of(storage), storage_settings))

    @staticmethod
    async def exists_async(
        storage: Storage, storage_settings: StorageSettings | None = None
    ) -> bool:
        return await asyncio.to_thread(OpenedRepository.exists, storage, storage_settings)

    @staticmethod
    def fetch_spec_version(
        storage: Storage, storage_settings: StorageSettings | None = None
    ) -> SpecVersion | None:
        """None if there is no repository."""
        store = with_settings(store_of(storage), storage_settings)
        found = engine.Repository.fetch_spec_version(store)
        return None if found is None else SpecVersion(found)

    @staticmethod
    async def fetch_spec_version_async(
        storage: Storage, storage_settings: StorageSettings | None = None
    ) -> SpecVersion | None:
        return await asyncio.to_thread(
            OpenedRepository.fetch_spec_version, storage, storage_settings
        )

    @staticmethod
    def fetch_config(storage: Storage) -> RepositoryConfig | None:
        """The saved configuration; None if the repository uses only defaults."""
        with noting_place(storage):
            return engine.Repository.fetch_config(store_of(storage))

    @staticmethod
    async def fetch_config_async(storage: Storage) -> RepositoryConfig | None:
        return await asyncio.to_thread(OpenedRepository.fetch_config, storage)
