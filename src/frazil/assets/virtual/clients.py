"""Clients for stores with virtual chunks; the repository's own store is one of them."""

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import replace
from threading import Lock

from frazil.assets.object_stores import open_source
from frazil.assets.virtual.access import Grant, Home, VirtualAccess, VirtualChunkAccess
from frazil.assets.virtual.endpoints import ANY, endpoint_of
from frazil.format.storage_config import (
    AzureStoreConfig,
    GcsStoreConfig,
    HttpStoreConfig,
    LocalStoreConfig,
    S3Options,
    S3StoreConfig,
    TigrisStoreConfig,
)
from frazil.format.urls import place_of, regular
from frazil.objectstore.credentials import CredentialsForAzure, CredentialsForGcs, CredentialsForS3
from frazil.objectstore.local.source import LocalSource
from frazil.objectstore.protocol import ObjectStore, SourceStore
from frazil.objectstore.remote.azure import AzurePlace
from frazil.objectstore.remote.gcs import GcsPlace
from frazil.objectstore.remote.redirect import GuardedSource
from frazil.objectstore.remote.s3 import S3Place


class SourceClients:
    """Cache of at most `limit` clients, by least recent use.

    Concurrent callers share one client. A client that failed to open is not kept: the next caller
    tries again. A forked child opens its own.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = Lock()
        self._made: OrderedDict[Hashable, Future[SourceStore]] = OrderedDict()

    def find(self, name: Hashable, make: Callable[[], SourceStore]) -> SourceStore:
        key = (os.getpid(), name)
        with self._lock:
            client = self._made.get(key)
            is_mine = client is None
            if client is None:
                client = self._made[key] = Future()
            self._made.move_to_end(key)
            while len(self._made) > self.limit:
                self._made.popitem(last=False)
        if is_mine:
            self._make(key, client, make)
        return client.result()

    def _make(
        self, key: Hashable, client: Future[SourceStore], make: Callable[[], SourceStore]
    ) -> None:
        try:
            client.set_result(make())
        except BaseException as error:  # noqa: BLE001 -- raised again by `result`, for all who wait
            with self._lock:
                if self._made.get(key) is client:
                    del self._made[key]
            client.set_exception(error)


def open_source_of(grant: Grant, authority: str, access: VirtualAccess) -> SourceStore:
    """A client for a bucket, an account or a host in the container; or for local files."""
    if isinstance(grant.container.store, LocalStoreConfig):
        own = _directory(grant)
        others = {_directory(each) for each in access.local_grants()} - {own}
        return LocalSource((own, *sorted(others)))
    scheme = grant.container.url_prefix.partition("://")[0]
    source = open_source(
        grant.container.store, authority, grant.credentials, access.settings, scheme=scheme
    )
    if isinstance(grant.container.store, HttpStoreConfig) and access.reads.check_redirects:
        headers = tuple((grant.container.store.headers or {}).items())
        return GuardedSource(source, f"{scheme}://{authority}", headers)
    return source


def _directory(grant: Grant) -> str:
    return "/" + place_of(regular(grant.container.url_prefix)).key


def home_of(store: ObjectStore) -> Home | None:
    """The store as one of virtual chunks; None if it is on no platform of default containers."""
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


def trust_home_endpoint(
    access: VirtualChunkAccess, store: ObjectStore, *, is_given: bool
) -> VirtualChunkAccess:
    """Adds the repository's own endpoint, or all endpoints if the caller gave the containers."""
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
