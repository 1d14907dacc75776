"""A configuration as the repo info file holds it: one FlexBuffers map, here as JSON values.

Every field of a record is written, None as null; unknown fields are ignored and missing ones are
None. Alternatives are written as the reference's serializer does:

    without content     its name                     "any_array"  "in_memory"  "Any"
    with content        a map of its name to it      {"path_matches": {"regex": "t.*"}}  {"Axis": 1}
"""

import json
import re
from collections.abc import Buffer, Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any, cast

from frazil.dataclass import dataclass
from frazil.errors import FormatError
from frazil.flatbuf.flexbuffers import Json
from frazil.format import conditions, storage_config
from frazil.format.conditions import (
    Bound,
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

type Decoder = Callable[[Json], Any]


def decode_config(stored: Json) -> RepositoryConfig:
    try:
        config: RepositoryConfig = _decode_record(RepositoryConfig, stored)
    except (OverflowError, ValueError) as error:  # a number that its field does not take
        raise FormatError(f"configuration: {error}", kind="config-deserialization") from error
    return config


def encode_config(config: RepositoryConfig) -> Json:
    return _encode(config)


def _config_error(stored: Json, expected: str) -> FormatError:
    return FormatError(
        f"configuration has {stored!r}, expected {expected}", kind="config-deserialization"
    )


# ---- records -------------------------------------------------------------------------------


def _decode_record(record: type[Any], stored: Json) -> Any:
    if not isinstance(stored, dict):
        raise _config_error(stored, f"a {record.__name__}")
    decoders = _RECORDS[record]
    found = {
        name: decoders[name](value)
        for name, value in stored.items()
        if name in decoders and value is not None
    }
    late = {name: found.pop(name) for name in _NOT_PARAMETERS & found.keys()}
    try:
        made = record(**found)
    except TypeError as error:  # a part without a default is missing
        raise _config_error(stored, f"a {record.__name__}") from error
    for name, value in late.items():
        setattr(made, name, value)
    return made


def _record(record: type[Any]) -> Decoder:
    return lambda stored: _decode_record(record, stored)


def _encode_record(record: Any) -> Json:
    return {each.name: _encode(getattr(record, each.name)) for each in fields(record)}


def _decode_int(stored: Json) -> int:
    if isinstance(stored, bool) or not isinstance(stored, int):
        raise _config_error(stored, "a whole number")
    return stored


def _decode_bool(stored: Json) -> bool:
    if not isinstance(stored, bool):
        raise _config_error(stored, "true or false")
    return stored


def _decode_text(stored: Json) -> str:
    if not isinstance(stored, str):
        raise _config_error(stored, "text")
    return stored


def _decode_texts(stored: Json) -> dict[str, str]:
    if not isinstance(stored, dict):
        raise _config_error(stored, "a map of texts")
    return {name: _decode_text(value) for name, value in stored.items()}


def _decode_list[T](stored: Json, decode: Callable[[Json], T]) -> tuple[T, ...]:
    if not isinstance(stored, list):
        raise _config_error(stored, "a list")
    return tuple(decode(item) for item in stored)


# ---- alternatives --------------------------------------------------------------------------


def _split_variant(stored: Json, expected: str) -> tuple[str, Json]:
    """Name and content of an alternative; content is None where it has none."""
    match stored:
        case str():
            return stored, None
        case dict() if len(stored) == 1:
            return next(iter(stored.items()))
        case _:
            raise _config_error(stored, expected)


def _decode_algorithm(stored: Json) -> CompressionAlgorithm:
    if stored not in {"zstd", "Zstd"}:
        raise _config_error(stored, "a compression algorithm")
    return CompressionAlgorithm.Zstd


def _decode_checksum(stored: Json) -> ChecksumAlgorithm:
    try:
        return ChecksumAlgorithm(stored)
    except ValueError as error:
        raise _config_error(stored, "a checksum algorithm") from error


def _regex(content: Json) -> str:
    return _decode_text(content.get("regex") if isinstance(content, dict) else content)


def _decode_split_condition(stored: Json) -> ManifestSplitCondition:
    match _split_variant(stored, "a split condition"):
        case "or", content:
            return conditions.SplitOr(_decode_list(content, _decode_split_condition))
        case "and", content:
            return conditions.SplitAnd(_decode_list(content, _decode_split_condition))
        case "path_matches", content:
            return conditions.SplitPathMatches(_regex(content))
        case "name_matches", content:
            return conditions.SplitNameMatches(_regex(content))
        case "any_array", None:
            return conditions.SplitAnyArray()
    raise _config_error(stored, "a split condition")


def _decode_dim_condition(stored: Json) -> ManifestSplitDimCondition:
    match _split_variant(stored, "a dimension condition"):
        case "Axis", content:
            return conditions.SplitAxis(_decode_int(content))
        case "DimensionName", content:
            return conditions.SplitDimensionName(_decode_text(content))
        case "Any", None:
            return conditions.SplitAnyDimension()
    raise _config_error(stored, "a dimension condition")


def _decode_preload_condition(stored: Json) -> ManifestPreloadCondition:
    match _split_variant(stored, "a preload condition"):
        case "or", content:
            return conditions.PreloadOr(_decode_list(content, _decode_preload_condition))
        case "and", content:
            return conditions.PreloadAnd(_decode_list(content, _decode_preload_condition))
        case "path_matches", content:
            return conditions.PreloadPathMatches(_regex(content))
        case "name_matches", content:
            return conditions.PreloadNameMatches(_regex(content))
        case "num_refs", {"from": start, "to": stop}:
            return conditions.PreloadNumRefs(_decode_bound(start), _decode_bound(stop))
        case ("true" | "false") as name, None:
            return conditions.PreloadTrue() if name == "true" else conditions.PreloadFalse()
    raise _config_error(stored, "a preload condition")


def _decode_bound(stored: Json) -> Bound | None:
    match _split_variant(stored, "a bound"):
        case "Unbounded", None:
            return None
        case ("Included" | "Excluded") as name, value:
            return Bound(_decode_int(value), included=name == "Included")
    raise _config_error(stored, "a bound")


def _decode_split_sizes(stored: Json) -> Any:
    def size(item: Json) -> tuple[ManifestSplitDimCondition, int]:
        match item:
            case {"condition": condition, "num_chunks": count}:
                return _decode_dim_condition(condition), _decode_int(count)
        raise _config_error(item, "a split size")

    def rule(item: Json) -> tuple[ManifestSplitCondition, Any]:
        match item:
            case [condition, sizes]:
                return _decode_split_condition(condition), _decode_list(sizes, size)
        raise _config_error(item, "a split rule")

    return _decode_list(stored, rule)


def _encode_split_sizes(splitting: ManifestSplittingConfig) -> Json:
    if splitting.split_sizes is None:
        return {"split_sizes": None}
    return {
        "split_sizes": [
            [
                _encode(arrays),
                [{"condition": _encode(axis), "num_chunks": count} for axis, count in sizes],
            ]
            for arrays, sizes in splitting.split_sizes
        ]
    }


def _decode_store(stored: Json) -> ObjectStoreConfig:
    match _split_variant(stored, "an object store"):
        case "in_memory", None:
            return storage_config.InMemoryStoreConfig()
        case "local_file_system", path:
            return storage_config.LocalStoreConfig(_decode_text(path))
        case "s3" | "s3_compatible" | "tigris" as name, content:
            return _S3_STORES[name](_decode_record(S3Options, content))
        case "gcs" | "azure" as name, content:
            return _OPTION_STORES[name](_decode_texts(content))
        case "http", dict() as content:
            headers = content.get("headers")
            options = {key: value for key, value in content.items() if key != "headers"}
            return storage_config.HttpStoreConfig(
                _decode_texts(options), None if headers is None else _decode_texts(headers)
            )
    raise _config_error(stored, "an object store")


def _decode_containers(stored: Json) -> dict[str, VirtualChunkContainer]:
    if not isinstance(stored, dict):
        raise _config_error(stored, "a map of virtual chunk containers")
    return {
        prefix: _decode_record(VirtualChunkContainer, value) for prefix, value in stored.items()
    }


_S3_STORES: Mapping[str, Callable[[S3Options], ObjectStoreConfig]] = {
    "s3": storage_config.S3StoreConfig,
    "s3_compatible": storage_config.S3CompatibleStoreConfig,
    "tigris": storage_config.TigrisStoreConfig,
}
_OPTION_STORES: Mapping[str, Callable[[dict[str, str]], ObjectStoreConfig]] = {
    "gcs": storage_config.GcsStoreConfig,
    "azure": storage_config.AzureStoreConfig,
}

# ---- encoding ------------------------------------------------------------------------------


def _encode_bound(bound: Bound | None) -> Json:
    if bound is None:
        return "Unbounded"
    return {"Included" if bound.included else "Excluded": bound.value}


def _encode_http(store: storage_config.HttpStoreConfig) -> Json:
    content: dict[str, Json] = dict(store.opts or {})
    if store.headers:
        content["headers"] = dict(store.headers)
    return {"http": content}


_ENCODERS: dict[type[Any], Callable[[Any], Json]] = {
    CompressionAlgorithm: lambda algorithm: cast("CompressionAlgorithm", algorithm).name.lower(),
    ChecksumAlgorithm: lambda algorithm: cast("ChecksumAlgorithm", algorithm).value,
    ManifestSplittingConfig: _encode_split_sizes,
    conditions.SplitOr: lambda c: {"or": [_encode(each) for each in c.conditions]},
    conditions.SplitAnd: lambda c: {"and": [_encode(each) for each in c.conditions]},
    conditions.SplitPathMatches: lambda c: {"path_matches": {"regex": c.regex}},
    conditions.SplitNameMatches: lambda c: {"name_matches": {"regex": c.regex}},
    conditions.SplitAnyArray: lambda _: "any_array",
    conditions.SplitAxis: lambda c: {"Axis": c.axis},
    conditions.SplitDimensionName: lambda c: {"DimensionName": c.regex},
    conditions.SplitAnyDimension: lambda _: "Any",
    conditions.PreloadOr: lambda c: {"or": [_encode(each) for each in c.conditions]},
    conditions.PreloadAnd: lambda c: {"and": [_encode(each) for each in c.conditions]},
    conditions.PreloadPathMatches: lambda c: {"path_matches": {"regex": c.regex}},
    conditions.PreloadNameMatches: lambda c: {"name_matches": {"regex": c.regex}},
    conditions.PreloadNumRefs: lambda c: {
        "num_refs": {"from": _encode_bound(c.start), "to": _encode_bound(c.stop)}
    },
    conditions.PreloadTrue: lambda _: "true",
    conditions.PreloadFalse: lambda _: "false",
    storage_config.InMemoryStoreConfig: lambda _: "in_memory",
    storage_config.LocalStoreConfig: lambda store: {"local_file_system": store.path},
    storage_config.S3StoreConfig: lambda store: {"s3": _encode(store.options)},
    storage_config.S3CompatibleStoreConfig: lambda s: {"s3_compatible": _encode(s.options)},
    storage_config.TigrisStoreConfig: lambda store: {"tigris": _encode(store.options)},
    storage_config.GcsStoreConfig: lambda store: {"gcs": dict(store.opts or {})},
    storage_config.AzureStoreConfig: lambda store: {"azure": dict(store.opts or {})},
    storage_config.HttpStoreConfig: _encode_http,
}


def _encode(value: Any) -> Json:
    encode = _ENCODERS.get(type(value))
    if encode is not None:
        return encode(value)
    match value:
        case None | bool() | int() | str():
            return value
        case dict():
            return {name: _encode(item) for name, item in value.items()}
        case _:
            return _encode_record(value)


# ---- fields of the records -----------------------------------------------------------------

_NOT_PARAMETERS = {"previous_file"}
_INTS = (CachingConfig, StorageConcurrencySettings, StorageRetriesSettings, StorageTimeoutSettings)
_RECORDS: dict[type[Any], dict[str, Decoder]] = {
    **{record: {each.name: _decode_int for each in fields(record)} for record in _INTS},
    CompressionConfig: {"algorithm": _decode_algorithm, "level": _decode_int},
    ManifestPreloadConfig: {
        "max_total_refs": _decode_int,
        "preload_if": _decode_preload_condition,
        "max_arrays_to_scan": _decode_int,
    },
    ManifestSplittingConfig: {"split_sizes": _decode_split_sizes},
    ManifestVirtualChunkLocationCompressionConfig: {
        each.name: _decode_int for each in fields(ManifestVirtualChunkLocationCompressionConfig)
    },
    ManifestConfig: {
        "preload": _record(ManifestPreloadConfig),
        "splitting": _record(ManifestSplittingConfig),
        "virtual_chunk_location_compression": _record(
            ManifestVirtualChunkLocationCompressionConfig
        ),
        "max_concurrent_manifest_fetches_during_commit": _decode_int,
    },
    RepoUpdateRetryConfig: {"default": _record(StorageRetriesSettings)},
    S3Options: {
        "region": _decode_text,
        "endpoint_url": _decode_text,
        "allow_http": _decode_bool,
        "anonymous": _decode_bool,
        "force_path_style": _decode_bool,
        "network_stream_timeout_seconds": _decode_int,
        "requester_pays": _decode_bool,
        "checksum_algorithm": _decode_checksum,
    },
    VirtualChunkContainer: {
        "url_prefix": _decode_text,
        "store": _decode_store,
        "name": _decode_text,
    },
    StorageSettings: {
        "concurrency": _record(StorageConcurrencySettings),
        "retries": _record(StorageRetriesSettings),
        "unsafe_use_conditional_create": _decode_bool,
        "unsafe_use_conditional_update": _decode_bool,
        "unsafe_use_metadata": _decode_bool,
        "storage_class": _decode_text,
        "metadata_storage_class": _decode_text,
        "chunks_storage_class": _decode_text,
        "minimum_size_for_multipart_upload": _decode_int,
        "timeouts": _record(StorageTimeoutSettings),
    },
    RepositoryConfig: {
        "inline_chunk_threshold_bytes": _decode_int,
        "get_partial_values_concurrency": _decode_int,
        "compression": _record(CompressionConfig),
        "max_concurrent_requests": _decode_int,
        "caching": _record(CachingConfig),
        "storage": _record(StorageSettings),
        "virtual_chunk_containers": _decode_containers,
        "manifest": _record(ManifestConfig),
        "repo_update_retries": _record(RepoUpdateRetryConfig),
        "num_updates_per_repo_info_file": _decode_int,
        "max_concurrent_decodes": _decode_int,
        "previous_file": _decode_text,
    },
}


# -------------------------------------------------------------------------------------------------
# The configuration of a version 1 repository, `config.yaml`, as the JSON that version 2 stores.
#
# An alternative with content is a YAML tag there (`!s3 {region: us-east-1}`) and a map of one name
# here ({"s3": {"region": "us-east-1"}}). Scalars follow YAML 1.2, as the reference reads them:
# `on` is text. Anchors and aliases are refused: no writer uses them, and a few lines of them can
# stand for a document of any size. So are more than `max_size` bytes and deep nesting: the library
# takes a second for each megabyte.

_RENAMED = {  # by icechunk 0.2
    "InMemory": "in_memory",
    "LocalFileSystem": "local_file_system",
    "S3Compatible": "s3_compatible",
    "S3": "s3",
    "Gcs": "gcs",
    "Azure": "azure",
    "Tigris": "tigris",
}
MAX_CONFIG_BYTES = 1 << 20
_MAX_DEPTH = 32
_KNOWN = ("null", "bool", "int", "float", "str", "seq", "map")  # what JSON knows, too
_PLAIN_KEY = r"[a-z][a-z0-9_]*"
_SCALARS = {  # of YAML 1.2
    "null": (r"~|null|Null|NULL|", "~nN\0"),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"0|[-+]?[1-9][0-9]*", "-+0123456789"),
    "float": (r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
}


@dataclass(frozen=True, slots=True)
class _Tagged:
    tag: str
    content: Any


# The library's constructors index and look up what the text says.
_REFUSED = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)


def decode_config_yaml(data: Buffer, *, max_size: int = MAX_CONFIG_BYTES) -> Json:
    import yaml  # type: ignore[import-untyped]  # noqa: PLC0415 - slow, rarely needed; no types

    content = bytes(data)
    if len(content) > max_size:
        raise FormatError(
            f"the configuration is {len(content)} bytes, at most {max_size} are accepted",
            kind="config-deserialization",
        )
    try:
        document = yaml.load(content.decode(), Loader=_loader())  # noqa: S506 - a safe one
    except (yaml.YAMLError, *_REFUSED) as error:
        raise FormatError(
            f"the configuration is not YAML: {error}", kind="config-deserialization"
        ) from error
    match document:
        case {"virtual_chunk_containers": dict() as containers}:
            document["virtual_chunk_containers"] = _by_prefix(containers)
    found: Json = document
    return found


def encode_config_yaml(stored: Json) -> bytes:
    lines = "\n".join(_block(_with_tags(stored), 0))
    return f"{lines}\n".encode()


def _by_prefix(containers: dict[str, Any]) -> dict[str, Any]:
    """Since icechunk 1.0 containers are known by their prefix, before by their name."""
    return {
        str(each.get("url_prefix", name)) if isinstance(each, dict) else name: each
        for name, each in containers.items()
    }


def _loader() -> Any:
    """A loader that knows plain values and any tag, and nothing else."""
    import yaml  # noqa: PLC0415 - see above

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # the library has no types
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as the library declares it
        yaml_constructors = {  # noqa: RUF012 - see above
            tag: yaml.SafeLoader.yaml_constructors[tag]
            for tag in (None, *(f"tag:yaml.org,2002:{kind}" for kind in _KNOWN))  # None: refuses
        }
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.events.AliasEvent):
                raise yaml.YAMLError("aliases are not accepted")
            if self.depth > _MAX_DEPTH:
                raise yaml.YAMLError(f"it is nested more than {_MAX_DEPTH} deep")
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    def construct_tagged(loader: Any, name: str, node: Any) -> Any:
        name = _RENAMED.get(name, name)
        if isinstance(node, yaml.MappingNode):
            return {name: loader.construct_mapping(node, deep=True)}
        if isinstance(node, yaml.SequenceNode):
            return {name: loader.construct_sequence(node, deep=True)}
        if node.style is None and not node.value:
            return name
        kind = loader.resolve(yaml.ScalarNode, node.value, (node.style is None, False))
        scalar = yaml.ScalarNode(kind, node.value, node.start_mark, node.end_mark, node.style)
        return {name: loader.construct_object(scalar, deep=True)}

    for kind, (pattern, first) in _SCALARS.items():
        starts = [character.strip("\0") for character in first]
        Loader.add_implicit_resolver(
            f"tag:yaml.org,2002:{kind}", re.compile(rf"(?:{pattern})\Z"), starts
        )
    Loader.add_multi_constructor("!", construct_tagged)
    return Loader


# ---- writing -------------------------------------------------------------------------------


def _with_tags(stored: Json) -> Any:
    """The document with its alternatives marked; which maps those are, only the place tells."""
    match stored:
        case dict():
            return {name: _MARKERS.get(name, _with_tags)(value) for name, value in stored.items()}
        case _:
            return stored


def _containers(stored: Json) -> Any:
    if not isinstance(stored, dict):
        return stored
    return {prefix: _with_tags(container) for prefix, container in stored.items()}


def _alternative(stored: Json) -> Any:
    match stored:
        case dict() if len(stored) == 1:
            name, content = next(iter(stored.items()))
        case _:
            return stored
    match content:
        case list():  # of "or" and "and"
            return _Tagged(name, [_alternative(each) for each in content])
        case {"from": start, "to": stop} if name == "num_refs":
            return _Tagged(name, {"from": _alternative(start), "to": _alternative(stop)})
        case _:
            return _Tagged(name, content)


def _split_sizes(stored: Any) -> Any:
    if stored is None:
        return None
    return [
        [_alternative(arrays), [_with_tags(size) for size in sizes]] for arrays, sizes in stored
    ]


_MARKERS: dict[str, Callable[[Json], Any]] = {
    "virtual_chunk_containers": _containers,
    "store": _alternative,
    "preload_if": _alternative,
    "condition": _alternative,
    "split_sizes": _split_sizes,
}


def _block(value: Any, indent: int) -> Iterator[str]:
    """Lines of a map or a list, in block style."""
    pad = " " * indent
    items = value.items() if isinstance(value, dict) else ((None, each) for each in value)
    for name, item in items:
        start = f"{pad}-" if name is None else f"{pad}{_key(name)}:"
        content = item
        if isinstance(item, _Tagged):
            start, content = f"{start} !{item.tag}", item.content
        if isinstance(content, dict | list) and content:
            yield start
            yield from _block(content, indent + 2)
        else:
            yield f"{start} {_text(content)}"


def _key(name: str) -> str:
    return name if re.fullmatch(_PLAIN_KEY, name) else _text(name)


def _text(value: Json) -> str:
    """Flow style, which is JSON's; it has no escapes beyond 16 bits in common with YAML."""
    return json.dumps(value, ensure_ascii=False)
