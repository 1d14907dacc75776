"""Endpoints of virtual chunk containers that a url prefix alone does not authorize.

A caller that authorizes `s3://bucket/` names a bucket, and means the platform's own servers. A
container that the repository stores may name another server for the bucket, or a proxy: a stranger
would then choose which hosts receive requests, and signatures made for them. So the caller must
authorize the endpoint as well: with a configuration that has the container in it, by opening a
repository whose own storage has that endpoint, or by naming the endpoint.
"""

import re
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from frazil.format.storage_config import (
    AzureStoreConfig,
    GcsStoreConfig,
    HttpStoreConfig,
    ObjectStoreConfig,
    S3CompatibleStoreConfig,
    S3Options,
    S3StoreConfig,
    TigrisStoreConfig,
    VirtualChunkContainer,
)

ANY = "*"
# Servers that only the platform itself can have. Not all of amazonaws.com: customers have hosts.
_OF_AMAZON = re.compile(
    r"s3(?:-fips|-accelerate|-[a-z]+-[a-z]+-\d)?(?:\.dualstack)?(?:\.[a-z]{2}(?:-[a-z]+)+-\d)?"
    r"\.amazonaws\.com(?:\.cn)?"
)
_OF_TIGRIS = {"t3.storage.dev", "fly.storage.tigris.dev", "t3.storageapi.dev"}
# Options that say how long to wait or which account is meant; any other may redirect requests.
_HARMLESS = re.compile(
    r"(?:azure_storage_)?(?:account|account_name)|(?:google_)?(?:bucket|bucket_name)|region"
    r"|(?:connect_|read_)?timeout|pool_idle_timeout|pool_max_idle_per_host|user_agent"
    r"|(?:azure_|google_|aws_)?allow_http|http[12]_only|http2_max_frame_size"
    r"|http2_keep_alive_(?:interval|timeout|while_idle)"
    r"|(?:google_|azure_|aws_)?skip_signature|default_content_type|randomize_addresses"
)
_LEADING_HEADERS = re.compile(r"host|proxy-.*|x-forwarded-.*|forwarded")


def unauthorized_endpoint(container: VirtualChunkContainer, trusted: Collection[str]) -> str | None:
    """The first endpoint or option that the caller has not authorized; None if there is none."""
    if ANY in trusted:
        return None
    found = _leading(container.store)
    if found is None or _origin(found) in {_origin(each) for each in trusted}:
        return None
    return found


def endpoint_of(store: ObjectStoreConfig) -> str | None:
    """The endpoint that a store configuration names; None for the platform's own."""
    match store:
        case S3StoreConfig(options) | S3CompatibleStoreConfig(options) | TigrisStoreConfig(options):
            return options.endpoint_url
        case AzureStoreConfig(opts) | GcsStoreConfig(opts):
            return _leading_option(opts or {})
        case _:
            return None


def _leading(store: ObjectStoreConfig) -> str | None:
    match store:
        case S3StoreConfig(options) | S3CompatibleStoreConfig(options):
            return _leading_endpoint(options)
        case TigrisStoreConfig(options):
            host = urlsplit(options.endpoint_url or "https://t3.storage.dev").hostname
            return None if host in _OF_TIGRIS else options.endpoint_url
        case GcsStoreConfig(opts) | AzureStoreConfig(opts):
            return _leading_option(opts or {})
        case HttpStoreConfig(opts, headers):
            named = (name for name in headers or {} if _LEADING_HEADERS.fullmatch(name.lower()))
            return _leading_option(opts or {}) or next(named, None)
        case _:
            return None


def _leading_endpoint(options: S3Options) -> str | None:
    endpoint = options.endpoint_url
    if endpoint is None:
        return None
    parts = urlsplit(endpoint)
    is_theirs = parts.scheme == "https" and _OF_AMAZON.fullmatch(parts.hostname or "")
    return None if is_theirs else endpoint


def _leading_option(opts: Mapping[str, str]) -> str | None:
    for name, value in opts.items():
        if not _HARMLESS.fullmatch(name.lower()):
            return value if "://" in value else f"{name}={value}"
    return None


def _origin(endpoint: str) -> str:
    """Compared without what follows the host: `https://x.org/` and `https://X.org` are one."""
    parts = urlsplit(endpoint)
    if not parts.netloc:
        return endpoint
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}"
