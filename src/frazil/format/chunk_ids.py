"""What collecting garbage needs of snapshots and manifests, without the rest of them."""

from collections.abc import Buffer, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.flatbuf.decode import decode_batch
from frazil.flatbuf.schema import Field, TableSchema, TableVector
from frazil.format.envelope import FileType, decode_envelope
from frazil.format.schemas import ARRAY_MANIFEST, CHUNK_REF, MANIFEST, SNAPSHOT
from frazil.format.snapshot import MANIFEST_FILE_INFO, find_swapped_list
from frazil.ids import ChunkId


def only(schema: TableSchema, **kinds: TableVector | None) -> TableSchema:
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


_REF = only(CHUNK_REF, chunk_id=None)
_ARRAY = only(ARRAY_MANIFEST, refs=TableVector(_REF))
_MANIFEST = only(MANIFEST, arrays=TableVector(_ARRAY))
_SNAPSHOT = only(SNAPSHOT, manifest_files=None, manifest_files_v2=None)


@dataclass(frozen=True, slots=True, eq=False)
class ManifestFiles:
    """The manifests of a snapshot: a row of each column is one of them."""

    ids: npt.NDArray[np.uint8]  # (n, 12)
    size_bytes: npt.NDArray[np.uint64]  # (n,) of the whole file, 0 if unknown
    num_refs: npt.NDArray[np.uint32]  # (n,)

    @classmethod
    def none(cls) -> "ManifestFiles":
        return cls(np.zeros((0, 12), np.uint8), np.zeros(0, np.uint64), np.zeros(0, np.uint32))

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice) -> "ManifestFiles":
        return ManifestFiles(self.ids[rows], self.size_bytes[rows], self.num_refs[rows])


def decode_manifest_files(
    files: Sequence[Buffer], *, max_size: int | None = None
) -> list[ManifestFiles]:
    """Of snapshot files of either version; their nodes are not looked at.

    Raises FormatError if one of them is damaged; which one, only decoding each alone can tell.
    """
    payloads = [decode_envelope(data, FileType.SNAPSHOT, max_size=max_size).data for data in files]
    if not payloads:
        return []
    root = decode_batch(payloads, _SNAPSHOT)
    newer, older = root.tables("manifest_files_v2"), root.vector("manifest_files")
    rows = newer.rows
    listed = ManifestFiles(
        rows.struct("id").values,
        rows.scalar("size_bytes").values,
        rows.scalar("num_chunk_refs").values,
    )
    records = np.ascontiguousarray(older.values).view(MANIFEST_FILE_INFO).reshape(-1)
    structs = ManifestFiles(older.values[:, :12], records["size_bytes"], records["num_chunk_refs"])
    found = [
        listed.take(slice(int(newer.splits[at]), int(newer.splits[at + 1])))
        if newer.present[at]
        else structs.take(slice(int(older.splits[at]), int(older.splits[at + 1])))
        for at in range(len(root))
    ]
    for at in np.flatnonzero(~newer.present).tolist():
        if not len(found[at]):
            found[at] = _swapped(payloads[at])
    return found


def _swapped(payload: bytes) -> ManifestFiles:
    """The list that garbage collection must not overlook: see find_swapped_list."""
    rows = find_swapped_list(payload)
    if rows is None:
        return ManifestFiles.none()
    sizes, counts = rows.scalar("size_bytes").values, rows.scalar("num_chunk_refs").values
    return ManifestFiles(rows.struct("id").values, sizes, counts)


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
