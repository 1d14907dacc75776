"""Authorization to read virtual chunks, as it is given when a repository is opened."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.api.storage import Storage
from frazil.dataclass import dataclass
from frazil.engine.files.virtual_access import NO_AUTHORIZATION, VirtualChunkAccess, home_of
from frazil.engine.repository import Repository
from frazil.format.limits import Limits
from frazil.format.storage_config import ObjectStoreConfig
from frazil.lazy import lazy_module

if TYPE_CHECKING:
    from frazil.objectstore import credentials as creds
else:
    creds = lazy_module("frazil.objectstore.credentials")

type GivenAccess = Mapping[str, creds.AnyCredential | None] | VirtualChunkAccess | None

_PACKAGE = str(Path(__file__).parents[1])  # a warning is about the code that called frazil
_EXPLICIT = {  # by scheme: credentials in place of the deprecated None
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


def access_of(
    given: GivenAccess, storage: Storage, limits: Limits | None = None
) -> VirtualChunkAccess:
    """Raises TypeError for anything else; warns about containers without credentials."""
    access = NO_AUTHORIZATION
    if given is not None:
        access = given if isinstance(given, VirtualChunkAccess) else VirtualChunkAccess(given)
        for prefix, credentials in access.credentials.items():
            if credentials is None:
                _warn(prefix)
        if access.default_containers:
            access = replace(access, home=home_of(storage.store))
    return access if limits is None else replace(access, limits=limits)


@dataclass(frozen=True, slots=True)
class ContainerAccess:
    """A virtual chunk container; `authorized` if it can be read with the credentials given."""

    name: str | None
    url_prefix: str
    store: ObjectStoreConfig
    authorized: bool
    is_default: bool = False


def container_access(repository: Repository) -> list[ContainerAccess]:
    """Lists the containers of the configuration, then those that exist by default."""
    access = repository.virtual
    granted = {grant.container.url_prefix for grant in access.grants}
    listed = [(container, False) for container in access.containers.listed]
    listed += [(container, True) for container in access.fallbacks.listed]
    return [
        ContainerAccess(
            container.name,
            container.url_prefix,
            container.store,
            container.url_prefix in granted,
            is_default,
        )
        for container, is_default in listed
    ]


def _warn(prefix: str) -> None:
    example = _EXPLICIT.get(prefix.partition("://")[0].lower(), "Credentials.S3(...)")
    warnings.warn(
        f"Passing `None` in `authorize_virtual_chunk_access` for container `{prefix}` is"
        " deprecated and will be unsupported in a future release; pass an explicit credential or"
        f" no-auth sentinel instead, for example {{{prefix!r}: {example}}}",
        DeprecationWarning,
        skip_file_prefixes=(_PACKAGE,),
    )
