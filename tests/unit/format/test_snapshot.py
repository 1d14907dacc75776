import pickle
from dataclasses import replace

import numpy as np
import pytest

from frazil.engine.changes.chunk_reads import covers
from frazil.errors import FormatError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.flexbuffers import Json
from frazil.flatbuf.schema import TableSchema, TableVector, Union
from frazil.flatbuf.table import Table, TableVectorColumn, UnionColumn
from frazil.format.envelope import FileType, decode_header
from frazil.format.nodes import (
    ArrayData,
    ManifestRef,
    ManifestRefs,
    Node,
    Nodes,
    decode_node,
    node_table,
    refs_around,
)
from frazil.format.schemas import NODE_SNAPSHOT, SNAPSHOT
from frazil.format.snapshot import ManifestFile, Snapshot, decode_snapshot, encode_snapshot
from frazil.ids import INITIAL_SNAPSHOT, ManifestId, NodeId
from frazil.paths import ROOT, NodePath
from tests.unit.format.samples import (
    ARRAY_ID,
    MANIFEST_ID,
    SECOND,
    file_of,
    sample_nodes,
    sample_snapshot,
    snapshot_v1,
    tables_of,
)


def same(left: Snapshot, right: Snapshot) -> bool:
    return (
        all(
            getattr(left, name) == getattr(right, name)
            for name in ("id", "parent_id", "flushed_at_us", "message", "metadata")
        )
        and left.manifest_files == right.manifest_files
        and list(left.nodes) == list(right.nodes)
    )


def test_a_snapshot_decodes_to_what_was_encoded() -> None:
    assert same(decode_snapshot(encode_snapshot(sample_snapshot())), sample_snapshot())


def test_the_initial_snapshot_has_no_nodes_at_all() -> None:
    initial = Snapshot(INITIAL_SNAPSHOT, None, 1, "Repository initialized", {}, (), Nodes.empty())
    assert same(decode_snapshot(encode_snapshot(initial)), initial)


def test_manifest_files_are_stored_in_order_of_id() -> None:
    files = tuple(ManifestFile(ManifestId(raw * 12), 1, 1) for raw in (b"z", b"a", b"m"))
    base = sample_snapshot()
    snapshot = Snapshot(SECOND, None, 1, "", {}, files, base.nodes)
    found = decode_snapshot(encode_snapshot(snapshot)).manifest_files
    assert [file.id.raw[:1] for file in found] == [b"a", b"m", b"z"]


def test_metadata_is_stored_in_order_of_name() -> None:
    stored = tables_of(encode_snapshot(sample_snapshot())).tables("metadata").rows
    assert stored.string("name").to_texts() == ["a", "b"]


def test_a_version_1_snapshot_is_read_in_the_newer_form() -> None:
    files = (ManifestFile(MANIFEST_ID, 999, 18),)
    metadata: dict[str, Json] = {"author": "someone", "numbers": [1, -1, 2.5], "none": None}
    data = snapshot_v1(
        sample_nodes(), [(10, 10), ()], parent=INITIAL_SNAPSHOT, metadata=metadata, files=files
    )
    assert decode_header(data).spec_version == 1
    found = decode_snapshot(data)
    assert found.parent_id == INITIAL_SNAPSHOT
    assert found.metadata == metadata
    assert found.manifest_files == files
    assert list(found.nodes) == sample_nodes()


def test_a_version_1_snapshot_is_written_again_as_version_2() -> None:
    old = decode_snapshot(snapshot_v1(sample_nodes(), [(10, 10), ()], metadata={"k": 1}))
    data = encode_snapshot(old)
    assert decode_header(data).spec_version == 2
    new = decode_snapshot(data)
    assert list(new.nodes) == sample_nodes()
    assert new.metadata == {"k": 1}
    arrays = tables_of(data).tables("nodes").rows.union("node_data").variants[1]
    assert len(arrays.vector("shape").values) == 0
    assert arrays.tables("shape_v2").present.all()


def test_old_and_new_nodes_can_be_in_one_snapshot() -> None:
    old = decode_snapshot(snapshot_v1(sample_nodes(), [(10, 10), ()])).nodes
    added = Node(NodeId(b"added---"), NodePath("/b"), b"{}", ArrayData((5,), (2,), ("x",)))
    patched = old.patched(remove=[ROOT], put=[added])
    snapshot = Snapshot(SECOND, None, 1, "", {}, (), patched)
    found = decode_snapshot(encode_snapshot(snapshot)).nodes
    assert list(found) == [added, *sample_nodes()[1:]]


@pytest.mark.parametrize("value", [b"", b"\xc1", b"\x92\x01", b"\xc4\x01a", b"\xd4\x01\x00"])
def test_a_metadata_value_that_is_not_json_is_refused(value: bytes) -> None:
    root = tables_of(snapshot_v1(sample_nodes(), [(10, 10), ()], metadata={"k": 1}))
    items = root.tables("metadata").rows.replace(value=StringColumn.from_list([value]))
    bad = root.replace(metadata=TableVectorColumn.of(items))
    with pytest.raises(FormatError, match="metadata value"):
        decode_snapshot(file_of(bad, FileType.SNAPSHOT, spec_version=1))


def test_a_grid_too_large_to_count_is_refused() -> None:
    array = Node(ARRAY_ID, ROOT, b"", ArrayData((2**40,), (1,)))
    with pytest.raises(FormatError, match="more chunks"):
        decode_snapshot(snapshot_v1([array], [(1,)]))


def test_the_size_of_a_file_is_bounded() -> None:
    data = encode_snapshot(sample_snapshot())
    with pytest.raises(FormatError, match="accepted"):
        decode_snapshot(data, max_size=100)
    assert np.frombuffer(data, np.uint8).size > 100


def test_a_node_that_is_neither_array_nor_group_is_refused() -> None:
    future = TableSchema("Future", ())
    (node_data,) = [field for field in NODE_SNAPSHOT.fields if field.name == "node_data"]
    kinds = Union({2: future, 3: future})
    odd = TableSchema("NodeSnapshot", (*NODE_SNAPSHOT.fields[:3], replace(node_data, kind=kinds)))
    rows = sample_snapshot().nodes.table.take(np.array([0]))
    union = UnionColumn(
        np.array([3], np.uint8), np.array([0]), {2: Table.empty(future), 3: Table.build(future, 1)}
    )
    columns = {**rows.columns, "node_data": union}
    nodes = TableVectorColumn.of(Table.build(odd, 1, **columns))
    outer = TableSchema(
        "Snapshot",
        tuple(
            replace(field, kind=TableVector(odd)) if field.name == "nodes" else field
            for field in SNAPSHOT.fields
        ),
    )
    root = {**tables_of(encode_snapshot(sample_snapshot())).columns, "nodes": nodes}
    with pytest.raises(FormatError, match="neither an array nor a group"):
        decode_snapshot(file_of(Table.build(outer, 1, **root), FileType.SNAPSHOT))


def random_manifests(seed: int, count: int, *, stated: bool = True) -> list[ManifestRef]:
    """Of an array of two axes, some of them over one another."""
    some = np.random.default_rng(seed)
    start = some.integers(0, 2**31, (count, 2))
    bounds = np.stack([start, start + some.integers(1, 2**31, (count, 2))], axis=2)
    return [
        ManifestRef(ManifestId(some.bytes(12)), tuple((a, b) for a, b in each) if stated else ())
        for each in bounds.tolist()
    ]


@pytest.mark.parametrize("count", [1, 16, 17, 300])
@pytest.mark.parametrize("stated", [True, False])
def test_manifests_are_the_same_as_columns_and_as_records(count: int, *, stated: bool) -> None:
    refs = random_manifests(count, count, stated=stated)
    files = sorted((ManifestFile(ref.id, 7, 11) for ref in refs), key=lambda file: file.id)
    array = Node(NodeId(b"array---"), NodePath("/a"), b"{}", ArrayData((9, 9), (9, 9), None, refs))
    snapshot = replace(
        sample_snapshot(), manifest_files=tuple(files), nodes=Nodes.from_nodes([array])
    )
    found = pickle.loads(pickle.dumps(decode_snapshot(encode_snapshot(snapshot))))
    again = decode_snapshot(encode_snapshot(found))

    assert again.manifest_files == found.manifest_files == tuple(files)
    assert found.manifest_files[-1] == files[-1]
    assert list(found.manifest_files[1:]) == files[1:]
    assert set(found.manifest_files) == set(files)
    (node,), (second,) = found.nodes, again.nodes
    assert node.array is not None
    assert second.array is not None
    assert tuple(refs) == node.array.manifests == second.array.manifests
    assert node == second
    assert hash(node) == hash(second)
    assert list(node.array.manifests[1:]) == refs[1:]
    assert node.array.manifests[-1] == refs[-1]
    assert node.array.manifests != tuple(refs[::-1]) or count == 1
    assert found.nodes.manifest_ids().tobytes() == b"".join(ref.id.raw for ref in refs)


def test_manifests_around_chunks_are_those_that_may_hold_one() -> None:
    listed = random_manifests(0, 200)
    array = Node(NodeId(b"array---"), NodePath("/a"), b"{}", ArrayData((9, 9), (9, 9), (), listed))
    found = decode_node(node_table([array]), 0).array
    assert found is not None
    refs = found.manifests
    assert isinstance(refs, ManifestRefs)
    some = np.random.default_rng(1)
    for count in [1] * 200 + [3] * 20:
        index = some.integers(0, 2**32, (count, 2), dtype=np.uint32)
        chunks = [tuple(each) for each in index.tolist()]
        around = list(refs_around(refs, index))
        holding = [ref for ref in listed if any(covers(ref, chunk) for chunk in chunks)]
        assert around == holding if count == 1 else set(holding) <= set(around)
    assert refs_around(refs, np.zeros((0, 2), np.uint32)) is refs
