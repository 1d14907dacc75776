"""config.yaml of version 1 repositories."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.flatbuf.flexbuffers import Json
from frazil.format import conditions, storage_config
from frazil.format.conditions import Bound
from frazil.format.config import (
    CachingConfig,
    CompressionConfig,
    ManifestConfig,
    ManifestPreloadConfig,
    ManifestSplittingConfig,
    RepositoryConfig,
)
from frazil.format.config_codec import (
    decode_config,
    decode_config_yaml,
    encode_config,
    encode_config_yaml,
)
from frazil.format.storage_config import ObjectStoreConfig, S3Options, VirtualChunkContainer

STORES: list[ObjectStoreConfig] = [
    storage_config.InMemoryStoreConfig(),
    storage_config.LocalStoreConfig("/data: #1 'é' \"q\" \\ \t \U0001f9ca"),
    storage_config.LocalStoreConfig(""),
    storage_config.S3StoreConfig(
        S3Options(region="on", endpoint_url="http://x:1", allow_http=True)
    ),
    storage_config.S3CompatibleStoreConfig(S3Options(region="1e3")),
    storage_config.TigrisStoreConfig(S3Options(anonymous=True)),
    storage_config.GcsStoreConfig({}),
    storage_config.GcsStoreConfig({"s3": "null", "~": "0x1"}),
    storage_config.AzureStoreConfig({"account": "2001-01-01"}),
    storage_config.HttpStoreConfig({"timeout": "5"}, {"X-A": "true"}),
]


def full_config() -> RepositoryConfig:
    either = conditions.SplitOr(
        (conditions.SplitPathMatches("a.*: #"), conditions.SplitNameMatches("'t'"))
    )
    sizes = (
        (either, ((conditions.SplitAxis(0), 3), (conditions.SplitDimensionName("x"), 2))),
        (conditions.SplitAnyArray(), ((conditions.SplitAnyDimension(), 7),)),
    )
    preload = conditions.PreloadAnd(
        (
            conditions.PreloadNumRefs(Bound(1, included=True), None),
            conditions.PreloadTrue(),
            conditions.PreloadPathMatches("^/x"),
        )
    )
    return RepositoryConfig(
        inline_chunk_threshold_bytes=12,
        compression=CompressionConfig(level=5),
        caching=CachingConfig(num_snapshot_nodes=3),
        virtual_chunk_containers={
            f"s3://b{i}/": VirtualChunkContainer(f"s3://b{i}/", store)
            for i, store in enumerate(STORES)
        },
        manifest=ManifestConfig(
            preload=ManifestPreloadConfig(max_total_refs=3, preload_if=preload),
            splitting=ManifestSplittingConfig(sizes),
        ),
    )


@pytest.mark.parametrize("config", [RepositoryConfig(), full_config()], ids=["empty", "full"])
def test_what_is_written_is_read(config: RepositoryConfig) -> None:
    stored = encode_config(config)
    read = decode_config_yaml(encode_config_yaml(stored))
    assert read == stored
    assert encode_config(decode_config(read)) == stored


def test_alternatives_are_tags() -> None:
    text = encode_config_yaml(encode_config(full_config())).decode()
    for part in ("store: !s3\n", "!gcs {}", '"in_memory"', "!Axis 0", "!num_refs\n", "!Included 1"):
        assert part in text


def test_a_file_of_the_reference_is_read() -> None:
    data = b"""
inline_chunk_threshold_bytes: 12
get_partial_values_concurrency: null
compression:
  algorithm: null
  level: 5
virtual_chunk_containers:
  tigris:
    name: tigris
    url_prefix: tigris
    store: !tigris
      region: null
      endpoint_url: https://fly.storage.tigris.dev
      anonymous: false
      allow_http: false
  file:
    name: file
    url_prefix: file
    store: !local_file_system ''
  memory:
    name: m
    url_prefix: memory://
    store: in_memory
manifest:
  preload:
    max_total_refs: 3
    preload_if: !and
    - !num_refs
      from: !Included 1
      to: !Excluded 10
    - 'true'
    - !path_matches
      regex: 'a''b: "c'
  splitting:
    split_sizes:
    - - !name_matches
        regex: split_*
      - - condition: !Axis 0
          num_chunks: 1
        - condition: Any
          num_chunks: 3
"""
    config = decode_config(decode_config_yaml(data))
    assert config.inline_chunk_threshold_bytes == 12
    assert config.manifest is not None
    assert config.manifest.preload is not None
    assert config.manifest.preload.preload_if == conditions.PreloadAnd(
        (
            conditions.PreloadNumRefs(Bound(1, included=True), Bound(10, included=False)),
            conditions.PreloadTrue(),
            conditions.PreloadPathMatches("a'b: \"c"),
        )
    )
    containers = config.virtual_chunk_containers
    assert containers is not None
    assert sorted(containers) == ["file", "memory://", "tigris"]  # by prefix, not by name
    assert containers["file"].store == storage_config.LocalStoreConfig("")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("2001-01-01", "2001-01-01"),
        ("010", "010"),
        ("1_000", "1_000"),
        ("true", True),
        ("'true'", "true"),
        ("-3", -3),
        ("1.5", 1.5),
        ("", None),
        ("~", None),
        ("!S3Compatible {}", {"s3_compatible": {}}),
        ("!InMemory", "in_memory"),
        ("!x '3'", {"x": "3"}),
        ("!x 3", {"x": 3}),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: Json) -> None:
    assert decode_config_yaml(f"key: {text}\n".encode()) == {"key": value}


@pytest.mark.parametrize(
    "data",
    [
        b"a: [",
        b"\xff\xfe\x00",
        b"a: &x 1\nb: *x",
        b"a: !!python/object/apply:os.system [ls]",
        b"!!set {a, b}",
        b"[" * 10_000,
        b"? {a: 1}\n: 2",
    ],
)
def test_what_no_configuration_needs_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        decode_config(decode_config_yaml(data))
    assert caught.value.kind == "config-deserialization"


@given(st.data())
def test_damage_is_found_or_does_no_harm(data: st.DataObject) -> None:
    """Whatever happens to the bytes: a configuration, or a FormatError."""
    whole = encode_config_yaml(encode_config(full_config()))
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, min(len(whole), start + 30)))
    damage = data.draw(
        st.binary(max_size=5) | st.sampled_from([b"!x ", b"- ", b"&a ", b"{", b"? "])
    )
    try:
        config = decode_config(decode_config_yaml(whole[:start] + damage + whole[stop:]))
    except FormatError:
        return
    assert isinstance(config, RepositoryConfig)
