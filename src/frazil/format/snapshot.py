"""One version of the hierarchy. Spec: "Snapshot Files".

Files of version 1 are read as if they were of version 2: their parent is kept, everything else
takes the newer form, and the older one again when a file of version 1 is written.
"""

from collections.abc import Buffer, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload, override

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.errors import FormatError
from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn, VectorColumn
from frazil.flatbuf.decode import decode
from frazil.flatbuf.flexbuffers import Json
from frazil.flatbuf.table import Column, Table, TableVectorColumn
from frazil.format.envelope import FileType, decode_envelope, encode_envelope
from frazil.format.metadata import decode_metadata, encode_metadata, metadata_records
from frazil.format.nodes import (
    ArrayData,
    ManifestRef,
    Node,
    Nodes,
    StoredNodes,
    decode_nodes,
    id_column,
    raw_ids,
    with_shapes_v1,
)
from frazil.format.schemas import (
    IDENTIFIER,
    MANIFEST_FILE_INFO_V2,
    SNAPSHOT,
    SNAPSHOT_BUT_NODES,
    SNAPSHOT_HEAD,
    SNAPSHOT_NAMES,
    SWAPPED_LIST,
)
from frazil.ids import ManifestId, SnapshotId
from frazil.lazy import lazy_module

if TYPE_CHECKING:
    from frazil.flatbuf import encode as encoder
    from frazil.flatbuf import record_encoder
    from frazil.format import growing_nodes
else:
    encoder = lazy_module("frazil.flatbuf.encode")
    record_encoder = lazy_module("frazil.flatbuf.record_encoder")
    growing_nodes = lazy_module("frazil.format.growing_nodes")

__all__ = [
    "ArrayData",
    "ManifestFile",
    "ManifestFiles",
    "ManifestRef",
    "Node",
    "NodeNames",
    "Nodes",
    "Snapshot",
    "SnapshotHead",
    "decode_head_of",
    "decode_manifest_files_v1",
    "decode_node_names",
    "decode_snapshot",
    "decode_snapshot_head",
    "decode_snapshot_lazily",
    "encode_snapshot",
    "find_swapped_list",
    "listed_manifests",
    "snapshot_of",
]

_FEW = 8  # manifests up to which each is a record

# struct ManifestFileInfo of version 1
MANIFEST_FILE_INFO = np.dtype(
    {
        "names": ["id", "size_bytes", "num_chunk_refs"],
        "formats": ["V12", "<u8", "<u4"],
        "offsets": [0, 16, 24],
        "itemsize": 32,
    }
)


@dataclass(frozen=True, slots=True)
class ManifestFile:
    id: ManifestId
    size_bytes: int  # of the whole file; readers ask for exactly as many, 0 if unknown
    num_refs: int


class ManifestFiles(Sequence[ManifestFile]):
    """Manifests of a snapshot, as columns: each becomes a record when it is asked for.

    Equal to any sequence of the same. Not to be changed.
    """

    __slots__ = ("ids", "num_refs", "size_bytes")

    def __init__(
        self,
        ids: npt.NDArray[np.uint8],
        size_bytes: npt.NDArray[np.uint64],
        num_refs: npt.NDArray[np.uint32],
    ) -> None:
        self.ids = ids  # (n, 12)
        self.size_bytes = size_bytes  # (n,) of the whole file, 0 if unknown
        self.num_refs = num_refs  # (n,)

    @classmethod
    def none(cls) -> "ManifestFiles":
        return cls(np.zeros((0, 12), np.uint8), np.zeros(0, np.uint64), np.zeros(0, np.uint32))

    @override
    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice) -> "ManifestFiles":
        return ManifestFiles(self.ids[rows], self.size_bytes[rows], self.num_refs[rows])

    @overload
    def __getitem__(self, at: int) -> ManifestFile: ...
    @overload
    def __getitem__(self, at: slice) -> "ManifestFiles": ...
    @override
    def __getitem__(self, at: int | slice) -> "ManifestFile | ManifestFiles":
        if isinstance(at, slice):
            return self.take(at)
        found = ManifestId(self.ids[at].tobytes())
        return ManifestFile(found, int(self.size_bytes[at]), int(self.num_refs[at]))

    @override
    def __iter__(self) -> Iterator[ManifestFile]:
        ids, sizes = map(ManifestId, raw_ids(self.ids)), self.size_bytes.tolist()
        return map(ManifestFile, ids, sizes, self.num_refs.tolist())

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    @override
    def __hash__(self) -> int:
        return hash(tuple(self))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Snapshot:
    id: SnapshotId
    parent_id: SnapshotId | None  # in files of version 1 only; the repo info has it since
    flushed_at_us: int
    message: str
    metadata: dict[str, Json]
    manifest_files: Sequence[ManifestFile]
    nodes: Nodes

    @property
    def head(self) -> "SnapshotHead":
        return SnapshotHead(
            id=self.id,
            parent_id=self.parent_id,
            flushed_at_us=self.flushed_at_us,
            message=self.message,
            metadata=self.metadata,
        )


@dataclass(frozen=True, slots=True)
class SnapshotHead:
    """The head of a snapshot: its place in history, as files of version 1 have it."""

    id: SnapshotId
    parent_id: SnapshotId | None
    flushed_at_us: int
    message: str
    metadata: dict[str, Json]


@dataclass(frozen=True, slots=True, eq=False)
class NodeNames:
    """Ids and paths of all nodes of a snapshot, in any order."""

    ids: npt.NDArray[np.uint8]  # (n, 8)
    paths: StringColumn  # n

    @classmethod
    def of(cls, nodes: Nodes) -> "NodeNames":
        return cls(nodes.table.struct("id").values, nodes.table.string("path"))


def decode_snapshot(data: Buffer, *, max_size: int | None = None) -> Snapshot:
    envelope = decode_envelope(data, FileType.SNAPSHOT, max_size=max_size)
    root = decode(envelope.data, SNAPSHOT)
    nodes = decode_nodes(root.tables("nodes").rows)
    return snapshot_of(root, envelope.spec_version, nodes, envelope.data)


def decode_snapshot_lazily(data: Buffer, *, max_size: int | None = None) -> Snapshot:
    """The same, but that nodes are decoded and checked when they are wanted."""
    envelope = decode_envelope(data, FileType.SNAPSHOT, max_size=max_size)
    root = decode(envelope.data, SNAPSHOT_BUT_NODES)
    return snapshot_of(root, envelope.spec_version, StoredNodes(envelope.data), envelope.data)


def snapshot_of(root: Table, spec_version: int, nodes: Nodes, payload: bytes) -> Snapshot:
    """The record of a file's root, whose metadata is as in files of that version."""
    head = decode_head_of(root, spec_version)
    return Snapshot(
        id=head.id,
        parent_id=head.parent_id,
        flushed_at_us=head.flushed_at_us,
        message=head.message,
        metadata=head.metadata,
        manifest_files=_decode_manifest_files(root, payload),
        nodes=nodes,
    )


def decode_snapshot_head(data: Buffer, *, max_size: int | None = None) -> SnapshotHead:
    """Decodes the part that a walk through history needs; nodes are not looked at."""
    envelope = decode_envelope(data, FileType.SNAPSHOT, max_size=max_size)
    return decode_head_of(decode(envelope.data, SNAPSHOT_HEAD), envelope.spec_version)


def decode_node_names(data: Buffer, *, max_size: int | None = None) -> NodeNames:
    """Decodes the part that a diff needs."""
    envelope = decode_envelope(data, FileType.SNAPSHOT, max_size=max_size)
    rows = decode(envelope.data, SNAPSHOT_NAMES).tables("nodes").rows
    return NodeNames(rows.struct("id").values, rows.string("path"))


def encode_snapshot(snapshot: Snapshot, *, level: int = 3, spec_version: int = 2) -> bytes:
    files = sorted(snapshot.manifest_files, key=lambda file: file.id)
    payload: bytearray | list[Buffer] | None = None
    if spec_version >= 2 and snapshot.nodes.listed is not None:
        nodes = [growing_nodes.node_record(node) for node in snapshot.nodes.listed]
        payload = _encode_record(snapshot, nodes, files)
    elif spec_version >= 2 and isinstance(snapshot.nodes, growing_nodes.GrowingNodes):
        payload = _encode_growing(snapshot, snapshot.nodes, files)
    if payload is None:
        payload = encoder.encode_parts(_table(snapshot, files, spec_version), identifier=IDENTIFIER)
    return encode_envelope(payload, FileType.SNAPSHOT, level=level, spec_version=spec_version)


def _table(snapshot: Snapshot, files: list[ManifestFile], spec_version: int) -> Table:
    """The root of a snapshot, as columns."""
    metadata = encode_metadata(snapshot.metadata, spec_version=spec_version)
    return Table.build(
        SNAPSHOT,
        1,
        id=StructColumn.of(id_column([snapshot.id.raw], SnapshotId.size)),
        flushed_at=ScalarColumn.of([snapshot.flushed_at_us], "u8"),
        message=StringColumn.from_list([snapshot.message]),
        metadata=TableVectorColumn.of(metadata),
        **(_columns_v1(snapshot, files) if spec_version == 1 else _columns_v2(snapshot, files)),
    )


def _encode_record(
    snapshot: Snapshot, nodes: Sequence[dict[str, Any]], files: Sequence[ManifestFile]
) -> bytearray:
    """A snapshot of version 2 with these nodes, as records."""
    root = {
        "id": snapshot.id.raw,
        "flushed_at": snapshot.flushed_at_us,
        "message": snapshot.message,
        "metadata": metadata_records(snapshot.metadata),
        "nodes": nodes,
        "manifest_files": b"",
        "manifest_files_v2": _file_records(files),
    }
    return record_encoder.encode_record(SNAPSHOT, root, identifier=IDENTIFIER)


def _encode_growing(
    snapshot: Snapshot, nodes: "growing_nodes.GrowingNodes", files: Sequence[ManifestFile]
) -> list[Buffer] | None:
    """None if the nodes are too large to be kept as bytes."""
    if (encoded := nodes.encoded()) is None:
        return None
    tail, numbers = encoded
    return [*tail.front(_encode_record(snapshot, [], files), numbers), tail.data]


def _file_records(
    files: Sequence[ManifestFile],
) -> "record_encoder.UniformRows | list[dict[str, Any]]":
    if len(files) <= _FEW:
        return [_file_record(file) for file in files]
    fields = {
        "id": id_column([file.id.raw for file in files], ManifestId.size),
        "size_bytes": record_encoder.raw_cells(np.array([f.size_bytes for f in files]), "<u8"),
        "num_chunk_refs": record_encoder.raw_cells(np.array([f.num_refs for f in files]), "<u4"),
    }
    return record_encoder.UniformRows(_file_record(files[0]), fields, len(files))


def _file_record(file: ManifestFile) -> dict[str, Any]:
    return {"id": file.id.raw, "size_bytes": file.size_bytes, "num_chunk_refs": file.num_refs}


def decode_head_of(root: Table, spec_version: int) -> SnapshotHead:
    parent = root.struct("parent_id")
    return SnapshotHead(
        id=SnapshotId(root.struct("id").values[0].tobytes()),
        parent_id=SnapshotId(parent.values[0].tobytes()) if parent.present[0] else None,
        flushed_at_us=int(root.scalar("flushed_at").values[0]),
        message=root.string("message").text(0) or "",
        metadata=decode_metadata(root.tables("metadata").rows, spec_version=spec_version),
    )


def _columns_v1(snapshot: Snapshot, files: list[ManifestFile]) -> dict[str, Column]:
    records = np.zeros(len(files), dtype=MANIFEST_FILE_INFO)
    records["size_bytes"] = [file.size_bytes for file in files]
    records["num_chunk_refs"] = [file.num_refs for file in files]
    structs = records.view(np.uint8).reshape(-1, 32)
    structs[:, : ManifestId.size] = id_column([file.id.raw for file in files], ManifestId.size)
    parent = snapshot.parent_id
    return {
        "parent_id": StructColumn(
            id_column([(parent or snapshot.id).raw], SnapshotId.size),
            np.array([parent is not None]),
        ),
        "nodes": TableVectorColumn.of(with_shapes_v1(snapshot.nodes.table)),
        "manifest_files": VectorColumn.of(structs, np.array([0, len(files)], dtype=np.int64)),
    }


def _columns_v2(snapshot: Snapshot, files: list[ManifestFile]) -> dict[str, Column]:
    return {
        "nodes": TableVectorColumn.of(snapshot.nodes.table),
        "manifest_files": VectorColumn.of(np.zeros((0, 32), np.uint8), np.zeros(2, np.int64)),
        "manifest_files_v2": TableVectorColumn.of(_manifest_file_table(files)),
    }


def find_swapped_list(payload: bytes) -> Table | None:
    """List of manifests in the slot that some files of March 2026 have it in; None if not there.

    They have it in neither of the two slots that are specified: docs/generations.md.
    """
    try:
        found = decode(payload, SWAPPED_LIST).tables("manifest_files_v2")
    except FormatError:
        return None  # what is reserved there, and may be anything
    return found.rows if found.present[0] else None


def _decode_manifest_files(root: Table, payload: bytes) -> ManifestFiles:
    newer, rows = root.tables("manifest_files_v2"), None
    if newer.present[0]:
        rows = newer.rows
    elif not len(root.vector("manifest_files").values):
        rows = find_swapped_list(payload)
    return decode_manifest_files_v1(root) if rows is None else listed_manifests(rows)


def listed_manifests(rows: Table) -> ManifestFiles:
    """Rows of MANIFEST_FILE_INFO_V2."""
    return ManifestFiles(
        rows.struct("id").values,
        rows.scalar("size_bytes").values,
        rows.scalar("num_chunk_refs").values,
    )


def decode_manifest_files_v1(root: Table) -> ManifestFiles:
    structs = root.vector("manifest_files").values
    records = np.ascontiguousarray(structs).view(MANIFEST_FILE_INFO).reshape(-1)
    return ManifestFiles(structs[:, :12], records["size_bytes"], records["num_chunk_refs"])


def _manifest_file_table(files: list[ManifestFile]) -> Table:
    return Table.build(
        MANIFEST_FILE_INFO_V2,
        len(files),
        id=StructColumn.of(id_column([file.id.raw for file in files], ManifestId.size)),
        size_bytes=ScalarColumn.of([file.size_bytes for file in files], "u8"),
        num_chunk_refs=ScalarColumn.of([file.num_refs for file in files], "u4"),
    )
