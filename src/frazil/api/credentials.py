"""Credentials from their parts. Names and parameters are those of the `icechunk` package."""

import pickle
from collections.abc import Callable, Mapping
from datetime import datetime

from frazil.objectstore.credentials import (
    AnyAzureCredential,
    AnyAzureStaticCredential,
    AnyCredential,
    AnyGcsCredential,
    AnyGcsStaticCredential,
    AnyS3Credential,
    AzureAccessKey,
    AzureAnonymousCredentials,
    AzureBearerToken,
    AzureCredentials,
    AzureFixedCredentials,
    AzureFromEnvCredentials,
    AzureRefreshableCredential,
    AzureRefreshableCredentials,
    AzureSasToken,
    CredentialsForAzure,
    CredentialsForGcs,
    CredentialsForS3,
    GcsAnonymousCredentials,
    GcsApplicationCredentials,
    GcsBearerCredential,
    GcsBearerToken,
    GcsCredentials,
    GcsFixedCredentials,
    GcsFromEnvCredentials,
    GcsRefreshableCredentials,
    GcsServiceAccount,
    GcsServiceAccountKey,
    HttpAccess,
    LocalFileSystemAccess,
    S3AnonymousCredentials,
    S3Credentials,
    S3FixedCredentials,
    S3FromEnvCredentials,
    S3RefreshableCredentials,
    S3StaticCredentials,
)


def s3_credentials(
    *,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    get_credentials: Callable[[], S3StaticCredentials] | None = None,
    scatter_initial_credentials: bool = False,
) -> AnyS3Credential:
    """One way to sign requests; by default with credentials from the environment.

    Raises ValueError for parts of more than one.
    """
    parts = (access_key_id, secret_access_key, session_token, expires_after)
    ways = (
        any(part is not None for part in parts),
        bool(anonymous),
        bool(from_env),
        get_credentials is not None,
    )
    match ways:
        case (False, False, _, False) if from_env or from_env is None:
            return s3_from_env_credentials()
        case (False, True, False, False):
            return s3_anonymous_credentials()
        case (False, False, False, True) if get_credentials is not None:
            return s3_refreshable_credentials(
                get_credentials, scatter_initial_credentials=scatter_initial_credentials
            )
        case (True, False, False, False) if access_key_id and secret_access_key:
            return s3_static_credentials(
                access_key_id=access_key_id,
                secret_access_key=secret_access_key,
                session_token=session_token,
                expires_after=expires_after,
            )
        case _:
            raise _conflict_error("s3_credentials")


def s3_static_credentials(
    *,
    access_key_id: str,
    secret_access_key: str,
    session_token: str | None = None,
    expires_after: datetime | None = None,
) -> S3FixedCredentials:
    static = S3StaticCredentials(access_key_id, secret_access_key, session_token, expires_after)
    return S3FixedCredentials(static)


def s3_anonymous_credentials() -> S3AnonymousCredentials:
    """Requests are not signed."""
    return S3AnonymousCredentials()


def s3_from_env_credentials() -> S3FromEnvCredentials:
    """Variables of the environment, or what the machine offers to its programs."""
    return S3FromEnvCredentials()


def s3_refreshable_credentials(
    get_credentials: Callable[[], S3StaticCredentials],
    scatter_initial_credentials: bool = False,  # noqa: FBT001, FBT002 -- as in the reference
) -> S3RefreshableCredentials:
    """Credentials of a function, which is called again when they expire. It must be picklable.

    With `scatter_initial_credentials` it is called now, and its result is part of pickles, so that
    many copies need not call it all at once.
    """
    current = get_credentials() if scatter_initial_credentials else None
    return S3RefreshableCredentials(pickle.dumps(get_credentials), current)


def gcs_credentials(
    *,
    service_account_file: str | None = None,
    service_account_key: str | None = None,
    application_credentials: str | None = None,
    bearer_token: str | None = None,
    from_env: bool | None = None,
    anonymous: bool | None = None,
    get_credentials: Callable[[], GcsBearerCredential] | None = None,
    scatter_initial_credentials: bool = False,
) -> AnyGcsCredential:
    """One way to sign requests; by default with credentials from the environment.

    Raises ValueError for parts of more than one.
    """
    if anonymous:
        return gcs_anonymous_credentials()
    parts = (service_account_file, service_account_key, application_credentials, bearer_token)
    static = any(part is not None for part in parts)
    if get_credentials is not None and not static and not from_env:
        return gcs_refreshable_credentials(
            get_credentials, scatter_initial_credentials=scatter_initial_credentials
        )
    if static and not from_env and get_credentials is None:
        return GcsFixedCredentials(
            gcs_static_credentials(
                service_account_file=service_account_file,
                service_account_key=service_account_key,
                application_credentials=application_credentials,
                bearer_token=bearer_token,
            )
        )
    if static or get_credentials is not None or from_env is False:
        raise _conflict_error("gcs_credentials")
    return gcs_from_env_credentials()


def gcs_static_credentials(
    *,
    service_account_file: str | None = None,
    service_account_key: str | None = None,
    application_credentials: str | None = None,
    bearer_token: str | None = None,
) -> AnyGcsStaticCredential:
    if service_account_file is not None:
        return GcsServiceAccount(service_account_file)
    if service_account_key is not None:
        return GcsServiceAccountKey(service_account_key)
    if application_credentials is not None:
        return GcsApplicationCredentials(application_credentials)
    if bearer_token is not None:
        return GcsBearerToken(bearer_token)
    raise _conflict_error("gcs_static_credentials")


def gcs_refreshable_credentials(
    get_credentials: Callable[[], GcsBearerCredential],
    scatter_initial_credentials: bool = False,  # noqa: FBT001, FBT002 -- as in the reference
) -> GcsRefreshableCredentials:
    """Credentials of a function, like `s3_refreshable_credentials`."""
    current = get_credentials() if scatter_initial_credentials else None
    return GcsRefreshableCredentials(pickle.dumps(get_credentials), current)


def gcs_anonymous_credentials() -> GcsAnonymousCredentials:
    """Requests are not signed."""
    return GcsAnonymousCredentials()


def gcs_from_env_credentials() -> GcsFromEnvCredentials:
    """Variables of the environment, or what the machine offers to its programs."""
    return GcsFromEnvCredentials()


def azure_credentials(
    *,
    access_key: str | None = None,
    sas_token: str | None = None,
    bearer_token: str | None = None,
    from_env: bool | None = None,
    anonymous: bool | None = None,
    get_credentials: Callable[[], AzureRefreshableCredential] | None = None,
    scatter_initial_credentials: bool = False,
) -> AnyAzureCredential:
    """One way to sign requests; by default with credentials from the environment.

    Raises ValueError for parts of more than one.
    """
    if anonymous:
        return azure_anonymous_credentials()
    if get_credentials is not None:
        return azure_refreshable_credentials(
            get_credentials, scatter_initial_credentials=scatter_initial_credentials
        )
    static = any(part is not None for part in (access_key, sas_token, bearer_token))
    if static and not from_env:
        return AzureFixedCredentials(
            azure_static_credentials(
                access_key=access_key, sas_token=sas_token, bearer_token=bearer_token
            )
        )
    if static or from_env is False:
        raise _conflict_error("azure_credentials")
    return azure_from_env_credentials()


def azure_static_credentials(
    *,
    access_key: str | None = None,
    sas_token: str | None = None,
    bearer_token: str | None = None,
) -> AnyAzureStaticCredential:
    """Exactly one of them, or ValueError."""
    match (access_key, sas_token, bearer_token):
        case (str() as key, None, None):
            return AzureAccessKey(key)
        case (None, str() as token, None):
            return AzureSasToken(token)
        case (None, None, str() as token):
            return AzureBearerToken(token)
        case _:
            raise _conflict_error("azure_static_credentials")


def azure_refreshable_credentials(
    get_credentials: Callable[[], AzureRefreshableCredential],
    scatter_initial_credentials: bool = False,  # noqa: FBT001, FBT002 -- as in the reference
) -> AzureRefreshableCredentials:
    """Credentials of a function, like `s3_refreshable_credentials`."""
    current = get_credentials() if scatter_initial_credentials else None
    return AzureRefreshableCredentials(pickle.dumps(get_credentials), current)


def azure_from_env_credentials() -> AzureFromEnvCredentials:
    """Variables of the environment, or what the machine offers to its programs."""
    return AzureFromEnvCredentials()


def azure_anonymous_credentials() -> AzureAnonymousCredentials:
    """Requests are not signed."""
    return AzureAnonymousCredentials()


def containers_credentials(
    m: Mapping[
        str,
        AnyS3Credential
        | AnyGcsCredential
        | AnyAzureCredential
        | LocalFileSystemAccess
        | HttpAccess
        | None,
    ],
) -> dict[str, AnyCredential | None]:
    """Credentials by url prefix of a virtual chunk container, for `Repository.open`."""
    return {prefix: _wrap(given) for prefix, given in m.items()}


def _wrap(given: object) -> AnyCredential | None:
    match given:
        case None:
            return None
        case S3Credentials():
            return CredentialsForS3(given)
        case GcsCredentials():
            return CredentialsForGcs(given)
        case AzureCredentials():
            return CredentialsForAzure(given)
        case _ if isinstance(given, AnyCredential):
            return given
        case _:
            raise ValueError(f"Unknown credential type {type(given)}")


def _conflict_error(function: str) -> ValueError:
    return ValueError(f"Conflicting arguments to {function} function")
