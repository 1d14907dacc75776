"""Configuration of object stores and virtual chunk containers. Names as in `icechunk`.

Fields left at None mean "the default", which the layer that acts on them knows.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import field, fields, replace
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from frazil.dataclass import dataclass
from frazil.errors import InvalidInputError
from frazil.flatbuf.ragged import Bools, Ints
from frazil.flatbuf.strings import Strings
from frazil.format.records import NONZERO_U16, NONZERO_U64, U32, U64, Record
from frazil.lazy import lazy_module

if TYPE_CHECKING:
    from frazil.format import urls
else:
    urls = lazy_module("frazil.format.urls")


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


# -------------------------------------------------------------------------------------------------
# Virtual chunk containers: places outside of a repository that its chunks may be in.

_logger = logging.getLogger("frazil")

_SCHEME = r"([A-Za-z][A-Za-z0-9+.-]*):"
_STORES: Mapping[str, tuple[type[ObjectStoreConfig], ...]] = {
    "s3": (S3StoreConfig, S3CompatibleStoreConfig, TigrisStoreConfig),
    "tigris": (TigrisStoreConfig,),
    "gs": (GcsStoreConfig,),
    "gcs": (GcsStoreConfig,),
    "az": (AzureStoreConfig,),
    "azure": (AzureStoreConfig,),
    "abfs": (AzureStoreConfig,),
    "http": (HttpStoreConfig,),
    "https": (HttpStoreConfig,),
    "file": (LocalStoreConfig,),
}
_TAKE_ANY_KEY = (S3StoreConfig, S3CompatibleStoreConfig, TigrisStoreConfig)


def require_container(container: VirtualChunkContainer) -> None:
    """Raises InvalidInputError unless chunks could be found there."""
    prefix, name = container.url_prefix, container.name
    if not prefix.endswith("/"):
        raise _invalid_error("VirtualChunkContainer url_prefix must end in a / character")
    found = re.match(_SCHEME, prefix)
    if found is None:
        raise _invalid_error(f"url_prefix {prefix!r}: relative URL without a base")
    scheme = found[1].lower()
    host, _, path = prefix[found.end() :].removeprefix("//").partition("/")
    if not isinstance(container.store, _STORES.get(scheme, ())):
        raise _invalid_error(
            f"Invalid url prefix scheme ({scheme}) for this object store config:"
            f" ({container.store!r})"
        )
    if scheme == "file" and not path:
        raise _invalid_error("Url prefix for file:// containers must include a path")
    if scheme != "file" and not host:
        raise _invalid_error(f"Url prefix for {scheme}:// containers must include a host")
    if name is not None and (not name or "/" in name):
        raise _invalid_error("VirtualChunkContainer name must be non-empty and not contain '/'")


def _invalid_error(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind="storage-config")


def add_final_slash(container: VirtualChunkContainer) -> VirtualChunkContainer:
    """A stored container, with the final slash that older versions did not require."""
    prefix = container.url_prefix
    return container if prefix.endswith("/") else replace(container, url_prefix=prefix + "/")


@dataclass(frozen=True, slots=True)
class Containers:
    """All containers of one repository. Of several that cover a location the longest prefix wins.

    Prefixes and locations are compared decoded: `a%20b` and `a b` are the same place.
    """

    listed: tuple[VirtualChunkContainer, ...] = ()

    @classmethod
    def of(cls, found: Iterable[VirtualChunkContainer]) -> "Containers":
        return cls(tuple(found))

    @classmethod
    def usable(cls, stored: Iterable[VirtualChunkContainer]) -> "Containers":
        """Without those that no chunk could be read from; the log says which."""
        kept: list[VirtualChunkContainer] = []
        for container in map(add_final_slash, stored):
            try:
                require_container(container)
            except InvalidInputError as error:
                prefix = container.url_prefix
                _logger.warning("virtual chunk container %s is left out: %s", prefix, error)
            else:
                kept.append(container)
        return cls(tuple(kept))

    def named(self, name: str) -> VirtualChunkContainer:
        for container in self.listed:
            if container.name == name:
                return container
        raise urls.unknown_container_error(name)

    def complete(self, location: str) -> str:
        """The location with the prefix of the container that it is relative to."""
        name = urls.container_name(location)
        if name is None:
            return location
        if location == urls.VCC + name:  # without a slash it names nothing in there
            raise urls.unknown_container_error(name)
        return self.named(name).url_prefix + location[len(f"{urls.VCC}{name}/") :]

    def find(self, location: str) -> VirtualChunkContainer | None:
        """The one that covers a regular, complete location."""
        text = urls.decode_path(location)
        fitting = [each for each in self.listed if text.startswith(_comparable(each))]
        return max(fitting, key=lambda each: len(_comparable(each)), default=None)

    def covering(self, texts: Strings) -> Ints:
        """(m,) the number of the container that covers each regular location, -1 if none does."""
        prefixes = [_comparable(each).encode(errors="surrogateescape") for each in self.listed]
        names = [f"{urls.VCC}{each.name}/".encode() for each in self.listed]
        found = urls.longest_prefix(urls.decode_paths(texts), [*prefixes, *names])
        return np.where(found < len(prefixes), found, found - len(prefixes))

    def addressable(self, texts: Strings, containers: Ints) -> Bools:
        """(m,) whether the store of its container can hold an object of that name."""
        careful = np.array([not isinstance(each.store, _TAKE_ANY_KEY) for each in self.listed])
        rows = np.flatnonzero(containers >= 0)
        rows = rows[careful[containers[rows]]] if len(rows) else rows
        answer = np.ones(len(texts), np.bool_)
        for row in rows[self._suspicious(texts.take(rows), containers[rows])].tolist():
            location = urls.normalize_location(self.complete(texts.text(row)))
            answer[row] = not urls.has_odd_segments(urls.place_of(location).key)
        return answer

    def _suspicious(self, texts: Strings, containers: Ints) -> Bools:
        """True where a key may have odd segments; the slashes after the scheme do not count."""
        schemes = [_comparable(each).index("://") + 3 for each in self.listed]
        relative = urls.starts_with(texts, urls.VCC.encode())
        data = urls.decode_paths(texts)
        skipped = np.where(relative, len(urls.VCC), np.array([*schemes, 0])[containers])
        tails = Strings(data.heap, data.start + skipped, data.length - skipped)
        return urls.contains_any(tails, (b"//", b"/."))

    def require_covered(self, location: str) -> None:
        """Raises InvalidInputError if a regular location is nowhere, or names nothing there."""
        texts = Strings.from_list([location])
        found = self.covering(texts)
        if int(found[0]) < 0:
            raise InvalidInputError(
                f"invalid chunk location, no matching virtual chunk container: `{location}`",
                kind="no-container-for-virtual-chunk",
            )
        if not self.addressable(texts, found)[0]:
            raise urls.odd_key(urls.place_of(urls.normalize_location(self.complete(location))).key)

    def covered(self, texts: Strings) -> Bools:
        """(m,) whether `require_covered` would have nothing to say."""
        found = self.covering(texts)
        return (found >= 0) & self.addressable(texts, found)


def require_addressable(store: ObjectStoreConfig, key: str) -> None:
    """Raises InvalidInputError for a key that only S3 could hold."""
    if not isinstance(store, _TAKE_ANY_KEY) and urls.has_odd_segments(key):
        raise urls.odd_key(key)


def _comparable(container: VirtualChunkContainer) -> str:
    return _comparable_prefix(container.url_prefix)


@lru_cache(maxsize=1024)  # asked for every location
def _comparable_prefix(prefix: str) -> str:
    """The prefix as locations are compared with it; that of a default container is a scheme."""
    return prefix if prefix.endswith("://") else urls.decode_path(urls.normalize_location(prefix))
