"""The stored configuration and its classes, between frazil and the live reference."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import icechunk
import icechunk._icechunk_python as compiled
import pytest

from frazil.flatbuf.flexbuffers import Json
from frazil.format import config as our_config
from frazil.format import storage_config
from frazil.format.config_codec import decode_config, encode_config
from frazil.format.repo_info import decode_repo_info, encode_repo_info


def storage(path: Path) -> icechunk.Storage:
    return icechunk.local_filesystem_storage(str(path))


def rich_reference_config() -> icechunk.RepositoryConfig:
    preload = icechunk.ManifestPreloadCondition
    split, dim = icechunk.ManifestSplitCondition, icechunk.ManifestSplitDimCondition
    config = icechunk.RepositoryConfig(
        inline_chunk_threshold_bytes=10,
        get_partial_values_concurrency=3,
        compression=icechunk.CompressionConfig(icechunk.CompressionAlgorithm.Zstd, 5),
        max_concurrent_requests=7,
        caching=icechunk.CachingConfig(1, 2, 3, 4, 5),
        storage=icechunk.StorageSettings(
            concurrency=icechunk.StorageConcurrencySettings(3, 4096),
            retries=icechunk.StorageRetriesSettings(1, 2, 3),
            unsafe_use_conditional_create=True,
            unsafe_use_conditional_update=False,
            unsafe_use_metadata=False,
            storage_class="A",
            metadata_storage_class="B",
            chunks_storage_class="C",
            minimum_size_for_multipart_upload=99,
            timeouts=icechunk.StorageTimeoutSettings(1, 2, 3, 4),
        ),
        manifest=icechunk.ManifestConfig(
            preload=icechunk.ManifestPreloadConfig(
                5,
                preload.or_conditions(
                    [
                        preload.and_conditions([preload.true(), preload.false()]),
                        preload.num_refs(1, 10),
                        preload.num_refs(None, 10),
                        preload.num_refs(None, None),
                        preload.path_matches("p"),
                        preload.name_matches("n"),
                    ]
                ),
                6,
            ),
            splitting=icechunk.ManifestSplittingConfig.from_dict(
                {
                    split.path_matches("x") | split.name_matches("y"): {
                        dim.Axis(1): 3,
                        dim.DimensionName("t"): 4,
                        dim.Any(): 5,
                    },
                    split.AnyArray(): {dim.Any(): 7},
                    split.and_conditions([split.AnyArray()]): {},
                }
            ),
            virtual_chunk_location_compression=(
                icechunk.ManifestVirtualChunkLocationCompressionConfig(
                    1,
                    dictionary_max_training_samples=2,
                    dictionary_max_size_bytes=3,
                    compression_level=-4,
                )
            ),
            max_concurrent_manifest_fetches_during_commit=9,
        ),
        repo_update_retries=compiled.RepoUpdateRetryConfig(
            icechunk.StorageRetriesSettings(9, 8, 7)
        ),
        num_updates_per_repo_info_file=11,
        max_concurrent_decodes=5,
    )
    kinds = icechunk.ObjectStoreConfig
    options = [
        icechunk.S3Options("r", "http://x", allow_http=True, checksum_algorithm=algorithm)
        for algorithm in (
            icechunk.ChecksumAlgorithm.Crc32,
            icechunk.ChecksumAlgorithm.Crc32c,
            icechunk.ChecksumAlgorithm.Crc64Nvme,
            icechunk.ChecksumAlgorithm.Sha1,
            icechunk.ChecksumAlgorithm.Sha256,
        )
    ]
    stores: dict[str, Any] = {
        **{f"s3://{place}/": kinds.S3Compatible(each) for place, each in enumerate(options)},
        "s3://a/": kinds.S3(icechunk.S3Options()),
        "s3://t/": kinds.Tigris(icechunk.S3Options(requester_pays=True, anonymous=True)),
        "gs://g/": kinds.Gcs({"a": "b"}),
        "az://z/": kinds.Azure({"account": "c"}),
        "http://h/": kinds.Http({"e": "f"}, {"h": "i"}),
        "https://h/": kinds.Http({}, None),
        "file:///d/": kinds.LocalFileSystem("/d"),
    }
    for place, (prefix, store) in enumerate(stores.items()):
        config.set_virtual_chunk_container(
            icechunk.VirtualChunkContainer(prefix, store, name=f"n{place}" if place % 2 else None)
        )
    return config


def store_config(path: Path, stored: Json) -> icechunk.RepositoryConfig | None:
    """What the reference makes of a configuration that we wrote into its repository."""
    repo_file = path / "repo"
    info = decode_repo_info(repo_file.read_bytes())
    repo_file.write_bytes(encode_repo_info(replace(info, config=stored)))
    return icechunk.Repository.fetch_config(storage(path))


def test_a_rich_configuration_is_read_and_written_exactly(tmp_path: Path) -> None:
    path = tmp_path / "repo"
    icechunk.Repository.create(storage(path), config=rich_reference_config())
    expected = icechunk.Repository.fetch_config(storage(path))
    stored = decode_repo_info((path / "repo").read_bytes()).config
    ours = decode_config(stored)
    assert encode_config(ours) == stored
    assert store_config(path, encode_config(ours)) == expected == rich_reference_config()


def test_our_configuration_is_read_by_the_reference(tmp_path: Path) -> None:
    path = tmp_path / "repo"
    icechunk.Repository.create(storage(path))
    ours = our_config.RepositoryConfig.default()
    ours.inline_chunk_threshold_bytes = 10
    ours.compression = our_config.CompressionConfig(level=9)
    theirs = icechunk.RepositoryConfig.default()
    theirs.inline_chunk_threshold_bytes = 10
    theirs.compression = icechunk.CompressionConfig(level=9)
    assert store_config(path, encode_config(ours)) == theirs
    assert store_config(path, None) is None


CONFIG_CLASSES = [
    "CachingConfig",
    "CompressionConfig",
    "ManifestConfig",
    "ManifestPreloadConfig",
    "ManifestSplittingConfig",
    "ManifestVirtualChunkLocationCompressionConfig",
    "RepositoryConfig",
    "S3Options",
    "StorageConcurrencySettings",
    "StorageRetriesSettings",
    "StorageSettings",
    "StorageTimeoutSettings",
    "VirtualChunkContainer",
]


def parameters(cls: Callable[..., object]) -> list[tuple[str, object, object]]:
    return [
        (each.name, each.kind, each.default) for each in inspect.signature(cls).parameters.values()
    ]


@pytest.mark.parametrize("name", CONFIG_CLASSES)
def test_configuration_classes_are_called_as_in_the_reference(name: str) -> None:
    ours, theirs = getattr(our_config, name), getattr(icechunk, name)
    assert parameters(ours) == parameters(theirs)
    public = {attribute for attribute in dir(theirs) if not attribute.startswith("_")}
    assert public <= set(dir(ours))


@pytest.mark.parametrize(
    "name",
    [
        "ManifestSplitCondition",
        "ManifestSplitDimCondition",
        "ManifestPreloadCondition",
        "ObjectStoreConfig",
        "CompressionAlgorithm",
        "ChecksumAlgorithm",
    ],
)
def test_alternatives_have_the_names_of_the_reference(name: str) -> None:
    ours = getattr(our_config, name, None) or getattr(storage_config, name)
    theirs = getattr(icechunk, name)
    public = {attribute for attribute in dir(theirs) if not attribute.startswith("_")}
    assert all(hasattr(ours, attribute) for attribute in public)


def test_merging_gives_what_the_reference_gives(tmp_path: Path) -> None:
    path = tmp_path / "repo"
    icechunk.Repository.create(storage(path), config=rich_reference_config())
    stored = decode_repo_info((path / "repo").read_bytes()).config
    theirs = icechunk.RepositoryConfig(
        inline_chunk_threshold_bytes=0,
        caching=icechunk.CachingConfig(num_chunk_refs=77),
        manifest=icechunk.ManifestConfig(preload=icechunk.ManifestPreloadConfig(1)),
    )
    theirs.clear_virtual_chunk_containers()
    ours = our_config.RepositoryConfig(
        inline_chunk_threshold_bytes=0,
        caching=our_config.CachingConfig(num_chunk_refs=77),
        manifest=our_config.ManifestConfig(preload=our_config.ManifestPreloadConfig(1)),
    )
    ours.clear_virtual_chunk_containers()
    merged = encode_config(decode_config(stored).merge(ours))
    assert store_config(path, merged) == rich_reference_config().merge(theirs)
