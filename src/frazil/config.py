"""Configuration of a repository, under the name it has in Icechunk.

There RepoUpdateRetryConfig is reached through the compiled module only.
"""

# ruff: noqa: PLC0414 -- a name that is imported `as` itself is re-exported, for type checkers
# ruff: isort: skip_file

from frazil.api.about import (
    initialize_logs as initialize_logs,
    set_logs_filter as set_logs_filter,
    shutdown_telemetry as shutdown_telemetry,
)
from frazil.api.attribution import Attribution as Attribution
from frazil.api.values import FeatureFlag as FeatureFlag
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
    ManifestSplitValues as ManifestSplitValues,
    ManifestSplittingConfig as ManifestSplittingConfig,
    ManifestVirtualChunkLocationCompressionConfig as ManifestVirtualChunkLocationCompressionConfig,
    RepoUpdateRetryConfig as RepoUpdateRetryConfig,
    RepositoryConfig as RepositoryConfig,
    SplitSizesDict as SplitSizesDict,
)
from frazil.format.storage_config import ObjectStoreConfig as ObjectStoreConfig
from frazil.lazy import export_all

export_all(globals())
