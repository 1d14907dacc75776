"""Credentials of object stores. Names as in the `icechunk` package.

    S3Credentials       FromEnv  Anonymous  Static(S3StaticCredentials)    Refreshable
    GcsCredentials      FromEnv  Anonymous  Static(GcsStaticCredentials)   Refreshable
    AzureCredentials    FromEnv  Anonymous  Static(AzureStaticCredentials) Refreshable
    Credentials         S3(...)  Gcs(...)   Azure(...)  LocalFileSystemAccess  HttpAccess

A secret is never part of a repr, hence not of logs and error messages either. It is part of a
pickle: a worker on another machine needs it.
"""

import pickle
from collections.abc import Callable
from dataclasses import field, fields
from datetime import datetime
from typing import Any, ClassVar

from frazil.dataclass import dataclass
from frazil.errors import (
    InvalidInputError,
    require_type,
)

_SECRET = {"secret": True}


class Redacted:
    """A dataclass whose repr says of a secret only that there is one."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={text}" for name, text in self._shown())
        return f"{type(self).__qualname__}({shown})"

    __str__ = __repr__

    def _shown(self) -> list[tuple[str, str]]:
        given: list[tuple[str, str]] = []
        for each in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, each.name)
            secret = value is not None and "secret" in each.metadata
            given.append((each.name, "****" if secret else repr(value)))
        return given


def _secret(**options: Any) -> Any:
    return field(metadata=_SECRET, **options)


# S3


@dataclass(frozen=True, slots=True, repr=False)
class S3StaticCredentials(Redacted):
    access_key_id: str = _secret()
    secret_access_key: str = _secret()
    session_token: str | None = _secret(default=None)
    expires_after: datetime | None = None

    def __post_init__(self) -> None:
        for value in (self.access_key_id, self.secret_access_key):
            require_type(value, str)
        require_type(self.session_token, str | None)


class S3Credentials(Redacted):
    """One way to sign requests to S3; the alternatives hang on this class."""

    __slots__ = ()
    FromEnv: ClassVar[type["S3FromEnvCredentials"]]
    Anonymous: ClassVar[type["S3AnonymousCredentials"]]
    Static: ClassVar[type["S3FixedCredentials"]]
    Refreshable: ClassVar[type["S3RefreshableCredentials"]]


@dataclass(frozen=True, slots=True, repr=False)
class S3FromEnvCredentials(S3Credentials):
    """Credentials from the environment of the process, or from the machine it runs on."""


@dataclass(frozen=True, slots=True, repr=False)
class S3AnonymousCredentials(S3Credentials):
    pass


@dataclass(frozen=True, slots=True, repr=False)
class S3FixedCredentials(S3Credentials):
    credentials: S3StaticCredentials


@dataclass(frozen=True, slots=True, repr=False)
class S3RefreshableCredentials(S3Credentials):
    """A pickled function that gives S3StaticCredentials, and perhaps what it gave already."""

    pickled_function: bytes = _secret()
    current: S3StaticCredentials | None = None

    def fetch(self) -> S3StaticCredentials:
        return call_pickled(self.pickled_function, S3StaticCredentials)


S3Credentials.FromEnv = S3FromEnvCredentials
S3Credentials.Anonymous = S3AnonymousCredentials
S3Credentials.Static = S3FixedCredentials
S3Credentials.Refreshable = S3RefreshableCredentials


# Google Cloud Storage


@dataclass(frozen=True, slots=True, repr=False)
class GcsBearerCredential(Redacted):
    bearer: str = _secret()
    expires_after: datetime | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        require_type(self.bearer, str)


class GcsStaticCredentials(Redacted):
    """Something that Google gave once; the alternatives hang on this class."""

    __slots__ = ()
    ServiceAccount: ClassVar[type["GcsServiceAccount"]]
    ServiceAccountKey: ClassVar[type["GcsServiceAccountKey"]]
    ApplicationCredentials: ClassVar[type["GcsApplicationCredentials"]]
    BearerToken: ClassVar[type["GcsBearerToken"]]


@dataclass(frozen=True, slots=True, repr=False)
class GcsServiceAccount(GcsStaticCredentials):
    path: str


@dataclass(frozen=True, slots=True, repr=False)
class GcsServiceAccountKey(GcsStaticCredentials):
    key: str = _secret()


@dataclass(frozen=True, slots=True, repr=False)
class GcsApplicationCredentials(GcsStaticCredentials):
    path: str


@dataclass(frozen=True, slots=True, repr=False)
class GcsBearerToken(GcsStaticCredentials):
    token: str = _secret()


GcsStaticCredentials.ServiceAccount = GcsServiceAccount
GcsStaticCredentials.ServiceAccountKey = GcsServiceAccountKey
GcsStaticCredentials.ApplicationCredentials = GcsApplicationCredentials
GcsStaticCredentials.BearerToken = GcsBearerToken


class GcsCredentials(Redacted):
    """One way to sign requests to Google; the alternatives hang on this class."""

    __slots__ = ()
    Anonymous: ClassVar[type["GcsAnonymousCredentials"]]
    FromEnv: ClassVar[type["GcsFromEnvCredentials"]]
    Static: ClassVar[type["GcsFixedCredentials"]]
    Refreshable: ClassVar[type["GcsRefreshableCredentials"]]


@dataclass(frozen=True, slots=True, repr=False)
class GcsAnonymousCredentials(GcsCredentials):
    pass


@dataclass(frozen=True, slots=True, repr=False)
class GcsFromEnvCredentials(GcsCredentials):
    """Credentials from the environment of the process, or from the machine it runs on."""


@dataclass(frozen=True, slots=True, repr=False)
class GcsFixedCredentials(GcsCredentials):
    credentials: GcsStaticCredentials


@dataclass(frozen=True, slots=True, repr=False)
class GcsRefreshableCredentials(GcsCredentials):
    """A pickled function that gives a GcsBearerCredential, and perhaps what it gave already."""

    pickled_function: bytes = _secret()
    current: GcsBearerCredential | None = None

    def fetch(self) -> GcsBearerCredential:
        return call_pickled(self.pickled_function, GcsBearerCredential)


GcsCredentials.Anonymous = GcsAnonymousCredentials
GcsCredentials.FromEnv = GcsFromEnvCredentials
GcsCredentials.Static = GcsFixedCredentials
GcsCredentials.Refreshable = GcsRefreshableCredentials


# Azure Blob Storage


class AzureRefreshableCredential(Redacted):
    """Something that Azure gave for a while; the alternatives hang on this class."""

    __slots__ = ()
    AccessKey: ClassVar[type["AzureTimedAccessKey"]]
    SasToken: ClassVar[type["AzureTimedSasToken"]]
    BearerToken: ClassVar[type["AzureTimedBearerToken"]]


@dataclass(frozen=True, slots=True, repr=False)
class AzureTimedAccessKey(AzureRefreshableCredential):
    key: str = _secret()
    expires_after: datetime | None = None


@dataclass(frozen=True, slots=True, repr=False)
class AzureTimedSasToken(AzureRefreshableCredential):
    token: str = _secret()
    expires_after: datetime | None = None


@dataclass(frozen=True, slots=True, repr=False)
class AzureTimedBearerToken(AzureRefreshableCredential):
    bearer: str = _secret()
    expires_after: datetime | None = None


AzureRefreshableCredential.AccessKey = AzureTimedAccessKey
AzureRefreshableCredential.SasToken = AzureTimedSasToken
AzureRefreshableCredential.BearerToken = AzureTimedBearerToken


class AzureStaticCredentials(Redacted):
    """Something that Azure gave once; the alternatives hang on this class."""

    __slots__ = ()
    AccessKey: ClassVar[type["AzureAccessKey"]]
    SasToken: ClassVar[type["AzureSasToken"]]
    BearerToken: ClassVar[type["AzureBearerToken"]]


@dataclass(frozen=True, slots=True, repr=False)
class AzureAccessKey(AzureStaticCredentials):
    key: str = _secret()


@dataclass(frozen=True, slots=True, repr=False)
class AzureSasToken(AzureStaticCredentials):
    token: str = _secret()


@dataclass(frozen=True, slots=True, repr=False)
class AzureBearerToken(AzureStaticCredentials):
    token: str = _secret()


AzureStaticCredentials.AccessKey = AzureAccessKey
AzureStaticCredentials.SasToken = AzureSasToken
AzureStaticCredentials.BearerToken = AzureBearerToken


class AzureCredentials(Redacted):
    """One way to sign requests to Azure; the alternatives hang on this class."""

    __slots__ = ()
    Anonymous: ClassVar[type["AzureAnonymousCredentials"]]
    FromEnv: ClassVar[type["AzureFromEnvCredentials"]]
    Static: ClassVar[type["AzureFixedCredentials"]]
    Refreshable: ClassVar[type["AzureRefreshableCredentials"]]


@dataclass(frozen=True, slots=True, repr=False)
class AzureAnonymousCredentials(AzureCredentials):
    pass


@dataclass(frozen=True, slots=True, repr=False)
class AzureFromEnvCredentials(AzureCredentials):
    """Credentials from the environment of the process, or from the machine it runs on."""


@dataclass(frozen=True, slots=True, repr=False)
class AzureFixedCredentials(AzureCredentials):
    credentials: AzureStaticCredentials


@dataclass(frozen=True, slots=True, repr=False)
class AzureRefreshableCredentials(AzureCredentials):
    """A pickled function that gives an AzureRefreshableCredential, and perhaps what it gave."""

    pickled_function: bytes = _secret()
    current: AzureRefreshableCredential | None = None

    def fetch(self) -> AzureRefreshableCredential:
        return call_pickled(self.pickled_function, AzureRefreshableCredential)


AzureCredentials.Anonymous = AzureAnonymousCredentials
AzureCredentials.FromEnv = AzureFromEnvCredentials
AzureCredentials.Static = AzureFixedCredentials
AzureCredentials.Refreshable = AzureRefreshableCredentials


# Of any kind of store


class Credentials(Redacted):
    """Credentials that say what they are for; the alternatives hang on this class."""

    __slots__ = ()
    S3: ClassVar[type["CredentialsForS3"]]
    Gcs: ClassVar[type["CredentialsForGcs"]]
    Azure: ClassVar[type["CredentialsForAzure"]]
    LocalFileSystemAccess: ClassVar[type["LocalFileSystemAccess"]]
    HttpAccess: ClassVar[type["HttpAccess"]]


@dataclass(frozen=True, slots=True, repr=False)
class CredentialsForS3(Credentials):
    credentials: S3Credentials


@dataclass(frozen=True, slots=True, repr=False)
class CredentialsForGcs(Credentials):
    credentials: GcsCredentials


@dataclass(frozen=True, slots=True, repr=False)
class CredentialsForAzure(Credentials):
    credentials: AzureCredentials


@dataclass(frozen=True, slots=True, repr=False)
class LocalFileSystemAccess(Credentials):
    """Files of this machine may be read."""


@dataclass(frozen=True, slots=True, repr=False)
class HttpAccess(Credentials):
    """A web server may be asked."""


Credentials.S3 = CredentialsForS3
Credentials.Gcs = CredentialsForGcs
Credentials.Azure = CredentialsForAzure
Credentials.LocalFileSystemAccess = LocalFileSystemAccess
Credentials.HttpAccess = HttpAccess

AnyS3Credential = (
    S3FixedCredentials | S3AnonymousCredentials | S3FromEnvCredentials | S3RefreshableCredentials
)
AnyGcsStaticCredential = (
    GcsServiceAccount | GcsServiceAccountKey | GcsApplicationCredentials | GcsBearerToken
)
AnyGcsCredential = (
    GcsAnonymousCredentials
    | GcsFromEnvCredentials
    | GcsFixedCredentials
    | GcsRefreshableCredentials
)
AnyAzureStaticCredential = AzureAccessKey | AzureSasToken | AzureBearerToken
AnyAzureCredential = (
    AzureAnonymousCredentials
    | AzureFromEnvCredentials
    | AzureFixedCredentials
    | AzureRefreshableCredentials
)
AnyCredential = (
    CredentialsForS3 | CredentialsForGcs | CredentialsForAzure | LocalFileSystemAccess | HttpAccess
)


def call_pickled[T](pickled_function: bytes, expected: type[T]) -> T:
    """The result of the function. Raises InvalidInputError if it is of another type."""
    function: Callable[[], object] = pickle.loads(pickled_function)  # noqa: S301 - the user's own
    given = function()
    if not isinstance(given, expected):
        raise InvalidInputError(
            f"the function that gets credentials gave a {type(given).__name__},"
            f" not {expected.__name__}",
            kind="invalid-credentials",
        )
    return given
