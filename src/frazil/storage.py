"""Storage of repositories, under the name it has in Icechunk."""

# ruff: noqa: PLC0414 -- a name that is imported `as` itself is re-exported, for type checkers
# ruff: isort: skip_file

from frazil.api.storage import Storage as Storage
from frazil.api.storage_functions import (
    AnyObjectStoreConfig as AnyObjectStoreConfig,
    azure_storage as azure_storage,
    azure_store as azure_store,
    gcs_storage as gcs_storage,
    gcs_store as gcs_store,
    hf_storage as hf_storage,
    http_storage as http_storage,
    http_store as http_store,
    in_memory_storage as in_memory_storage,
    local_filesystem_storage as local_filesystem_storage,
    local_filesystem_store as local_filesystem_store,
    r2_storage as r2_storage,
    redirect_storage as redirect_storage,
    s3_object_store_storage as s3_object_store_storage,
    s3_storage as s3_storage,
    s3_store as s3_store,
    tigris_storage as tigris_storage,
)
from frazil.format.storage_config import (
    ChecksumAlgorithm as ChecksumAlgorithm,
    ObjectStoreConfig as ObjectStoreConfig,
    S3Options as S3Options,
    StorageConcurrencySettings as StorageConcurrencySettings,
    StorageRetriesSettings as StorageRetriesSettings,
    StorageSettings as StorageSettings,
    StorageTimeoutSettings as StorageTimeoutSettings,
)
from frazil.lazy import export_all
from frazil.zarrstore.virtual_listing import ChunkType as ChunkType

export_all(globals())
