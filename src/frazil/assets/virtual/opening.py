"""From leave to read a container to a client that reads it."""

from frazil.assets.virtual.access import Grant, VirtualAccess
from frazil.errors import StorageError
from frazil.format.storage_config import LocalStoreConfig, ObjectStoreConfig, StorageSettings
from frazil.format.urls import place_of, regular
from frazil.objectstore.credentials import AnyCredential
from frazil.objectstore.local_source import LocalSource
from frazil.objectstore.source import SourceStore


def open_source_of(grant: Grant, authority: str, access: VirtualAccess) -> SourceStore:
    """A client for a bucket, an account or a host in the container; or for local files."""
    if isinstance(grant.container.store, LocalStoreConfig):
        own = _directory(grant)
        others = {_directory(each) for each in access.local_grants()} - {own}
        return LocalSource((own, *sorted(others)))
    return open_source(grant.container.store, authority, grant.credentials, access.settings)


def _directory(grant: Grant) -> str:
    return "/" + place_of(regular(grant.container.url_prefix)).key


def open_source(
    config: ObjectStoreConfig,
    authority: str,
    credentials: AnyCredential | None,
    settings: StorageSettings,
) -> SourceStore:
    del authority, credentials, settings
    raise StorageError(f"no way to read from {config!r} yet", kind="storage-config")
