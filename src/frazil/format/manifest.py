"""Manifests: the chunk references of arrays. Spec: "Chunk Manifest Files".

A manifest may hold several arrays, and an array may have several manifests. What a reference is
follows from the fields it has; if there are several, the reference implementation looks for a
chunk id first, then for a compressed location, a location, and inline data.
"""

from collections.abc import Buffer
from typing import TYPE_CHECKING, Any

import numpy as np

from frazil.dataclass import dataclass
from frazil.errors import FormatError
from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn, VectorColumn
from frazil.flatbuf.decode import decode
from frazil.flatbuf.ragged import Bools, Ints, concat_arrays, even_length, gather, splits_of
from frazil.flatbuf.table import Table, TableVectorColumn
from frazil.format.chunk_refs import (
    ChunkRefs,
    ETag,
    Inline,
    LastModified,
    Native,
    Payload,
    RefKind,
    Virtual,
)
from frazil.format.envelope import FileType, decode_envelope, encode_envelope
from frazil.format.locations import (
    EncodedLocations,
    LocationCompression,
    decode_locations,
    encode_locations,
)
from frazil.format.schemas import ARRAY_MANIFEST, CHUNK_REF, IDENTIFIER, MANIFEST
from frazil.ids import ManifestId, NodeId
from frazil.lazy import lazy_module

if TYPE_CHECKING:
    from frazil.flatbuf import encode as encoder
    from frazil.flatbuf import record_encoder
else:
    encoder = lazy_module("frazil.flatbuf.encode")
    record_encoder = lazy_module("frazil.flatbuf.record_encoder")

__all__ = ["LocationCompression", "Manifest", "decode_manifest", "encode_manifest"]

type Arrays = list[tuple[NodeId, ChunkRefs]]  # in ascending order

_FEW_ALIKE = 4000  # references up to which records may be faster to encode than columns,
_FEW = 16  # and those of them that are encoded one by one, because they differ in their fields
_FEW_OF_ONE_ARRAY = 4  # references up to which that is faster even if they do not


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    id: ManifestId
    arrays: dict[NodeId, ChunkRefs]

    @property
    def num_refs(self) -> int:
        return sum(map(len, self.arrays.values()))

    @property
    def num_bytes(self) -> int:
        """About as much memory as it takes."""
        return sum(refs.num_bytes for refs in self.arrays.values())


def decode_manifest(data: Buffer, *, max_size: int | None = None) -> Manifest:
    envelope = decode_envelope(data, FileType.MANIFEST, max_size=max_size)
    del data  # the columns need the room
    root = decode(envelope.data, MANIFEST)
    arrays = root.tables("arrays").rows
    node_ids = arrays.struct("node_id").values
    refs = arrays.tables("refs")
    columns = _decode_columns(
        refs.rows,
        dictionary=root.string("location_dictionary").item(0),
        algorithm=int(root.scalar("compression_algorithm").values[0]),
    )
    index = refs.rows.vector("index")
    found: dict[NodeId, list[ChunkRefs]] = {}
    for place, (start, stop) in enumerate(zip(refs.splits[:-1], refs.splits[1:], strict=True)):
        part = _decode_array(columns, index, int(start), int(stop))
        found.setdefault(NodeId(node_ids[place].tobytes()), []).append(part)
    return Manifest(
        id=ManifestId(root.struct("id").values[0].tobytes()),
        arrays={
            node: parts[0] if len(parts) == 1 else _concat_parts(parts)
            for node, parts in sorted(found.items())
        },
    )


def encode_manifest(
    manifest: Manifest,
    *,
    level: int = 3,
    location_compression: LocationCompression | None = None,
    spec_version: int = 2,
) -> bytes:
    """Encodes a manifest; version 1 has no compressed locations."""
    if spec_version == 1:
        location_compression = None
    arrays = sorted(manifest.arrays.items())
    payload: bytearray | list[Buffer]
    record = None
    if manifest.num_refs <= _FEW_ALIKE and not _is_compressed(manifest, location_compression):
        record = _record(manifest.id, arrays, spec_version)
    if record is None:
        table = _table(manifest.id, arrays, location_compression, spec_version)
        payload = encoder.encode_parts(table, identifier=IDENTIFIER)
    else:
        payload = record_encoder.encode_record(MANIFEST, record, identifier=IDENTIFIER)
    return encode_envelope(payload, FileType.MANIFEST, level=level, spec_version=spec_version)


def _is_compressed(manifest: Manifest, compression: LocationCompression | None) -> bool:
    return compression is not None and compression.min_num_chunks <= manifest.num_refs


def _table(
    name: ManifestId, arrays: Arrays, compression: LocationCompression | None, spec_version: int
) -> Table:
    """The root of a manifest, as columns."""
    node_ids = np.frombuffer(b"".join(node.raw for node, _ in arrays), dtype=np.uint8)
    rows, dictionary = _encode_columns([refs for _, refs in arrays], compression)
    splits = splits_of(np.array([len(refs) for _, refs in arrays], dtype=np.int64))
    table = Table.build(
        ARRAY_MANIFEST,
        len(arrays),
        node_id=StructColumn.of(node_ids.reshape(-1, NodeId.size)),
        refs=TableVectorColumn.of(rows, splits),
    )
    return Table.build(
        MANIFEST,
        1,
        id=StructColumn.of(np.frombuffer(name.raw, dtype=np.uint8).reshape(1, -1)),
        arrays=TableVectorColumn.of(table),
        location_dictionary=StringColumn.from_list([dictionary]),
        # Absent would mean 1, so that 0 is written out.
        compression_algorithm=ScalarColumn(
            np.array([0 if dictionary is None else 1], dtype=np.uint8),
            np.array([spec_version >= 2]),
        ),
    )


def _record(name: ManifestId, arrays: Arrays, spec_version: int) -> dict[str, Any] | None:
    """The root of a manifest, as a record; None if too many references differ in their fields."""
    listed: list[dict[str, Any]] = []
    one_by_one = 0
    for node, refs in arrays:
        rows = _uniform_rows(refs) if len(refs) > _FEW_OF_ONE_ARRAY else None
        one_by_one += len(refs) if rows is None else 0
        if one_by_one > _FEW:
            return None
        listed.append({"node_id": node.raw, "refs": _references(refs) if rows is None else rows})
    return {
        "id": name.raw,
        "arrays": listed,
        # Absent would mean 1, so that 0 is written out.
        "compression_algorithm": 0 if spec_version >= 2 else None,
    }


def _uniform_rows(refs: ChunkRefs) -> "record_encoder.UniformRows | None":
    """The references of an array if all are native, or all inline and of one length."""
    kind, count = refs.kind[0], len(refs)
    if kind == RefKind.VIRTUAL or not (refs.kind == kind).all():
        return None
    sample: dict[str, Any] = {"index": [0] * refs.ndim}
    fields = {"index": record_encoder.raw_cells(refs.index, "<u4")}
    if kind == RefKind.NATIVE:
        sample |= {"chunk_id": bytes(12), "length": 0}
        fields |= {
            "chunk_id": refs.chunk_id,
            "length": record_encoder.raw_cells(refs.length, "<u8"),
        }
        if refs.offset.any():
            sample["offset"], fields["offset"] = 0, record_encoder.raw_cells(refs.offset, "<u8")
        return record_encoder.UniformRows(sample, fields, count)
    length, codes = int(refs.length[0]), refs.inline.codes
    if not ((refs.length == length) & (codes >= 0)).all():
        return None
    sample["inline"] = bytes(length)
    content = refs.inline.strings.take(codes).joined()
    return record_encoder.UniformRows(
        sample, fields | {"inline": content.reshape(count, length)}, count
    )


def _references(refs: ChunkRefs) -> list[dict[str, Any]]:
    return [
        {"index": index} | _reference(refs.payload(row))
        for row, index in enumerate(refs.index.tolist())
    ]


def _reference(payload: Payload) -> dict[str, Any]:
    match payload:
        case Inline(data):
            return {"inline": data}
        case Native(chunk_id, offset, length):
            return {"chunk_id": chunk_id.raw, "offset": offset or None, "length": length}
        case Virtual(location, offset, length, checksum):
            placed = {"location": location, "offset": offset or None, "length": length}
            match checksum:
                case ETag(value):
                    return placed | {"checksum_etag": value}
                case LastModified(seconds):
                    return placed | {"checksum_last_modified": seconds}
                case None:
                    return placed


def _decode_columns(rows: Table, *, dictionary: bytes | None, algorithm: int) -> ChunkRefs:
    """The references of all arrays, but for their indices, which may differ in length."""
    chunk_id = rows.struct("chunk_id")
    inline, etag = rows.string("inline"), rows.string("checksum_etag")
    location = decode_locations(
        EncodedLocations(rows.string("location"), rows.string("compressed_location"), dictionary),
        algorithm,
    )
    is_virtual = location.present & ~chunk_id.present
    is_inline = inline.present & ~(chunk_id.present | is_virtual)
    kind = np.zeros(len(rows), dtype=np.uint8)
    kind[is_inline] = RefKind.INLINE
    kind[is_virtual] = RefKind.VIRTUAL
    kind[chunk_id.present] = RefKind.NATIVE
    if not kind.all():
        raise FormatError("a chunk reference is neither inline, native nor virtual")
    length = rows.scalar("length").values
    offset = rows.scalar("offset").values
    if is_inline.any():
        length = np.where(is_inline, inline.lengths().astype(np.uint64), length)
        offset = np.where(is_inline, np.uint64(0), offset)
    last_modified = rows.scalar("checksum_last_modified").values
    if not is_virtual.all() and last_modified.any():
        last_modified = np.where(is_virtual, last_modified, np.uint32(0))
    return ChunkRefs(
        np.zeros((len(rows), 0), dtype=np.uint32),
        kind,
        chunk_id.values,
        offset,
        length,
        _mask_column(location, is_virtual),
        _mask_column(etag, is_virtual),
        last_modified,
        _mask_column(inline, is_inline),
    )


def _mask_column(column: StringColumn, rows: Bools) -> StringColumn:
    """`column` with nothing in the other rows."""
    if not (column.present & ~rows).any():
        return column
    return StringColumn(np.where(rows, column.codes, -1), column.strings)


def _decode_array(columns: ChunkRefs, index: VectorColumn, start: int, stop: int) -> ChunkRefs:
    """Rows `start` to `stop`, which are those of one array.

    Writers do not check the number of coordinates, so a few rows may have another one than the
    rest. They cannot be chunks of the same array and are left out.
    """
    splits = index.splits[start : stop + 1]
    ndim = even_length(splits)
    rows: slice | Ints = slice(start, stop)
    if ndim is not None:
        coordinates = index.values[int(splits[0]) : int(splits[-1])].reshape(stop - start, ndim)
    else:
        lengths = np.diff(splits)
        ndim = int(np.bincount(lengths).argmax())
        chosen = np.flatnonzero(lengths == ndim)
        coordinates = gather(index.values, splits[:-1][chosen], lengths[chosen])
        coordinates = coordinates.reshape(len(chosen), ndim)
        rows = chosen + start
    return columns.with_index(coordinates, rows)


def _concat_parts(parts: list[ChunkRefs]) -> ChunkRefs:
    """The parts of an array that a manifest lists more than once."""
    ndim = max(part.ndim for part in parts)
    return ChunkRefs.concat([part for part in parts if part.ndim == ndim])


def _encode_columns(
    parts: list[ChunkRefs], compression: LocationCompression | None
) -> tuple[Table, bytes | None]:
    """Rows of all arrays, and the dictionary of their locations if they are compressed."""
    if not parts:
        return Table.empty(CHUNK_REF), None
    kind = concat_arrays([part.kind for part in parts])
    last_modified = concat_arrays([part.last_modified for part in parts])
    is_placed = kind != RefKind.INLINE
    offset = concat_arrays([part.offset for part in parts])
    location = encode_locations(StringColumn.concat([p.location for p in parts]), compression)
    rows = Table.build(
        CHUNK_REF,
        len(kind),
        index=VectorColumn.regular_parts([part.index for part in parts]),
        inline=StringColumn.concat([part.inline for part in parts]),
        # Whole files, or objects: the default says so.
        offset=ScalarColumn(offset, is_placed if offset.any() else np.zeros_like(is_placed)),
        length=ScalarColumn(concat_arrays([part.length for part in parts]), is_placed),
        chunk_id=StructColumn(
            concat_arrays([part.chunk_id for part in parts]), kind == RefKind.NATIVE
        ),
        location=location.plain,
        checksum_etag=StringColumn.concat([part.etag for part in parts]),
        checksum_last_modified=ScalarColumn(last_modified, last_modified != 0),
        compressed_location=location.compressed,
    )
    return rows, location.dictionary
