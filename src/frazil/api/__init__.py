"""The public names of frazil and the modules that define them.

A name is loaded when it is first used: `frazil log` needs neither zarr nor most of the engine.
"""

# A name that is imported `as` itself is re-exported, for type checkers.
# ruff: isort: skip_file

from typing import TYPE_CHECKING

from frazil.lazy import attach

if TYPE_CHECKING:  # loaded at first use, from the modules below
    from frazil.api.about import (
        initialize_logs as initialize_logs,
        print_debug_info as print_debug_info,
        set_logs_filter as set_logs_filter,
        shutdown_telemetry as shutdown_telemetry,
        spec_version as spec_version,
        supported_spec_versions as supported_spec_versions,
        user_agent as user_agent,
    )
    from frazil.api.attribution import Attribution as Attribution
    from frazil.api.conflicts import (
        BasicConflictSolver as BasicConflictSolver,
        ConflictDetector as ConflictDetector,
        ConflictSolver as ConflictSolver,
    )
    from frazil.api.credentials import (
        azure_anonymous_credentials as azure_anonymous_credentials,
        azure_credentials as azure_credentials,
        azure_from_env_credentials as azure_from_env_credentials,
        azure_refreshable_credentials as azure_refreshable_credentials,
        azure_static_credentials as azure_static_credentials,
        containers_credentials as containers_credentials,
        gcs_credentials as gcs_credentials,
        gcs_from_env_credentials as gcs_from_env_credentials,
        gcs_refreshable_credentials as gcs_refreshable_credentials,
        gcs_static_credentials as gcs_static_credentials,
        s3_anonymous_credentials as s3_anonymous_credentials,
        s3_credentials as s3_credentials,
        s3_from_env_credentials as s3_from_env_credentials,
        s3_refreshable_credentials as s3_refreshable_credentials,
        s3_static_credentials as s3_static_credentials,
    )
    from frazil.api.error_kinds import ErrorKind as ErrorKind
    from frazil.api.history import AncestryGraph as AncestryGraph
    from frazil.api.regions import (
        read_region as read_region,
        write_region as write_region,
    )
    from frazil.api.repository import Repository as Repository
    from frazil.api.session import (
        ForkSession as ForkSession,
        IcechunkStore as IcechunkStore,
        Session as Session,
    )
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
        s3_storage as s3_storage,
        s3_store as s3_store,
        tigris_storage as tigris_storage,
    )
    from frazil.api.updates import (
        Update as Update,
        UpdateType as UpdateType,
    )
    from frazil.api.upgrade import upgrade_icechunk_repository as upgrade_icechunk_repository
    from frazil.api.values import (
        CommitMethod as CommitMethod,
        Diff as Diff,
        FeatureFlag as FeatureFlag,
        ManifestFileInfo as ManifestFileInfo,
        RepoAvailability as RepoAvailability,
        RepoStatus as RepoStatus,
        SessionMode as SessionMode,
        SnapshotInfo as SnapshotInfo,
        SpecVersion as SpecVersion,
    )
    from frazil.errors import (
        AlreadyExistsError as AlreadyExistsError,
        Conflict as Conflict,
        ConflictError as ConflictError,
        ConflictType as ConflictType,
        FormatError as FormatError,
        IcechunkError as IcechunkError,
        InternalError as InternalError,
        InvalidInputError as InvalidInputError,
        NodeNotFoundError as NodeNotFoundError,
        NotFoundError as NotFoundError,
        ReadOnlyError as ReadOnlyError,
        RebaseFailedError as RebaseFailedError,
        RefNotFoundError as RefNotFoundError,
        RepositoryNotFoundError as RepositoryNotFoundError,
        SessionStateError as SessionStateError,
        SnapshotNotFoundError as SnapshotNotFoundError,
        StorageError as StorageError,
    )
    from frazil.format.conditions import (
        ManifestPreloadCondition as ManifestPreloadCondition,
        ManifestSplitCondition as ManifestSplitCondition,
        ManifestSplitDimCondition as ManifestSplitDimCondition,
    )
    from frazil.format.config import (
        CachingConfig as CachingConfig,
        CompressionAlgorithm as CompressionAlgorithm,
        CompressionConfig as CompressionConfig,
        ManifestConfig as ManifestConfig,
        ManifestPreloadConfig as ManifestPreloadConfig,
        ManifestSplittingConfig as ManifestSplittingConfig,
        ManifestVirtualChunkLocationCompressionConfig as ManifestVirtualChunkLocationCompressionConfig,  # noqa: E501 -- a name of the reference
        RepoUpdateRetryConfig as RepoUpdateRetryConfig,
        RepositoryConfig as RepositoryConfig,
    )
    from frazil.format.storage_config import (
        ChecksumAlgorithm as ChecksumAlgorithm,
        ObjectStoreConfig as ObjectStoreConfig,
        S3Options as S3Options,
        StorageConcurrencySettings as StorageConcurrencySettings,
        StorageRetriesSettings as StorageRetriesSettings,
        StorageSettings as StorageSettings,
        StorageTimeoutSettings as StorageTimeoutSettings,
        VirtualChunkContainer as VirtualChunkContainer,
    )
    from frazil.maintenance.summaries import GCSummary as GCSummary
    from frazil.objectstore.credentials import (
        AnyAzureCredential as AnyAzureCredential,
        AnyAzureStaticCredential as AnyAzureStaticCredential,
        AnyCredential as AnyCredential,
        AnyGcsCredential as AnyGcsCredential,
        AnyGcsStaticCredential as AnyGcsStaticCredential,
        AnyS3Credential as AnyS3Credential,
        AzureCredentials as AzureCredentials,
        AzureRefreshableCredential as AzureRefreshableCredential,
        AzureStaticCredentials as AzureStaticCredentials,
        Credentials as Credentials,
        GcsBearerCredential as GcsBearerCredential,
        GcsCredentials as GcsCredentials,
        GcsStaticCredentials as GcsStaticCredentials,
        S3Credentials as S3Credentials,
        S3StaticCredentials as S3StaticCredentials,
    )
    from frazil.engine.merge.solver import VersionSelection as VersionSelection
    from frazil.zarrstore.virtual import VirtualChunkSpec as VirtualChunkSpec
    from frazil.zarrstore.virtual_listing import ChunkType as ChunkType

attach(
    __name__,
    {
        "frazil.api.about": [
            "initialize_logs",
            "print_debug_info",
            "set_logs_filter",
            "shutdown_telemetry",
            "spec_version",
            "supported_spec_versions",
            "user_agent",
        ],
        "frazil.api.attribution": ["Attribution"],
        "frazil.api.conflicts": ["BasicConflictSolver", "ConflictDetector", "ConflictSolver"],
        "frazil.api.credentials": [
            "azure_anonymous_credentials",
            "azure_credentials",
            "azure_from_env_credentials",
            "azure_refreshable_credentials",
            "azure_static_credentials",
            "containers_credentials",
            "gcs_credentials",
            "gcs_from_env_credentials",
            "gcs_refreshable_credentials",
            "gcs_static_credentials",
            "s3_anonymous_credentials",
            "s3_credentials",
            "s3_from_env_credentials",
            "s3_refreshable_credentials",
            "s3_static_credentials",
        ],
        "frazil.api.error_kinds": ["ErrorKind"],
        "frazil.api.history": ["AncestryGraph"],
        "frazil.api.regions": ["read_region", "write_region"],
        "frazil.api.repository": ["Repository"],
        "frazil.api.session": ["ForkSession", "IcechunkStore", "Session"],
        "frazil.api.storage": ["Storage"],
        "frazil.api.storage_functions": [
            "AnyObjectStoreConfig",
            "azure_storage",
            "azure_store",
            "gcs_storage",
            "gcs_store",
            "hf_storage",
            "http_storage",
            "http_store",
            "in_memory_storage",
            "local_filesystem_storage",
            "local_filesystem_store",
            "r2_storage",
            "redirect_storage",
            "s3_storage",
            "s3_store",
            "tigris_storage",
        ],
        "frazil.api.updates": ["Update", "UpdateType"],
        "frazil.api.upgrade": ["upgrade_icechunk_repository"],
        "frazil.api.values": [
            "CommitMethod",
            "Diff",
            "FeatureFlag",
            "ManifestFileInfo",
            "RepoAvailability",
            "RepoStatus",
            "SessionMode",
            "SnapshotInfo",
            "SpecVersion",
        ],
        "frazil.errors": [
            "AlreadyExistsError",
            "Conflict",
            "ConflictError",
            "ConflictType",
            "FormatError",
            "IcechunkError",
            "InternalError",
            "InvalidInputError",
            "NodeNotFoundError",
            "NotFoundError",
            "ReadOnlyError",
            "RebaseFailedError",
            "RefNotFoundError",
            "RepositoryNotFoundError",
            "SessionStateError",
            "SnapshotNotFoundError",
            "StorageError",
        ],
        "frazil.format.conditions": [
            "ManifestPreloadCondition",
            "ManifestSplitCondition",
            "ManifestSplitDimCondition",
        ],
        "frazil.format.config": [
            "CachingConfig",
            "CompressionAlgorithm",
            "CompressionConfig",
            "ManifestConfig",
            "ManifestPreloadConfig",
            "ManifestSplittingConfig",
            "ManifestVirtualChunkLocationCompressionConfig",
            "RepoUpdateRetryConfig",
            "RepositoryConfig",
        ],
        "frazil.format.storage_config": [
            "ChecksumAlgorithm",
            "ObjectStoreConfig",
            "S3Options",
            "StorageConcurrencySettings",
            "StorageRetriesSettings",
            "StorageSettings",
            "StorageTimeoutSettings",
            "VirtualChunkContainer",
        ],
        "frazil.maintenance.summaries": ["GCSummary"],
        "frazil.objectstore.credentials": [
            "AnyAzureCredential",
            "AnyAzureStaticCredential",
            "AnyCredential",
            "AnyGcsCredential",
            "AnyGcsStaticCredential",
            "AnyS3Credential",
            "AzureCredentials",
            "AzureRefreshableCredential",
            "AzureStaticCredentials",
            "Credentials",
            "GcsBearerCredential",
            "GcsCredentials",
            "GcsStaticCredentials",
            "S3Credentials",
            "S3StaticCredentials",
        ],
        "frazil.engine.merge.solver": ["VersionSelection"],
        "frazil.zarrstore.virtual": ["VirtualChunkSpec"],
        "frazil.zarrstore.virtual_listing": ["ChunkType"],
    },
)
