"""Icechunk repositories in Python: versioned, transactional storage for Zarr arrays."""
# ruff: noqa: F405 -- the names below come from `frazil.api`, whose list is the same: tested

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from frazil import config as config
    from frazil import conflicts as conflicts
    from frazil import credentials as credentials
    from frazil import ops as ops
    from frazil import repository as repository
    from frazil import session as session
    from frazil import snapshots as snapshots
    from frazil import storage as storage
    from frazil import store as store
    from frazil import types as types
    from frazil import virtual as virtual
    from frazil.api import *  # noqa: F403 -- what `__getattr__` finds, for type checkers
    from frazil.compatibility import install_as_icechunk

    __version__: str

__all__ = [
    "AlreadyExistsError",
    "AncestryGraph",
    "AnyAzureCredential",
    "AnyAzureStaticCredential",
    "AnyCredential",
    "AnyGcsCredential",
    "AnyGcsStaticCredential",
    "AnyObjectStoreConfig",
    "AnyS3Credential",
    "Attribution",
    "AzureCredentials",
    "AzureRefreshableCredential",
    "AzureStaticCredentials",
    "BasicConflictSolver",
    "CachingConfig",
    "ChecksumAlgorithm",
    "ChunkType",
    "CommitMethod",
    "CompressionAlgorithm",
    "CompressionConfig",
    "Conflict",
    "ConflictDetector",
    "ConflictError",
    "ConflictSolver",
    "ConflictType",
    "Credentials",
    "Diff",
    "ErrorKind",
    "FeatureFlag",
    "ForkSession",
    "FormatError",
    "GCSummary",
    "GcsBearerCredential",
    "GcsCredentials",
    "GcsStaticCredentials",
    "IcechunkError",
    "IcechunkStore",
    "InternalError",
    "InvalidInputError",
    "ManifestConfig",
    "ManifestFileInfo",
    "ManifestPreloadCondition",
    "ManifestPreloadConfig",
    "ManifestSplitCondition",
    "ManifestSplitDimCondition",
    "ManifestSplittingConfig",
    "ManifestVirtualChunkLocationCompressionConfig",
    "NodeNotFoundError",
    "NotFoundError",
    "ObjectStoreConfig",
    "ReadOnlyError",
    "RebaseFailedError",
    "RefNotFoundError",
    "RepoAvailability",
    "RepoStatus",
    "RepoUpdateRetryConfig",
    "Repository",
    "RepositoryConfig",
    "RepositoryNotFoundError",
    "S3Credentials",
    "S3Options",
    "S3StaticCredentials",
    "Session",
    "SessionMode",
    "SessionStateError",
    "SnapshotInfo",
    "SnapshotNotFoundError",
    "SpecVersion",
    "Storage",
    "StorageConcurrencySettings",
    "StorageError",
    "StorageRetriesSettings",
    "StorageSettings",
    "StorageTimeoutSettings",
    "Update",
    "UpdateType",
    "VersionSelection",
    "VirtualChunkContainer",
    "VirtualChunkSpec",
    "__version__",
    "azure_anonymous_credentials",
    "azure_credentials",
    "azure_from_env_credentials",
    "azure_refreshable_credentials",
    "azure_static_credentials",
    "azure_storage",
    "azure_store",
    "containers_credentials",
    "gcs_credentials",
    "gcs_from_env_credentials",
    "gcs_refreshable_credentials",
    "gcs_static_credentials",
    "gcs_storage",
    "gcs_store",
    "hf_storage",
    "http_storage",
    "http_store",
    "in_memory_storage",
    "initialize_logs",
    "install_as_icechunk",
    "local_filesystem_storage",
    "local_filesystem_store",
    "print_debug_info",
    "r2_storage",
    "read_region",
    "redirect_storage",
    "s3_anonymous_credentials",
    "s3_credentials",
    "s3_from_env_credentials",
    "s3_refreshable_credentials",
    "s3_static_credentials",
    "s3_storage",
    "s3_store",
    "set_logs_filter",
    "shutdown_telemetry",
    "spec_version",
    "supported_spec_versions",
    "tigris_storage",
    "upgrade_icechunk_repository",
    "user_agent",
    "write_region",
]

if not TYPE_CHECKING:  # a type checker would take it to mean that any name is there

    def __getattr__(name: str) -> Any:
        """The public classes, loaded when the first of them is used.

        The one function in an `__init__`, for speed: they need zarr, which takes longer to import
        than all the rest. Spark's workers and `frazil --help` import this package without need of
        it.
        """
        if name == "__version__":
            return import_module("importlib.metadata").version("frazil")
        if name == "install_as_icechunk":
            return import_module("frazil.compatibility").install_as_icechunk
        if name in __all__:
            return getattr(import_module("frazil.api"), name)
        if name in import_module("frazil.compatibility").AT_ONCE:
            return import_module(f"frazil.{name}")
        raise AttributeError(f"module 'frazil' has no attribute {name!r}")
