from dataclasses import replace

import numpy as np
import pytest

from frazil.errors import FormatError
from frazil.flatbuf.columns import StringColumn, StructColumn, VectorColumn
from frazil.flatbuf.table import Table, TableVectorColumn
from frazil.format.envelope import FileType
from frazil.format.transaction_log import Move, TransactionLog, decode_txlog, encode_txlog
from frazil.ids import NodeId
from frazil.paths import NodePath
from tests.unit.format.samples import ARRAY_ID, SECOND, file_of, ids, sample_log, tables_of


def test_a_log_decodes_to_what_was_encoded() -> None:
    assert decode_txlog(encode_txlog(sample_log())).equals(sample_log())


def test_an_empty_log_decodes_to_what_was_encoded() -> None:
    log = decode_txlog(encode_txlog(TransactionLog(SECOND)))
    assert log.equals(TransactionLog(SECOND))
    assert log.num_changes == 0


def test_changes_are_counted() -> None:
    assert sample_log().num_changes == 7 + 2 + 1


def test_ids_are_stored_in_order() -> None:
    log = replace(sample_log(), new_groups=ids(b"\xff" * 8, b"\0" * 8, b"\x80" * 8))
    found = decode_txlog(encode_txlog(log)).new_groups
    assert [raw.tobytes()[:1] for raw in found] == [b"\0", b"\x80", b"\xff"]


def test_chunks_are_stored_in_order_and_once() -> None:
    chunks = {
        NodeId(b"z" * 8): np.array([[3], [1], [3]], dtype=np.uint32),
        NodeId(b"a" * 8): np.array([[1, 0], [0, 9]], dtype=np.uint32),
        NodeId(b"m" * 8): np.zeros((0, 2), dtype=np.uint32),
        NodeId(b"s" * 8): np.zeros((1, 0), dtype=np.uint32),
    }
    found = decode_txlog(encode_txlog(replace(sample_log(), updated_chunks=chunks)))
    assert [node.raw[:1] for node in found.updated_chunks] == [b"a", b"m", b"s", b"z"]
    assert [rows.tolist() for rows in found.updated_chunks.values()] == [
        [[0, 9], [1, 0]],
        [],
        [[]],
        [[1], [3]],
    ]


def test_moves_are_stored_by_component_of_the_target() -> None:
    moved = tuple(
        Move(NodePath(f"/from{place}"), NodePath(to), NodeId(bytes([place]) * 8), is_array=False)
        for place, to in enumerate(("/a-b", "/a/b", "/b", "/a"))
    )
    found = decode_txlog(encode_txlog(replace(sample_log(), moved=moved)))
    assert [move.to_path.text for move in found.moved] == ["/a", "/a/b", "/a-b", "/b"]


def test_moved_nodes_are_written_even_where_there_are_none() -> None:
    root = tables_of(encode_txlog(TransactionLog(SECOND)))
    assert root.tables("moved_nodes").present.all()


def test_a_version_1_log_has_no_moves() -> None:
    root = tables_of(encode_txlog(sample_log()))
    old = Table.build(
        root.schema, 1, **{k: v for k, v in root.columns.items() if k != "moved_nodes"}
    )
    found = decode_txlog(file_of(old, FileType.TRANSACTION_LOG, spec_version=1))
    assert found.equals(replace(sample_log(), moved=()))


def test_chunks_of_different_length_are_refused() -> None:
    root = tables_of(encode_txlog(sample_log()))
    arrays = root.tables("updated_chunks").rows
    chunks = arrays.tables("chunks")
    ragged = VectorColumn.of(np.array([0, 1, 2], dtype=np.uint32), np.array([0, 1, 3]))
    rows = chunks.rows.replace(coords=ragged)
    new = arrays.replace(chunks=TableVectorColumn(chunks.splits, rows, chunks.present))
    with pytest.raises(FormatError, match="differ in length"):
        decode_txlog(
            file_of(
                root.replace(updated_chunks=TableVectorColumn.of(new)), FileType.TRANSACTION_LOG
            )
        )


def test_an_array_listed_twice_is_refused() -> None:
    both = {ARRAY_ID: np.zeros((1, 1), np.uint32), NodeId(b"b" * 8): np.zeros((1, 1), np.uint32)}
    root = tables_of(encode_txlog(replace(sample_log(), updated_chunks=both)))
    arrays = root.tables("updated_chunks").rows
    same = arrays.replace(node_id=StructColumn.of(ids(ARRAY_ID.raw, ARRAY_ID.raw)))
    with pytest.raises(FormatError, match="twice"):
        decode_txlog(
            file_of(
                root.replace(updated_chunks=TableVectorColumn.of(same)), FileType.TRANSACTION_LOG
            )
        )


def test_a_move_to_a_path_that_is_not_valid_is_refused() -> None:
    root = tables_of(encode_txlog(sample_log()))
    moves = root.tables("moved_nodes").rows.replace(to=StringColumn.from_list(["nowhere"]))
    with pytest.raises(FormatError, match="path is not valid"):
        decode_txlog(
            file_of(root.replace(moved_nodes=TableVectorColumn.of(moves)), FileType.TRANSACTION_LOG)
        )


def test_logs_that_differ_are_not_equal() -> None:
    log = sample_log()
    assert not log.equals(replace(log, moved=()))
    assert not log.equals(replace(log, new_groups=ids(b"x" * 8)))
    assert not log.equals(replace(log, updated_chunks={}))
    changed = {ARRAY_ID: np.array([[0, 1], [1, 1]], dtype=np.uint32)}
    assert not log.equals(replace(log, updated_chunks=changed))
