"""The configuration of a version 1 repository, `config.yaml`, as the JSON that version 2 stores.

An alternative with content is a YAML tag there (`!s3 {region: us-east-1}`) and a map of one name
here ({"s3": {"region": "us-east-1"}}). Scalars follow YAML 1.2, as the reference reads them:
`on` is text. Anchors and aliases are refused; nobody writes them, and a few lines of them can
stand for a document of any size. So are more than `max_size` bytes and deep nesting: the library
takes a second for each megabyte.
"""

import json
import re
from collections.abc import Buffer, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from frazil.errors import FormatError
from frazil.flatbuf.flexbuffers import Json

__all__ = ["decode_config_yaml", "encode_config_yaml"]

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
_PLAIN_KEY = re.compile(r"[a-z][a-z0-9_]*")
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
    return name if _PLAIN_KEY.fullmatch(name) else _text(name)


def _text(value: Json) -> str:
    """Flow style, which is JSON's; it has no escapes beyond 16 bits in common with YAML."""
    return json.dumps(value, ensure_ascii=False)
