"""The engine's settings: a configuration with all defaults filled in, bounded by limits."""

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from frazil.dataclass import dataclass
from frazil.engine.files.virtual_access import NO_AUTHORIZATION, VirtualAccess, VirtualChunkAccess
from frazil.errors import InvalidInputError
from frazil.format.conditions import (
    Bound,
    ManifestPreloadCondition,
    PreloadAnd,
    PreloadFalse,
    PreloadNameMatches,
    PreloadNumRefs,
    PreloadOr,
    PreloadPathMatches,
    PreloadTrue,
    regex_matches,
)
from frazil.format.config import (
    CachingConfig,
    CompressionConfig,
    ManifestConfig,
    ManifestPreloadConfig,
    ManifestSplittingConfig,
    RepositoryConfig,
    RepoUpdateRetryConfig,
)
from frazil.format.generation import Generation
from frazil.format.limits import DEFAULT_LIMITS, Limits
from frazil.format.nodes import Node, Nodes, raw_manifest_ids
from frazil.format.records import field_value
from frazil.format.schemas import NODE_ARRAY
from frazil.format.snapshot import ManifestFile, ManifestFiles, Snapshot
from frazil.format.storage_config import StorageRetriesSettings, StorageSettings
from frazil.ids import ManifestId
from frazil.lazy import lazy_module

if TYPE_CHECKING:
    from frazil.format import locations
else:
    locations = lazy_module("frazil.format.locations")

# Preloading: the manifests that a new session fetches in advance, by the configuration's rules.
#
# By default those of coordinates: they are small, and most programs begin by reading them.

# Names that coordinates have by the conventions for climate and forecast data, as in the reference.
_COORDINATES = (
    r"^\bt\b$|^(time|min|hour|day|week|month|year)[0-9]*$",
    r"^(z|nav_lev|gdep|lv_|[o]*lev|bottom_top|sigma|h(ei)?ght|altitude|depth|isobaric|pres|isotherm)[a-z_]*[0-9]*$",
    r"^(y|j|nlat|rlat|nj)$",
    r"^y?(nav_lat|lat|gphi)[a-z0-9]*$",
    r"^x?(nav_lon|lon|glam)[a-z0-9]*$",
    r"^(x|i|nlon|rlon|ni)$",
)
DEFAULT_CONDITION: ManifestPreloadCondition = PreloadAnd(
    (
        PreloadOr(tuple(map(PreloadNameMatches, _COORDINATES))),
        PreloadNumRefs(None, Bound(1000, included=True)),
    )
)


@dataclass(frozen=True, slots=True)
class PreloadRules:
    condition: ManifestPreloadCondition = DEFAULT_CONDITION
    max_total_refs: int = 10_000
    max_arrays: int = 50  # that are looked at

    @classmethod
    def of(cls, given: ManifestPreloadConfig | None) -> "PreloadRules":
        rules = cls()
        if given is None:
            return rules
        total, arrays = given.max_total_refs, given.max_arrays_to_scan
        return cls(
            given.preload_if or rules.condition,
            rules.max_total_refs if total is None else total,
            rules.max_arrays if arrays is None else arrays,
        )

    @property
    def are_void(self) -> bool:
        """True if these rules choose no manifest of any snapshot."""
        nothing = self.max_total_refs == 0 or self.max_arrays == 0
        return nothing or isinstance(self.condition, PreloadFalse)


@dataclass(frozen=True, slots=True)
class PreloadPlan:
    rules: PreloadRules
    manifests: tuple[ManifestId, ...]


def plan_preload(snapshot: Snapshot, rules: PreloadRules) -> PreloadPlan:
    """Manifests to fetch, each once, in the order of the paths of their arrays.

    Of the first arrays by path, those that fit; one that would exceed the total is left out, and
    smaller ones after it are not.
    """
    sizes: dict[bytes, int] | None = None
    chosen: dict[bytes, int] = {}
    left = rules.max_total_refs
    for node in _possible_arrays(snapshot.nodes, rules):
        if sizes is None:
            sizes = _small_manifests(snapshot.manifest_files, left)
        if not sizes:
            break
        for raw in () if node.array is None else raw_manifest_ids(node.array.manifests):
            num_refs = sizes.get(raw)
            if num_refs is None or raw in chosen or num_refs > left:
                continue
            if matches_preload_condition(rules.condition, node.path.text, num_refs):
                chosen[raw] = num_refs
                left -= num_refs
    return PreloadPlan(rules, tuple(map(ManifestId, chosen)))


def _small_manifests(listed: Sequence[ManifestFile], most: int) -> dict[bytes, int]:
    """References, up to so many, by raw id."""
    if isinstance(listed, ManifestFiles):
        listed = listed.take(listed.num_refs <= most)
    return {file.id.raw: file.num_refs for file in listed}


def matches_preload_condition(
    condition: ManifestPreloadCondition, path: str, num_refs: int | None
) -> bool:
    """True if a manifest of an array is to be preloaded.

    With `num_refs` None: True if one of some size might be.
    """
    match condition:
        case PreloadOr(conditions):
            return any(matches_preload_condition(each, path, num_refs) for each in conditions)
        case PreloadAnd(conditions):
            return all(matches_preload_condition(each, path, num_refs) for each in conditions)
        case PreloadPathMatches(regex):
            return regex_matches(regex, path)
        case PreloadNameMatches(regex):
            return regex_matches(regex, path.rpartition("/")[2])
        case PreloadNumRefs(start, stop):
            return num_refs is None or (_is_above(start, num_refs) and _is_below(stop, num_refs))
        case _:
            return isinstance(condition, PreloadTrue)


def _possible_arrays(nodes: Nodes, rules: PreloadRules) -> Iterator[Node]:
    """Only these are decoded: a hierarchy may have thousands of others."""
    if len(nodes) <= rules.max_arrays:  # so it does not matter which of them are arrays
        may_fit = (_may_fit(rules.condition, path) for path in nodes.path_texts())
        if not any(may_fit):
            return
    arrays = np.flatnonzero(nodes.table.union("node_data").types == NODE_ARRAY)
    for row in islice(arrays.tolist(), rules.max_arrays):
        if _may_fit(rules.condition, nodes.path_text(row)):
            yield nodes.node(row)


@lru_cache(maxsize=4096)  # sessions of one repository ask about the same arrays again and again
def _may_fit(condition: ManifestPreloadCondition, path: str) -> bool:
    return matches_preload_condition(condition, path, None)


def _is_above(bound: Bound | None, number: int) -> bool:
    return bound is None or number > bound.value or (bound.included and number == bound.value)


def _is_below(bound: Bound | None, number: int) -> bool:
    return bound is None or number < bound.value or (bound.included and number == bound.value)


# Of zstd. Configurations may ask for more, which then means as much as there is.
_MIN_LEVEL, _MAX_LEVEL = -131_072, 22
# Where the configuration names no level: twice as fast as level 3, for files a twelfth larger.
_BULK_LEVEL = 1
# Where a configuration says nothing. Never changed, only looked at.
_CACHING, _COMPRESSION, _MANIFEST = CachingConfig(), CompressionConfig(), ManifestConfig()
_UPDATES, _RETRIES = RepoUpdateRetryConfig(), StorageRetriesSettings()
_MAX_THREADS = 16  # a thread per request: more of them cost more than they hide


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    inline_threshold_bytes: int
    io_threads: int
    compression_level: int
    bulk_level: int  # for manifests, and for files that every commit rewrites
    cached_nodes: int
    cached_refs: int
    cached_changes: int
    cached_chunk_bytes: int
    update_tries: int
    update_backoff_s: float
    update_backoff_cap_s: float
    updates_per_file: int
    location_compression: "locations.LocationCompression | None"
    splitting: ManifestSplittingConfig | None
    preload: PreloadRules = field(default_factory=PreloadRules)
    spec_version: int = 2  # of the files that are written
    generation: Generation = Generation.V2
    virtual: VirtualAccess = field(default_factory=VirtualAccess)
    limits: Limits = DEFAULT_LIMITS

    @classmethod
    def of(
        cls,
        config: RepositoryConfig,
        *,
        spec_version: int = 2,
        generation: Generation | None = None,
        access: VirtualChunkAccess = NO_AUTHORIZATION,
    ) -> "Settings":
        """`generation` unless it is the one of the version."""
        caching = config.caching or _CACHING
        compression = config.compression or _COMPRESSION
        manifest = config.manifest or _MANIFEST
        updates = config.repo_update_retries or _UPDATES
        retries = updates.default or _RETRIES
        usual = field_value(_UPDATES, "default")
        requests = field_value(config, "max_concurrent_requests")
        if requests < 1:
            raise InvalidInputError(
                "max_concurrent_requests is 0: no request could ever be made",
                kind="storage-config",
            )
        return cls(
            inline_threshold_bytes=field_value(config, "inline_chunk_threshold_bytes"),
            io_threads=min(requests, _MAX_THREADS),
            compression_level=min(field_value(compression, "level"), _MAX_LEVEL),
            bulk_level=_BULK_LEVEL
            if compression.level is None
            else min(compression.level, _MAX_LEVEL),
            cached_nodes=field_value(caching, "num_snapshot_nodes"),
            cached_refs=field_value(caching, "num_chunk_refs"),
            cached_changes=field_value(caching, "num_transaction_changes"),
            cached_chunk_bytes=field_value(caching, "num_bytes_chunks"),
            update_tries=max(1, _value_or_default(retries.max_tries, usual.max_tries)),
            update_backoff_s=_value_or_default(retries.initial_backoff_ms, usual.initial_backoff_ms)
            / 1000,
            update_backoff_cap_s=_value_or_default(retries.max_backoff_ms, usual.max_backoff_ms)
            / 1000,
            updates_per_file=max(1, field_value(config, "num_updates_per_repo_info_file")),
            location_compression=_location_compression(manifest),
            splitting=manifest.splitting,
            preload=PreloadRules.of(manifest.preload),
            spec_version=spec_version,
            generation=generation or Generation.of_version(spec_version),
            virtual=VirtualAccess.of(
                config.virtual_chunk_containers, access, settings=config.storage
            ),
            limits=access.limits,
        )


def _location_compression(manifest: ManifestConfig) -> "locations.LocationCompression | None":
    """None unless configured: the manifest is compressed as a whole, faster and smaller."""
    wanted = manifest.virtual_chunk_location_compression
    if wanted is None:
        return None
    return locations.LocationCompression(
        min_num_chunks=field_value(wanted, "min_num_chunks"),
        max_samples=field_value(wanted, "dictionary_max_training_samples"),
        max_dictionary_bytes=field_value(wanted, "dictionary_max_size_bytes"),
        level=min(max(field_value(wanted, "compression_level"), _MIN_LEVEL), _MAX_LEVEL),
    )


def _value_or_default[T](value: T | None, default: T) -> T:
    return default if value is None else value


DEFAULT = Settings.of(RepositoryConfig())


def limited_config(config: RepositoryConfig, limits: Limits) -> RepositoryConfig:
    """A stored configuration with every number reduced to the limits.

    The configuration that a caller gives is merged over it later, and is not limited.
    """
    return replace(
        config,
        caching=_limit_caching(config.caching, limits),
        manifest=_limit_manifest(config.manifest, limits),
        max_concurrent_requests=_limit_number(config.max_concurrent_requests, limits.requests),
        repo_update_retries=_limit_update_retries(config.repo_update_retries, limits),
        storage=_limit_storage(config.storage, limits),
    )


def _limit_number(asked: int | None, limit: int) -> int | None:
    return None if asked is None else min(asked, limit)


def _limit_caching(asked: CachingConfig | None, limits: Limits) -> CachingConfig | None:
    if asked is None:
        return None
    return replace(
        asked,
        num_snapshot_nodes=_limit_number(asked.num_snapshot_nodes, limits.cached_nodes),
        num_chunk_refs=_limit_number(asked.num_chunk_refs, limits.cached_refs),
        num_transaction_changes=_limit_number(asked.num_transaction_changes, limits.cached_refs),
        num_bytes_attributes=_limit_number(asked.num_bytes_attributes, limits.cached_chunk_bytes),
        num_bytes_chunks=_limit_number(asked.num_bytes_chunks, limits.cached_chunk_bytes),
    )


def _limit_manifest(asked: ManifestConfig | None, limits: Limits) -> ManifestConfig | None:
    if asked is None or asked.preload is None:
        return asked
    preload: ManifestPreloadConfig = replace(
        asked.preload,
        max_total_refs=_limit_number(asked.preload.max_total_refs, limits.preloaded_refs),
        max_arrays_to_scan=_limit_number(asked.preload.max_arrays_to_scan, limits.preloaded_arrays),
    )
    return replace(asked, preload=preload)


def _limit_update_retries(
    asked: RepoUpdateRetryConfig | None, limits: Limits
) -> RepoUpdateRetryConfig | None:
    return (
        None
        if asked is None
        else replace(asked, default=_limit_storage_retries(asked.default, limits))
    )


def _limit_storage_retries(
    asked: StorageRetriesSettings | None, limits: Limits
) -> StorageRetriesSettings | None:
    if asked is None:
        return None
    return replace(
        asked,
        max_tries=_limit_number(asked.max_tries, limits.tries),
        initial_backoff_ms=_limit_number(asked.initial_backoff_ms, limits.wait_ms),
        max_backoff_ms=_limit_number(asked.max_backoff_ms, limits.wait_ms),
    )


def _limit_storage(asked: StorageSettings | None, limits: Limits) -> StorageSettings | None:
    """Raises the size of requests to the limit: requests of a few bytes would be too many."""
    if asked is None:
        return None
    concurrency = asked.concurrency
    if concurrency is not None:
        size = concurrency.ideal_concurrent_request_size
        number = concurrency.max_concurrent_requests_for_object
        is_small = size is not None and size < limits.least_request_bytes
        concurrency = replace(
            concurrency,
            max_concurrent_requests_for_object=_limit_number(number, limits.requests),
            ideal_concurrent_request_size=limits.least_request_bytes if is_small else size,
        )
    return replace(
        asked, concurrency=concurrency, retries=_limit_storage_retries(asked.retries, limits)
    )
