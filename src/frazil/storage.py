"""Where repositories are kept, under the name it has in Icechunk."""

from frazil.api import (
    ChecksumAlgorithm,
    ChunkType,
    ObjectStoreConfig,
    S3Options,
    Storage,
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
    in_memory_storage,
    local_filesystem_storage,
)

__all__ = [
    "ChecksumAlgorithm",
    "ChunkType",
    "ObjectStoreConfig",
    "S3Options",
    "Storage",
    "StorageConcurrencySettings",
    "StorageRetriesSettings",
    "StorageSettings",
    "StorageTimeoutSettings",
    "in_memory_storage",
    "local_filesystem_storage",
]
