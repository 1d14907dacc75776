"""The configuration of a repository: a value that users build, change and store.

Names, parameters and their order are those of the `icechunk` package. None means the default,
which is given beside the field unless it depends on the storage. As there, records are plain and
mutable. How they are stored is in config_codec.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, fields, is_dataclass, replace
from enum import Enum, IntEnum
from typing import Any

from frazil.dataclass import dataclass
from frazil.errors import require_type
from frazil.format.conditions import (
    ManifestPreloadCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
)
from frazil.format.records import I32, U8, U16, U32, U64, Record, unless_set
from frazil.format.storage_config import (
    ChecksumAlgorithm,
    ObjectStoreConfig,
    S3Options,
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
    VirtualChunkContainer,
    require_container,
)

__all__ = [
    "CachingConfig",
    "ChecksumAlgorithm",
    "CompressionAlgorithm",
    "CompressionConfig",
    "ManifestConfig",
    "ManifestPreloadCondition",
    "ManifestPreloadConfig",
    "ManifestSplitCondition",
    "ManifestSplitDimCondition",
    "ManifestSplitValues",
    "ManifestSplittingConfig",
    "ManifestVirtualChunkLocationCompressionConfig",
    "NamedIntEnum",
    "ObjectStoreConfig",
    "RepoUpdateRetryConfig",
    "RepositoryConfig",
    "S3Options",
    "SplitSizesDict",
    "StorageConcurrencySettings",
    "StorageRetriesSettings",
    "StorageSettings",
    "StorageTimeoutSettings",
    "VirtualChunkContainer",
]


class NamedIntEnum(IntEnum):
    """Equal to its number, and printed as `Class.member`, as the reference's are."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __repr__(self) -> str:
        return str(self)

    __format__ = Enum.__format__  # that of an IntEnum would be the number's


type DimSizes = Sequence[tuple[ManifestSplitDimCondition, int]]
type SplitSizes = Sequence[tuple[ManifestSplitCondition, DimSizes]]
type ManifestSplitValues = dict[ManifestSplitDimCondition, int]
type SplitSizesDict = dict[ManifestSplitCondition, ManifestSplitValues]


class CompressionAlgorithm(NamedIntEnum):
    Zstd = 0

    @staticmethod
    def default() -> "CompressionAlgorithm":
        return CompressionAlgorithm.Zstd


@dataclass(slots=True)
class CompressionConfig(Record):
    """Compression of metadata files; chunks are compressed by Zarr's codecs."""

    algorithm: CompressionAlgorithm | None = field(
        default=None, metadata=unless_set(CompressionAlgorithm.Zstd)
    )
    level: int | None = field(default=None, metadata=unless_set(3, U8))

    @staticmethod
    def default() -> "CompressionConfig":
        return CompressionConfig()


@dataclass(slots=True)
class CachingConfig(Record):
    """Sizes of the caches of what has been read."""

    num_snapshot_nodes: int | None = field(default=None, metadata=unless_set(500_000, U64))
    num_chunk_refs: int | None = field(default=None, metadata=unless_set(15_000_000, U64))
    num_transaction_changes: int | None = field(default=None, metadata=unless_set(0, U64))
    num_bytes_attributes: int | None = field(default=None, metadata=unless_set(0, U64))
    num_bytes_chunks: int | None = field(default=None, metadata=unless_set(0, U64))

    @staticmethod
    def default() -> "CachingConfig":
        return CachingConfig()


@dataclass(slots=True)
class ManifestPreloadConfig(Record):
    max_total_refs: int | None = field(default=None, metadata=unless_set(10_000, U32))
    preload_if: ManifestPreloadCondition | None = None
    max_arrays_to_scan: int | None = field(default=None, metadata=unless_set(50, U32))


@dataclass(slots=True)
class ManifestSplittingConfig(Record):
    """Chunks that one manifest covers along each axis; the first rule that fits an axis wins.

    None means one manifest for each array.
    """

    split_sizes: SplitSizes | None = None

    def __post_init__(self) -> None:
        for arrays, sizes in self.split_sizes or ():
            require_type(arrays, ManifestSplitCondition)
            for axes, num_chunks in sizes:
                require_type(axes, ManifestSplitDimCondition)
                U32["limit"].checked("number of chunks", num_chunks)

    @staticmethod
    def from_dict(
        split_sizes: Mapping[ManifestSplitCondition, Mapping[ManifestSplitDimCondition, int]],
    ) -> "ManifestSplittingConfig":
        """Rules in the order of the dict."""
        return ManifestSplittingConfig(
            tuple((arrays, tuple(sizes.items())) for arrays, sizes in split_sizes.items())
        )

    def to_dict(self) -> SplitSizesDict:
        return {arrays: dict(sizes) for arrays, sizes in self.split_sizes or ()}


@dataclass(slots=True)
class ManifestVirtualChunkLocationCompressionConfig(Record):
    min_num_chunks: int | None = field(default=None, metadata=unless_set(1000, U16))
    dictionary_max_training_samples: int | None = field(
        default=None, kw_only=True, metadata=unless_set(100, U16)
    )
    dictionary_max_size_bytes: int | None = field(
        default=None, kw_only=True, metadata=unless_set(2048, U32)
    )
    compression_level: int | None = field(default=None, kw_only=True, metadata=unless_set(3, I32))


@dataclass(slots=True)
class ManifestConfig(Record):
    preload: ManifestPreloadConfig | None = field(
        default=None, metadata=unless_set(ManifestPreloadConfig())
    )
    splitting: ManifestSplittingConfig | None = None
    virtual_chunk_location_compression: ManifestVirtualChunkLocationCompressionConfig | None = None
    max_concurrent_manifest_fetches_during_commit: int | None = field(
        default=None, metadata=unless_set(1, U16)
    )


@dataclass(slots=True)
class RepoUpdateRetryConfig(Record):
    default: StorageRetriesSettings | None = field(
        default=None, metadata=unless_set(StorageRetriesSettings(100, 50, 30_000))
    )


@dataclass(slots=True)
class RepositoryConfig(Record):
    inline_chunk_threshold_bytes: int | None = field(default=None, metadata=unless_set(512, U16))
    get_partial_values_concurrency: int | None = field(default=None, metadata=unless_set(10, U16))
    compression: CompressionConfig | None = field(
        default=None, metadata=unless_set(CompressionConfig())
    )
    max_concurrent_requests: int | None = field(default=None, metadata=unless_set(256, U16))
    caching: CachingConfig | None = field(default=None, metadata=unless_set(CachingConfig()))
    storage: StorageSettings | None = None
    virtual_chunk_containers: dict[str, VirtualChunkContainer] | None = None
    manifest: ManifestConfig | None = field(default=None, metadata=unless_set(ManifestConfig()))
    repo_update_retries: RepoUpdateRetryConfig | None = field(
        default=None, metadata=unless_set(RepoUpdateRetryConfig())
    )
    num_updates_per_repo_info_file: int | None = field(default=None, metadata=unless_set(1000, U16))
    max_concurrent_decodes: int | None = field(default=None, metadata=U16)
    # Stored, and of no use any more.
    previous_file: str | None = field(default=None, init=False, repr=False)

    @staticmethod
    def default() -> "RepositoryConfig":
        return RepositoryConfig()

    def merge(self, other: "RepositoryConfig") -> "RepositoryConfig":
        """A new configuration in which what `other` says wins.

        Parts are merged field by field, except preloading, splitting, and the whole set of
        virtual chunk containers, which are replaced.
        """
        return _merge_values(self, other)

    def set_virtual_chunk_container(self, cont: VirtualChunkContainer) -> None:
        """Adds a container, in place of one with the same prefix or the same name."""
        require_type(cont, VirtualChunkContainer)
        require_container(cont)
        kept = {
            prefix: other
            for prefix, other in (self.virtual_chunk_containers or {}).items()
            if cont.name is None or other.name != cont.name
        }
        self.virtual_chunk_containers = {**kept, cont.url_prefix: cont}

    def get_virtual_chunk_container(self, name: str) -> VirtualChunkContainer | None:
        """The container with this url prefix (the parameter's name is the reference's)."""
        return (self.virtual_chunk_containers or {}).get(name)

    def clear_virtual_chunk_containers(self) -> None:
        """Not the same as None: merged into a stored configuration, it erases what is there."""
        self.virtual_chunk_containers = {}


_REPLACED_WHOLE = (ManifestPreloadConfig, ManifestSplittingConfig, dict)


def _merge_values[T](old: T, new: T) -> T:
    """`new` where it is set, else `old`."""
    if new is None:
        return old
    if old is None or isinstance(new, _REPLACED_WHOLE) or not is_dataclass(new):
        return new
    values: dict[str, Any] = {
        each.name: _merge_values(getattr(old, each.name), getattr(new, each.name))
        for each in fields(new)
        if each.init
    }
    record: Any = new  # a dataclass instance, which T cannot say
    merged: T = replace(record, **values)
    return merged
