"""From leave to read a container to a client that reads it."""

from frazil.assets.object_stores import open_source
from frazil.assets.virtual.access import Grant, VirtualAccess
from frazil.format.storage_config import HttpStoreConfig, LocalStoreConfig
from frazil.format.urls import place_of, regular
from frazil.objectstore.local.source import LocalSource
from frazil.objectstore.protocol import SourceStore
from frazil.objectstore.remote.redirect import GuardedSource


def open_source_of(grant: Grant, authority: str, access: VirtualAccess) -> SourceStore:
    """A client for a bucket, an account or a host in the container; or for local files."""
    if isinstance(grant.container.store, LocalStoreConfig):
        own = _directory(grant)
        others = {_directory(each) for each in access.local_grants()} - {own}
        return LocalSource((own, *sorted(others)))
    scheme = grant.container.url_prefix.partition("://")[0]
    source = open_source(
        grant.container.store, authority, grant.credentials, access.settings, scheme=scheme
    )
    if isinstance(grant.container.store, HttpStoreConfig) and access.reads.check_redirects:
        headers = tuple((grant.container.store.headers or {}).items())
        return GuardedSource(source, f"{scheme}://{authority}", headers)
    return source


def _directory(grant: Grant) -> str:
    return "/" + place_of(regular(grant.container.url_prefix)).key
