"""How object stores are reached, as a configuration says it. Names as in the `icechunk` package.

Fields left at None mean "the default", which the layer that acts on them knows.
"""

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import ClassVar

from frazil.format.records import NONZERO_U16, NONZERO_U64, U32, U64, Record


class ChecksumAlgorithm(Enum):
    """Value: how a configuration file spells it."""

    Crc32 = "crc32"
    Crc32c = "crc32c"
    Crc64Nvme = "crc64_nvme"
    Sha1 = "sha1"
    Sha256 = "sha256"


@dataclass(slots=True)
class S3Options(Record):
    region: str | None = None
    endpoint_url: str | None = None
    allow_http: bool = False
    anonymous: bool = False
    force_path_style: bool = False
    network_stream_timeout_seconds: int | None = field(default=None, metadata=U32)
    requester_pays: bool = False
    checksum_algorithm: ChecksumAlgorithm | None = None


class ObjectStoreConfig(Record):
    """One kind of object store; the alternatives hang on this class."""

    __slots__ = ()
    InMemory: ClassVar[type["InMemoryStoreConfig"]]
    LocalFileSystem: ClassVar[type["LocalStoreConfig"]]
    S3: ClassVar[type["S3StoreConfig"]]
    S3Compatible: ClassVar[type["S3CompatibleStoreConfig"]]
    Tigris: ClassVar[type["TigrisStoreConfig"]]
    Gcs: ClassVar[type["GcsStoreConfig"]]
    Azure: ClassVar[type["AzureStoreConfig"]]
    Http: ClassVar[type["HttpStoreConfig"]]

    def __repr__(self) -> str:
        name = next(n for n, each in vars(ObjectStoreConfig).items() if each is type(self))
        values = [repr(getattr(self, each.name)) for each in fields(self) if each.repr]  # type: ignore[arg-type]  # its alternatives are dataclasses
        return f"ObjectStoreConfig.{name}({', '.join(values)})"


@dataclass(slots=True, repr=False)
class InMemoryStoreConfig(ObjectStoreConfig):
    pass


@dataclass(slots=True, repr=False)
class LocalStoreConfig(ObjectStoreConfig):
    path: str


@dataclass(slots=True, repr=False)
class S3StoreConfig(ObjectStoreConfig):
    options: S3Options


@dataclass(slots=True, repr=False)
class S3CompatibleStoreConfig(ObjectStoreConfig):
    options: S3Options


@dataclass(slots=True, repr=False)
class TigrisStoreConfig(ObjectStoreConfig):
    options: S3Options


@dataclass(slots=True, repr=False)
class GcsStoreConfig(ObjectStoreConfig):
    opts: dict[str, str] | None = None


@dataclass(slots=True, repr=False)
class AzureStoreConfig(ObjectStoreConfig):
    opts: dict[str, str] | None = None


@dataclass(slots=True, repr=False)
class HttpStoreConfig(ObjectStoreConfig):
    opts: dict[str, str] | None = None
    headers: dict[str, str] | None = field(default=None, repr=False)  # may hold credentials


ObjectStoreConfig.InMemory = InMemoryStoreConfig
ObjectStoreConfig.LocalFileSystem = LocalStoreConfig
ObjectStoreConfig.S3 = S3StoreConfig
ObjectStoreConfig.S3Compatible = S3CompatibleStoreConfig
ObjectStoreConfig.Tigris = TigrisStoreConfig
ObjectStoreConfig.Gcs = GcsStoreConfig
ObjectStoreConfig.Azure = AzureStoreConfig
ObjectStoreConfig.Http = HttpStoreConfig


@dataclass(slots=True)
class VirtualChunkContainer(Record):
    """A place outside the repository that virtual chunks may be in."""

    url_prefix: str
    store: ObjectStoreConfig
    name: str | None = None


@dataclass(slots=True)
class StorageConcurrencySettings(Record):
    max_concurrent_requests_for_object: int | None = field(default=None, metadata=NONZERO_U16)
    ideal_concurrent_request_size: int | None = field(default=None, metadata=NONZERO_U64)


@dataclass(slots=True)
class StorageRetriesSettings(Record):
    max_tries: int | None = field(default=None, metadata=NONZERO_U16)
    initial_backoff_ms: int | None = field(default=None, metadata=U32)
    max_backoff_ms: int | None = field(default=None, metadata=U32)


@dataclass(slots=True)
class StorageTimeoutSettings(Record):
    connect_timeout_ms: int | None = field(default=None, metadata=U32)
    read_timeout_ms: int | None = field(default=None, metadata=U32)
    operation_timeout_ms: int | None = field(default=None, metadata=U32)
    operation_attempt_timeout_ms: int | None = field(default=None, metadata=U32)


@dataclass(slots=True)
class StorageSettings(Record):
    concurrency: StorageConcurrencySettings | None = None
    retries: StorageRetriesSettings | None = None
    unsafe_use_conditional_create: bool | None = None
    unsafe_use_conditional_update: bool | None = None
    unsafe_use_metadata: bool | None = None
    storage_class: str | None = None
    metadata_storage_class: str | None = None
    chunks_storage_class: str | None = None
    minimum_size_for_multipart_upload: int | None = field(default=None, metadata=U64)
    timeouts: StorageTimeoutSettings | None = None
