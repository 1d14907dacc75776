"""Nodes that are looked up in a file before all of them are decoded."""

import pickle
from dataclasses import replace

import pytest

from frazil.engine.files.settings import PreloadRules, plan_preload
from frazil.errors import FormatError
from frazil.format.envelope import FileType, decode_envelope, encode_envelope
from frazil.format.nodes import ArrayData, Node, Nodes, StoredNodes
from frazil.format.snapshot import (
    Snapshot,
    decode_snapshot,
    decode_snapshot_lazily,
    encode_snapshot,
)
from frazil.ids import NodeId
from frazil.paths import ROOT, NodePath
from tests.unit.format.samples import SECOND, sample_nodes, sample_snapshot, snapshot_v1


def hierarchy(arrays: int) -> list[Node]:
    groups = [Node(NodeId(b"g%7d" % i), NodePath(f"/group{i}"), b"{}") for i in range(3)]
    found = [
        Node(
            NodeId(b"a%7d" % i),
            NodePath(f"/group{i % 3}/array{i}"),
            b'{"number": %d}' % i,
            ArrayData((i, 4), (i, 1), ("x", None) if i % 2 else None),
        )
        for i in range(arrays)
    ]
    return [Node(NodeId(b"root----"), ROOT, b"{}"), *groups, *found]


def file_with(nodes: list[Node]) -> bytes:
    return encode_snapshot(replace(sample_snapshot(), nodes=Nodes.from_nodes(nodes)))


def lazily(data: bytes) -> Snapshot:
    found = decode_snapshot_lazily(data)
    assert isinstance(found.nodes, StoredNodes)
    return found


def test_each_node_is_found_as_among_all() -> None:
    data = file_with(hierarchy(40))
    for node in hierarchy(40):
        assert lazily(data).nodes.lookup(node.path) == node


def test_nodes_that_are_not_there_are_not_found() -> None:
    nodes = lazily(file_with(hierarchy(40))).nodes
    for path in ("/", "/group", "/group1/array", "/zzz", "/group1/array1/x", "/A"):
        assert (nodes.lookup(NodePath(path)) is None) == (path != "/")


def test_the_first_node_of_none_is_not_found() -> None:
    data = encode_snapshot(replace(sample_snapshot(), nodes=Nodes.empty()))
    assert lazily(data).nodes.lookup(ROOT) is None


def test_what_is_looked_up_again_and_again_stays_the_same() -> None:
    nodes, wanted = lazily(file_with(hierarchy(40))).nodes, hierarchy(40)
    assert [nodes.lookup(node.path) for node in wanted] == wanted
    assert len(nodes) == len(wanted)
    assert list(nodes) == sorted(wanted, key=lambda node: node.path.raw)


def test_everything_else_is_as_when_all_are_decoded_at_once() -> None:
    data = file_with(hierarchy(40))
    late, early = lazily(data), decode_snapshot(data)
    assert late.head == early.head
    assert late.manifest_files == early.manifest_files
    assert late.nodes.paths == early.nodes.paths
    assert late.nodes.children(NodePath("/group1")) == early.nodes.children(NodePath("/group1"))
    assert list(late.nodes.patched(remove=[NodePath("/group2")], put=())) == list(
        early.nodes.patched(remove=[NodePath("/group2")], put=())
    )


def test_nodes_in_the_order_of_old_writers_are_found() -> None:
    nodes = [
        Node(NodeId(b"%8d" % i), NodePath(text), b"{}")
        for i, text in enumerate(["/", "/a", "/a/b", "/a/c", "/a-b", "/a.b"])
    ]
    data = snapshot_v1(nodes, [])
    for node in nodes:
        assert lazily(data).nodes.lookup(node.path) == node
    assert lazily(data).nodes.paths == sorted(node.path.raw for node in nodes)


def test_arrays_of_version_1_have_the_newer_form() -> None:
    data = snapshot_v1(sample_nodes(), [(10, 10), ()])
    for node in sample_nodes():
        assert lazily(data).nodes.lookup(node.path) == node


def test_they_can_be_pickled() -> None:
    nodes = lazily(file_with(hierarchy(40))).nodes
    assert list(pickle.loads(pickle.dumps(nodes))) == list(nodes)


def test_damage_is_found_when_it_is_met_and_the_error_names_the_snapshot() -> None:
    last = max(hierarchy(40), key=lambda node: node.path.raw)
    payload = bytearray(decode_envelope(file_with(hierarchy(40)), FileType.SNAPSHOT).data)
    place = payload.index(last.path.raw)
    payload[place - 4 : place] = b"\xff\xff\xff\xff"  # the length of the path
    damaged = encode_envelope(bytes(payload), FileType.SNAPSHOT)
    nodes = lazily(damaged).nodes
    assert nodes.lookup(NodePath("/group0/array0")) is not None
    with pytest.raises(FormatError, match=str(SECOND)):
        nodes.lookup(last.path)
    with pytest.raises(FormatError, match=str(SECOND)):
        list(nodes)


def test_paths_are_listed_before_anything_is_decoded() -> None:
    nodes = lazily(file_with(hierarchy(5))).nodes
    before = list(nodes.path_texts())
    assert nodes._table is None
    assert before == sorted(node.path.text for node in hierarchy(5))
    assert len(nodes.table) == len(before)
    assert list(nodes.path_texts()) == before
    assert list(Nodes.from_nodes(hierarchy(5)).path_texts()) == before


def test_preloading_decodes_nodes_only_if_some_may_be_wanted() -> None:
    def plan(name: str) -> Snapshot:
        node = Node(NodeId(b"a-------"), NodePath(f"/{name}"), b"{}", ArrayData((4,), (1,)))
        snapshot = lazily(file_with([node]))
        plan_preload(snapshot, PreloadRules())
        return snapshot

    assert plan("temperature").nodes._table is None
    assert plan("time").nodes._table is not None
