"""The `(required)` fields of the specification's tables, and what happens without one."""

import pytest

from frazil.errors import FormatError
from frazil.flatbuf.decode import decode
from frazil.flatbuf.encode import encode
from frazil.flatbuf.schema import Field, SubTable, TableSchema, TableVector, Union
from frazil.flatbuf.table import Table
from frazil.format.schemas import MANIFEST, REPO, SNAPSHOT, TRANSACTION_LOG

REQUIRED = {
    "MetadataItem": {"name", "value"},
    "Repo": {"tags", "branches", "deleted_tags", "snapshots", "status", "latest_updates"},
    "Ref": {"name"},
    "SnapshotInfo": {"id", "message"},
    "Update": {"update_type"},
    "TagCreatedUpdate": {"name"},
    "TagDeletedUpdate": {"name", "previous_snap_id"},
    "BranchCreatedUpdate": {"name"},
    "BranchDeletedUpdate": {"name", "previous_snap_id"},
    "BranchResetUpdate": {"name", "previous_snap_id"},
    "NewCommitUpdate": {"branch", "new_snap_id"},
    "CommitAmendedUpdate": {"branch", "previous_snap_id", "new_snap_id"},
    "NewDetachedSnapshotUpdate": {"new_snap_id"},
    "Snapshot": {"id", "nodes", "message", "metadata", "manifest_files"},
    "NodeSnapshot": {"id", "path", "user_data", "node_data"},
    "ArrayNodeData": {"shape", "manifests"},
    "ManifestRef": {"object_id", "extents"},
    "ManifestFileInfoV2": {"id"},  # MUST be present, though the schema does not say `required`
    "Manifest": {"id", "arrays"},
    "ArrayManifest": {"node_id", "refs"},
    "ChunkRef": {"index"},
    "TransactionLog": {
        "id",
        "new_groups",
        "new_arrays",
        "deleted_groups",
        "deleted_arrays",
        "updated_arrays",
        "updated_groups",
        "updated_chunks",
    },
    "ChunkIndices": {"coords"},
    "ArrayUpdatedChunks": {"node_id", "chunks"},
    "MoveOperation": {"from", "to", "node_id"},  # as ManifestFileInfoV2
}


def tables_below(schema: TableSchema) -> dict[str, TableSchema]:
    found = {schema.name: schema}
    for field in schema.fields:
        match field.kind:
            case TableVector(inner) | SubTable(inner):
                found |= tables_below(inner)
            case Union(variants):
                for inner in variants.values():
                    found |= tables_below(inner)
            case _:
                pass
    return found


TABLES = {
    name: schema
    for root in (REPO, SNAPSHOT, MANIFEST, TRANSACTION_LOG)
    for name, schema in tables_below(root).items()
}


def test_the_schemas_require_what_the_specification_requires() -> None:
    ours = {
        name: {field.name for field in schema.fields if field.required}
        for name, schema in TABLES.items()
    }
    assert {name: fields for name, fields in ours.items() if fields} == REQUIRED


@pytest.mark.parametrize(
    ("table", "missing"),
    [(table, field) for table, fields in REQUIRED.items() for field in sorted(fields)],
)
def test_a_table_without_a_required_field_is_refused(table: str, missing: str) -> None:
    schema = TABLES[table]
    # Written under a schema that requires nothing, so that all of its fields may be absent but
    # those that are required and not looked at here: each must be noticed on its own.
    field = next(field for field in schema.fields if field.name == missing)
    lax = TableSchema(table, (Field(field.name, field.slot, field.kind),))
    strict = TableSchema(table, (field,))
    data = encode(Table.build(lax, 1))
    with pytest.raises(FormatError, match=rf"{table}.*{missing}"):
        decode(data, strict)
