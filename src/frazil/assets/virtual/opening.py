"""From leave to read a container to a client that reads it."""

from frazil.assets.object_stores import open_source
from frazil.assets.virtual.access import Grant, VirtualAccess
from frazil.format.storage_config import LocalStoreConfig
from frazil.format.urls import place_of, regular
from frazil.objectstore.local_source import LocalSource
from frazil.objectstore.source import SourceStore


def open_source_of(grant: Grant, authority: str, access: VirtualAccess) -> SourceStore:
    """A client for a bucket, an account or a host in the container; or for local files."""
    if isinstance(grant.container.store, LocalStoreConfig):
        own = _directory(grant)
        others = {_directory(each) for each in access.local_grants()} - {own}
        return LocalSource((own, *sorted(others)))
    scheme = grant.container.url_prefix.partition("://")[0]
    return open_source(
        grant.container.store, authority, grant.credentials, access.settings, scheme=scheme
    )


def _directory(grant: Grant) -> str:
    return "/" + place_of(regular(grant.container.url_prefix)).key
