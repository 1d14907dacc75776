"""A stored configuration, as far as a reader who does not know its writer goes along with it."""

from dataclasses import replace

from frazil.format.config import (
    CachingConfig,
    ManifestConfig,
    ManifestPreloadConfig,
    RepositoryConfig,
    RepoUpdateRetryConfig,
    StorageRetriesSettings,
    StorageSettings,
)
from frazil.format.limits import Limits


def tamed(config: RepositoryConfig, limits: Limits) -> RepositoryConfig:
    """With no number beyond the limits: what a caller gives goes over it and is not touched."""
    return replace(
        config,
        caching=_caching(config.caching, limits),
        manifest=_manifest(config.manifest, limits),
        max_concurrent_requests=_least(config.max_concurrent_requests, limits.requests),
        repo_update_retries=_updates(config.repo_update_retries, limits),
        storage=_storage(config.storage, limits),
    )


def _least(asked: int | None, limit: int) -> int | None:
    return None if asked is None else min(asked, limit)


def _caching(asked: CachingConfig | None, limits: Limits) -> CachingConfig | None:
    if asked is None:
        return None
    return replace(
        asked,
        num_snapshot_nodes=_least(asked.num_snapshot_nodes, limits.cached_nodes),
        num_chunk_refs=_least(asked.num_chunk_refs, limits.cached_refs),
        num_transaction_changes=_least(asked.num_transaction_changes, limits.cached_refs),
        num_bytes_attributes=_least(asked.num_bytes_attributes, limits.cached_chunk_bytes),
        num_bytes_chunks=_least(asked.num_bytes_chunks, limits.cached_chunk_bytes),
    )


def _manifest(asked: ManifestConfig | None, limits: Limits) -> ManifestConfig | None:
    if asked is None or asked.preload is None:
        return asked
    preload: ManifestPreloadConfig = replace(
        asked.preload,
        max_total_refs=_least(asked.preload.max_total_refs, limits.preloaded_refs),
        max_arrays_to_scan=_least(asked.preload.max_arrays_to_scan, limits.preloaded_arrays),
    )
    return replace(asked, preload=preload)


def _updates(asked: RepoUpdateRetryConfig | None, limits: Limits) -> RepoUpdateRetryConfig | None:
    return None if asked is None else replace(asked, default=_retries(asked.default, limits))


def _retries(asked: StorageRetriesSettings | None, limits: Limits) -> StorageRetriesSettings | None:
    if asked is None:
        return None
    return replace(
        asked,
        max_tries=_least(asked.max_tries, limits.tries),
        initial_backoff_ms=_least(asked.initial_backoff_ms, limits.wait_ms),
        max_backoff_ms=_least(asked.max_backoff_ms, limits.wait_ms),
    )


def _storage(asked: StorageSettings | None, limits: Limits) -> StorageSettings | None:
    """Requests of a few bytes would be more in number than anybody could make."""
    if asked is None:
        return None
    concurrency = asked.concurrency
    if concurrency is not None:
        size = concurrency.ideal_concurrent_request_size
        number = concurrency.max_concurrent_requests_for_object
        is_small = size is not None and size < limits.least_request_bytes
        concurrency = replace(
            concurrency,
            max_concurrent_requests_for_object=_least(number, limits.requests),
            ideal_concurrent_request_size=limits.least_request_bytes if is_small else size,
        )
    return replace(asked, concurrency=concurrency, retries=_retries(asked.retries, limits))
