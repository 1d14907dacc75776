"""From a set of references to nodes of a repository: all is decided before anything is done."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.strings import Strings
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.payloads import RefKind
from frazil.paths import NodePath
from frazil.references.columns import (
    ARRAY_2,
    ATTRIBUTES_2,
    GROUP_2,
    NODE_3,
    ChunkColumns,
    ReferenceSet,
    split_document_key,
    wrong,
)
from frazil.references.locations import located
from frazil.references.zarr_v2 import array_document, group_document
from frazil.repo.zarr_metadata import parse_node_metadata

type SizesOf = Callable[[Strings], npt.NDArray[np.uint64]]  # bytes of each file


@dataclass(frozen=True, slots=True, eq=False)
class ArrayImport:
    path: NodePath
    document: bytes  # zarr.json
    refs: ChunkRefs  # virtual and inline


@dataclass(frozen=True, slots=True, eq=False)
class ImportPlan:
    where: str
    groups: Mapping[NodePath, Mapping[str, Any]]  # attributes
    arrays: tuple[ArrayImport, ...]


def plan_import(
    references: ReferenceSet,
    *,
    group: NodePath,
    root: str | None,
    last_modified: int,
    sizes_of: SizesOf,
) -> ImportPlan:
    """Nodes below `group`. Raises FormatError, naming the set and the key in it.

    `last_modified` is what is expected of all files, in Unix seconds; 0 for nothing.
    """
    attributes = _attributes(references)
    groups: dict[NodePath, Mapping[str, Any]] = {}
    arrays = []
    for key, document in references.documents.items():
        path, name = split_document_key(key)
        node = _below(references.where, key, group, path)
        with_arrays = name == ARRAY_2 or (name == NODE_3 and document.get("node_type") == "array")
        if with_arrays:
            text = _array_text(references.where, key, document, attributes.get(path, {}))
            refs = _chunk_refs(
                references.where,
                path,
                references.chunks[path],
                root=root,
                last_modified=last_modified,
                sizes_of=sizes_of,
            )
            arrays.append(ArrayImport(node, text, refs))
        elif name == NODE_3:
            groups[node] = _group_attributes(references.where, key, document)
        elif name == GROUP_2:
            groups[node] = attributes.get(path, {})
    for each in arrays:
        for above in each.path.ancestors:
            groups.setdefault(above, {})
    return ImportPlan(references.where, groups, tuple(arrays))


def _below(where: str, key: str, group: NodePath, path: str) -> NodePath:
    try:
        return NodePath(group.descendant_prefix + path) if path else group
    except InvalidInputError as error:
        raise wrong(where, key, error.message) from error


def _attributes(references: ReferenceSet) -> dict[str, Mapping[str, Any]]:
    return {
        split_document_key(key)[0]: document
        for key, document in references.documents.items()
        if split_document_key(key)[1] == ATTRIBUTES_2
    }


def _group_attributes(where: str, key: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
    if document.get("node_type") != "group":
        raise wrong(where, key, f"node_type is {document.get('node_type')!r}")
    attributes = document.get("attributes") or {}
    if not isinstance(attributes, Mapping):
        raise wrong(where, key, "attributes is not an object")
    return attributes


def _array_text(
    where: str, key: str, document: Mapping[str, Any], attributes: Mapping[str, Any]
) -> bytes:
    try:
        if key.rpartition("/")[2] == NODE_3:
            # In a repository chunks have no keys, so theirs may be the usual ones.
            made = {**document, "chunk_key_encoding": {"name": "default"}}
        else:
            made = array_document(document, attributes)
        text = json.dumps(made).encode()
        parse_node_metadata(text)  # here rather than when half is done
    except InvalidInputError as error:
        raise wrong(where, key, error.message) from error
    return text


def group_text(attributes: Mapping[str, Any]) -> bytes:
    return json.dumps(group_document(attributes)).encode()


def _chunk_refs(
    where: str,
    array: str,
    chunks: ChunkColumns,
    *,
    root: str | None,
    last_modified: int,
    sizes_of: SizesOf,
) -> ChunkRefs:
    column = chunks.location.pruned()
    try:
        strings = located(column.strings, root=root)
    except InvalidInputError as error:
        raise FormatError(f"array {array!r}: {error.message}", where=where) from error
    length = chunks.length
    if chunks.whole.any():
        length = length.copy()
        used = StringColumn(column.codes[chunks.whole], strings).pruned()
        length[chunks.whole] = sizes_of(used.strings)[used.codes]
    inline = chunks.inline.present
    return ChunkRefs.from_columns(
        chunks.index,
        np.where(inline, RefKind.INLINE, RefKind.VIRTUAL),
        offset=chunks.offset,
        length=length,
        location=StringColumn(column.codes, strings),
        last_modified=np.where(inline, 0, last_modified),
        inline=chunks.inline,
    )
