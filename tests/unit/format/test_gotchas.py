"""Where the bytes are not what a reader of the specification expects.

One test, at least, for each line of the reference notes' list of gotchas, and for each anomaly of
version 1 and 2 files that was seen in real repositories. Names of fields are the schema's.
"""

from dataclasses import replace

import numpy as np
import pytest

from frazil.errors import FormatError
from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn, VectorColumn
from frazil.flatbuf.decode import decode
from frazil.flatbuf.encode import encode
from frazil.flatbuf.flexbuffers import Json
from frazil.flatbuf.schema import Bytes, Field, TableSchema, Union
from frazil.flatbuf.table import Column, SubTableColumn, Table, TableVectorColumn, UnionColumn
from frazil.format.chunk_refs import Inline, Native, Virtual
from frazil.format.envelope import FileType, decode_envelope, encode_envelope
from frazil.format.locations import LocationCompression
from frazil.format.manifest import Manifest, decode_manifest, encode_manifest
from frazil.format.nodes import ArrayData, Node
from frazil.format.repo_info import decode_repo_info, encode_repo_info
from frazil.format.schemas import (
    MANIFEST,
    NODE_ARRAY,
    NODE_GROUP,
    REPO,
    SNAPSHOT,
    TRANSACTION_LOG,
    UPDATE,
    UPDATE_KINDS,
)
from frazil.format.snapshot import Snapshot, decode_snapshot, encode_snapshot
from frazil.format.transaction_log import TransactionLog, decode_txlog, encode_txlog
from frazil.format.update_log import Availability
from frazil.ids import INITIAL_SNAPSHOT, NodeId
from frazil.paths import ROOT, NodePath
from tests.unit.format.samples import (
    ARRAY_ID,
    CHUNK_ID,
    MANIFEST_ID,
    SECOND,
    file_of,
    ids,
    initial_repo_info,
    sample_log,
    sample_manifest,
    sample_nodes,
    sample_refs,
    sample_repo_info,
    sample_snapshot,
    snapshot_v1,
    tables_of,
)

FILES = {
    FileType.REPO_INFO: encode_repo_info(sample_repo_info()),
    FileType.SNAPSHOT: encode_snapshot(sample_snapshot()),
    FileType.MANIFEST: encode_manifest(sample_manifest()),
    FileType.TRANSACTION_LOG: encode_txlog(sample_log()),
}


def without(table: Table, *names: str) -> Table:
    """The table with these fields absent in every row."""
    kept = {name: column for name, column in table.columns.items() if name not in names}
    return Table.build(table.schema, len(table), **kept)


def nested(root: Table, name: str, change: dict[str, Column]) -> Table:
    column = root.tables(name)
    rows = column.rows.replace(**change)
    return root.replace(**{name: TableVectorColumn(column.splits, rows, column.present)})


# ---- file identifier -------------------------------------------------------------------------


@pytest.mark.parametrize("file_type", FILES)
def test_file_identifier_every_payload_carries_ichk(file_type: FileType) -> None:
    assert decode_envelope(FILES[file_type], file_type).data[4:8] == b"Ichk"


def test_file_identifier_is_not_checked_on_reading() -> None:
    payload = bytearray(decode_envelope(FILES[FileType.MANIFEST], FileType.MANIFEST).data)
    payload[4:8] = b"none"
    data = encode_envelope(payload, FileType.MANIFEST)
    assert decode_manifest(data).num_refs == 6


# ---- defaults that surprise ------------------------------------------------------------------


def test_parent_offset_absent_means_the_first_row_not_none() -> None:
    root = tables_of(FILES[FileType.REPO_INFO])
    rows = root.tables("snapshots").rows
    absent = ScalarColumn(np.zeros(2, np.int32), np.array([False, False]))
    data = file_of(nested(root, "snapshots", {"parent_offset": absent}), FileType.REPO_INFO)
    assert len(rows) == 2
    assert decode_repo_info(data).snapshots.parents.tolist() == [0, 0]


def test_parent_offset_of_the_root_is_written_as_minus_one() -> None:
    column = tables_of(encode_repo_info(initial_repo_info())).tables("snapshots").rows
    assert column.scalar("parent_offset").values.tolist() == [-1]
    assert column.scalar("parent_offset").present.tolist() == [True]


def test_parent_offset_of_zero_is_the_first_row() -> None:
    info = decode_repo_info(FILES[FileType.REPO_INFO])
    row = info.snapshots.find(SECOND)
    assert int(info.snapshots.parents[row]) == info.snapshots.find(INITIAL_SNAPSHOT) == 0


def test_compression_algorithm_zero_is_written_because_absent_means_one() -> None:
    column = tables_of(FILES[FileType.MANIFEST]).scalar("compression_algorithm")
    assert (column.values.tolist(), column.present.tolist()) == ([0], [True])


def test_compression_algorithm_absent_is_harmless_without_compressed_locations() -> None:
    root = tables_of(FILES[FileType.MANIFEST])
    old = without(root, "compression_algorithm")
    assert old.scalar("compression_algorithm").values.tolist() == [1]
    data = file_of(old, FileType.MANIFEST, spec_version=1)
    assert decode_manifest(data).arrays[ARRAY_ID].equals(sample_refs())


def test_compression_algorithm_absent_means_a_dictionary_where_locations_are_compressed() -> None:
    names = [f"s3://bucket/with/a/long/prefix/of/files/{place:09}" for place in range(100)]
    rows = np.arange(100, dtype=np.uint32).reshape(-1, 1)
    refs = type(sample_refs()).virtual(rows, names, 0, 1)
    packed = encode_manifest(
        Manifest(MANIFEST_ID, {ARRAY_ID: refs}), location_compression=LocationCompression(10)
    )
    root = tables_of(packed)
    assert root.string("location_dictionary").present.all()
    data = file_of(without(root, "compression_algorithm"), FileType.MANIFEST)
    assert decode_manifest(data).arrays[ARRAY_ID].equals(refs)


def test_snapshot_index_zero_may_be_omitted() -> None:
    root = tables_of(FILES[FileType.REPO_INFO])
    zero = ScalarColumn(np.zeros(1, np.uint32), np.array([False]))
    data = file_of(nested(root, "branches", {"snapshot_index": zero}), FileType.REPO_INFO)
    assert decode_repo_info(data).branches == {"main": 0}


# ---- order of fields and numbers -------------------------------------------------------------


def test_updated_arrays_come_before_updated_groups() -> None:
    slots = {field.name: field.slot for field in TRANSACTION_LOG.fields}
    assert (slots["new_groups"], slots["new_arrays"]) == (1, 2)
    assert (slots["deleted_groups"], slots["deleted_arrays"]) == (3, 4)
    assert (slots["updated_arrays"], slots["updated_groups"]) == (5, 6)
    log = decode_txlog(FILES[FileType.TRANSACTION_LOG])
    assert log.updated_arrays.tobytes() == b"updated1"
    assert log.updated_groups.tobytes() == b"updated2"


def test_node_data_counts_arrays_first_and_node_type_counts_groups_first() -> None:
    assert (NODE_ARRAY, NODE_GROUP) == (1, 2)
    nodes = tables_of(FILES[FileType.SNAPSHOT]).tables("nodes").rows
    assert nodes.union("node_data").types.tolist() == [2, 2, 1, 1]
    moves = tables_of(FILES[FileType.TRANSACTION_LOG]).tables("moved_nodes").rows
    assert moves.scalar("node_type").values.tolist() == [1]
    assert sample_log().moved[0].is_array


def test_repo_status_changed_is_the_last_of_the_union() -> None:
    assert UPDATE_KINDS[16].name == "RepoStatusChangedUpdate"
    assert UPDATE_KINDS[3].name == "ConfigChangedUpdate"
    assert list(UPDATE_KINDS) == list(range(1, 17))


def test_manifest_files_v2_is_slot_7_of_a_snapshot() -> None:
    assert SNAPSHOT.field("manifest_files_v2").slot == 7


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, Availability.ONLINE),
        (1, Availability.READ_ONLY),
        (2, Availability.OFFLINE),
        (9, Availability.ONLINE),
    ],
)
def test_repo_availability_offline_is_told_apart_and_unknown_numbers_are_online(
    number: int, expected: Availability
) -> None:
    root = tables_of(FILES[FileType.REPO_INFO])
    status = root.subtable("status").rows.replace(availability=ScalarColumn.of([number], "u1"))
    data = file_of(root.replace(status=SubTableColumn.of(status)), FileType.REPO_INFO)
    assert decode_repo_info(data).status.availability is expected


# ---- fields that are mandatory though not required, and the reverse --------------------------


def test_mandatory_fields_are_always_written_even_where_zero() -> None:
    nodes = [Node(ARRAY_ID, ROOT, b"", ArrayData((0,), (0,)))]
    snapshot = replace(sample_snapshot(), nodes=type(sample_snapshot().nodes).from_nodes(nodes))
    root = tables_of(encode_snapshot(snapshot))
    shapes = root.tables("nodes").rows.union("node_data").variants[1].tables("shape_v2").rows
    assert shapes.scalar("array_length").present.all()
    assert shapes.scalar("num_chunks").present.all()
    files = root.tables("manifest_files_v2").rows
    assert files.scalar("size_bytes").present.all()
    assert files.scalar("num_chunk_refs").present.all()
    log = replace(sample_log(), moved=(replace(sample_log().moved[0], is_array=False),))
    moves = tables_of(encode_txlog(log)).tables("moved_nodes").rows
    assert moves.scalar("node_type").present.all()


@pytest.mark.parametrize("name", ["from", "to", "node_id"])
def test_a_move_without_one_of_its_fields_is_refused(name: str) -> None:
    lenient = TableSchema(
        "MoveOperation",
        tuple(
            replace(field, required=False)
            for field in TRANSACTION_LOG.field("moved_nodes").kind.schema.fields  # type: ignore[union-attr]  # a vector of tables
        ),
    )
    moves = tables_of(FILES[FileType.TRANSACTION_LOG]).tables("moved_nodes").rows
    kept = {key: column for key, column in moves.columns.items() if key != name}
    rows = Table.build(lenient, 1, **kept)
    outer = TableSchema(
        "TransactionLog",
        tuple(
            field
            if field.name != "moved_nodes"
            else replace(
                field,
                kind=replace(field.kind, schema=lenient),  # type: ignore[arg-type]  # same
            )
            for field in TRANSACTION_LOG.fields
        ),
    )
    root = tables_of(FILES[FileType.TRANSACTION_LOG])
    columns = dict(root.columns) | {"moved_nodes": TableVectorColumn.of(rows)}
    payload = encode(Table.build(outer, 1, **columns), identifier=b"Ichk")
    with pytest.raises(FormatError, match=f"MoveOperation.*{name}"):
        decode_txlog(encode_envelope(payload, FileType.TRANSACTION_LOG))


def test_shape_is_present_and_empty_in_version_2() -> None:
    arrays = tables_of(FILES[FileType.SNAPSHOT]).tables("nodes").rows.union("node_data").variants[1]
    assert arrays.vector("shape").present.all()
    assert len(arrays.vector("shape").values) == 0
    assert arrays.tables("shape_v2").present.all()


def test_manifest_files_is_present_and_empty_in_version_2() -> None:
    root = tables_of(FILES[FileType.SNAPSHOT])
    assert root.vector("manifest_files").present.all()
    assert len(root.vector("manifest_files").values) == 0
    assert not root.struct("parent_id").present.any()


def test_manifest_files_is_ignored_where_the_newer_list_is_present() -> None:
    root = tables_of(FILES[FileType.SNAPSHOT])
    stale = VectorColumn.of(np.full((1, 32), 7, np.uint8), np.array([0, 1]))
    data = file_of(root.replace(manifest_files=stale), FileType.SNAPSHOT)
    assert decode_snapshot(data).manifest_files == sample_snapshot().manifest_files


def test_dimension_names_are_absent_where_there_are_none_and_empty_ones_are_unnamed() -> None:
    arrays = tables_of(FILES[FileType.SNAPSHOT]).tables("nodes").rows.union("node_data").variants[1]
    assert arrays.tables("dimension_names").present.tolist() == [True, False]
    named = [Node(ARRAY_ID, ROOT, b"", ArrayData((1, 1), (1, 1), ("", "x")))]
    snapshot = replace(sample_snapshot(), nodes=type(sample_snapshot().nodes).from_nodes(named))
    found = decode_snapshot(encode_snapshot(snapshot)).nodes.node(0).array
    assert found is not None
    assert found.dimension_names == (None, "x")


# ---- version 1 shapes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "chunk_length", "expected"),
    [
        (10, 4, 3),
        (12, 4, 3),
        (10, 5, 2),  # what a version 2 writer works back from 2 chunks of 6
        (0, 0, 0),  # written by 2.3.0 for an axis of length 0
        (0, 1, 0),  # written by 1.1.21
        (7, 0, 7),
        (1, 2**63, 1),
    ],
)
def test_chunk_length_of_version_1_gives_the_number_of_chunks(
    length: int, chunk_length: int, expected: int
) -> None:
    array = Node(ARRAY_ID, ROOT, b"", ArrayData((length,), (0,)))
    found = decode_snapshot(snapshot_v1([array], [(chunk_length,)])).nodes.node(0).array
    assert found is not None
    assert (found.shape, found.num_chunks) == ((length,), (expected,))


def test_num_chunks_worked_back_from_a_worked_back_chunk_length_is_always_the_same() -> None:
    for length in range(1, 60):
        for chunk in range(1, length + 5):
            num_chunks = -(-length // chunk)
            worked_back = -(-length // num_chunks)
            assert -(-length // worked_back) == num_chunks


def test_node_order_of_old_writers_is_by_component_and_every_node_is_found() -> None:
    paths = ["/", "/a", "/a/b", "/a!", "/a-b"]  # as 0.2.0 to 1.1.2 wrote them
    nodes = [
        Node(NodeId(f"node{place:04}".encode()), NodePath(path), path.encode())
        for place, path in enumerate(paths)
    ]
    found = decode_snapshot(snapshot_v1(nodes, [])).nodes
    assert all(found.node(found.find(node.path)) == node for node in nodes)
    assert found.paths == sorted(found.paths)


# ---- metadata and user data ------------------------------------------------------------------


def test_metadata_codec_follows_the_version_of_the_file() -> None:
    old = decode_snapshot(snapshot_v1([], [], metadata={"k": [1, {"x": None}]}))
    assert old.metadata == {"k": [1, {"x": None}]}
    assert decode_snapshot(FILES[FileType.SNAPSHOT]).metadata == sample_snapshot().metadata
    payload = decode_envelope(snapshot_v1([], [], metadata={"k": "text"}), FileType.SNAPSHOT).data
    with pytest.raises(FormatError):
        decode_snapshot(encode_envelope(payload, FileType.SNAPSHOT, spec_version=2))


def test_metadata_is_sorted_by_name_in_snapshots_and_in_the_repo_info() -> None:
    metadata: dict[str, Json] = {"b": 1, "a": 2, "ä": 3, "Z": 4}
    data = encode_snapshot(replace(sample_snapshot(), metadata=metadata))
    names = tables_of(data).tables("metadata").rows.string("name").to_texts()
    assert names == ["Z", "a", "b", "ä"]
    info = initial_repo_info().with_snapshot(SECOND, INITIAL_SNAPSHOT, 1, "", metadata)
    rows = tables_of(encode_repo_info(info)).tables("snapshots").rows.tables("metadata").rows
    assert rows.string("name").to_texts()[-4:] == ["Z", "a", "b", "ä"]


def test_user_data_is_kept_byte_for_byte() -> None:
    odd = b'{ "zarr_format":3,\n\t"x": 1.50, "x": 2 }\xff'
    nodes = [Node(ARRAY_ID, ROOT, odd)]
    snapshot = replace(sample_snapshot(), nodes=type(sample_snapshot().nodes).from_nodes(nodes))
    assert decode_snapshot(encode_snapshot(snapshot)).nodes.node(0).user_data == odd


# ---- chunk references ------------------------------------------------------------------------


def changed_refs(**change: Column) -> bytes:
    refs = type(sample_refs()).from_payloads([[0]], [Inline(b"inline")])
    root = tables_of(encode_manifest(Manifest(MANIFEST_ID, {ARRAY_ID: refs})))
    arrays = root.tables("arrays")
    new = nested(arrays.rows, "refs", change)
    return file_of(
        root.replace(arrays=TableVectorColumn(arrays.splits, new, arrays.present)),
        FileType.MANIFEST,
    )


def test_a_chunk_id_wins_over_a_location_over_inline_data() -> None:
    location = StringColumn.from_list(["s3://b/x"])
    chunk_id = StructColumn.of(ids(CHUNK_ID.raw))
    length = ScalarColumn.of([5], "u8")
    native = decode_manifest(changed_refs(location=location, chunk_id=chunk_id, length=length))
    assert native.arrays[ARRAY_ID].payload(0) == Native(CHUNK_ID, 0, 5)
    virtual = decode_manifest(changed_refs(location=location, length=length))
    assert virtual.arrays[ARRAY_ID].payload(0) == Virtual("s3://b/x", 0, 5)
    inline = decode_manifest(changed_refs())
    assert inline.arrays[ARRAY_ID].payload(0) == Inline(b"inline")


def test_columns_of_another_kind_are_neutral_where_several_fields_are_present() -> None:
    data = changed_refs(
        location=StringColumn.from_list(["s3://b/x"]),
        checksum_etag=StringColumn.from_list(["e"]),
        checksum_last_modified=ScalarColumn.of([9], "u4"),
        chunk_id=StructColumn.of(ids(CHUNK_ID.raw)),
    )
    refs = decode_manifest(data).arrays[ARRAY_ID]
    assert refs.location.codes.tolist() == refs.etag.codes.tolist() == [-1]
    assert refs.inline.codes.tolist() == [-1]
    assert refs.last_modified.tolist() == [0]


def test_last_modified_zero_means_no_checksum() -> None:
    location = StringColumn.from_list(["s3://b/x"])
    data = changed_refs(location=location, checksum_last_modified=ScalarColumn.of([0], "u4"))
    assert decode_manifest(data).arrays[ARRAY_ID].payload(0) == Virtual("s3://b/x", 0, 0)


def test_offsets_of_native_references_are_honoured() -> None:
    refs = decode_manifest(FILES[FileType.MANIFEST]).arrays[ARRAY_ID]
    assert refs.payload(1) == Native(CHUNK_ID, 7, 100)


# ---- sorted vectors --------------------------------------------------------------------------


def test_sorted_vectors_are_sorted_whatever_order_they_were_given_in() -> None:
    nodes = sample_nodes()[::-1]
    snapshot = replace(sample_snapshot(), nodes=type(sample_snapshot().nodes).from_nodes(nodes))
    paths = tables_of(encode_snapshot(snapshot)).tables("nodes").rows.string("path").to_list()
    assert paths == [node.path.raw for node in sample_nodes()]
    shuffled = replace(sample_log(), new_groups=sample_log().new_groups[::-1])
    assert decode_txlog(encode_txlog(shuffled)).equals(sample_log())


def test_latest_updates_stay_newest_first() -> None:
    info = decode_repo_info(FILES[FileType.REPO_INFO])
    assert [update.updated_at_us for update in info.updates] == sorted(
        (update.updated_at_us for update in info.updates), reverse=True
    )
    assert info.updates[0].backup_path is None
    assert info.updates[1].backup_path == "repo.1.X"


def test_the_initial_snapshot_and_its_log_are_empty() -> None:
    nodes = type(sample_snapshot().nodes).empty()
    initial = Snapshot(INITIAL_SNAPSHOT, None, 1, "Repository initialized", {}, (), nodes)
    assert str(decode_snapshot(encode_snapshot(initial)).id) == "1CECHNKREP0F1RSTCMT0"
    assert decode_txlog(encode_txlog(TransactionLog(INITIAL_SNAPSHOT))).num_changes == 0


def test_pruned_ancestor_logs_are_absent_where_there_are_none() -> None:
    rows = tables_of(FILES[FileType.REPO_INFO]).tables("snapshots").rows
    assert not rows.vector("pruned_ancestor_tx_logs").present.any()


# ---- from the future -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file_type", "schema", "slot"),
    [
        (FileType.REPO_INFO, REPO, 12),
        (FileType.SNAPSHOT, SNAPSHOT, 8),
        (FileType.MANIFEST, MANIFEST, 4),
        (FileType.TRANSACTION_LOG, TRANSACTION_LOG, 9),
    ],
)
def test_extra_is_never_written_and_ignored_on_reading(
    file_type: FileType, schema: TableSchema, slot: int
) -> None:
    wider = TableSchema(schema.name, (*schema.fields, Field("extra", slot, Bytes())))
    root = decode(decode_envelope(FILES[file_type], file_type).data, wider)
    assert not root.string("extra").present.any()
    more = root.replace(extra=StringColumn.from_list([b"future"]))
    data = encode_envelope(encode(more, identifier=b"Ichk"), file_type)
    assert tables_of(data).equals(tables_of(FILES[file_type]))


def test_an_unknown_update_spoils_only_itself() -> None:
    future = TableSchema("Future", ())
    kinds = Union(UPDATE_KINDS | {99: future})
    update = TableSchema("Update", (replace(UPDATE.fields[0], kind=kinds), *UPDATE.fields[1:]))
    repo = TableSchema(
        "Repo",
        tuple(
            replace(field, kind=replace(field.kind, schema=update))  # type: ignore[arg-type]  # a vector of tables
            if field.name == "latest_updates"
            else field
            for field in REPO.fields
        ),
    )
    root = decode(decode_envelope(FILES[FileType.REPO_INFO], FileType.REPO_INFO).data, repo)
    rows = root.tables("latest_updates").rows
    union = rows.union("update_type")
    odd = UnionColumn(
        np.array([99, 1], np.uint8),
        np.array([0, 0]),
        {**union.variants, 99: Table.build(future, 1), 10: union.variants[10]},
    )
    changed = nested(root, "latest_updates", {"update_type": odd})
    info = decode_repo_info(
        encode_envelope(encode(changed, identifier=b"Ichk"), FileType.REPO_INFO)
    )
    assert info.snapshot_of_branch("main") == SECOND
    assert info.updates[1].backup_path == "repo.1.X"
    with pytest.raises(FormatError, match="unknown type 99"):
        list(info.updates)
