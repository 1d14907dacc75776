import inspect
import pickle

import pytest

from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.flexbuffers import Json, decode_flexbuffer, encode_flexbuffer
from frazil.format.conditions import (
    ManifestPreloadCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
)
from frazil.format.config import (
    CachingConfig,
    CompressionAlgorithm,
    CompressionConfig,
    ManifestConfig,
    ManifestPreloadConfig,
    ManifestSplittingConfig,
    ManifestVirtualChunkLocationCompressionConfig,
    RepositoryConfig,
    RepoUpdateRetryConfig,
)
from frazil.format.config_codec import decode_config, encode_config
from frazil.format.storage_config import (
    ChecksumAlgorithm,
    ObjectStoreConfig,
    S3Options,
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
    VirtualChunkContainer,
)

Preload, Split, Dim = ManifestPreloadCondition, ManifestSplitCondition, ManifestSplitDimCondition


def rich_config() -> RepositoryConfig:
    config = RepositoryConfig(
        inline_chunk_threshold_bytes=10,
        get_partial_values_concurrency=3,
        compression=CompressionConfig(CompressionAlgorithm.Zstd, 5),
        max_concurrent_requests=7,
        caching=CachingConfig(1, 2, 3, 4, 5),
        storage=StorageSettings(
            concurrency=StorageConcurrencySettings(3, 4096),
            retries=StorageRetriesSettings(1, 2, 3),
            unsafe_use_conditional_create=True,
            storage_class="A",
            timeouts=StorageTimeoutSettings(1, 2, 3, 4),
        ),
        manifest=ManifestConfig(
            preload=ManifestPreloadConfig(
                5,
                (Preload.true() & Preload.false())
                | Preload.num_refs(1, 10)
                | Preload.or_conditions([Preload.num_refs(None, None), Preload.path_matches("p")])
                | Preload.and_conditions([Preload.name_matches("n")]),
                6,
            ),
            splitting=ManifestSplittingConfig.from_dict(
                {
                    Split.path_matches("x") | Split.name_matches("y"): {
                        Dim.Axis(1): 3,
                        Dim.DimensionName("t"): 4,
                        Dim.Any(): 5,
                    },
                    Split.AnyArray(): {Dim.Any(): 7},
                    Split.and_conditions([Split.any_array()]): {},
                }
            ),
            virtual_chunk_location_compression=ManifestVirtualChunkLocationCompressionConfig(
                1, compression_level=-4
            ),
            max_concurrent_manifest_fetches_during_commit=9,
        ),
        repo_update_retries=RepoUpdateRetryConfig(StorageRetriesSettings(9, 8, 7)),
        num_updates_per_repo_info_file=11,
        max_concurrent_decodes=5,
    )
    s3 = S3Options("r", "http://x", allow_http=True, checksum_algorithm=ChecksumAlgorithm.Crc32c)
    stores = {
        "s3://a/": ObjectStoreConfig.S3(S3Options()),
        "s3://b/": ObjectStoreConfig.S3Compatible(s3),
        "s3://t/": ObjectStoreConfig.Tigris(s3),
        "gs://g/": ObjectStoreConfig.Gcs({"a": "b"}),
        "az://z/": ObjectStoreConfig.Azure({"account": "c"}),
        "http://h/": ObjectStoreConfig.Http({"e": "f"}, {"token": "secret"}),
        "https://h/": ObjectStoreConfig.Http({}),
        "file:///d/": ObjectStoreConfig.LocalFileSystem("/d"),
        "memory://m/": ObjectStoreConfig.InMemory(),
    }
    # Not one by one: the last could not be read from, and is stored all the same.
    config.virtual_chunk_containers = {
        prefix: VirtualChunkContainer(prefix, store) for prefix, store in stores.items()
    }
    return config


def test_a_configuration_decodes_to_what_was_encoded() -> None:
    config = rich_config()
    stored = decode_flexbuffer(encode_flexbuffer(encode_config(config)))
    assert decode_config(stored) == config
    assert encode_config(decode_config(stored)) == stored


def test_every_field_is_stored_and_null_where_it_is_the_default() -> None:
    stored = encode_config(RepositoryConfig.default())
    assert isinstance(stored, dict)
    assert set(stored.values()) == {None}
    assert sorted(stored) == [
        "caching",
        "compression",
        "get_partial_values_concurrency",
        "inline_chunk_threshold_bytes",
        "manifest",
        "max_concurrent_decodes",
        "max_concurrent_requests",
        "num_updates_per_repo_info_file",
        "previous_file",
        "repo_update_retries",
        "storage",
        "virtual_chunk_containers",
    ]


def test_alternatives_are_stored_as_the_reference_spells_them() -> None:
    stored = encode_config(rich_config())
    assert isinstance(stored, dict)
    manifest = stored["manifest"]
    assert isinstance(manifest, dict)
    assert manifest["splitting"] == {
        "split_sizes": [
            [
                {"or": [{"path_matches": {"regex": "x"}}, {"name_matches": {"regex": "y"}}]},
                [
                    {"condition": {"Axis": 1}, "num_chunks": 3},
                    {"condition": {"DimensionName": "t"}, "num_chunks": 4},
                    {"condition": "Any", "num_chunks": 5},
                ],
            ],
            ["any_array", [{"condition": "Any", "num_chunks": 7}]],
            [{"and": ["any_array"]}, []],
        ]
    }
    containers = stored["virtual_chunk_containers"]
    assert isinstance(containers, dict)
    stores = {
        prefix: value["store"] for prefix, value in containers.items() if isinstance(value, dict)
    }
    s3 = {prefix: stores.pop(prefix) for prefix in ("s3://a/", "s3://b/", "s3://t/")}
    assert [list(store) for store in s3.values() if isinstance(store, dict)] == [
        ["s3"],
        ["s3_compatible"],
        ["tigris"],
    ]
    assert "'checksum_algorithm': 'crc32c'" in str(s3["s3://t/"])
    assert stores == {
        "gs://g/": {"gcs": {"a": "b"}},
        "az://z/": {"azure": {"account": "c"}},
        "http://h/": {"http": {"e": "f", "headers": {"token": "secret"}}},
        "https://h/": {"http": {}},
        "file:///d/": {"local_file_system": "/d"},
        "memory://m/": "in_memory",
    }


def test_bounds_of_a_number_of_references_are_kept() -> None:
    stored: Json = {
        "manifest": {
            "preload": {
                "preload_if": {"num_refs": {"from": {"Excluded": 1}, "to": {"Included": 9}}}
            }
        }
    }
    again = encode_config(decode_config(stored))
    assert "'from': {'Excluded': 1}, 'to': {'Included': 9}" in str(again)


def test_unknown_fields_are_ignored_and_missing_ones_are_the_default() -> None:
    stored: Json = {"from_the_future": {"x": 1}, "inline_chunk_threshold_bytes": 3, "caching": {}}
    expected = RepositoryConfig(inline_chunk_threshold_bytes=3, caching=CachingConfig())
    assert decode_config(stored) == expected


def test_the_legacy_field_is_kept() -> None:
    config = decode_config({"previous_file": "x"})
    assert config.previous_file == "x"
    assert encode_config(config) == encode_config(RepositoryConfig()) | {"previous_file": "x"}  # type: ignore[operator]  # a dict of Json


@pytest.mark.parametrize(
    "stored",
    [
        [],
        "text",
        {"inline_chunk_threshold_bytes": "many"},
        {"inline_chunk_threshold_bytes": True},
        {"compression": {"algorithm": "brotli"}},
        {"compression": 3},
        {"storage": {"unsafe_use_metadata": 1}},
        {"storage": {"storage_class": 1}},
        {"virtual_chunk_containers": []},
        {"virtual_chunk_containers": {"s3://b/": {"url_prefix": "s3://b/"}}},
        {"virtual_chunk_containers": {"x": {"url_prefix": "x", "store": {"ftp": {}}}}},
        {"virtual_chunk_containers": {"x": {"url_prefix": "x", "store": {"gcs": {"a": 1}}}}},
        {"virtual_chunk_containers": {"x": {"url_prefix": "x", "store": {"gcs": []}}}},
        {"manifest": {"splitting": {"split_sizes": {}}}},
        {"manifest": {"splitting": {"split_sizes": [["any_array"]]}}},
        {"manifest": {"splitting": {"split_sizes": [["none", []]]}}},
        {"manifest": {"splitting": {"split_sizes": [["any_array", [{"condition": "Any"}]]]}}},
        {"manifest": {"splitting": {"split_sizes": [[{"a": 1, "b": 2}, []]]}}},
        {
            "manifest": {
                "splitting": {
                    "split_sizes": [["any_array", [{"condition": "None", "num_chunks": 1}]]]
                }
            }
        },
        {"manifest": {"preload": {"preload_if": "maybe"}}},
        {"manifest": {"preload": {"preload_if": {"num_refs": {"from": "Never", "to": "Never"}}}}},
        {"manifest": {"preload": {"preload_if": {"path_matches": {"regex": 1}}}}},
    ],
)
def test_a_configuration_of_another_shape_is_refused(stored: Json) -> None:
    with pytest.raises(FormatError) as caught:
        decode_config(stored)
    assert caught.value.kind == "config-deserialization"


def test_attributes_can_be_changed() -> None:
    config = RepositoryConfig.default()
    config.inline_chunk_threshold_bytes = 10
    assert config != RepositoryConfig.default()
    assert config == RepositoryConfig(inline_chunk_threshold_bytes=10)


def test_merging_lets_the_other_side_win_field_by_field() -> None:
    old = RepositoryConfig(
        inline_chunk_threshold_bytes=1,
        max_concurrent_requests=2,
        compression=CompressionConfig(level=3),
        caching=CachingConfig(num_chunk_refs=4),
        manifest=ManifestConfig(max_concurrent_manifest_fetches_during_commit=2),
    )
    new = RepositoryConfig(
        inline_chunk_threshold_bytes=0,
        caching=CachingConfig(num_snapshot_nodes=5),
        manifest=ManifestConfig(splitting=ManifestSplittingConfig()),
    )
    assert old.merge(new) == RepositoryConfig(
        inline_chunk_threshold_bytes=0,
        max_concurrent_requests=2,
        compression=CompressionConfig(level=3),
        caching=CachingConfig(num_snapshot_nodes=5, num_chunk_refs=4),
        manifest=ManifestConfig(
            splitting=ManifestSplittingConfig(), max_concurrent_manifest_fetches_during_commit=2
        ),
    )


def test_merging_replaces_preloading_splitting_and_containers() -> None:
    old, new = rich_config(), RepositoryConfig()
    new.clear_virtual_chunk_containers()
    new.manifest = ManifestConfig(preload=ManifestPreloadConfig(max_total_refs=1))
    merged = old.merge(new)
    assert merged.virtual_chunk_containers == {}
    assert merged.manifest is not None
    assert merged.manifest.preload == ManifestPreloadConfig(max_total_refs=1)
    assert old.manifest is not None
    assert merged.manifest.splitting == old.manifest.splitting


def test_merging_nothing_changes_nothing() -> None:
    assert rich_config().merge(RepositoryConfig()) == rich_config()
    assert RepositoryConfig().merge(rich_config()) == rich_config()


def test_a_container_replaces_one_of_its_name_or_prefix() -> None:
    config = RepositoryConfig()
    store = ObjectStoreConfig.Gcs()
    config.set_virtual_chunk_container(VirtualChunkContainer("gs://a/", store, "one"))
    config.set_virtual_chunk_container(VirtualChunkContainer("gs://b/", store, "one"))
    config.set_virtual_chunk_container(VirtualChunkContainer("gs://c/", store))
    config.set_virtual_chunk_container(VirtualChunkContainer("gs://c/", store, "two"))
    assert list(config.virtual_chunk_containers or {}) == ["gs://b/", "gs://c/"]
    found = config.get_virtual_chunk_container("gs://c/")
    assert found == VirtualChunkContainer("gs://c/", store, "two")
    assert config.get_virtual_chunk_container("one") is None


def test_a_prefix_must_end_in_a_slash() -> None:
    with pytest.raises(InvalidInputError, match="must end in a /"):
        RepositoryConfig().set_virtual_chunk_container(
            VirtualChunkContainer("gs://a", ObjectStoreConfig.Gcs())
        )


def test_splitting_keeps_the_order_of_its_rules() -> None:
    rules = {Split.AnyArray(): {Dim.Any(): 7, Dim.Axis(0): 1}, Split.path_matches("x"): {}}
    splitting = ManifestSplittingConfig.from_dict(rules)
    assert splitting.to_dict() == rules
    assert list(splitting.to_dict()) == list(rules)
    assert ManifestSplittingConfig().to_dict() == {}


def test_conditions_are_values() -> None:
    assert Dim.Axis(1) == Dim.Axis(1)
    assert len({Split.path_matches("a"), Split.path_matches("a"), Split.name_matches("a")}) == 2
    assert isinstance(Split.AnyArray(), ManifestSplitCondition)
    assert getattr(Preload, "True")() == Preload.true()  # `.True` is a syntax error


def test_a_configuration_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(rich_config())) == rich_config()


def test_secret_headers_are_not_shown() -> None:
    assert "secret" not in repr(rich_config())


def test_parameters_come_in_the_order_of_the_reference() -> None:
    assert list(inspect.signature(RepositoryConfig).parameters) == [
        "inline_chunk_threshold_bytes",
        "get_partial_values_concurrency",
        "compression",
        "max_concurrent_requests",
        "caching",
        "storage",
        "virtual_chunk_containers",
        "manifest",
        "repo_update_retries",
        "num_updates_per_repo_info_file",
        "max_concurrent_decodes",
    ]
