"""Every file that can be encoded decodes to what it was; lookups agree with a dict."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_refs import ChunkRefs, ETag, Inline, LastModified, Native, Payload, Virtual
from frazil.format.locations import LocationCompression
from frazil.format.manifest import Manifest, decode_manifest, encode_manifest
from frazil.format.nodes import ArrayData, ManifestRef, Node, Nodes
from frazil.format.repo_info import decode_repo_info, encode_repo_info
from frazil.format.snapshot import ManifestFile, Snapshot, decode_snapshot, encode_snapshot
from frazil.format.transaction_log import (
    NODE_LISTS,
    Move,
    TransactionLog,
    decode_txlog,
    encode_txlog,
)
from frazil.ids import INITIAL_SNAPSHOT, ChunkId, ManifestId, NodeId, SnapshotId
from frazil.paths import NodePath
from tests.unit.format.samples import MANIFEST_ID, SECOND, initial_repo_info

u32 = st.one_of(st.integers(0, 3), st.integers(0, 2**32 - 1))
u64 = st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1))
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
segments = names.filter(lambda text: text not in {"", ".", ".."} and "/" not in text)
paths = st.lists(segments, max_size=3).map(lambda parts: NodePath("/" + "/".join(parts)))
node_ids = st.binary(min_size=8, max_size=8).map(NodeId)
manifest_ids = st.binary(min_size=12, max_size=12).map(ManifestId)
chunk_ids = st.binary(min_size=12, max_size=12).map(ChunkId)
snapshot_ids = st.binary(min_size=12, max_size=12).map(SnapshotId)
checksums = st.one_of(
    st.none(), st.builds(ETag, names), st.builds(LastModified, st.integers(1, 2**32 - 1))
)
payloads: st.SearchStrategy[Payload] = st.one_of(
    st.builds(Inline, st.binary(max_size=20)),
    st.builds(Native, chunk_ids, u64, u64),
    st.builds(Virtual, names, u64, u64, checksums),
)
values: st.SearchStrategy[Json] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False),
        names,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(names.filter(lambda t: "\0" not in t), inner, max_size=3),
    ),
    max_leaves=8,
)
metadata = st.dictionaries(names, values, max_size=3)


@st.composite
def chunks(draw: st.DrawFn) -> tuple[int, dict[tuple[int, ...], Payload]]:
    ndim = draw(st.integers(0, 4))
    index = st.tuples(*[u32] * ndim)
    return ndim, draw(st.dictionaries(index, payloads, max_size=12))


def columns(ndim: int, content: dict[tuple[int, ...], Payload]) -> ChunkRefs:
    rows = np.array(list(content), dtype=np.uint32).reshape(len(content), ndim)
    return ChunkRefs.from_payloads(rows, list(content.values()))


def content_of(refs: ChunkRefs) -> dict[tuple[int, ...], Payload]:
    return {tuple(row): refs.payload(place) for place, row in enumerate(refs.index.tolist())}


@given(chunks())
def test_chunk_references_are_a_sorted_dict(
    content: tuple[int, dict[tuple[int, ...], Payload]],
) -> None:
    ndim, expected = content
    refs = columns(ndim, expected)
    assert content_of(refs) == expected
    assert [tuple(row) for row in refs.index.tolist()] == sorted(expected)
    for row, index in enumerate(sorted(expected)):
        assert refs.find(index) == row


@given(chunks(), st.data())
def test_merging_is_updating_and_deleting(
    content: tuple[int, dict[tuple[int, ...], Payload]], data: st.DataObject
) -> None:
    ndim, base = content
    index = st.tuples(*[u32] * ndim)
    if base:
        index = st.one_of(index, st.sampled_from(sorted(base)))
    changes = data.draw(st.dictionaries(index, payloads, max_size=6))
    deleted = data.draw(st.lists(index, max_size=6))
    rows = np.array(deleted, dtype=np.uint32).reshape(len(deleted), ndim)
    merged = ChunkRefs.merged(columns(ndim, base), columns(ndim, changes), rows)
    expected = {key: value for key, value in (base | changes).items() if key not in deleted}
    assert content_of(merged) == expected


@given(st.dictionaries(node_ids, chunks(), max_size=3), st.booleans())
def test_manifests(
    arrays: dict[NodeId, tuple[int, dict[tuple[int, ...], Payload]]],
    compress: bool,  # noqa: FBT001  # hypothesis passes it
) -> None:
    manifest = Manifest(MANIFEST_ID, {node: columns(*each) for node, each in arrays.items()})
    compression = LocationCompression(min_num_chunks=1) if compress else None
    found = decode_manifest(encode_manifest(manifest, location_compression=compression))
    assert {node: content_of(refs) for node, refs in found.arrays.items()} == {
        node: content for node, (_, content) in arrays.items()
    }
    assert list(found.arrays) == sorted(arrays)


extents = st.tuples(u32, u32)
array_data = st.integers(0, 3).flatmap(
    lambda ndim: st.builds(
        ArrayData,
        shape=st.tuples(*[u64] * ndim),
        num_chunks=st.tuples(*[u32] * ndim),
        dimension_names=st.none() | st.tuples(*[st.none() | names.filter(bool)] * ndim),
        manifests=st.lists(
            st.builds(ManifestRef, manifest_ids, st.tuples(*[extents] * ndim)), max_size=2
        ).map(tuple),
    )
)
nodes = st.lists(
    st.builds(Node, node_ids, paths, st.binary(max_size=20), st.none() | array_data),
    max_size=6,
    unique_by=lambda node: node.path,
)
files = st.lists(
    st.builds(ManifestFile, manifest_ids, u64, u32), max_size=3, unique_by=lambda file: file.id
)


@given(nodes, metadata, names, u64, files)
def test_snapshots(
    listed: list[Node],
    about: dict[str, Json],
    message: str,
    at_us: int,
    used: list[ManifestFile],
) -> None:
    snapshot = Snapshot(SECOND, None, at_us, message, about, tuple(used), Nodes.from_nodes(listed))
    found = decode_snapshot(encode_snapshot(snapshot))
    assert list(found.nodes) == sorted(listed, key=lambda node: node.path.raw)
    assert (found.metadata, found.message, found.flushed_at_us) == (about, message, at_us)
    assert set(found.manifest_files) == set(used)
    for node in listed:
        assert found.nodes.node(found.nodes.find(node.path)) == node
        below = {found.nodes.node(row).path for row in found.nodes.under(node.path)}
        assert below == {
            n.path for n in listed if n.path == node.path or n.path.is_under(node.path)
        }


@given(nodes, nodes, st.lists(paths, max_size=3))
def test_patching_nodes_is_updating_a_dict(
    listed: list[Node], put: list[Node], remove: list[NodePath]
) -> None:
    gone = remove + [node.path for node in listed[:2]]
    patched = Nodes.from_nodes(listed).patched(remove=gone, put=put)
    expected = {node.path: node for node in listed if node.path not in gone}
    expected |= {node.path: node for node in put}
    assert list(patched) == sorted(expected.values(), key=lambda node: node.path.raw)


id_lists = st.lists(st.binary(min_size=8, max_size=8), max_size=4, unique=True)


def rows_of(listed: list[bytes]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.frombuffer(b"".join(sorted(listed)), np.uint8).reshape(-1, 8)


@given(
    st.lists(id_lists, min_size=6, max_size=6),
    st.dictionaries(node_ids, chunks(), max_size=3),
    st.lists(st.builds(Move, paths, paths, node_ids, st.booleans()), max_size=3),
)
def test_transaction_logs(
    lists: list[list[bytes]],
    updated: dict[NodeId, tuple[int, dict[tuple[int, ...], Payload]]],
    moved: list[Move],
) -> None:
    chunk_rows = {node: columns(*each).index for node, each in updated.items()}
    ordered = sorted(moved, key=lambda move: [part.encode() for part in move.to_path.segments])
    columns_of = dict(zip(NODE_LISTS, map(rows_of, lists), strict=True))
    log = replace(
        TransactionLog(SECOND, updated_chunks=chunk_rows, moved=tuple(ordered)),
        **columns_of,  # type: ignore[arg-type]  # the names are those of the lists
    )
    found = decode_txlog(encode_txlog(log))
    assert [ids.tobytes() for _, ids in found.node_lists()] == [
        ids.tobytes() for _, ids in log.node_lists()
    ]
    assert {n: i.tolist() for n, i in found.updated_chunks.items() if len(i)} == {
        n: i.tolist() for n, i in chunk_rows.items() if len(i)
    }
    assert found.moved == log.moved


@given(
    st.lists(
        st.tuples(snapshot_ids.filter(lambda i: i != INITIAL_SNAPSHOT), st.integers(0), metadata),
        max_size=8,
        unique_by=lambda item: item[0],
    ),
    st.dictionaries(names, st.integers(0), max_size=3),
    st.dictionaries(names, st.integers(0), max_size=3),
)
def test_repo_infos(
    history: list[tuple[SnapshotId, int, dict[str, Json]]],
    tags: dict[str, int],
    branches: dict[str, int],
) -> None:
    info, known = initial_repo_info(), [INITIAL_SNAPSHOT]
    parents: dict[SnapshotId, SnapshotId | None] = {INITIAL_SNAPSHOT: None}
    for new, parent, about in history:
        parents[new] = known[parent % len(known)]
        info = info.with_snapshot(new, parents[new], len(known), str(new), about)
        known.append(new)
    for name, row in tags.items():
        info = info.with_tag(name, known[row % len(known)])
    for name, row in branches.items():
        info = info.with_branch(name, known[row % len(known)])
    found = decode_repo_info(encode_repo_info(info))
    for new, _, about in history:
        row = found.snapshots.find(new)
        parent_row = int(found.snapshots.parents[row])
        assert found.snapshots.id(parent_row) == parents[new]
        assert found.snapshots.message(row) == str(new)
        assert found.snapshots.metadata(row) == about
    assert {name: found.snapshot_of_tag(name) for name in found.tags} == {
        name: known[row % len(known)] for name, row in tags.items()
    }
    assert {name: found.snapshot_of_branch(name) for name in found.branches} == {
        "main": INITIAL_SNAPSHOT
    } | {name: known[row % len(known)] for name, row in branches.items()}
