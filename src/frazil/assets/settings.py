"""A configuration with every blank filled in: the one place where the engine's defaults stand.

A field of RepositoryConfig that is None means "the default"; these are they.
"""

from dataclasses import dataclass, field

from frazil.assets.preload_rules import PreloadRules
from frazil.assets.virtual.access import NOBODY, VirtualAccess, VirtualChunkAccess
from frazil.errors import InvalidInputError
from frazil.format.config import (
    CachingConfig,
    CompressionConfig,
    ManifestConfig,
    ManifestSplittingConfig,
    RepositoryConfig,
    RepoUpdateRetryConfig,
    StorageRetriesSettings,
)
from frazil.format.locations import LocationCompression

# Of zstd. Configurations may ask for more, which then means as much as there is.
_MIN_LEVEL, _MAX_LEVEL = -131_072, 22
_MAX_THREADS = 16  # a thread per request: more of them cost more than they hide


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    inline_threshold_bytes: int
    io_threads: int
    compression_level: int
    cached_nodes: int
    cached_refs: int
    cached_changes: int
    cached_chunk_bytes: int
    update_tries: int
    update_backoff_s: float
    update_backoff_cap_s: float
    updates_per_file: int
    location_compression: LocationCompression | None
    splitting: ManifestSplittingConfig | None
    preload: PreloadRules = field(default_factory=PreloadRules)
    spec_version: int = 2  # of the files that are written
    virtual: VirtualAccess = field(default_factory=VirtualAccess)

    @classmethod
    def of(
        cls,
        config: RepositoryConfig,
        *,
        spec_version: int = 2,
        access: VirtualChunkAccess = NOBODY,
    ) -> "Settings":
        caching = config.caching or CachingConfig()
        compression = config.compression or CompressionConfig()
        manifest = config.manifest or ManifestConfig()
        updates = config.repo_update_retries or RepoUpdateRetryConfig()
        retries = updates.default or StorageRetriesSettings()
        requests = _given(config.max_concurrent_requests, 256)
        if requests < 1:
            raise InvalidInputError(
                "max_concurrent_requests is 0: no request could ever be made",
                kind="storage-config",
            )
        return cls(
            inline_threshold_bytes=_given(config.inline_chunk_threshold_bytes, 512),
            io_threads=min(requests, _MAX_THREADS),
            compression_level=min(_given(compression.level, 3), _MAX_LEVEL),
            cached_nodes=_given(caching.num_snapshot_nodes, 500_000),
            cached_refs=_given(caching.num_chunk_refs, 15_000_000),
            cached_changes=_given(caching.num_transaction_changes, 0),
            cached_chunk_bytes=_given(caching.num_bytes_chunks, 0),
            update_tries=max(1, _given(retries.max_tries, 100)),
            update_backoff_s=_given(retries.initial_backoff_ms, 50) / 1000,
            update_backoff_cap_s=_given(retries.max_backoff_ms, 30_000) / 1000,
            updates_per_file=max(1, _given(config.num_updates_per_repo_info_file, 1000)),
            location_compression=_location_compression(manifest),
            splitting=manifest.splitting,
            preload=PreloadRules.of(manifest.preload),
            spec_version=spec_version,
            virtual=VirtualAccess.of(
                config.virtual_chunk_containers, access, settings=config.storage
            ),
        )


def _location_compression(manifest: ManifestConfig) -> LocationCompression | None:
    """None unless asked for: the manifest is compressed as a whole, sooner and smaller."""
    given = manifest.virtual_chunk_location_compression
    if given is None:
        return None
    return LocationCompression(
        min_num_chunks=_given(given.min_num_chunks, 1000),
        max_samples=_given(given.dictionary_max_training_samples, 100),
        max_dictionary_bytes=_given(given.dictionary_max_size_bytes, 2048),
        level=min(max(_given(given.compression_level, 3), _MIN_LEVEL), _MAX_LEVEL),
    )


def _given[T](value: T | None, default: T) -> T:
    return default if value is None else value
