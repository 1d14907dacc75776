"""What a caller may configure, and what becomes of it."""

import pytest

from frazil.engine.repository import Repository
from frazil.errors import InvalidInputError
from frazil.format.conditions import (
    ManifestPreloadCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
)
from frazil.format.config import (
    CompressionConfig,
    ManifestConfig,
    ManifestPreloadConfig,
    ManifestSplittingConfig,
    ManifestVirtualChunkLocationCompressionConfig,
    RepositoryConfig,
)
from frazil.format.config_codec import encode_config
from frazil.format.repo_info import decode_repo_info, encode_repo_info
from frazil.objectstore.memory import MemoryStore
from frazil.paths import ROOT
from tests.unit.engine.conftest import GROUP

BAD = "("
ANY = ManifestSplitDimCondition.Any()


def splitting(condition: ManifestSplitCondition) -> ManifestConfig:
    return ManifestConfig(splitting=ManifestSplittingConfig.from_dict({condition: {ANY: 3}}))


def preload(condition: ManifestPreloadCondition) -> ManifestConfig:
    return ManifestConfig(preload=ManifestPreloadConfig(preload_if=condition))


NEVER_FITTING = {
    "path": splitting(ManifestSplitCondition.path_matches(BAD)),
    "name": splitting(ManifestSplitCondition.name_matches(BAD)),
    "nested": splitting(
        ManifestSplitCondition.AnyArray()
        | (ManifestSplitCondition.AnyArray() & ManifestSplitCondition.name_matches(BAD))
    ),
    "dimension": ManifestConfig(
        splitting=ManifestSplittingConfig.from_dict(
            {ManifestSplitCondition.AnyArray(): {ManifestSplitDimCondition.DimensionName(BAD): 3}}
        )
    ),
    "preload": preload(
        ManifestPreloadCondition.true() & ManifestPreloadCondition.path_matches(BAD)
    ),
}


@pytest.mark.parametrize("manifest", NEVER_FITTING.values(), ids=NEVER_FITTING.keys())
def test_a_rule_that_can_never_fit_is_refused(manifest: ManifestConfig, store: MemoryStore) -> None:
    config = RepositoryConfig(manifest=manifest)
    with pytest.raises(InvalidInputError, match="regular expression"):
        Repository.create(store, config)
    assert list(store.list()) == []
    repository = Repository.create(store)
    with pytest.raises(InvalidInputError, match="regular expression"):
        Repository.open(store, config)
    with pytest.raises(InvalidInputError, match="regular expression"):
        repository.reopened(config)


def test_a_stored_rule_that_can_never_fit_does_not_lock_anybody_out(store: MemoryStore) -> None:
    config = RepositoryConfig(manifest=NEVER_FITTING["path"])
    Repository.create(store, RepositoryConfig(inline_chunk_threshold_bytes=1))
    info = decode_repo_info(store.get("repo").data)
    object.__setattr__(info, "config", encode_config(config))
    store.put("repo", encode_repo_info(info))
    assert Repository.open(store).config == config


def test_no_requests_at_all_is_refused(store: MemoryStore) -> None:
    config = RepositoryConfig(max_concurrent_requests=0)
    with pytest.raises(InvalidInputError, match="max_concurrent_requests"):
        Repository.create(store, config)
    Repository.create(store)
    with pytest.raises(InvalidInputError, match="max_concurrent_requests"):
        Repository.open(store, config)


@pytest.mark.parametrize("level", [0, 22, 23, 255])
def test_more_compression_than_there_is_means_all_of_it(level: int, store: MemoryStore) -> None:
    locations = ManifestVirtualChunkLocationCompressionConfig(compression_level=level * 1000)
    config = RepositoryConfig(
        compression=CompressionConfig(level=level),
        manifest=ManifestConfig(virtual_chunk_location_compression=locations),
    )
    session = Repository.create(store, config).writable_session("main")
    session.set_node(ROOT, GROUP)
    session.commit("compressed")
    assert Repository.open(store).config == config


def test_changing_a_configuration_later_changes_no_repository(store: MemoryStore) -> None:
    config = RepositoryConfig(inline_chunk_threshold_bytes=1)
    repository = Repository.create(store, config)
    config.inline_chunk_threshold_bytes = 2
    assert repository.config.inline_chunk_threshold_bytes == 1
