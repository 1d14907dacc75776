import numpy as np
import pytest

from frazil.errors import FormatError
from frazil.flatbuf.columns import StringColumn, StructColumn, VectorColumn
from frazil.flatbuf.table import Table, TableVectorColumn
from frazil.format.chunk_refs import ChunkRefs, Inline
from frazil.format.envelope import FileType
from frazil.format.manifest import Manifest, decode_manifest, encode_manifest
from frazil.ids import NodeId
from tests.unit.format.samples import (
    ARRAY_ID,
    MANIFEST_ID,
    file_of,
    sample_manifest,
    sample_refs,
    tables_of,
)


def with_refs(data: bytes, change: dict[str, object]) -> bytes:
    """The file with other columns in its chunk references."""
    root = tables_of(data)
    arrays = root.tables("arrays")
    refs = arrays.rows.tables("refs")
    rows = refs.rows.replace(**change)  # type: ignore[arg-type]  # each test passes columns
    new = arrays.rows.replace(refs=TableVectorColumn(refs.splits, rows, refs.present))
    changed = root.replace(arrays=TableVectorColumn(arrays.splits, new, arrays.present))
    return file_of(changed, FileType.MANIFEST)


def test_a_manifest_decodes_to_what_was_encoded() -> None:
    manifest = sample_manifest()
    found = decode_manifest(encode_manifest(manifest))
    assert found.id == manifest.id
    assert found.arrays.keys() == manifest.arrays.keys()
    assert all(found.arrays[node].equals(refs) for node, refs in manifest.arrays.items())
    assert found.num_refs == 6


def test_encoding_is_deterministic() -> None:
    assert encode_manifest(sample_manifest()) == encode_manifest(sample_manifest())


def test_arrays_are_stored_in_order_of_node_id() -> None:
    stored = tables_of(encode_manifest(sample_manifest())).tables("arrays").rows
    raw = [row.tobytes() for row in stored.struct("node_id").values]
    assert raw == sorted(raw)
    assert len(raw) == 2


def test_a_manifest_without_arrays_is_read() -> None:
    assert decode_manifest(encode_manifest(Manifest(MANIFEST_ID, {}))).arrays == {}


def test_an_array_without_references_is_read() -> None:
    data = encode_manifest(Manifest(MANIFEST_ID, {ARRAY_ID: ChunkRefs.empty(3)}))
    assert len(decode_manifest(data).arrays[ARRAY_ID]) == 0


def test_an_array_without_axes_is_read() -> None:
    refs = ChunkRefs.from_payloads(np.zeros((1, 0), np.uint32), [Inline(b"x")])
    data = encode_manifest(Manifest(MANIFEST_ID, {ARRAY_ID: refs}))
    assert decode_manifest(data).arrays[ARRAY_ID].equals(refs)


def test_references_out_of_order_are_put_in_order() -> None:
    data = encode_manifest(Manifest(MANIFEST_ID, {ARRAY_ID: sample_refs()}))
    rows = np.array([[2, 5], [0, 0], [0, 1], [1, 1], [1, 0]], dtype=np.uint32)
    refs = decode_manifest(with_refs(data, {"index": VectorColumn.regular(rows)})).arrays[ARRAY_ID]
    assert refs.index.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 5]]
    assert refs.find((2, 5)) == 4
    assert refs.payload(4) == Inline(b"tiny")


def test_rows_with_another_number_of_coordinates_are_left_out() -> None:
    data = encode_manifest(Manifest(MANIFEST_ID, {ARRAY_ID: sample_refs()}))
    splits = np.array([0, 2, 4, 7, 9, 11])
    values = np.array([0, 0, 0, 1, 1, 0, 9, 1, 1, 2, 5], dtype=np.uint32)
    changed = with_refs(data, {"index": VectorColumn.of(values, splits)})
    refs = decode_manifest(changed).arrays[ARRAY_ID]
    assert refs.index.tolist() == [[0, 0], [0, 1], [1, 1], [2, 5]]
    assert refs.payload(3) == sample_refs().payload(4)


def test_an_array_listed_twice_is_read_as_one() -> None:
    root = tables_of(encode_manifest(sample_manifest()))
    arrays = root.tables("arrays").rows
    same = np.tile(np.frombuffer(ARRAY_ID.raw, np.uint8), (2, 1))
    refs = arrays.tables("refs")
    both = np.array([[9, 9], *sample_refs().index.tolist()], dtype=np.uint32)
    rows = refs.rows.replace(index=VectorColumn.regular(both))
    table = Table.build(
        arrays.schema,
        2,
        node_id=StructColumn.of(same),
        refs=TableVectorColumn(refs.splits, rows, refs.present),
    )
    data = file_of(root.replace(arrays=TableVectorColumn.of(table)), FileType.MANIFEST)
    found = decode_manifest(data).arrays
    assert list(found) == [ARRAY_ID]
    assert found[ARRAY_ID].payload(found[ARRAY_ID].find((9, 9))) == Inline(b"other array")
    assert len(found[ARRAY_ID]) == 6


def test_a_reference_to_nothing_is_refused() -> None:
    refs = ChunkRefs.from_payloads([[0]], [Inline(b"x")])
    data = encode_manifest(Manifest(MANIFEST_ID, {ARRAY_ID: refs}))
    with pytest.raises(FormatError, match="neither inline, native nor virtual"):
        decode_manifest(with_refs(data, {"inline": StringColumn.absent(1)}))


def test_a_location_that_is_not_text_is_refused_when_read() -> None:
    refs = ChunkRefs.virtual([[0]], ["s3://b/x"], 0, 1)
    data = encode_manifest(Manifest(MANIFEST_ID, {NodeId(b"x" * 8): refs}))
    bad = with_refs(data, {"location": StringColumn.from_list([b"\xff\xfe"])})
    with pytest.raises(FormatError, match="UTF-8"):
        decode_manifest(bad).arrays[NodeId(b"x" * 8)].payload(0)
