"""Object stores and their settings, made from a configuration."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from frazil.engine.files.object_keys import (
    CHUNKS,
    CONFIG_YAML,
    MANIFESTS,
    OVERWRITTEN,
    REFS,
    REPO_INFO,
    SNAPSHOTS,
    TRANSACTIONS,
)
from frazil.errors import StorageError
from frazil.format.storage_config import (
    AzureStoreConfig,
    GcsStoreConfig,
    HttpStoreConfig,
    ObjectStoreConfig,
    S3CompatibleStoreConfig,
    S3Options,
    S3StoreConfig,
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
    TigrisStoreConfig,
)
from frazil.lazy import lazy_module
from frazil.objectstore import remote
from frazil.objectstore.protocol import ObjectStore, RemoteSettings, SourceStore

if TYPE_CHECKING:
    from frazil.objectstore import credentials as creds
else:
    creds = lazy_module("frazil.objectstore.credentials")

TIGRIS_ENDPOINT = "https://t3.storage.dev"
_METADATA = (SNAPSHOTS, MANIFESTS, TRANSACTIONS, OVERWRITTEN, REFS, REPO_INFO, CONFIG_YAML)


def remote_settings(
    given: StorageSettings | None, *, before: RemoteSettings | None = None
) -> RemoteSettings:
    """`given` over the settings `before`; a field that is None keeps the earlier value."""
    settings = given or StorageSettings()
    concurrency = settings.concurrency or StorageConcurrencySettings()
    retries = settings.retries or StorageRetriesSettings()
    timeouts = settings.timeouts or StorageTimeoutSettings()
    given_values = {
        "max_requests_for_object": concurrency.max_concurrent_requests_for_object,
        "request_bytes": concurrency.ideal_concurrent_request_size,
        "multipart_bytes": settings.minimum_size_for_multipart_upload,
        "max_tries": retries.max_tries,
        "initial_backoff_ms": retries.initial_backoff_ms,
        "max_backoff_ms": retries.max_backoff_ms,
        "connect_timeout_ms": timeouts.connect_timeout_ms,
        "read_timeout_ms": timeouts.read_timeout_ms,
        "attempt_timeout_ms": timeouts.operation_attempt_timeout_ms,
        "operation_timeout_ms": timeouts.operation_timeout_ms,
        "conditional_create": settings.unsafe_use_conditional_create,
        "conditional_update": settings.unsafe_use_conditional_update,
        "metadata": settings.unsafe_use_metadata,
        "storage_classes": _storage_classes(settings) or None,
    }
    known = {name: value for name, value in given_values.items() if value is not None}
    return replace(before or RemoteSettings(), **known)  # type: ignore[arg-type]  # by their names


def _storage_classes(settings: StorageSettings) -> tuple[tuple[str, str], ...]:
    chunks = settings.chunks_storage_class or settings.storage_class
    others = settings.metadata_storage_class or settings.storage_class
    wanted = ((CHUNKS, chunks), *((start, others) for start in _METADATA))
    return tuple((start, name) for start, name in wanted if name is not None)


def portable_settings(stored: StorageSettings | None) -> StorageSettings | None:
    """The saved settings of a repository that hold for the store that it is in now.

    Capabilities of the store are left out: the repository may have been copied from another one.
    The reference saves the settings of a local directory, tiny requests and no retries, with every
    repository that it creates in one: these are left out too.
    """
    if stored is None:
        return None
    kept = replace(
        stored,
        unsafe_use_conditional_create=None,
        unsafe_use_conditional_update=None,
        unsafe_use_metadata=None,
    )
    if stored.concurrency == StorageConcurrencySettings(5, 4096):
        return replace(kept, concurrency=None, retries=None)
    return kept


def with_settings(
    store: ObjectStore, settings: StorageSettings | None, *, max_requests: int | None = None
) -> ObjectStore:
    """The store with the settings of a configuration; only remote stores have any.

    `max_requests` bounds the concurrent requests of the whole store.
    """

    def change(before: RemoteSettings) -> RemoteSettings:
        changed = remote_settings(settings, before=before)
        if max_requests is None:
            return changed
        return replace(changed, max_requests=max(1, max_requests))

    return store.with_settings(change)


def open_source(
    config: ObjectStoreConfig,
    authority: str,
    credentials: "creds.AnyCredential | None",
    settings: StorageSettings,
    *,
    scheme: str = "https",
) -> SourceStore:
    """A store of virtual chunks: the bucket, container or host that `authority` names.

    `scheme` matters only for web servers.
    """
    return remote.RemoteSource(
        place_of_config(config, authority, credentials, scheme=scheme), remote_settings(settings)
    )


def place_of_config(
    config: ObjectStoreConfig,
    authority: str,
    credentials: "creds.AnyCredential | None",
    *,
    scheme: str,
) -> "remote.RemotePlace":
    match config:
        case S3StoreConfig(options) | S3CompatibleStoreConfig(options):
            return s3_place(options, bucket=authority, credentials=_for_s3(options, credentials))
        case TigrisStoreConfig(options):
            found = _for_s3(options, credentials)
            place = s3_place(options, bucket=authority, credentials=found)
            return replace(place, endpoint_url=options.endpoint_url or TIGRIS_ENDPOINT)
        case GcsStoreConfig(opts):
            return remote.GcsPlace(
                bucket=authority,
                prefix="",
                credentials=_for_gcs(credentials),
                config=header_pairs(opts),
            )
        case AzureStoreConfig(opts):
            return _azure_place(opts or {}, authority, _for_azure(credentials))
        case HttpStoreConfig(opts, headers):
            return remote.HttpPlace(
                base_url=f"{scheme}://{authority}",
                options=header_pairs(opts),
                headers=header_pairs(headers),
            )
        case _:
            raise StorageError(f"no objects of others in {config!r}", kind="storage-config")


def s3_place(
    options: S3Options, *, bucket: str, credentials: "creds.S3Credentials", prefix: str = ""
) -> "remote.S3Place":
    checksum = None if options.checksum_algorithm is None else options.checksum_algorithm.value
    if checksum is not None:
        remote.require_checksum(checksum)
    timeout_s = options.network_stream_timeout_seconds
    return remote.S3Place(
        bucket=bucket,
        prefix=prefix,
        credentials=credentials,
        region=options.region,
        endpoint_url=options.endpoint_url,
        allow_http=options.allow_http,
        force_path_style=options.force_path_style,
        stream_timeout_s=60 if timeout_s is None else timeout_s,
        requester_pays=options.requester_pays,
        checksum=checksum,
    )


def _azure_place(
    opts: Mapping[str, str], authority: str, credentials: "creds.AzureCredentials"
) -> "remote.AzurePlace":
    """`abfs` locations may name the account: `container@account.dfs.core.windows.net`."""
    container, _, host = authority.partition("@")
    rest = {name: value for name, value in opts.items() if name not in _ACCOUNT_NAMES}
    named = [opts[name] for name in _ACCOUNT_NAMES if name in opts]
    account = named[0] if named else host.partition(".")[0]
    return remote.AzurePlace(
        account=account,
        container=container,
        prefix="",
        credentials=credentials,
        config=header_pairs(rest),
    )


_ACCOUNT_NAMES = ("account", "account_name", "azure_storage_account_name")


def header_pairs(given: Mapping[str, str] | None) -> "remote.Headers":
    return tuple((given or {}).items())


def _for_s3(options: S3Options, given: "creds.AnyCredential | None") -> "creds.S3Credentials":
    if isinstance(given, creds.CredentialsForS3):
        return given.credentials
    return creds.S3AnonymousCredentials() if options.anonymous else creds.S3FromEnvCredentials()


def _for_gcs(given: "creds.AnyCredential | None") -> "creds.GcsCredentials":
    return (
        given.credentials
        if isinstance(given, creds.CredentialsForGcs)
        else creds.GcsAnonymousCredentials()
    )


def _for_azure(given: "creds.AnyCredential | None") -> "creds.AzureCredentials":
    if isinstance(given, creds.CredentialsForAzure):
        return given.credentials
    return creds.AzureFromEnvCredentials()
