"""How a repository itself is reached, for virtual chunks that are on the same platform."""

from dataclasses import replace

from frazil.assets.virtual.access import Home, VirtualChunkAccess
from frazil.assets.virtual.endpoints import ANY, endpoint_of
from frazil.format.storage_config import (
    AzureStoreConfig,
    GcsStoreConfig,
    S3Options,
    S3StoreConfig,
    TigrisStoreConfig,
)
from frazil.objectstore.credentials import CredentialsForAzure, CredentialsForGcs, CredentialsForS3
from frazil.objectstore.protocol import ObjectStore
from frazil.objectstore.remote.azure import AzurePlace
from frazil.objectstore.remote.gcs import GcsPlace
from frazil.objectstore.remote.s3 import S3Place


def home_of(store: ObjectStore) -> Home | None:
    """None if no platform of the default containers is meant."""
    match store.place:
        case S3Place() as place:
            kind = TigrisStoreConfig if place.scheme == "tigris" else S3StoreConfig
            return Home(kind(_s3_options(place)), CredentialsForS3(place.credentials))
        case GcsPlace() as place:
            return Home(GcsStoreConfig(dict(place.config)), CredentialsForGcs(place.credentials))
        case AzurePlace() as place:
            opts = {"account": place.account, **dict(place.config)}
            return Home(AzureStoreConfig(opts), CredentialsForAzure(place.credentials))
        case _:
            return None


def trusting(
    access: VirtualChunkAccess, store: ObjectStore, *, is_given: bool
) -> VirtualChunkAccess:
    """With the endpoint of the repository itself; with all, if the containers are the reader's."""
    if not access.credentials or ANY in access.endpoints:
        return access
    home = None if is_given else home_of(store)
    endpoint = ANY if is_given else None if home is None else endpoint_of(home.store)
    if endpoint is None or endpoint in access.endpoints:
        return access
    return replace(access, endpoints=(*access.endpoints, endpoint))


def _s3_options(place: S3Place) -> S3Options:
    return S3Options(
        region=place.region,
        endpoint_url=place.endpoint_url,
        allow_http=place.allow_http,
        force_path_style=place.force_path_style,
        network_stream_timeout_seconds=place.stream_timeout_s,
        requester_pays=place.requester_pays,
    )
