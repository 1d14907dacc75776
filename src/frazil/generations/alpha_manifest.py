"""Manifests of the generations before version 1, as columns. See docs/generations.md.

    A1a .. A2b   [chunks]
    A2c .. A3a   [version, {}, chunks]           chunks: {[node, [i, j ...]]: payload}
    A3b          [version, {}, nodes]            nodes: {node: {[i, j ...]: payload}}
    A3c, A3d     [version, {}, id, nodes]
    A3e          [id, nodes]

Until the end of November 2024 a node may have chunks of other arrays. Only those of another
dimensionality can be recognised, by a caller that knows the array's shape: so each node has a set
of references for every dimensionality in the file.
"""

from collections.abc import Buffer, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError
from frazil.flatbuf.columns import StringColumn
from frazil.format.chunk_refs import ChunkRefs, RefKind
from frazil.format.envelope import FileType
from frazil.format.manifest import Manifest, decode_manifest
from frazil.generations.msgpack_values import (
    describe_value,
    fields,
    is_flatbuffer,
    mapping,
    node_id,
    number,
    object_ids,
    payload,
    text,
    unpack,
    variant,
)
from frazil.ids import ManifestId, NodeId


@dataclass(frozen=True, slots=True, eq=False)
class OldManifest:
    id: ManifestId
    arrays: dict[NodeId, dict[int, ChunkRefs]]  # by node, then by number of dimensions

    def resolved(self, ndims: dict[NodeId, int]) -> Manifest:
        """The references that have the dimensions of their array.

        Of an array that `ndims` lacks, those with the most common number of dimensions.
        """
        return Manifest(
            self.id,
            {
                node: refs
                for node, parts in sorted(self.arrays.items())
                if (refs := _select_part(parts, ndims.get(node))) is not None
            },
        )


def _select_part(parts: dict[int, ChunkRefs], ndim: int | None) -> ChunkRefs | None:
    return max(parts.values(), key=len) if ndim is None else parts.get(ndim)


def decode_old_manifest(
    data: Buffer, name: ManifestId, *, max_size: int | None = None
) -> OldManifest:
    """Decodes a manifest. `name` is that of the file; files before A3c do not contain it."""
    content = payload(data, FileType.MANIFEST, max_size=max_size)
    if is_flatbuffer(content):
        found = decode_manifest(data, max_size=max_size)
        return OldManifest(name, {node: {refs.ndim: refs} for node, refs in found.arrays.items()})
    del data
    parts = fields(unpack(content), (1, 2, 3, 4), "a manifest")
    chunks = mapping(parts[-1], "the chunks of a manifest")
    found_rows = _read_nested(chunks) if _is_nested(len(parts), chunks) else _read_flat(chunks)
    return OldManifest(
        name,
        {
            node: {ndim: _columns(index, payloads) for ndim, (index, payloads) in parts.items()}
            for node, parts in found_rows.items()
        },
    )


type _Rows = tuple[list[tuple[int, ...]], list[Any]]  # indices and payloads
type _ByNode = dict[NodeId, dict[int, _Rows]]


def _is_nested(count: int, chunks: dict[Any, Any]) -> bool:
    """True if the keys of a manifest with three fields are nodes: [bytes, []], not [node, [..]]."""
    if count != 3:
        return count in {2, 4}
    match next(iter(chunks), None):
        case (bytes(), ()):
            return True
    return False


def _read_flat(chunks: dict[Any, Any]) -> _ByNode:
    known: dict[Any, dict[int, _Rows]] = {}
    for key, content in chunks.items():
        if not isinstance(key, tuple) or len(key) != 2 or not isinstance(key[1], tuple):
            raise FormatError(
                f"the key of a chunk is {describe_value(key)}, expected a node and an index"
            )
        node, index = key
        # a bool and a number may be equal keys, though only one of them is a node's
        parts = known.setdefault((type(node), node), {})
        rows = parts.setdefault(len(index), ([], []))
        rows[0].append(index)
        rows[1].append(content)
    return {NodeId(node_id(node)): parts for (_, node), parts in known.items()}


def _read_nested(nodes: dict[Any, Any]) -> _ByNode:
    found: _ByNode = {}
    for node, chunks in nodes.items():
        parts = found.setdefault(NodeId(node_id(node)), {})
        for index, content in mapping(chunks, "the chunks of a node").items():
            if not isinstance(index, tuple):
                raise FormatError(f"a chunk index is {describe_value(index)}, expected a list")
            rows = parts.setdefault(len(index), ([], []))
            rows[0].append(index)
            rows[1].append(content)
    return found


def _columns(index: list[tuple[int, ...]], payloads: list[Any]) -> ChunkRefs:
    names, contents = _variants(payloads)
    count = len(index)
    kind = np.zeros(count, dtype=np.uint8)
    columns = _Columns.empty(count)
    for name, fill in (("Inline", _fill_inline), ("Ref", _fill_native), ("Virtual", _fill_virtual)):
        rows = [row for row, found in enumerate(names) if found == name]
        if rows:
            at = np.array(rows, dtype=np.int64)
            kind[at] = fill(columns, at, [contents[row] for row in rows])
    if not kind.all():
        raise FormatError("a chunk reference is neither inline, native nor virtual")
    return ChunkRefs.from_columns(
        index_rows(index),
        kind,
        chunk_id=columns.chunk_id,
        offset=columns.offset,
        length=columns.length,
        location=StringColumn.from_list(columns.location) if columns.location else None,
        etag=StringColumn.from_list(columns.etag) if columns.etag else None,
        last_modified=columns.last_modified,
        inline=StringColumn.from_list(columns.inline) if columns.inline else None,
    )


def _variants(payloads: Iterable[Any]) -> tuple[list[str], list[Any]]:
    pairs = [variant(each, "a chunk reference") for each in payloads]
    return [name for name, _ in pairs], [content for _, content in pairs]


def index_rows(index: list[tuple[int, ...]]) -> npt.NDArray[np.uint32]:
    ndim = len(index[0])
    return _numbers(chain.from_iterable(index), "a chunk index", 32).reshape(len(index), ndim)


def _numbers(values: Iterable[Any], what: str, bits: int) -> npt.NDArray[Any]:
    """Whole numbers of so many bits, as a column."""
    listed = list(values)
    if not all(type(each) is int for each in listed):
        raise FormatError(f"{what} is not a whole number")
    try:
        return np.array(listed, dtype=f"u{bits // 8}")
    except OverflowError as error:
        raise FormatError(f"{what} is not a number of {bits} bits") from error


@dataclass(slots=True)
class _Columns:
    """Columns of one array's references while they are filled."""

    chunk_id: npt.NDArray[np.uint8]
    offset: npt.NDArray[np.uint64]
    length: npt.NDArray[np.uint64]
    last_modified: npt.NDArray[np.uint32]
    location: list[bytes | None]  # empty where there are none
    etag: list[bytes | None]
    inline: list[bytes | None]

    @classmethod
    def empty(cls, count: int) -> "_Columns":
        return cls(
            np.zeros((count, 12), dtype=np.uint8),
            np.zeros(count, dtype=np.uint64),
            np.zeros(count, dtype=np.uint64),
            np.zeros(count, dtype=np.uint32),
            [],
            [],
            [],
        )

    def texts(self) -> list[bytes | None]:
        return [None] * len(self.offset)


def _fill_inline(columns: _Columns, rows: npt.NDArray[np.int64], contents: list[Any]) -> RefKind:
    if not all(isinstance(each, bytes) for each in contents):
        raise FormatError("an inline chunk is not bytes")
    columns.inline = columns.texts()
    for row, content in zip(rows.tolist(), contents, strict=True):
        columns.inline[row] = content
    columns.length[rows] = [len(each) for each in contents]
    return RefKind.INLINE


def _fill_native(columns: _Columns, rows: npt.NDArray[np.int64], contents: list[Any]) -> RefKind:
    parts = [fields(each, (3,), "a native chunk reference") for each in contents]
    columns.chunk_id[rows] = object_ids([each[0] for each in parts], "a chunk id")
    columns.offset[rows] = _numbers((each[1] for each in parts), "the offset of a chunk", 64)
    columns.length[rows] = _numbers((each[2] for each in parts), "the length of a chunk", 64)
    return RefKind.NATIVE


def _fill_virtual(columns: _Columns, rows: npt.NDArray[np.int64], contents: list[Any]) -> RefKind:
    """[location, offset, length, checksum]; A1e to A2h have {"Absolute": location}, no checksum."""
    parts = [fields(each, (3, 4), "a virtual chunk reference") for each in contents]
    columns.offset[rows] = _numbers((each[1] for each in parts), "the offset of a chunk", 64)
    columns.length[rows] = _numbers((each[2] for each in parts), "the length of a chunk", 64)
    columns.location, columns.etag = columns.texts(), columns.texts()
    for row, each in zip(rows.tolist(), parts, strict=True):
        columns.location[row] = _location(each[0]).encode()
        if len(each) == 4 and each[3] is not None:
            name, content = variant(each[3], "a checksum")
            if name == "ETag":
                columns.etag[row] = text(content, "an etag").encode()
            elif name == "LastModified":
                columns.last_modified[row] = number(content, "a time", bits=32)
            else:
                raise FormatError(f"a checksum is {name[:20]!r}")
    return RefKind.VIRTUAL


def _location(value: Any) -> str:
    if isinstance(value, str):
        return value
    name, content = variant(value, "a virtual location")
    if name != "Absolute":
        raise FormatError(f"a virtual location is {name[:20]!r}")
    return text(content, "a virtual location")
