"""Where repositories are kept, under the name it has in Icechunk."""

from frazil.api.storage import Storage, in_memory_storage, local_filesystem_storage
from frazil.format.config import (
    ChecksumAlgorithm,
    ObjectStoreConfig,
    S3Options,
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
)
from frazil.zarrstore.references import ChunkType

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
