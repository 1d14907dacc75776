"""Nodes that were replaced step by step are, in a file, what they would be if written at once."""

import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.format import growing_nodes
from frazil.format import nodes as nodes_module
from frazil.format.envelope import FileType, decode_envelope
from frazil.format.growing_nodes import GrowingNodes, Tail, patch
from frazil.format.nodes import ArrayData, ManifestRef, Node, Nodes
from frazil.format.snapshot import (
    ManifestFile,
    Snapshot,
    decode_node_names,
    decode_snapshot,
    decode_snapshot_lazily,
    encode_snapshot,
)
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.paths import NodePath
from tests.examples_count import scaled

NAMES = ("a", "a!", "a-b", "a0", "b", "ä", "🧊", "c")
PATHS = [NodePath(f"/{name}") for name in (*NAMES, "a/b", "a/ä", "a-b/b", "b/a/c")]
paths = st.sampled_from(PATHS)
manifest_ids = st.integers(0, 9).map(lambda number: ManifestId(bytes([number + 1]) * 12))
extents = st.lists(st.tuples(st.integers(0, 9), st.integers(10, 2**32 - 1)), max_size=2)


@st.composite
def arrays(draw: st.DrawFn) -> ArrayData:
    ndim = draw(st.integers(0, 3))
    shape = tuple(draw(st.lists(st.integers(0, 2**40), min_size=ndim, max_size=ndim)))
    names = st.none() | st.tuples(*[st.none() | st.sampled_from(NAMES)] * ndim)
    if draw(st.booleans()):  # as many as are written as copies of one
        axes = st.just(ndim) if draw(st.booleans()) else st.integers(0, 3)
        bounds = axes.map(lambda count: tuple((axis, axis + 2) for axis in range(count)))
        many = draw(st.lists(st.builds(ManifestRef, manifest_ids, bounds), min_size=9, max_size=12))
    else:
        refs = st.builds(ManifestRef, manifest_ids, extents.map(tuple))
        many = draw(st.lists(refs, max_size=3))
    return ArrayData(shape, tuple(n % 2**32 for n in shape), draw(names), tuple(many))


@st.composite
def nodes_at(draw: st.DrawFn, path: NodePath) -> Node:
    number = draw(st.integers(0, 2**64 - 1))
    array = draw(st.none() | arrays())
    node_id = NodeId(number.to_bytes(8, "big"))
    metadata = draw(st.sampled_from([b"", b"the same", b"<" + 2 * node_id.raw + b">"]))
    return Node(node_id, path, metadata, array)


nodes = paths.flatmap(nodes_at)
steps = st.lists(
    st.tuples(
        st.sampled_from(["next", "next", "skip", "branch", "read", "lazily", "pickle"]),
        st.lists(nodes, max_size=3),
        st.just([]) | st.just([]) | st.lists(paths, max_size=2),
    ),
    max_size=12,
)


@contextmanager
def limits(given: dict[str, int]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in given.items():
            monkeypatch.setattr(growing_nodes, name, value)
        monkeypatch.setattr(nodes_module, "_FEW", given["_LISTED"])
        yield


def snapshot(found: Nodes, number: int) -> Snapshot:
    used = sorted({raw.tobytes() for raw in found.manifest_ids()})
    return Snapshot(
        id=SnapshotId(bytes([number]) * 12),
        parent_id=None,
        flushed_at_us=number,
        message="m" * number,
        metadata={"number": number},
        manifest_files=tuple(ManifestFile(ManifestId(raw), raw[0], raw[1]) for raw in used),
        nodes=found,
    )


def patched(old: Iterable[Node], put: list[Node], remove: list[NodePath]) -> list[Node]:
    """The nodes that `patch` should make, by a dictionary."""
    model = {node.path: node for node in old if node.path not in remove}
    model |= {node.path: node for node in put}
    return sorted(model.values(), key=lambda node: node.path.raw)


@settings(max_examples=scaled(80))
@given(
    st.lists(nodes, min_size=5, max_size=20),
    steps,
    st.fixed_dictionaries(
        {
            "_SPARE_BYTES": st.sampled_from([0, 400, 4096]),
            "_LEAST_NODES": st.integers(1, 4),
            "_LISTED": st.sampled_from([0, 32]),
            "_MAX_BYTES": st.sampled_from([0, 2**30, 2**30]),
        }
    ),
)
def test_growing_is_the_same_as_writing_at_once(
    first: list[Node],
    chosen: list[tuple[str, list[Node], list[NodePath]]],
    given: dict[str, int],
) -> None:
    with limits(given):
        current = Nodes.from_nodes(first)
        before, metadata = current, {node.user_data for node in first}
        for number, (kind, put, remove) in enumerate(chosen, start=1):
            base = before if kind == "branch" else current
            expected = patched(base, put, remove)
            before, current = current, patch(base, remove=remove, put=put)
            assert list(current) == expected
            assert current.paths == [node.path.raw for node in expected]
            assert {raw.tobytes() for raw in current.manifest_ids()} == {
                ref.id.raw for n in expected if n.array is not None for ref in n.array.manifests
            }
            metadata |= {node.user_data for node in put}
            if kind == "skip":  # made, and never written
                continue
            written = snapshot(current, number)
            data = encode_snapshot(written)
            found = decode_snapshot(data)
            assert list(found.nodes) == expected
            assert found.nodes.table.equals(
                decode_snapshot(encode_snapshot(again(written))).nodes.table
            )
            assert found.head == written.head
            assert found.manifest_files == written.manifest_files
            assert decode_node_names(data).paths.to_list() == current.paths
            content = decode_envelope(data, FileType.SNAPSHOT).data
            away = metadata - {node.user_data for node in expected}
            assert not any(each in content for each in away if each)
            match kind:
                case "read":
                    current = found.nodes
                case "lazily":
                    current = decode_snapshot_lazily(data).nodes
                    assert [current.lookup(n.path) for n in expected[:3]] == expected[:3]
                case "pickle":
                    current = pickle.loads(pickle.dumps(current))


def again(given: Snapshot) -> Snapshot:
    """The same, of nodes of which nothing is encoded yet."""
    return replace(given, nodes=Nodes.from_nodes(given.nodes))


def array(name: str, user_data: bytes) -> Node:
    return Node(
        NodeId(name.encode().ljust(8)), NodePath(f"/{name}"), user_data, ArrayData((1,), (1,))
    )


def encoded_bytes(found: Nodes) -> int:
    assert isinstance(found, GrowingNodes)
    encoded = found.encoded()
    assert encoded is not None
    return len(encoded[0].data)


def test_only_what_is_new_is_encoded_until_a_quarter_is_in_use_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = []

    def encode(base: Nodes) -> Tail | None:
        whole.append(len(base))
        return encode_whole(base)

    encode_whole = growing_nodes._encode_whole
    monkeypatch.setattr(growing_nodes, "_encode_whole", encode)
    names = [f"n{number:03}" for number in range(100)]
    found = Nodes.from_nodes(array(name, 100 * name.encode()) for name in names)
    sizes = []
    for step in range(200):
        name = names[step % 100]
        found = patch(found, remove=(), put=[array(name, 100 * name[::-1].encode())])
        sizes.append(encoded_bytes(found))
    assert 3 <= len(whole) <= 9
    assert max(sizes) < 1.25 * min(sizes) + 4096 + 500
    assert set(whole) == {100}


def test_of_two_successors_each_has_its_own() -> None:
    base = Nodes.from_nodes(array(f"n{number}", b"") for number in range(9))
    first = patch(base, remove=(), put=[array("n0", b"first")])
    one = patch(first, remove=(), put=[array("n1", b"one")])
    other = patch(first, remove=(), put=[array("n2", b"other")])
    for _ in range(2):
        for found in (one, other, first):
            data = encode_snapshot(snapshot(found, 1))
            assert list(decode_snapshot(data).nodes) == list(found)


def test_what_was_encoded_is_kept_once_and_does_not_travel() -> None:
    found = Nodes.from_nodes(array(f"n{number}", b"\xab" * 999) for number in range(9))
    for step in range(3):
        found = patch(found, remove=(), put=[array(f"n{step}", b"")])
        encode_snapshot(snapshot(found, step))
    copy = pickle.loads(pickle.dumps(found))
    assert type(copy) is Nodes
    assert list(copy) == list(found)


def test_metadata_that_nodes_share_stay_as_long_as_one_of_them_has_it() -> None:
    count = 40  # columns, which store equal metadata once
    found = Nodes.from_nodes(array(f"n{number:02}", b"of all") for number in range(count))
    for number in range(count):
        found = patch(found, remove=(), put=[array(f"n{number:02}", b"of %d" % number)])
        data = encode_snapshot(snapshot(found, 1))
        assert list(decode_snapshot(data).nodes) == list(found)
        content = decode_envelope(data, FileType.SNAPSHOT).data
        assert (b"of all" in content) == (number < count - 1)


@pytest.mark.parametrize("axes", [[2] * 12, [2] * 11 + [1], [0] * 12, [2, 0] * 6])
def test_any_number_of_manifests_is_written(axes: list[int]) -> None:
    """Extents of other dimensions, or none, may be in files of other writers."""
    ids = [ManifestId(bytes([number + 1]) * 12) for number in range(12)]
    refs = [ManifestRef(each, ((0, 7),) * n) for each, n in zip(ids, axes, strict=True)]
    new = array("n0", b"new")
    new = replace(new, array=ArrayData((9, 9), (3, 3), None, tuple(refs)))
    found = Nodes.from_nodes(array(f"n{number}", b"") for number in range(9))
    found = patch(found, remove=(), put=[new])
    assert decode_snapshot(encode_snapshot(snapshot(found, 1))).nodes.node(0) == new


def test_many_changes_are_made_in_columns() -> None:
    found = Nodes.from_nodes(array(f"n{number:02}", b"") for number in range(50))
    for changes in (32, 33):
        put = [array(f"n{number:02}", b"new") for number in range(changes)]
        assert isinstance(patch(found, remove=(), put=put), GrowingNodes) == (changes == 32)


def test_what_is_deleted_or_moved_is_not_in_the_file() -> None:
    found = Nodes.from_nodes(array(f"secret{number}", b"") for number in range(9))
    found = patch(found, remove=(), put=[array("secret3", b"first"), array("secret4", b"other")])
    encode_snapshot(snapshot(found, 1))
    for remove, put in [("secret3", "secret4"), ("secret5", "new")]:
        found = patch(found, remove=[NodePath(f"/{remove}")], put=[array(put, b"x")])
        data = encode_snapshot(snapshot(found, 2))
        content = decode_envelope(data, FileType.SNAPSHOT).data
        assert remove.encode() not in content
        assert b"first" not in content
        assert b"other" not in content


def test_without_changes_nodes_stay_what_they_are() -> None:
    found = Nodes.from_nodes(array(f"n{number}", b"") for number in range(9))
    assert patch(found, remove=[NodePath("/none")], put=()) is found
