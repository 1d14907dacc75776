"""Snapshots in FlatBuffers from before the first release, V1pre1 and V1pre2 (docs/generations.md).

V1pre2 is version 1. The nodes of V1pre1 have one slot more, with attributes and array metadata
apart, each MessagePack as in the generations before. A repository may hold files of both.
The last slot of both lists files of attributes, which were never written; in version 2 it lists
manifests.
"""

from collections.abc import Iterator

from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.decode import decode
from frazil.flatbuf.flexbuffers import Json
from frazil.flatbuf.schema import Bytes, Field, Scalar, String, TableSchema, TableVector, Union
from frazil.flatbuf.table import Table
from frazil.format.nodes import ArrayData, Node, Nodes, decode_manifest_refs, decode_nodes
from frazil.format.schemas import (
    GROUP_NODE_DATA,
    MANIFEST_REF,
    NODE_ARRAY,
    NODE_GROUP,
    NODE_SNAPSHOT,
    OBJECT_ID_8,
    SNAPSHOT,
)
from frazil.format.snapshot import Snapshot, decode_head_of, decode_manifest_files_v1
from frazil.generations.alpha_metadata import array_document, zarr_json
from frazil.generations.msgpack_values import json_object, unpack
from frazil.ids import NodeId
from frazil.paths import NodePath

_INLINE, _ELSEWHERE = 1, 2  # where attributes are
_NODE = TableSchema(
    "NodeSnapshot",
    (
        Field("id", 0, OBJECT_ID_8, required=True),
        Field("path", 1, String(), required=True),
        Field(
            "user_attributes",
            2,
            Union(
                {
                    _INLINE: TableSchema("InlineUserAttributes", (Field("data", 0, Bytes()),)),
                    _ELSEWHERE: TableSchema("UserAttributesRef", ()),
                }
            ),
        ),
        Field(
            "node_data",
            4,
            Union(
                {
                    NODE_ARRAY: TableSchema(
                        "ArrayNodeData",
                        (
                            Field("zarr_metadata", 0, Bytes(), required=True),
                            Field("manifests", 1, TableVector(MANIFEST_REF), required=True),
                        ),
                    ),
                    NODE_GROUP: GROUP_NODE_DATA,
                }
            ),
            required=True,
        ),
    ),
)
_OTHERS = tuple(
    field for field in SNAPSHOT.fields if field.name not in {"nodes", "manifest_files_v2"}
)


def _snapshot_of(node: TableSchema) -> TableSchema:
    return TableSchema("Snapshot", (*_OTHERS, Field("nodes", 2, TableVector(node), required=True)))


_PROBE = _snapshot_of(TableSchema("NodeSnapshot", (Field("slot_5", 5, Scalar("u4")),)))
_SNAPSHOT_1, _SNAPSHOT_2 = _snapshot_of(_NODE), _snapshot_of(NODE_SNAPSHOT)


def has_early_nodes(content: bytes) -> bool:
    """True if there are nodes, and they are those of V1pre1."""
    nodes = decode(content, _PROBE).tables("nodes").rows
    return bool(nodes.scalar("slot_5").present.any())


def decode_v1pre(content: bytes) -> Snapshot:
    if has_early_nodes(content):
        root = decode(content, _SNAPSHOT_1)
        nodes = Nodes.from_nodes(_early_nodes(root.tables("nodes").rows))
    else:
        root = decode(content, _SNAPSHOT_2)
        nodes = decode_nodes(root.tables("nodes").rows)
    head = decode_head_of(root, 1)
    return Snapshot(
        id=head.id,
        parent_id=head.parent_id,
        flushed_at_us=head.flushed_at_us,
        message=head.message,
        metadata=head.metadata,
        manifest_files=decode_manifest_files_v1(root),
        nodes=nodes,
    )


def _early_nodes(rows: Table) -> Iterator[Node]:
    data, ids, paths = rows.union("node_data"), rows.struct("id").values, rows.string("path")
    arrays = data.variants[NODE_ARRAY]
    for row in range(len(rows)):
        try:
            path = NodePath(paths.text(row) or "")
        except InvalidInputError as error:
            raise FormatError(f"node path is not valid: {error}") from error
        identity, attributes = NodeId(ids[row].tobytes()), _attributes(rows, row)
        match int(data.types[row]):
            case 1:
                at = int(data.index[row])
                found = array_document(unpack(arrays.string("zarr_metadata").item(at) or b""))
                array = ArrayData(
                    found.shape,
                    found.num_chunks,
                    found.dimension_names,
                    decode_manifest_refs(arrays.tables("manifests"), at),
                )
                yield Node(identity, path, zarr_json(found.document, attributes), array)
            case 2:
                yield Node(identity, path, zarr_json(None, attributes))
            case _:
                raise FormatError("a node is neither an array nor a group")


def _attributes(rows: Table, row: int) -> dict[str, Json] | None:
    column = rows.union("user_attributes")
    match int(column.types[row]):
        case 0:
            return None
        case 1:
            data = column.variants[_INLINE].string("data").item(int(column.index[row]))
            return json_object(unpack(data or b""), "the attributes of a node")
        case _:
            raise FormatError("attributes in a file of their own were never defined")
