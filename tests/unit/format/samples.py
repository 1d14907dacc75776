"""Small files of every kind, and ways to take them apart."""

from collections.abc import Mapping

import msgpack  # type: ignore[import-untyped]  # the package has no type information
import numpy as np
import numpy.typing as npt

from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn, VectorColumn
from frazil.flatbuf.decode import decode
from frazil.flatbuf.encode import encode
from frazil.flatbuf.flexbuffers import Json
from frazil.flatbuf.schema import TableSchema
from frazil.flatbuf.table import Table, TableVectorColumn, UnionColumn
from frazil.format.chunk_refs import ChunkRefs, ETag, Inline, LastModified, Native, Virtual
from frazil.format.envelope import FileType, decode_envelope, decode_header, encode_envelope
from frazil.format.manifest import Manifest
from frazil.format.nodes import ArrayData, ManifestRef, Node, Nodes, node_table
from frazil.format.repo_info import RepoInfo
from frazil.format.schemas import (
    ARRAY_NODE_DATA,
    IDENTIFIER,
    MANIFEST,
    METADATA_ITEM,
    NODE_ARRAY,
    REPO,
    SNAPSHOT,
    TRANSACTION_LOG,
)
from frazil.format.snapshot import ManifestFile, Snapshot
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.format.transaction_log import Move, TransactionLog
from frazil.format.update_log import Availability, NewCommit, RepoInitialized, RepoStatus, Update
from frazil.ids import INITIAL_SNAPSHOT, ChunkId, ManifestId, NodeId, SnapshotId
from frazil.paths import ROOT, NodePath

SCHEMAS: dict[FileType, TableSchema] = {
    FileType.REPO_INFO: REPO,
    FileType.SNAPSHOT: SNAPSHOT,
    FileType.MANIFEST: MANIFEST,
    FileType.TRANSACTION_LOG: TRANSACTION_LOG,
}
SECOND = SnapshotId(b"second commit"[:12])
ARRAY_ID, GROUP_ID, ROOT_ID = NodeId(b"array-id"), NodeId(b"group-id"), NodeId(b"root--id")
MANIFEST_ID = ManifestId(b"manifest--id")
CHUNK_ID = ChunkId(b"chunk-----id")


def ids(*raw: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(b"".join(raw), dtype=np.uint8).reshape(len(raw), -1)


def sample_refs() -> ChunkRefs:
    """One reference of every kind, in a grid of two axes."""
    return ChunkRefs.from_payloads(
        [[0, 0], [0, 1], [1, 0], [1, 1], [2, 5]],
        [
            Inline(b"tiny"),
            Native(CHUNK_ID, 7, 100),
            Virtual("s3://bucket/a.nc", 1, 2, ETag("etag")),
            Virtual("s3://bucket/a.nc", 3, 4, LastModified(1_600_000_000)),
            Virtual("s3://bucket/b.nc", 2**40, 2**33),
        ],
    )


def sample_manifest() -> Manifest:
    other = ChunkRefs.from_payloads([[3]], [Inline(b"other array")])
    return Manifest(MANIFEST_ID, {ARRAY_ID: sample_refs(), NodeId(b"a-second"): other})


def sample_nodes() -> list[Node]:
    array = ArrayData(
        shape=(30, 60),
        num_chunks=(3, 6),
        dimension_names=("time", None),
        manifests=(ManifestRef(MANIFEST_ID, ((0, 3), (0, 6))),),
    )
    return [
        Node(ROOT_ID, ROOT, b'{"root": 1}'),
        Node(GROUP_ID, NodePath("/group"), b'{"group": 1}'),
        Node(ARRAY_ID, NodePath("/group/array"), b'{"array": 1}', array),
        Node(NodeId(b"scalar--"), NodePath("/scalar"), b"{}", ArrayData((), (), None, ())),
    ]


def sample_snapshot() -> Snapshot:
    return Snapshot(
        id=SECOND,
        parent_id=None,
        flushed_at_us=1_700_000_000_000_001,
        message="second: größer",
        metadata={"b": [1, -2, 2.5, None, True], "a": {"nested": "text"}},
        manifest_files=(ManifestFile(MANIFEST_ID, 1234, 6),),
        nodes=Nodes.from_nodes(sample_nodes()),
    )


def sample_log() -> TransactionLog:
    return TransactionLog(
        id=SECOND,
        new_groups=ids(GROUP_ID.raw, ROOT_ID.raw),
        new_arrays=ids(ARRAY_ID.raw),
        deleted_groups=ids(b"deleted1"),
        deleted_arrays=ids(b"deleted2"),
        updated_arrays=ids(b"updated1"),
        updated_groups=ids(b"updated2"),
        updated_chunks={ARRAY_ID: np.array([[0, 1], [1, 0]], dtype=np.uint32)},
        moved=(Move(NodePath("/old"), NodePath("/new"), NodeId(b"moved-id"), is_array=True),),
    )


def initial_repo_info() -> RepoInfo:
    empty = RepoInfo(
        spec_version=2,
        tags={},
        branches={},
        deleted_tags=(),
        snapshots=SnapshotInfos.empty(),
        status=RepoStatus(Availability.ONLINE, 1_600_000_000_000_000),
        metadata={},
        updates=(Update(RepoInitialized(), 1_600_000_000_000_001),),
    )
    return empty.with_snapshot(
        INITIAL_SNAPSHOT,
        parent=None,
        flushed_at_us=1_600_000_000_000_000,
        message="Repository initialized",
        metadata={"__icechunk": {"is_root": True}},
    ).with_branch("main", INITIAL_SNAPSHOT)


def sample_repo_info() -> RepoInfo:
    base = initial_repo_info().with_snapshot(
        SECOND,
        parent=INITIAL_SNAPSHOT,
        flushed_at_us=1_700_000_000_000_001,
        message="second",
        metadata={"k": 1},
    )
    base = base.with_branch("main", SECOND).with_tag("v1", INITIAL_SNAPSHOT).with_tag("v2", SECOND)
    return RepoInfo(
        spec_version=2,
        tags=base.tags,
        branches=base.branches,
        deleted_tags=("gone",),
        snapshots=base.snapshots,
        status=RepoStatus(Availability.READ_ONLY, 5, "maintenance"),
        metadata={"owner": "us"},
        updates=(
            Update(NewCommit("main", SECOND), 1_700_000_000_000_002),
            Update(RepoInitialized(), 1_600_000_000_000_001, "repo.1.X"),
        ),
        before_updates="repo.0.Y",
        config={"inline_chunk_threshold_bytes": 10},
        enabled_flags=(3,),
        disabled_flags=(4, 5),
    )


def tables_of(data: bytes) -> Table:
    """The root of any file, undressed."""
    header = decode_header(data)
    return decode(decode_envelope(data, header.file_type).data, SCHEMAS[header.file_type])


def file_of(root: Table, file_type: FileType, *, spec_version: int = 2) -> bytes:
    """The inverse of `tables_of`."""
    payload = encode(root, identifier=IDENTIFIER)
    return encode_envelope(payload, file_type, spec_version=spec_version)


def msgpack_metadata(values: Mapping[str, Json]) -> Table:
    names = list(values)
    return Table.build(
        METADATA_ITEM,
        len(names),
        name=StringColumn.from_list(names),
        value=StringColumn.from_list([msgpack.packb(values[name]) for name in names]),
    )


def snapshot_v1(
    nodes: list[Node],
    chunk_lengths: list[tuple[int, ...]],
    *,
    parent: SnapshotId | None = None,
    metadata: Mapping[str, Json] | None = None,
    files: tuple[ManifestFile, ...] = (),
) -> bytes:
    """A version 1 file with `nodes` in the order given; `chunk_lengths` for each array."""
    table = node_table(nodes)
    data = table.union("node_data")
    arrays = data.variants[NODE_ARRAY]
    shapes = [node.array.shape for node in nodes if node.array is not None]
    pairs = [
        pair
        for shape, lengths in zip(shapes, chunk_lengths, strict=True)
        for pair in zip(shape, lengths, strict=True)
    ]
    struct = np.array(pairs, dtype="<u8").reshape(-1, 2).view(np.uint8)
    splits = np.cumsum([0, *map(len, shapes)])
    old_arrays = Table.build(
        ARRAY_NODE_DATA,
        len(arrays),
        shape=VectorColumn.of(struct, splits),
        dimension_names=arrays["dimension_names"],
        manifests=arrays["manifests"],
    )
    variants = {**data.variants, NODE_ARRAY: old_arrays}
    old_nodes = table.replace(node_data=UnionColumn(data.types, data.index, variants))
    infos = np.zeros((len(files), 32), dtype=np.uint8)
    for row, file in enumerate(files):
        infos[row, :12] = np.frombuffer(file.id.raw, dtype=np.uint8)
        infos[row, 16:24] = np.array([file.size_bytes], dtype="<u8").view(np.uint8)
        infos[row, 24:28] = np.array([file.num_refs], dtype="<u4").view(np.uint8)
    parents = StructColumn.of(ids(parent.raw)) if parent else None
    columns = {"parent_id": parents} if parents else {}
    root = Table.build(
        SNAPSHOT,
        1,
        id=StructColumn.of(ids(SECOND.raw)),
        nodes=TableVectorColumn.of(old_nodes),
        flushed_at=ScalarColumn.of([7], "u8"),
        message=StringColumn.from_list(["old"]),
        metadata=TableVectorColumn.of(msgpack_metadata(metadata or {})),
        manifest_files=VectorColumn.of(infos, np.array([0, len(files)])),
        **columns,
    )
    return file_of(root, FileType.SNAPSHOT, spec_version=1)
