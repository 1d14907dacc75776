"""Answers to the questions of the catalog: what is in a namespace, and what a name stands for.

| question | answer |
|---|---|
| `{"catalog": "namespaces", "in": [...]}` | `names` |
| `{"catalog": "tables", "in": [...]}` | `names` |
| `{"catalog": "namespace", "in": [...]}` | `properties` |
| `{"catalog": "table", "in": [...], "name": ...}`, and `version` or `timestamp` | a table's
description, and the `options` that read it |
| `{"catalog": "changes", "in": [...], "name": ..., ...}` | see native/changelog.py |
| `{"catalog": "exists", "in": [...], "name": ...}` | nothing |
| `{"catalog": "procedures"}` | `procedures` |
| `{"catalog": "call", "name": ..., "arguments": {...}}` | `rows` |

Each has `as`, the name of the catalog; the options of the data source are its settings. An `error`
in the answer is a text for the user; with `missing`, there is nothing of that name.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructField, StructType

from frazil.errors import IcechunkError, InvalidInputError
from frazil.format.nodes import Node
from frazil.lazy import lazy_module
from frazil.paths import NodePath
from frazil.spark.native.answers import answer_in, with_answer
from frazil.spark.native.changelog import FoundChanges, find_changes
from frazil.spark.native.names import (
    NOT_EMPTY,
    ROOT_TABLE,
    TAKEN,
    Asked,
    Found,
    NoSuchNameError,
    Place,
    Settings,
    find_in,
    find_named,
    find_place,
    folder_exists,
    has_arrays,
    list_folders,
    parse_settings,
    repositories_in,
)
from frazil.spark.table.metadata_tables import TABLES

if TYPE_CHECKING:
    from frazil.spark.native import procedures
else:  # maintenance is nothing that a task needs, and every task imports this module
    procedures = lazy_module("frazil.spark.native.procedures")

# Attributes that describe a group or array; the first is what COMMENT sets.
_ABOUT = ("comment", "title", "long_name", "description", "summary")

type Describe = Callable[[dict[str, Any], dict[str, str]], StructType]
"""The answer of the data source to a question about options."""


def answer_catalog(
    question: Mapping[str, Any], given: Mapping[str, str], describe: Describe
) -> StructType:
    return answer_for(question, given, lambda settings: _answer(question, settings, describe))


def answer_for(
    question: Mapping[str, Any],
    given: Mapping[str, str],
    answer: Callable[[Settings], StructType],
) -> StructType:
    """The answer with the settings of the catalog that asks, or what is wrong."""
    try:
        return answer(parse_settings(str(question.get("as", "")), given))
    except NoSuchNameError as error:
        told = {"error": error.message, "missing": True}
    except IcechunkError as error:
        told = {"error": error.message, **_FLAGS.get(error.kind, {})}
    return with_answer(StructType(), told)


# Of errors for which Spark has its own text.
_FLAGS: dict[str, dict[str, Any]] = {TAKEN: {"exists": True}, NOT_EMPTY: {"full": True}}


def _answer(question: Mapping[str, Any], settings: Settings, describe: Describe) -> StructType:
    match question:
        case {"catalog": "table", "in": list(parts), "name": str(name)}:
            asked = Asked(question.get("version"), question.get("timestamp"))
            return _table(settings, (*parts, name), asked, describe)
        case {"catalog": "changes", "in": list(parts), "name": str(name), "range": dict(ends)}:
            found = find_changes(settings, (*parts, name), ends, net=question.get("net") is True)
            return _changes(settings, found, describe)
        case {"catalog": "exists", "in": list(parts), "name": str(name)}:
            if not find_named(settings, (*parts, name)).is_table:
                raise NoSuchNameError(f"group {name!r} has no arrays")
            told: dict[str, Any] = {}
        case {"catalog": "call", "name": str(name), "arguments": dict(given)}:
            told = {"rows": procedures.call_procedure(settings, name, given)}
        case {"catalog": "procedures"}:
            told = {"procedures": procedures.describe_procedures()}
        case {"catalog": "namespaces", "in": list(parts)}:
            told = {"names": list_namespaces(settings, tuple(parts))}
        case {"catalog": "tables", "in": list(parts)}:
            told = {"names": list_tables(settings, tuple(parts))}
        case {"catalog": "namespace", "in": list(parts)}:
            told = {"properties": namespace_properties(settings, tuple(parts))}
        case _:
            raise InvalidInputError("the catalog asks nothing that is known")
    return with_answer(StructType(), told)


# Namespaces: folders, repositories, groups


def list_namespaces(settings: Settings, parts: tuple[str, ...]) -> list[str]:
    """Folders and repositories in a folder, groups in a repository or group."""
    if not parts and _takes_locations(settings):
        return []
    place = find_place(settings, parts)
    if not place.is_repository:
        return list(_folders(settings, place))
    return [name for name, node in _children(_group(settings, place)) if node.array is None]


def list_tables(settings: Settings, parts: tuple[str, ...]) -> list[str]:
    """Repositories in a folder; in a repository or group, its arrays and groups with arrays."""
    if not parts and _takes_locations(settings):
        return []
    place = find_place(settings, parts)
    if not place.is_repository:
        _folders(settings, place)  # raises if there is none
        return repositories_in(settings, place.location)
    group = _group(settings, place)
    children = _children(group)
    names = [
        name
        for name, node in children
        if node.array is not None or has_arrays(group.session, node.path)
    ]
    is_root = settings.repository is not None and not parts
    has_own = is_root and any(node.array is not None for _, node in children)
    return [ROOT_TABLE, *names] if has_own else names


def namespace_properties(settings: Settings, parts: tuple[str, ...]) -> dict[str, str]:
    if not parts and _takes_locations(settings):
        return {"comment": "locations, written in backticks"}
    place = find_place(settings, parts)
    if not place.is_repository:
        _folders(settings, place)
        return {"location": place.location, "kind": "folder"}
    found = _group(settings, place)
    session, path = found.session, found.named.path
    attributes = _document(session.node(NodePath(path))).get("attributes", {})
    comment = {"comment": str(attributes["comment"])} if attributes.get("comment") else {}
    return comment | {
        "location": place.location,
        "kind": "repository" if path == "/" else "group",
        "group": path,
        "snapshot": str(session.snapshot_id),
        "attributes": json.dumps(attributes),
    }


def _takes_locations(settings: Settings) -> bool:
    """True for a catalog without a warehouse: there is no list of what could be named."""
    return settings.warehouse is None and settings.repository is None


def _folders(settings: Settings, place: Place) -> tuple[str, ...]:
    names = list_folders(settings, place.location)
    if not names and not folder_exists(settings, place.location):
        raise NoSuchNameError(f"no folder {place.location}")
    return names


def _group(settings: Settings, place: Place) -> Found:
    found = find_in(settings, place)
    if found.named.table is not None or found.named.is_array:
        raise NoSuchNameError(f"no group {'.'.join(place.rest)!r}")
    return found


def _children(group: Found) -> list[tuple[str, Node]]:
    path, session = NodePath(group.named.path), group.session
    nodes = [(name, session.find_node(path.child(name))) for name in session.child_names(path)]
    return sorted((name, node) for name, node in nodes if node is not None)


# Tables


def _table(
    settings: Settings, parts: tuple[str, ...], asked: Asked, describe: Describe
) -> StructType:
    try:
        found = find_named(settings, parts, asked)
    except NoSuchNameError as error:
        if _takes_locations(settings):  # Spark would look for files of a format of that name
            raise InvalidInputError(error.message) from None
        raise
    options = found.named.options
    answer = describe({"describe": True, "nulls": True}, {**settings.reach, **options})
    told = answer_in(answer)
    columns, documents = _with_nullability(answer, told), _documents(found, told)
    told |= {
        "options": options,
        "properties": {**_properties(found, told), **_array_properties(documents)},
    }
    return with_answer(_with_comments(columns, documents), told)


def _with_nullability(answer: StructType, told: Mapping[str, Any]) -> StructType:
    """Columns of a table. Coordinates without NULL locate rows, so that these may be changed."""
    located = {each["name"] for each in told["dimensions"] if not each["nullable"]}
    return StructType(
        [
            StructField(field.name, field.dataType, field.name not in located, field.metadata)
            for field in answer.fields[:-1]
        ]
    )


def _changes(settings: Settings, found: FoundChanges, describe: Describe) -> StructType:
    answer = describe({"describe": True}, {**settings.reach, **found.options})
    told = answer_in(answer) | {
        "options": found.options,
        "properties": {"rowId": found.dimensions, "stream": found.stream},
    }
    return with_answer(StructType(answer.fields[:-1]), told)


def _documents(found: Found, told: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The metadata of the arrays that are columns, by name."""
    if told["kind"] != "cells":
        return {}
    names = [each["name"] for each in [*told["dimensions"], *told["variables"]]]
    path = NodePath(found.named.path)
    group = path.parent if found.named.is_array else path
    nodes = {n: group and found.session.find_node(group.child(n)) for n in names}
    return {name: _document(node) for name, node in nodes.items() if node and node.array}


def _document(node: Node) -> Mapping[str, Any]:
    found = json.loads(node.user_data)
    return found if isinstance(found, dict) else {}


def _properties(found: Found, told: Mapping[str, Any]) -> dict[str, str]:
    named, version = found.named, found.named.version
    attributes = _document(found.session.node(NodePath(named.path))).get("attributes", {})
    about = [attributes.get(key) for key in _ABOUT]
    dimensions = [f"{each['name']}: {each['size']}" for each in told["dimensions"]]
    of_snapshot = named.table is None or TABLES[named.table].of_snapshot
    properties = {
        "provider": "icechunk",
        "location": named.location,
        "external": "true",
        "comment": TABLES[named.table].about if named.table else next(filter(None, about), None),
        "group" if not named.is_array else "array": named.path,
        "table": named.table,
        "branch": None if version.tag or version.snapshot else version.branch or "main",
        "tag": version.tag,
        "snapshot": str(found.session.snapshot_id) if of_snapshot else None,
        "dimensions": ", ".join(dimensions) or None,
        "attributes": json.dumps(attributes) if attributes else None,
    }
    told = {name: str(text) for name, text in properties.items() if text is not None}
    own = {name: _text(value) for name, value in attributes.items() if name not in properties}
    return {**own, **told}


def _array_properties(documents: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Properties from the metadata of arrays, each under its own name: `chunks.t2m` and so on."""
    found: dict[str, str] = {}
    for name, document in documents.items():
        chunks = document.get("chunk_grid", {}).get("configuration", {}).get("chunk_shape")
        codecs = [each.get("name", each) if isinstance(each, dict) else each
                  for each in document.get("codecs", [])]  # fmt: skip
        told = {
            "dtype": document.get("data_type"),
            "shape": document.get("shape"),
            "chunks": chunks,
            "codecs": ", ".join(map(str, codecs)),
            "fill_value": document.get("fill_value"),
            "attributes": document.get("attributes") or None,
        }
        found |= {f"{key}.{name}": _text(each) for key, each in told.items() if each is not None}
    return found


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _with_comments(schema: StructType, documents: Mapping[str, Mapping[str, Any]]) -> StructType:
    """Columns with what CF says about them as comments: `2 metre temperature (K)`."""
    return StructType([_with_comment(each, documents.get(each.name, {})) for each in schema.fields])


def _with_comment(column: StructField, document: Mapping[str, Any]) -> StructField:
    attributes = document.get("attributes", {})
    name, units = attributes.get("long_name"), attributes.get("units")
    parts = [str(name)] if name else []
    if units:
        parts.append(f"({units})" if name else str(units))
    if not parts:
        return column
    metadata = {**(column.metadata or {}), "comment": " ".join(parts)}
    return StructField(column.name, column.dataType, column.nullable, metadata)
