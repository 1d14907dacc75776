"""Leave to read virtual chunks, as text: options are all that Spark hands to its workers.

authorize       {"file:///data/": "local", "s3://bucket/": "environment"}
secretAccess    any other permission, as JSON (plain_values.py); the name makes Spark hide it from
                its pages and plans
"""

import json
from dataclasses import dataclass, field
from typing import cast

from frazil.assets.virtual.access import NOBODY, VirtualChunkAccess
from frazil.errors import InvalidInputError
from frazil.objectstore.credentials import (
    AnyCredential,
    AzureAnonymousCredentials,
    AzureFromEnvCredentials,
    CredentialsForAzure,
    CredentialsForGcs,
    CredentialsForS3,
    GcsAnonymousCredentials,
    GcsFromEnvCredentials,
    HttpAccess,
    LocalFileSystemAccess,
    S3AnonymousCredentials,
    S3FromEnvCredentials,
)
from frazil.spark.plain_values import decode_values, encode_values

_S3: dict[str, AnyCredential] = {
    "anonymous": CredentialsForS3(S3AnonymousCredentials()),
    "environment": CredentialsForS3(S3FromEnvCredentials()),
}
_GCS: dict[str, AnyCredential] = {
    "anonymous": CredentialsForGcs(GcsAnonymousCredentials()),
    "environment": CredentialsForGcs(GcsFromEnvCredentials()),
}
_AZURE: dict[str, AnyCredential] = {
    "anonymous": CredentialsForAzure(AzureAnonymousCredentials()),
    "environment": CredentialsForAzure(AzureFromEnvCredentials()),
}
_WEB: dict[str, AnyCredential] = {"http": HttpAccess()}
_LOCAL: dict[str, AnyCredential] = {"local": LocalFileSystemAccess()}
_WORDS = {
    "file": _LOCAL,
    "http": _WEB, "https": _WEB,
    "s3": _S3, "tigris": _S3,
    "gs": _GCS, "gcs": _GCS,
    "az": _AZURE, "azure": _AZURE, "abfs": _AZURE,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AccessText:
    """At most one of the two options."""

    plain: str = ""
    secret: str = field(default="", repr=False)


NO_ACCESS = AccessText()


def format_access(access: VirtualChunkAccess) -> AccessText:
    words: dict[str, str] = {}
    for prefix, credentials in access.credentials.items():
        known = _known(prefix)
        fitting = [word for word in known if known[word] == credentials]
        words.update((prefix, word) for word in fitting)
    if access == VirtualChunkAccess({prefix: access.credentials[prefix] for prefix in words}):
        return AccessText(plain=json.dumps(words)) if words else NO_ACCESS
    return AccessText(secret=encode_values({"access": access}))


def parse_access(text: AccessText) -> VirtualChunkAccess:
    if text.secret:
        access = decode_values("secretAccess", text.secret, {"access": VirtualChunkAccess})[
            "access"
        ]
        return cast("VirtualChunkAccess", access)
    if not text.plain:
        return NOBODY
    try:
        given = json.loads(text.plain)
        if not isinstance(given, dict):
            raise TypeError(f"it is a {type(given).__name__}")  # noqa: TRY301 -- told below
        return VirtualChunkAccess({prefix: _credentials(prefix, given[prefix]) for prefix in given})
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInputError(
            f"option 'authorize' is {text.plain!r}, expected a JSON object of url prefixes: {error}"
        ) from error


def _credentials(prefix: str, word: object) -> AnyCredential:
    known = _known(prefix)
    if not isinstance(word, str) or word not in known:
        expected = " or ".join(map(repr, known)) or "another url prefix"
        raise ValueError(f"{prefix!r} is given {word!r}, expected {expected}")
    return known[word]


def _known(prefix: str) -> dict[str, AnyCredential]:
    return _WORDS.get(prefix.partition(":")[0].lower(), {})
