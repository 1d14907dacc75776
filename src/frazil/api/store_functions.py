"""Kinds of object stores, for virtual chunk containers. Names and parameters are `icechunk`'s."""

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

AnyObjectStoreConfig = (
    InMemoryStoreConfig
    | LocalStoreConfig
    | S3StoreConfig
    | S3CompatibleStoreConfig
    | GcsStoreConfig
    | AzureStoreConfig
    | TigrisStoreConfig
)


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
