"""The chunks of a repository as virtual chunks of another."""

from frazil.assets.layout import CHUNKS
from frazil.errors import InvalidInputError
from frazil.format.storage_config import (
    LocalStoreConfig,
    S3CompatibleStoreConfig,
    S3Options,
    S3StoreConfig,
    VirtualChunkContainer,
)
from frazil.objectstore.credentials import S3AnonymousCredentials
from frazil.objectstore.protocol import ObjectStore
from frazil.objectstore.remote.s3 import S3Place


def container_of(store: ObjectStore) -> VirtualChunkContainer:
    """Where the chunks of a repository are: in a folder, or in S3. No secrets go into it."""
    root, place = store.directory, store.place
    if root is not None:
        return VirtualChunkContainer(f"file://{root}/{CHUNKS}", LocalStoreConfig(root))
    if isinstance(place, S3Place) and place.scheme == "s3" and not place.rooted:
        return VirtualChunkContainer(f"{place.location}/{CHUNKS}", _s3_config(place))
    raise InvalidInputError(
        "a shallow clone of a repository there needs a `container`, which says how its chunks are"
        " reached"
    )


def _s3_config(place: S3Place) -> S3StoreConfig | S3CompatibleStoreConfig:
    options = S3Options(
        region=place.region,
        endpoint_url=place.endpoint_url,
        allow_http=place.allow_http,
        anonymous=isinstance(place.credentials, S3AnonymousCredentials),
        force_path_style=place.force_path_style,
        requester_pays=place.requester_pays,
    )
    return S3CompatibleStoreConfig(options) if place.endpoint_url else S3StoreConfig(options)
