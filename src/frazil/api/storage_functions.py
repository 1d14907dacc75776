"""Storage of repositories, and stores of virtual chunk containers, from their parts.

Names and parameters are those of the `icechunk` package.
"""

import os
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from frazil.api.storage import Storage
from frazil.format.storage_config import (
    AzureStoreConfig,
    ChecksumAlgorithm,
    GcsStoreConfig,
    HttpStoreConfig,
    InMemoryStoreConfig,
    LocalStoreConfig,
    S3CompatibleStoreConfig,
    S3Options,
    S3StoreConfig,
    TigrisStoreConfig,
)
from frazil.lazy import lazy_module

if TYPE_CHECKING:
    from frazil.api import credentials as creds
    from frazil.objectstore.credentials import GcsBearerCredential, S3StaticCredentials
else:  # for buckets only
    creds = lazy_module("frazil.api.credentials")

AnyObjectStoreConfig = (
    InMemoryStoreConfig
    | LocalStoreConfig
    | S3StoreConfig
    | S3CompatibleStoreConfig
    | GcsStoreConfig
    | AzureStoreConfig
    | TigrisStoreConfig
)

# Storage of repositories


def in_memory_storage() -> Storage:
    """A new, empty place in the memory of this process."""
    return Storage.new_in_memory()


def local_filesystem_storage(path: str | os.PathLike[str]) -> Storage:
    """The directory `path`, made when something is written to it.

    Any number of threads and processes may commit to it at once.
    """
    return Storage.new_local_filesystem(path)


def http_storage(
    base_url: str, opts: dict[str, str] | None = None, headers: dict[str, str] | None = None
) -> Storage:
    """Files of a web server below a URL; read-only.

    `opts` are those of the HTTP client of obstore; `headers` go with every request.
    """
    return Storage.new_http(base_url, opts, headers)


def redirect_storage(base_url: str) -> Storage:
    """The place that a URL redirects to (`s3://bucket/prefix?region=...`); read-only, anonymous."""
    return Storage.new_redirect(base_url)


def s3_storage(
    *,
    bucket: str,
    prefix: str | None,
    region: str | None = None,
    endpoint_url: str | None = None,
    allow_http: bool = False,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    get_credentials: "Callable[[], S3StaticCredentials] | None" = None,
    scatter_initial_credentials: bool = False,
    force_path_style: bool = False,
    network_stream_timeout_seconds: int = 60,
    requester_pays: bool = False,
    checksum_algorithm: ChecksumAlgorithm | None = None,
    legacy_rooted_keys: bool | None = None,
    read_headers: dict[str, str] | None = None,
    write_headers: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """A prefix in a bucket of S3, or of a server that speaks its language (`endpoint_url`).

    For credentials see `s3_credentials`. `headers` go with every request, `read_headers` and
    `write_headers` with some, where they take precedence.
    """
    credentials = creds.s3_credentials(
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        session_token=session_token,
        expires_after=expires_after,
        anonymous=anonymous,
        from_env=from_env,
        get_credentials=get_credentials,
        scatter_initial_credentials=scatter_initial_credentials,
    )
    options = S3Options(
        region=region,
        endpoint_url=endpoint_url,
        allow_http=allow_http,
        anonymous=bool(anonymous),
        force_path_style=force_path_style,
        network_stream_timeout_seconds=network_stream_timeout_seconds,
        requester_pays=requester_pays,
        checksum_algorithm=checksum_algorithm,
    )
    return Storage.new_s3(
        options,
        bucket,
        prefix,
        credentials,
        legacy_rooted_keys,
        read_headers=read_headers,
        write_headers=write_headers,
        headers=headers,
    )


def s3_object_store_storage(
    *,
    bucket: str,
    prefix: str | None,
    region: str | None = None,
    endpoint_url: str | None = None,
    allow_http: bool = False,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    force_path_style: bool = False,
    read_headers: dict[str, str] | None = None,
    write_headers: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """A prefix in a bucket of S3, like `s3_storage`, with fewer parameters."""
    credentials = creds.s3_credentials(
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        session_token=session_token,
        expires_after=expires_after,
        anonymous=anonymous,
        from_env=from_env,
    )
    options = S3Options(
        region=region,
        endpoint_url=endpoint_url,
        allow_http=allow_http,
        anonymous=bool(anonymous),
        force_path_style=force_path_style,
    )
    return Storage.new_s3_object_store(
        options,
        bucket,
        prefix,
        credentials,
        read_headers=read_headers,
        write_headers=write_headers,
        headers=headers,
    )


def tigris_storage(
    *,
    bucket: str,
    prefix: str | None,
    region: str | None = None,
    endpoint_url: str | None = None,
    use_weak_consistency: bool = False,
    allow_http: bool = False,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    get_credentials: "Callable[[], S3StaticCredentials] | None" = None,
    scatter_initial_credentials: bool = False,
    network_stream_timeout_seconds: int = 60,
    checksum_algorithm: ChecksumAlgorithm | None = None,
    legacy_rooted_keys: bool | None = None,
    read_headers: dict[str, str] | None = None,
    write_headers: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """A prefix in a bucket of Tigris; read-only, and maybe old, with `use_weak_consistency`."""
    credentials = creds.s3_credentials(
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        session_token=session_token,
        expires_after=expires_after,
        anonymous=anonymous,
        from_env=from_env,
        get_credentials=get_credentials,
        scatter_initial_credentials=scatter_initial_credentials,
    )
    options = S3Options(
        region=region,
        endpoint_url=endpoint_url,
        allow_http=allow_http,
        anonymous=bool(anonymous),
        network_stream_timeout_seconds=network_stream_timeout_seconds,
        checksum_algorithm=checksum_algorithm,
    )
    return Storage.new_tigris(
        options,
        bucket,
        prefix,
        use_weak_consistency,
        credentials,
        legacy_rooted_keys,
        read_headers=read_headers,
        write_headers=write_headers,
        headers=headers,
    )


def r2_storage(
    *,
    bucket: str | None = None,
    prefix: str | None = None,
    account_id: str | None = None,
    endpoint_url: str | None = None,
    region: str | None = None,
    allow_http: bool = False,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    get_credentials: "Callable[[], S3StaticCredentials] | None" = None,
    scatter_initial_credentials: bool = False,
    network_stream_timeout_seconds: int = 60,
    checksum_algorithm: ChecksumAlgorithm | None = None,
    legacy_rooted_keys: bool | None = None,
    read_headers: dict[str, str] | None = None,
    write_headers: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """A prefix in a bucket of Cloudflare R2; without `bucket`, the prefix begins with it."""
    credentials = creds.s3_credentials(
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        session_token=session_token,
        expires_after=expires_after,
        anonymous=anonymous,
        from_env=from_env,
        get_credentials=get_credentials,
        scatter_initial_credentials=scatter_initial_credentials,
    )
    options = S3Options(
        region=region,
        endpoint_url=endpoint_url,
        allow_http=allow_http,
        anonymous=bool(anonymous),
        network_stream_timeout_seconds=network_stream_timeout_seconds,
        checksum_algorithm=checksum_algorithm,
    )
    return Storage.new_r2(
        options,
        bucket,
        prefix,
        account_id,
        credentials,
        legacy_rooted_keys,
        read_headers=read_headers,
        write_headers=write_headers,
        headers=headers,
    )


def hf_storage(
    *,
    bucket: str,
    prefix: str | None,
    namespace: str,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    from_env: bool | None = None,
    get_credentials: "Callable[[], S3StaticCredentials] | None" = None,
    scatter_initial_credentials: bool = False,
    network_stream_timeout_seconds: int = 60,
    legacy_rooted_keys: bool | None = None,
    read_headers: dict[str, str] | None = None,
    write_headers: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """A prefix in a bucket of a user or an organisation (`namespace`) at Hugging Face."""
    credentials = creds.s3_credentials(
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        session_token=session_token,
        expires_after=expires_after,
        from_env=from_env,
        get_credentials=get_credentials,
        scatter_initial_credentials=scatter_initial_credentials,
    )
    return Storage.new_hf(
        S3Options(network_stream_timeout_seconds=network_stream_timeout_seconds),
        bucket,
        prefix,
        namespace,
        credentials,
        legacy_rooted_keys,
        read_headers=read_headers,
        write_headers=write_headers,
        headers=headers,
    )


def gcs_storage(
    *,
    bucket: str,
    prefix: str | None,
    service_account_file: str | None = None,
    service_account_key: str | None = None,
    application_credentials: str | None = None,
    bearer_token: str | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    config: dict[str, str] | None = None,
    get_credentials: "Callable[[], GcsBearerCredential] | None" = None,
    scatter_initial_credentials: bool = False,
    read_headers: dict[str, str] | None = None,
    write_headers: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """A prefix in a bucket of Google Cloud Storage. `config`: options of obstore's GCSStore."""
    credentials = creds.gcs_credentials(
        service_account_file=service_account_file,
        service_account_key=service_account_key,
        application_credentials=application_credentials,
        bearer_token=bearer_token,
        from_env=from_env,
        anonymous=anonymous,
        get_credentials=get_credentials,
        scatter_initial_credentials=scatter_initial_credentials,
    )
    return Storage.new_gcs(
        bucket,
        prefix,
        credentials,
        config=config,
        read_headers=read_headers,
        write_headers=write_headers,
        headers=headers,
    )


def azure_storage(
    *,
    account: str,
    container: str,
    prefix: str,
    access_key: str | None = None,
    sas_token: str | None = None,
    bearer_token: str | None = None,
    from_env: bool | None = None,
    anonymous: bool | None = None,
    config: dict[str, str] | None = None,
) -> Storage:
    """A prefix in a container of Azure Blob Storage. `config`: options of obstore's AzureStore."""
    credentials = creds.azure_credentials(
        access_key=access_key,
        sas_token=sas_token,
        bearer_token=bearer_token,
        from_env=from_env,
        anonymous=anonymous,
    )
    return Storage.new_azure_blob(account, container, prefix, credentials, config=config)


# Object stores of virtual chunk containers


def s3_store(  # noqa: PLR0917 -- as in the reference
    region: str | None = None,
    endpoint_url: str | None = None,
    allow_http: bool = False,  # noqa: FBT001, FBT002 -- same
    anonymous: bool = False,  # noqa: FBT001, FBT002 -- same
    s3_compatible: bool = False,  # noqa: FBT001, FBT002 -- same
    force_path_style: bool = False,  # noqa: FBT001, FBT002 -- same
    network_stream_timeout_seconds: int = 60,
    requester_pays: bool = False,  # noqa: FBT001, FBT002 -- same
    checksum_algorithm: ChecksumAlgorithm | None = None,
) -> S3CompatibleStoreConfig | S3StoreConfig:
    options = S3Options(
        region=region,
        endpoint_url=endpoint_url,
        allow_http=allow_http,
        anonymous=anonymous,
        force_path_style=force_path_style,
        network_stream_timeout_seconds=network_stream_timeout_seconds,
        requester_pays=requester_pays,
        checksum_algorithm=checksum_algorithm,
    )
    return S3CompatibleStoreConfig(options) if s3_compatible else S3StoreConfig(options)


def gcs_store(opts: dict[str, str] | None = None) -> GcsStoreConfig:
    return GcsStoreConfig(opts)


def azure_store(*, account: str, config: dict[str, str] | None = None) -> AzureStoreConfig:
    return AzureStoreConfig({"account": account, **(config or {})})


def http_store(
    opts: dict[str, str] | None = None, headers: dict[str, str] | None = None
) -> HttpStoreConfig:
    """Headers are stored in the repository's configuration, for every reader to see."""
    return HttpStoreConfig(opts, headers)


def local_filesystem_store(path: str) -> LocalStoreConfig:
    return LocalStoreConfig(path)
