"""Storage of repositories: the class. Functions that make one are in storage_functions.py.

Names and parameters are those of the `icechunk` package.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from frazil.dataclass import dataclass
from frazil.engine.files.object_keys import REPO_INFO, V1_MAIN_BRANCH
from frazil.engine.files.object_stores import TIGRIS_ENDPOINT, header_pairs, s3_place, with_settings
from frazil.errors import (
    InvalidInputError,
    RepositoryNotFoundError,
    StorageError,
    require_type,
)
from frazil.format.records import Displayed, View
from frazil.format.storage_config import (
    S3Options,
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
)
from frazil.lazy import lazy_module
from frazil.objectstore import remote
from frazil.objectstore.keys import clean_prefix
from frazil.objectstore.local import LocalStore
from frazil.objectstore.protocol import ObjectStore

if TYPE_CHECKING:
    from frazil.objectstore import credentials as creds
    from frazil.objectstore import memory
else:
    creds = lazy_module("frazil.objectstore.credentials")
    memory = lazy_module("frazil.objectstore.memory")

type Headers = Mapping[str, str] | None

_TITLE = "frazil.Storage"
_HEADER_NAME = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # RFC 9110, 5.6.2
_HEADER_VALUE = r"[\t\x20-\x7e\x80-\xff]*"
_TIGRIS_HOSTS = ("t3.storage.dev", "fly.storage.tigris.dev", "t3.tigrisfiles.io")


@dataclass(frozen=True, slots=True)
class StorageObjectInfo:
    """An object, by its key below the storage's prefix."""

    key: str
    size_bytes: int
    created_at: datetime


class Storage(Displayed):
    """A place for one repository. Made by `s3_storage` and the like, or around any ObjectStore."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    def __repr__(self) -> str:
        match self.store:
            case LocalStore(root=root):
                return f"Storage.new_local_filesystem({root!r})"
            case memory.MemoryStore():
                return "Storage.new_in_memory()"
            case store:
                return f"Storage({store!r})"

    def __view__(self) -> View:
        """The location, without anything secret."""
        match self.store:
            case LocalStore(root=root):
                return View(_TITLE, [("type", "local filesystem"), ("path", str(root))])
            case memory.MemoryStore():
                return View(_TITLE, [("type", "in memory")])
        place = self.store.place
        if place is None:
            return View(_TITLE, [("type", repr(self.store))])
        kind, known = place.location.partition(":")[0], ("account", "bucket", "container")
        given = [(name, getattr(place, name, None)) for name in (*known, "prefix", "region")]
        shown = [("url", place.location), *((name, value) for name, value in given if value)]
        return View(_TITLE, [("type", kind), *shown])

    # Objects and settings

    def default_settings(self) -> StorageSettings:
        """Returns settings that differ from the defaults, for which None stands."""
        match self.store:
            case LocalStore():
                request_bytes = 4096
            case memory.MemoryStore():
                request_bytes = 1
            case _:
                return StorageSettings()
        return StorageSettings(
            concurrency=StorageConcurrencySettings(5, request_bytes),
            retries=StorageRetriesSettings(1, 0, 0),
        )

    def list_objects(
        self, settings: StorageSettings | None = None, prefix: str | None = None
    ) -> list[tuple[str, int]]:
        """Keys and sizes; `list_objects_metadata` tells more."""
        found = self.list_objects_metadata(settings, prefix)
        return [(info.key, info.size_bytes) for info in found]

    def list_objects_metadata(
        self, settings: StorageSettings | None = None, prefix: str | None = None
    ) -> list[StorageObjectInfo]:
        """Objects in the directory `prefix`, by their keys below it."""
        directory = clean_prefix(prefix)
        start = f"{directory}/" if directory else ""
        return [
            StorageObjectInfo(
                info.key.removeprefix(start),
                info.size_bytes,
                datetime.fromtimestamp(info.modified_at_us / 1e6, UTC),
            )
            for info in with_settings(self.store, settings).list(start)
        ]

    # Kinds of storage

    @classmethod
    def new_in_memory(cls) -> "Storage":
        return cls(memory.MemoryStore())

    @classmethod
    def new_local_filesystem(cls, path: str | os.PathLike[str]) -> "Storage":
        return cls(LocalStore(path))

    @classmethod
    def new_s3(
        cls,
        config: S3Options,
        bucket: str,
        prefix: str | None,
        credentials: "creds.S3Credentials | None" = None,
        legacy_rooted_keys: bool | None = None,  # noqa: FBT001 -- as in the reference
        *,
        read_headers: Headers = None,
        write_headers: Headers = None,
        headers: Headers = None,
    ) -> "Storage":
        if _is_tigris(config.endpoint_url):
            raise StorageError(
                "Tigris Storage is not S3 compatible, use the Tigris specific constructor instead",
                kind="storage-other",
            )
        place = _s3(config, bucket, prefix, credentials)
        place = with_headers(place, headers, read_headers, write_headers)
        return cls(_s3_store(place, rooted=legacy_rooted_keys))

    @classmethod
    def new_s3_object_store(
        cls,
        config: S3Options,
        bucket: str,
        prefix: str | None,
        credentials: "creds.S3Credentials | None" = None,
        *,
        read_headers: Headers = None,
        write_headers: Headers = None,
        headers: Headers = None,
    ) -> "Storage":
        """The same as `new_s3` here: there is one way to S3."""
        place = _s3(config, bucket, prefix, credentials)
        return cls(remote.RemoteStore(with_headers(place, headers, read_headers, write_headers)))

    @classmethod
    def new_tigris(  # noqa: PLR0917 -- as in the reference
        cls,
        config: S3Options,
        bucket: str,
        prefix: str | None,
        use_weak_consistency: bool,  # noqa: FBT001 -- as in the reference
        credentials: "creds.S3Credentials | None" = None,
        legacy_rooted_keys: bool | None = None,  # noqa: FBT001 -- same
        *,
        read_headers: Headers = None,
        write_headers: Headers = None,
        headers: Headers = None,
    ) -> "Storage":
        if config.region is None and not use_weak_consistency:
            raise StorageError(
                "Tigris storage requires a region to provide full consistency. Either set the"
                " region for the bucket or use the read-only, eventually consistent storage by"
                " passing `use_weak_consistency=True` (experts only)",
                kind="storage-other",
            )
        place = replace(
            _s3(config, bucket, prefix, credentials),
            endpoint_url=config.endpoint_url or TIGRIS_ENDPOINT,
            region=config.region or "auto",
            writable=not use_weak_consistency,
            scheme="tigris",
        )
        # The nearest copy may be old: conditions and reads are to be settled in one region.
        settled: Headers = None
        if config.region is not None and not use_weak_consistency:
            settled = {
                "X-Tigris-Regions": config.region,
                "X-Tigris-Consistent": "true",
                "Cache-Control": "no-cache",
            }
        everywhere = {**(settled or {}), **(headers or {})}
        place = with_headers(place, everywhere, read_headers, write_headers)
        return cls(_s3_store(place, rooted=legacy_rooted_keys))

    @classmethod
    def new_r2(  # noqa: PLR0917 -- as in the reference
        cls,
        config: S3Options,
        bucket: str | None = None,
        prefix: str | None = None,
        account_id: str | None = None,
        credentials: "creds.S3Credentials | None" = None,
        legacy_rooted_keys: bool | None = None,  # noqa: FBT001 -- as in the reference
        *,
        read_headers: Headers = None,
        write_headers: Headers = None,
        headers: Headers = None,
    ) -> "Storage":
        if bucket is None:
            if not clean_prefix(prefix):
                raise _config_error("Either bucket or prefix must be provided.")
            bucket, _, prefix = clean_prefix(prefix).partition("/")
        endpoint = config.endpoint_url
        if endpoint is None:
            if account_id is None:
                raise _config_error("Either endpoint_url or account_id must be provided.")
            endpoint = f"https://{account_id}.r2.cloudflarestorage.com"
        place = replace(
            _s3(config, bucket, prefix, credentials),
            endpoint_url=endpoint,
            region=config.region or "auto",
            force_path_style=True,
            scheme="r2",
        )
        place = with_headers(place, headers, read_headers, write_headers)
        return cls(_s3_store(place, rooted=legacy_rooted_keys))

    @classmethod
    def new_hf(  # noqa: PLR0917 -- as in the reference
        cls,
        config: S3Options,
        bucket: str,
        prefix: str | None,
        namespace: str,
        credentials: "creds.S3Credentials | None" = None,
        legacy_rooted_keys: bool | None = None,  # noqa: FBT001 -- as in the reference
        *,
        read_headers: Headers = None,
        write_headers: Headers = None,
        headers: Headers = None,
    ) -> "Storage":
        """Hugging Face, which keeps no metadata of objects."""
        place = replace(
            _s3(config, bucket, prefix, credentials),
            endpoint_url=f"https://s3.hf.co/{namespace}",
            region="us-east-1",
            force_path_style=True,
            keeps_metadata=False,
        )
        place = with_headers(place, headers, read_headers, write_headers)
        return cls(_s3_store(place, rooted=legacy_rooted_keys))

    @classmethod
    def new_gcs(
        cls,
        bucket: str,
        prefix: str | None,
        credentials: "creds.GcsCredentials | None" = None,
        *,
        config: Mapping[str, str] | None = None,
        read_headers: Headers = None,
        write_headers: Headers = None,
        headers: Headers = None,
    ) -> "Storage":
        require_type(bucket, str)
        place = remote.GcsPlace(
            bucket=bucket,
            prefix=clean_prefix(prefix),
            credentials=credentials or creds.GcsFromEnvCredentials(),
            config=header_pairs(config),
            read_headers=merge_headers(headers, read_headers),
            write_headers=merge_headers(headers, write_headers),
        )
        return cls(remote.RemoteStore(place))

    @classmethod
    def new_azure_blob(
        cls,
        account: str,
        container: str,
        prefix: str | None,
        credentials: "creds.AzureCredentials | None" = None,
        *,
        config: Mapping[str, str] | None = None,
    ) -> "Storage":
        place = remote.AzurePlace(
            account=account,
            container=container,
            prefix=clean_prefix(prefix),
            credentials=credentials or creds.AzureFromEnvCredentials(),
            config=header_pairs(config),
        )
        return cls(remote.RemoteStore(place))

    @classmethod
    def new_http(
        cls,
        base_url: str,
        config: Mapping[str, str] | None = None,
        headers: Headers = None,
    ) -> "Storage":
        """Read-only."""
        _require_url(base_url)
        place = remote.HttpPlace(
            base_url=base_url, options=header_pairs(config), headers=merge_headers(headers, None)
        )
        return cls(remote.RemoteStore(place))

    @classmethod
    def new_redirect(cls, base_url: str) -> "Storage":
        """Read-only: what the address redirects to when it is first used."""
        _require_url(base_url)
        return cls(remote.RedirectedStore(base_url))


def store_of(storage: Storage) -> ObjectStore:
    """Raises TypeError if it is no Storage."""
    require_type(storage, Storage)
    return storage.store


@contextmanager
def noting_location(storage: Storage) -> Iterator[None]:
    """Adds the location to an error about a missing repository."""
    try:
        yield
    except RepositoryNotFoundError as error:
        error.add_note(f"no repository was found in {storage!r}")
        raise


def require_prefix(storage: Storage) -> None:
    """Raises InvalidInputError if no repository can be created there."""
    store = store_of(storage)
    if store.writable and store.place is not None and not store.place.prefix:
        raise InvalidInputError(
            "creating a repository at an empty prefix (the object store bucket root) is not"
            " supported since Icechunk v2.1.0; use a non-empty prefix. Existing empty-prefix"
            " repositories can still be opened and updated.",
            kind="empty-prefix-creation",
        )


def _s3_store(
    place: "remote.S3Place", *, rooted: bool | None
) -> "remote.RemoteStore | remote.BucketRoot":
    """`rooted`: keys begin with a slash, as early releases wrote them to the root of a bucket.

    None means that it is detected.
    """
    if rooted and place.prefix:
        raise StorageError(
            "legacy_rooted_keys is only valid with an empty prefix", kind="storage-other"
        )
    if rooted is None and not place.prefix:
        return remote.BucketRoot(place, (REPO_INFO, V1_MAIN_BRANCH))
    return remote.RemoteStore(replace(place, rooted=bool(rooted)))


def with_headers(
    place: "remote.S3Place", both: Headers, read: Headers, write: Headers
) -> "remote.S3Place":
    """Raises ValueError for what is no header."""
    return replace(
        place,
        read_headers=merge_headers(both, read),
        write_headers=merge_headers(both, write),
    )


def merge_headers(both: Headers, own: Headers) -> tuple[tuple[str, str], ...]:
    """Merges headers of all requests with those of one kind, which win. Raises ValueError.

    A value may be a secret, and is not part of the message.
    """
    merged = {**(both or {}), **(own or {})}
    for name, value in merged.items():
        if not re.fullmatch(_HEADER_NAME, name):
            raise ValueError(f"invalid HTTP header name {name!r}")
        if not re.fullmatch(_HEADER_VALUE, value):
            raise ValueError(f"invalid HTTP header value for {name!r}")
    return tuple(merged.items())


def _s3(
    config: S3Options, bucket: str, prefix: str | None, credentials: "creds.S3Credentials | None"
) -> "remote.S3Place":
    require_type(bucket, str)
    default = creds.S3AnonymousCredentials() if config.anonymous else creds.S3FromEnvCredentials()
    return s3_place(
        config, bucket=bucket, credentials=credentials or default, prefix=clean_prefix(prefix)
    )


def _is_tigris(endpoint_url: str | None) -> bool:
    return urlsplit(endpoint_url or "").hostname in _TIGRIS_HOSTS


def _config_error(message: str) -> StorageError:
    return StorageError(f"storage configuration error: {message}", kind="storage-config")


def _require_url(url: str) -> None:
    if "://" not in url:
        raise StorageError(
            f"error parsing URL: {url!r}: relative URL without a base", kind="cannot-parse-url"
        )
