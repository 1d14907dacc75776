"""Files of version 1, written as the reference writes them."""

import json
from dataclasses import replace

import numpy as np
import pytest

from frazil.errors import FormatError
from frazil.flatbuf.decode import decode
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_refs import ChunkRefs, Inline, Native, Virtual
from frazil.format.envelope import FileType, decode_envelope, decode_header
from frazil.format.locations import LocationCompression
from frazil.format.manifest import Manifest, decode_manifest, encode_manifest
from frazil.format.nodes import ArrayData, ManifestRef, Node, Nodes
from frazil.format.ref_file import decode_ref, encode_ref
from frazil.format.schemas import MANIFEST, NODE_ARRAY, SNAPSHOT, TRANSACTION_LOG
from frazil.format.snapshot import (
    ManifestFile,
    Snapshot,
    decode_snapshot,
    decode_snapshot_head,
    encode_snapshot,
)
from frazil.format.transaction_log import Move, TransactionLog, decode_txlog, encode_txlog
from frazil.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.paths import ROOT, NodePath

METADATA: dict[str, Json] = {"n": [1, -1, 2**63, 0.5, None, True], "deep": {"é": {"": "x"}}}


def zarr_json(*chunks: int) -> bytes:
    grid = {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}
    return json.dumps({"node_type": "array", "chunk_grid": grid}).encode()


def array_node(path: str, shape: tuple[int, ...], counts: tuple[int, ...], user: bytes) -> Node:
    refs = (ManifestRef(ManifestId.random(), tuple((0, 1) for _ in shape)),)
    array = ArrayData(shape, counts, ("x",) * len(shape), refs)
    return Node(NodeId.random(), NodePath(path), user, array)


def sample(*nodes: Node) -> Snapshot:
    return Snapshot(
        id=SnapshotId.random(),
        parent_id=SnapshotId.random(),
        flushed_at_us=1_700_000_000_000_000,
        message="a ✓",
        metadata=dict(METADATA),
        manifest_files=tuple(
            ManifestFile(ManifestId.random(), size, count)
            for size, count in ((7, 3), (2**40, 2**31))
        ),
        nodes=Nodes.from_nodes([Node(NodeId.random(), ROOT, b"{}"), *nodes]),
    )


def in_order(snapshot: Snapshot) -> tuple[ManifestFile, ...]:
    return tuple(sorted(snapshot.manifest_files, key=lambda file: file.id))


def test_a_snapshot_comes_back_with_its_parent() -> None:
    written = sample(
        array_node("/a", (10, 4), (4, 1), zarr_json(3, 4)), array_node("/s", (), (), b"")
    )
    data = encode_snapshot(written, spec_version=1)
    assert decode_header(data).spec_version == 1
    read = decode_snapshot(data)
    assert list(read.nodes) == list(written.nodes)
    assert read.head == written.head
    assert read.manifest_files == in_order(written)
    assert decode_snapshot_head(data) == written.head


def test_a_first_snapshot_has_no_parent() -> None:
    data = encode_snapshot(replace(sample(), parent_id=None), spec_version=1)
    assert decode_snapshot(data).parent_id is None


def test_a_snapshot_has_no_field_of_version_2() -> None:
    data = encode_snapshot(sample(array_node("/a", (10,), (4,), zarr_json(3))), spec_version=1)
    root = decode(decode_envelope(data, FileType.SNAPSHOT).data, SNAPSHOT)
    assert not root.tables("manifest_files_v2").present[0]
    assert len(root.vector("manifest_files").values) == 2
    arrays = root.tables("nodes").rows.union("node_data").variants[NODE_ARRAY]
    assert not arrays.tables("shape_v2").present.any()


@pytest.mark.parametrize(
    ("length", "count", "user_data", "chunk"),
    [
        (10, 4, zarr_json(3), 3),
        (10, 2, zarr_json(9), 9),  # working it back would give 5
        (0, 0, zarr_json(3), 3),  # icechunk 2.3 writes 0
        (10, 1, zarr_json(2**40), 2**40),
        (10, 4, b"not json", 3),
        (0, 0, b"{}", 1),
        (10, 4, zarr_json(3, 3), 3),  # a grid of another rank is not this array's
    ],
)
def test_the_length_of_a_chunk_is_that_of_the_zarr_metadata(
    length: int, count: int, user_data: bytes, chunk: int
) -> None:
    node = array_node("/a", (length,), (count,), user_data)
    data = encode_snapshot(sample(node), spec_version=1)
    root = decode(decode_envelope(data, FileType.SNAPSHOT).data, SNAPSHOT)
    arrays = root.tables("nodes").rows.union("node_data").variants[NODE_ARRAY]
    pair = np.ascontiguousarray(arrays.vector("shape").row(0)).view("<u8")
    assert pair.tolist() == [[length, chunk]]
    assert decode_snapshot(data).nodes.node(1).array == node.array


def test_every_array_gets_its_own_shape() -> None:
    nodes = [
        array_node("/b", (10, 20), (4, 2), zarr_json(3, 19)),
        Node(NodeId.random(), NodePath("/c"), b"{}"),
        array_node("/d", (), (), zarr_json()),
        array_node("/e", (5,), (1,), zarr_json(8)),
    ]
    read = decode_snapshot(encode_snapshot(sample(*nodes), spec_version=1))
    assert list(read.nodes)[1:] == nodes


def test_a_manifest_says_nothing_of_compression() -> None:
    refs = ChunkRefs.from_payloads(
        [(0, 0), (0, 1), (1, 0)],
        [
            Inline(b"abc"),
            Native(ChunkId.random(), 3, 9),
            Virtual("s3://b/" + "k" * 50, 5, 6, None),
        ],
    )
    manifest = Manifest(ManifestId.random(), {NodeId.random(): refs})
    always = LocationCompression(
        min_num_chunks=0, max_samples=100, max_dictionary_bytes=2048, level=3
    )
    data = encode_manifest(manifest, spec_version=1, location_compression=always)
    assert decode_header(data).spec_version == 1
    root = decode(decode_envelope(data, FileType.MANIFEST).data, MANIFEST)
    assert not root.scalar("compression_algorithm").present[0]
    assert root.string("location_dictionary").item(0) is None
    (read,) = decode_manifest(data).arrays.values()
    assert [read.payload(row) for row in range(3)] == [refs.payload(row) for row in range(3)]


def test_a_log_has_no_moves() -> None:
    ids = np.arange(16, dtype=np.uint8).reshape(2, 8)
    log = TransactionLog(
        id=SnapshotId.random(),
        new_arrays=ids,
        updated_chunks={NodeId.random(): np.array([[0, 1], [2, 3]], dtype=np.uint32)},
    )
    data = encode_txlog(log, spec_version=1)
    assert decode_header(data).spec_version == 1
    root = decode(decode_envelope(data, FileType.TRANSACTION_LOG).data, TRANSACTION_LOG)
    assert not root.tables("moved_nodes").present[0]
    assert decode_txlog(data).equals(log)
    moved = replace(log, moved=(Move(NodePath("/a"), NodePath("/b"), NodeId.random(), True),))
    with pytest.raises(FormatError) as caught:
        encode_txlog(moved, spec_version=1)
    assert caught.value.kind == "unsupported-spec-version"


def test_a_ref_is_the_json_of_the_reference() -> None:
    snapshot = SnapshotId.parse("1CECHNKREP0F1RSTCMT0")
    assert encode_ref(snapshot) == b'{"snapshot":"1CECHNKREP0F1RSTCMT0"}'
    assert decode_ref(b'{ "snapshot" : "1CECHNKREP0F1RSTCMT0", "later": 1 }') == snapshot


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b"\xff", b'{"snapshot": 3}', b'{"snapshot": "?"}', b"[" * 100_000],
)
def test_a_damaged_ref_is_a_format_error(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_ref(data)


def test_version_2_is_written_unless_asked_otherwise() -> None:
    data = encode_snapshot(sample())
    assert decode_header(data).spec_version == 2
    assert decode_snapshot(data).parent_id is None
