"""The tables inside metadata files, as data: spec versions 1 and 2 side by side.

Spec: the .fbs listings of each file; slots are the order of the fields there. Fields of version 2
are absent from files of version 1. A field is `required` where the reference's schema says so.
`extra`, reserved in every table and never written, is left out: unknown slots are ignored.
"""

from frazil.flatbuf.schema import (
    Bytes,
    Field,
    Kind,
    Scalar,
    ScalarVector,
    String,
    StringVector,
    Struct,
    StructVector,
    SubTable,
    TableSchema,
    TableVector,
    Union,
)

IDENTIFIER = b"Ichk"  # bytes 4 to 8 of every payload; in no .fbs file, and not checked on reading

OBJECT_ID_12 = Struct(12, 1)
OBJECT_ID_8 = Struct(8, 1)


def _field(slot: int, name: str, kind: Kind) -> Field:
    return Field(name=name, slot=slot, kind=kind)


def _required_field(slot: int, name: str, kind: Kind) -> Field:
    return Field(name=name, slot=slot, kind=kind, required=True)


METADATA_ITEM = TableSchema(
    "MetadataItem", (_required_field(0, "name", String()), _required_field(1, "value", Bytes()))
)

# ---- manifest ------------------------------------------------------------------------------

CHUNK_REF = TableSchema(
    "ChunkRef",
    (
        _required_field(0, "index", ScalarVector("u4")),
        _field(1, "inline", Bytes()),
        _field(2, "offset", Scalar("u8")),
        _field(3, "length", Scalar("u8")),
        _field(4, "chunk_id", OBJECT_ID_12),
        _field(5, "location", String()),
        _field(6, "checksum_etag", String()),
        _field(7, "checksum_last_modified", Scalar("u4")),
        _field(8, "compressed_location", Bytes()),
    ),
)
ARRAY_MANIFEST = TableSchema(
    "ArrayManifest",
    (
        _required_field(0, "node_id", OBJECT_ID_8),
        _required_field(1, "refs", TableVector(CHUNK_REF, striped=True)),
    ),
)
MANIFEST = TableSchema(
    "Manifest",
    (
        _required_field(0, "id", OBJECT_ID_12),
        _required_field(1, "arrays", TableVector(ARRAY_MANIFEST)),
        _field(2, "location_dictionary", Bytes()),
        _field(3, "compression_algorithm", Scalar("u1", 1)),  # absent means 1, zstd
    ),
)

# ---- snapshot ------------------------------------------------------------------------------

MANIFEST_REF = TableSchema(
    "ManifestRef",
    (
        _required_field(0, "object_id", OBJECT_ID_12),
        _required_field(1, "extents", StructVector(8, 4)),
    ),
)
DIMENSION_NAME = TableSchema("DimensionName", (_field(0, "name", String()),))
DIMENSION_SHAPE_V2 = TableSchema(
    "DimensionShapeV2",
    (_field(0, "array_length", Scalar("u8")), _field(1, "num_chunks", Scalar("u4"))),
)
ARRAY_NODE_DATA = TableSchema(
    "ArrayNodeData",
    (
        _required_field(0, "shape", StructVector(16, 8)),  # array_length u64, chunk_length u64
        _field(1, "dimension_names", TableVector(DIMENSION_NAME)),
        _required_field(2, "manifests", TableVector(MANIFEST_REF)),
        _field(3, "shape_v2", TableVector(DIMENSION_SHAPE_V2)),
    ),
)
GROUP_NODE_DATA = TableSchema("GroupNodeData", ())
NODE_ARRAY, NODE_GROUP = 1, 2  # in the union; MoveOperation.node_type says Group 0, Array 1
NODE_SNAPSHOT = TableSchema(
    "NodeSnapshot",
    (
        _required_field(0, "id", OBJECT_ID_8),
        _required_field(1, "path", String()),
        _required_field(2, "user_data", Bytes()),
        _required_field(
            3, "node_data", Union({NODE_ARRAY: ARRAY_NODE_DATA, NODE_GROUP: GROUP_NODE_DATA})
        ),
    ),
)
MANIFEST_FILE_INFO_V2 = TableSchema(
    "ManifestFileInfoV2",
    (
        _required_field(0, "id", OBJECT_ID_12),
        _field(1, "size_bytes", Scalar("u8")),
        _field(2, "num_chunk_refs", Scalar("u4")),
    ),
)
SNAPSHOT = TableSchema(
    "Snapshot",
    (
        _required_field(0, "id", OBJECT_ID_12),
        _field(1, "parent_id", OBJECT_ID_12),
        _required_field(2, "nodes", TableVector(NODE_SNAPSHOT)),
        _field(3, "flushed_at", Scalar("u8")),
        _required_field(4, "message", String()),
        _required_field(5, "metadata", TableVector(METADATA_ITEM)),
        _required_field(6, "manifest_files", StructVector(32, 8)),
        _field(7, "manifest_files_v2", TableVector(MANIFEST_FILE_INFO_V2)),
    ),
)
# In some files before the release of version 2 the list changed places with what is reserved
SWAPPED_LIST = TableSchema(
    "Snapshot", (_field(8, "manifest_files_v2", TableVector(MANIFEST_FILE_INFO_V2)),)
)
# Enough for a walk through history: the nodes are not decoded
_HEAD = {"id", "parent_id", "flushed_at", "message", "metadata"}
SNAPSHOT_HEAD = TableSchema(
    "Snapshot", tuple(field for field in SNAPSHOT.fields if field.name in _HEAD)
)

SNAPSHOT_BUT_NODES = TableSchema(
    "Snapshot", tuple(field for field in SNAPSHOT.fields if field.name != "nodes")
)

# Enough to tell paths by ids: neither the nodes' metadata nor their manifests are decoded
NODE_NAME = TableSchema("NodeSnapshot", NODE_SNAPSHOT.fields[:2])  # id and path
SNAPSHOT_NAMES = TableSchema("Snapshot", (_required_field(2, "nodes", TableVector(NODE_NAME)),))

# ---- transaction log -----------------------------------------------------------------------

CHUNK_INDICES = TableSchema("ChunkIndices", (_required_field(0, "coords", ScalarVector("u4")),))
ARRAY_UPDATED_CHUNKS = TableSchema(
    "ArrayUpdatedChunks",
    (
        _required_field(0, "node_id", OBJECT_ID_8),
        _required_field(1, "chunks", TableVector(CHUNK_INDICES)),
    ),
)
MOVE_OPERATION = TableSchema(
    "MoveOperation",
    (
        _required_field(0, "from", String()),
        _required_field(1, "to", String()),
        _required_field(2, "node_id", OBJECT_ID_8),
        _field(3, "node_type", Scalar("u1")),
    ),
)
TRANSACTION_LOG = TableSchema(
    "TransactionLog",
    (
        _required_field(0, "id", OBJECT_ID_12),
        _required_field(1, "new_groups", StructVector(8, 1)),
        _required_field(2, "new_arrays", StructVector(8, 1)),
        _required_field(3, "deleted_groups", StructVector(8, 1)),
        _required_field(4, "deleted_arrays", StructVector(8, 1)),
        _required_field(5, "updated_arrays", StructVector(8, 1)),  # arrays before groups, here only
        _required_field(6, "updated_groups", StructVector(8, 1)),
        _required_field(7, "updated_chunks", TableVector(ARRAY_UPDATED_CHUNKS)),
        _field(8, "moved_nodes", TableVector(MOVE_OPERATION)),
    ),
)

# ---- repo info -----------------------------------------------------------------------------

REF = TableSchema(
    "Ref", (_required_field(0, "name", String()), _field(1, "snapshot_index", Scalar("u4")))
)
SNAPSHOT_INFO = TableSchema(
    "SnapshotInfo",
    (
        _required_field(0, "id", OBJECT_ID_12),
        _field(1, "parent_offset", Scalar("i4")),  # absent means 0, the first row; none is -1
        _field(2, "flushed_at", Scalar("u8")),
        _required_field(3, "message", String()),
        _field(4, "metadata", TableVector(METADATA_ITEM)),
        _field(5, "pruned_ancestor_tx_logs", StructVector(12, 1)),  # spec 2.1
    ),
)
REPO_STATUS = TableSchema(
    "RepoStatus",
    (
        _field(0, "availability", Scalar("u1")),
        _field(1, "set_at", Scalar("u8")),
        _field(2, "limited_availability_reason", String()),
    ),
)
_NAME = _required_field(0, "name", String())
_BRANCH = _required_field(0, "branch", String())
_PREVIOUS = _required_field(1, "previous_snap_id", OBJECT_ID_12)
UPDATE_KINDS = {
    1: TableSchema("RepoInitializedUpdate", ()),
    2: TableSchema(
        "RepoMigratedUpdate",
        (_field(0, "from_version", Scalar("u1")), _field(1, "to_version", Scalar("u1"))),
    ),
    3: TableSchema("ConfigChangedUpdate", ()),
    4: TableSchema("MetadataChangedUpdate", ()),
    5: TableSchema("TagCreatedUpdate", (_NAME,)),
    6: TableSchema("TagDeletedUpdate", (_NAME, _PREVIOUS)),
    7: TableSchema("BranchCreatedUpdate", (_NAME,)),
    8: TableSchema("BranchDeletedUpdate", (_NAME, _PREVIOUS)),
    9: TableSchema("BranchResetUpdate", (_NAME, _PREVIOUS)),
    10: TableSchema("NewCommitUpdate", (_BRANCH, _required_field(1, "new_snap_id", OBJECT_ID_12))),
    11: TableSchema(
        "CommitAmendedUpdate", (_BRANCH, _PREVIOUS, _required_field(2, "new_snap_id", OBJECT_ID_12))
    ),
    12: TableSchema(
        "NewDetachedSnapshotUpdate", (_required_field(0, "new_snap_id", OBJECT_ID_12),)
    ),
    13: TableSchema("GCRanUpdate", ()),
    14: TableSchema("ExpirationRanUpdate", ()),
    15: TableSchema(
        "FeatureFlagChangedUpdate",
        (
            _field(0, "id", Scalar("u2")),
            _field(1, "new_value", Scalar("?")),
            _field(2, "is_set", Scalar("?")),
        ),
    ),
    16: TableSchema("RepoStatusChangedUpdate", (_field(0, "status", SubTable(REPO_STATUS)),)),
}
UPDATE = TableSchema(
    "Update",
    (
        _required_field(0, "update_type", Union(UPDATE_KINDS)),
        _field(2, "updated_at", Scalar("u8")),
        _field(3, "backup_path", String()),
    ),
)
REPO = TableSchema(
    "Repo",
    (
        _field(0, "spec_version", Scalar("u1")),
        _required_field(1, "tags", TableVector(REF)),
        _required_field(2, "branches", TableVector(REF)),
        _required_field(3, "deleted_tags", StringVector()),
        _required_field(4, "snapshots", TableVector(SNAPSHOT_INFO)),
        _required_field(5, "status", SubTable(REPO_STATUS)),
        _field(6, "metadata", TableVector(METADATA_ITEM)),
        _required_field(7, "latest_updates", TableVector(UPDATE)),
        _field(8, "repo_before_updates", String()),
        _field(9, "config", Bytes()),
        _field(10, "enabled_feature_flags", ScalarVector("u2")),
        _field(11, "disabled_feature_flags", ScalarVector("u2")),
    ),
)
# Enough for a page of the ops log: neither the snapshots nor the refs are decoded
_LOG = {"latest_updates", "repo_before_updates"}
REPO_LOG = TableSchema("Repo", tuple(field for field in REPO.fields if field.name in _LOG))
# The rest: reading arrays never needs the ops log
REPO_STATE = TableSchema(
    "Repo", tuple(field for field in REPO.fields if field.name != "latest_updates")
)
