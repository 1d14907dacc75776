"""Leave to read virtual chunks, as callers give it when they open a repository."""

import warnings
from collections.abc import Mapping
from dataclasses import replace

from frazil.api.storage import Storage
from frazil.assets.virtual.access import NOBODY, VirtualChunkAccess
from frazil.assets.virtual.home import home_of
from frazil.objectstore.credentials import AnyCredential

type GivenAccess = Mapping[str, AnyCredential | None] | VirtualChunkAccess | None

_FRAMES_ABOVE = 3  # the warning is for who called Repository.open
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
        return NOBODY
    access = given if isinstance(given, VirtualChunkAccess) else VirtualChunkAccess(given)
    for prefix, credentials in access.credentials.items():
        if credentials is None:
            _warn(prefix)
    return replace(access, home=home_of(storage.store)) if access.default_containers else access


def _warn(prefix: str) -> None:
    example = _INSTEAD.get(prefix.partition("://")[0].lower(), "Credentials.S3(...)")
    warnings.warn(
        f"Passing `None` in `authorize_virtual_chunk_access` for container `{prefix}` is"
        " deprecated and will be unsupported in a future release; pass an explicit credential or"
        f" no-auth sentinel instead, for example {{{prefix!r}: {example}}}",
        DeprecationWarning,
        stacklevel=_FRAMES_ABOVE,
    )
