"""Partial decoders of snapshots and manifests, for garbage collection and statistics."""

from collections.abc import Buffer, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.decode import decode, decode_batch
from frazil.flatbuf.schema import Field, TableSchema, TableVector
from frazil.flatbuf.table import Table, TableVectorColumn
from frazil.format.chunk_refs import RefKind
from frazil.format.envelope import FileType, decode_envelope
from frazil.format.locations import EncodedLocations, decode_locations
from frazil.format.manifest import Manifest
from frazil.format.schemas import ARRAY_MANIFEST, CHUNK_REF, MANIFEST, SNAPSHOT
from frazil.format.snapshot import (
    ManifestFiles,
    decode_manifest_files_v1,
    find_swapped_list,
    listed_manifests,
)
from frazil.ids import ChunkId, NodeId


def select_fields(schema: TableSchema, **kinds: TableVector | None) -> TableSchema:
    """The table with these fields only, some of them of tables that are cut down as well."""
    fields = [
        Field(
            name=field.name,
            slot=field.slot,
            kind=kinds[field.name] or field.kind,
            required=field.required,
        )
        for field in schema.fields
        if field.name in kinds
    ]
    return TableSchema(schema.name, tuple(fields))


_REF = select_fields(CHUNK_REF, chunk_id=None)
_ARRAY = select_fields(ARRAY_MANIFEST, refs=TableVector(_REF))
_MANIFEST = select_fields(MANIFEST, arrays=TableVector(_ARRAY))
_SNAPSHOT = select_fields(SNAPSHOT, manifest_files=None, manifest_files_v2=None)
_DECODED_TOGETHER = 1 << 22  # bytes of snapshots: larger ones gain nothing by company


def decode_manifest_files(
    files: Sequence[Buffer], *, max_size: int | None = None
) -> list[ManifestFiles]:
    """Decodes the lists of manifests of snapshot files of either version, without their nodes.

    Raises FormatError if one of them is damaged; which one, only decoding each alone can tell.
    """
    found, waiting, held = list[ManifestFiles](), list[bytes](), 0
    for data in files:
        payload = decode_envelope(data, FileType.SNAPSHOT, max_size=max_size).data
        if waiting and held + len(payload) > _DECODED_TOGETHER:
            found += _manifest_files(waiting)
            waiting, held = [], 0
        waiting.append(payload)
        held += len(payload)
    return found + _manifest_files(waiting)


def _manifest_files(payloads: Sequence[bytes]) -> list[ManifestFiles]:
    if not payloads:
        return []
    if len(payloads) == 1:  # a batch is a copy, and a snapshot may be large
        root = decode(payloads[0], _SNAPSHOT)
    else:
        root = decode_batch(payloads, _SNAPSHOT)
    newer, older = root.tables("manifest_files_v2"), root.vector("manifest_files")
    listed, structs = listed_manifests(newer.rows), decode_manifest_files_v1(root)
    found = [
        listed.take(slice(int(newer.splits[at]), int(newer.splits[at + 1])))
        if newer.present[at]
        else structs.take(slice(int(older.splits[at]), int(older.splits[at + 1])))
        for at in range(len(root))
    ]
    for at in np.flatnonzero(~newer.present).tolist():
        if not len(found[at]):
            found[at] = _read_swapped_list(payloads[at])
    return found


def _read_swapped_list(payload: bytes) -> ManifestFiles:
    """The list that garbage collection must not overlook: see find_swapped_list."""
    rows = find_swapped_list(payload)
    return ManifestFiles.none() if rows is None else listed_manifests(rows)


def decode_chunk_ids(
    files: Sequence[Buffer], *, max_size: int | None = None
) -> npt.NDArray[np.uint8]:
    """Ids of the chunk objects that manifests refer to, (m, 12), repeated where they repeat.

    Raises FormatError if one of them is damaged; which one, only decoding each alone can tell.
    """
    payloads = [decode_envelope(data, FileType.MANIFEST, max_size=max_size).data for data in files]
    if not payloads:
        return np.zeros((0, ChunkId.size), np.uint8)
    refs = decode_batch(payloads, _MANIFEST).tables("arrays").rows.tables("refs").rows
    column = refs.struct("chunk_id")
    found = column.values if column.present.all() else column.values[column.present]
    return np.ascontiguousarray(found).reshape(-1, ChunkId.size)


# -------------------------------------------------------------------------------------------------
# Storage of the references of a manifest, for statistics: their places without their indices.

_STORED_REF = select_fields(
    CHUNK_REF,
    inline=None,
    offset=None,
    length=None,
    chunk_id=None,
    location=None,
    compressed_location=None,
)
_STORED_ARRAY = select_fields(ARRAY_MANIFEST, node_id=None, refs=TableVector(_STORED_REF))
_STORED_MANIFEST = select_fields(
    MANIFEST,
    id=None,
    arrays=TableVector(_STORED_ARRAY),
    location_dictionary=None,
    compression_algorithm=None,
)


@dataclass(frozen=True, slots=True, eq=False)
class StorageRefs:
    """The references of some arrays of some manifests, one array after another."""

    manifest: npt.NDArray[np.int64]  # (arrays,) which of the manifests the array is of
    ids: npt.NDArray[np.uint8]  # (manifests, 12)
    nodes: tuple[NodeId, ...]
    splits: npt.NDArray[np.int64]  # (arrays + 1,) where each array's rows begin
    kind: npt.NDArray[np.uint8]  # (n,) a RefKind
    chunk_id: npt.NDArray[np.uint8]  # (n, 12) native
    offset: npt.NDArray[np.uint64]  # (n,)
    length: npt.NDArray[np.uint64]  # (n,)
    location: StringColumn  # (n,) virtual

    def __len__(self) -> int:
        return len(self.kind)

    @classmethod
    def of(cls, manifest: Manifest) -> "StorageRefs":
        """The references of a manifest that is decoded already."""
        parts = list(manifest.arrays.values())
        return cls(
            np.zeros(len(parts), np.int64),
            np.frombuffer(manifest.id.raw, np.uint8).reshape(1, 12),
            tuple(manifest.arrays),
            np.cumsum([0, *map(len, parts)], dtype=np.int64),
            np.concatenate([np.zeros(0, np.uint8), *(part.kind for part in parts)]),
            np.concatenate([np.zeros((0, 12), np.uint8), *(part.chunk_id for part in parts)]),
            np.concatenate([np.zeros(0, np.uint64), *(part.offset for part in parts)]),
            np.concatenate([np.zeros(0, np.uint64), *(part.length for part in parts)]),
            StringColumn.concat([StringColumn.absent(0), *(part.location for part in parts)]),
        )


def decode_storage_refs(files: Sequence[Buffer], *, max_size: int | None = None) -> StorageRefs:
    """Decodes several manifests together.

    Raises FormatError if one of them is damaged; which one, only decoding each alone can tell.
    """
    payloads = [decode_envelope(data, FileType.MANIFEST, max_size=max_size).data for data in files]
    root = decode_batch(payloads, _STORED_MANIFEST)
    listed = root.tables("arrays")
    arrays = listed.rows
    refs = arrays.tables("refs")
    location = refs.rows.string("location")
    if refs.rows.string("compressed_location").present.any():
        location = _decompress_locations(root, refs)
    kind, length = _kinds(refs.rows, location)
    location = location.pruned()
    return StorageRefs(
        np.repeat(np.arange(len(root), dtype=np.int64), np.diff(listed.splits)),
        root.struct("id").values,
        tuple(NodeId(raw.tobytes()) for raw in arrays.struct("node_id").values),
        refs.splits,
        kind,
        refs.rows.struct("chunk_id").values,
        refs.rows.scalar("offset").values,
        length,
        StringColumn(location.codes, location.strings.compact()),  # apart from the whole file
    )


def _decompress_locations(root: Table, refs: TableVectorColumn) -> StringColumn:
    """Locations where each manifest may have a dictionary of its own."""
    arrays, parts = root.tables("arrays").splits, []
    for at in range(len(root)):
        first, last = (int(refs.splits[int(arrays[place])]) for place in (at, at + 1))
        rows = np.arange(first, last, dtype=np.int64)
        # Pruned: the frames of other manifests need their own dictionaries.
        encoded = EncodedLocations(
            refs.rows.string("location").take(rows).pruned(),
            refs.rows.string("compressed_location").take(rows).pruned(),
            root.string("location_dictionary").item(at),
        )
        algorithm = int(root.scalar("compression_algorithm").values[at])
        plain = decode_locations(encoded, algorithm)
        parts.append(StringColumn(plain.codes, plain.strings))
    return StringColumn.concat(parts)


def _kinds(
    rows: Table, location: StringColumn
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
    """Kind and length of each reference."""
    native, inline = rows.struct("chunk_id").present, rows.string("inline")
    length = rows.scalar("length").values
    if native.all():
        return np.full(len(rows), RefKind.NATIVE, np.uint8), length
    is_inline = inline.present & ~(native | location.present)
    kind = np.zeros(len(rows), np.uint8)
    kind[is_inline] = RefKind.INLINE
    kind[location.present] = RefKind.VIRTUAL
    kind[native] = RefKind.NATIVE
    if not kind.all():
        raise FormatError("a chunk reference is neither inline, native nor virtual")
    if is_inline.any():
        length = np.where(is_inline, inline.lengths().astype(np.uint64), length)
    return kind, length
