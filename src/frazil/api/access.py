"""Leave to read virtual chunks, as callers give it when they open a repository."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from frazil.api.storage import Storage
from frazil.assets.virtual.access import NO_AUTHORIZATION, VirtualChunkAccess
from frazil.assets.virtual.clients import home_of
from frazil.format.storage_config import ObjectStoreConfig
from frazil.objectstore.credentials import AnyCredential
from frazil.repo import repository as engine

type GivenAccess = Mapping[str, AnyCredential | None] | VirtualChunkAccess | None

_OUR_CODE = str(Path(__file__).parents[1])  # a warning is for who called it
_INSTEAD = {
    "s3": "Credentials.S3(S3Credentials.FromEnv())",
    "tigris": "Credentials.S3(S3Credentials.FromEnv())",
    "gs": "Credentials.Gcs(GcsCredentials.Anonymous())",
    "gcs": "Credentials.Gcs(GcsCredentials.Anonymous())",
    "az": "Credentials.Azure(AzureCredentials.FromEnv())",
    "azure": "Credentials.Azure(AzureCredentials.FromEnv())",
    "abfs": "Credentials.Azure(AzureCredentials.FromEnv())",
    "file": "credentials.LocalFileSystemAccess",
    "http": "credentials.HttpAccess",
    "https": "credentials.HttpAccess",
}


def access_of(given: GivenAccess, storage: Storage) -> VirtualChunkAccess:
    """Raises TypeError for what is not leave; warns where nobody says as whom to read."""
    if given is None:
        return NO_AUTHORIZATION
    access = given if isinstance(given, VirtualChunkAccess) else VirtualChunkAccess(given)
    for prefix, credentials in access.credentials.items():
        if credentials is None:
            _warn(prefix)
    return replace(access, home=home_of(storage.store)) if access.default_containers else access


@dataclass(frozen=True, slots=True)
class ContainerAccess:
    """A virtual chunk container and what it needs to be read: an entry of `credentials`."""

    name: str | None
    url_prefix: str
    store: ObjectStoreConfig
    authorized: bool
    is_default: bool = False


def container_access(repository: engine.Repository) -> list[ContainerAccess]:
    """Of the configuration first, then of those that are there by default."""
    access = repository.virtual
    granted = {grant.container.url_prefix for grant in access.grants}
    listed = [(each, False) for each in access.containers.listed]
    listed += [(each, True) for each in access.fallbacks.listed]
    return [
        ContainerAccess(
            each.name, each.url_prefix, each.store, each.url_prefix in granted, is_default
        )
        for each, is_default in listed
    ]


def _warn(prefix: str) -> None:
    example = _INSTEAD.get(prefix.partition("://")[0].lower(), "Credentials.S3(...)")
    warnings.warn(
        f"Passing `None` in `authorize_virtual_chunk_access` for container `{prefix}` is"
        " deprecated and will be unsupported in a future release; pass an explicit credential or"
        f" no-auth sentinel instead, for example {{{prefix!r}: {example}}}",
        DeprecationWarning,
        skip_file_prefixes=(_OUR_CODE,),
    )
