import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.flatbuf.columns import StringColumn
from frazil.format.nodes import ArrayData, ManifestRef, Node, Nodes, node_table
from frazil.ids import ManifestId, NodeId
from frazil.paths import ROOT, NodePath
from tests.unit.format.samples import MANIFEST_ID, sample_nodes


def groups(*paths: str) -> Nodes:
    return Nodes.from_nodes(
        Node(NodeId(f"{place:08}".encode()), NodePath(path), path.encode())
        for place, path in enumerate(paths)
    )


def texts(nodes: Nodes, rows: "range | list[int] | object") -> list[str]:
    assert isinstance(rows, range | list)
    return [nodes.path_text(row) for row in rows]


def test_nodes_come_back_as_they_went_in() -> None:
    assert list(Nodes.from_nodes(sample_nodes())) == sample_nodes()


def test_nodes_are_sorted_by_raw_path() -> None:
    nodes = groups("/b", "/a/b", "/a-b", "/a", "/", "/ä", "/a!")
    assert nodes.paths == sorted(nodes.paths)
    assert texts(nodes, range(len(nodes))) == ["/", "/a", "/a!", "/a-b", "/a/b", "/b", "/ä"]


def test_of_two_nodes_at_one_path_the_last_is_kept() -> None:
    nodes = Nodes.from_nodes(
        [Node(NodeId(b"1" * 8), ROOT, b"first"), Node(NodeId(b"2" * 8), ROOT, b"last")]
    )
    assert [node.user_data for node in nodes] == [b"last"]


def test_find_gives_the_row_or_minus_one() -> None:
    nodes = groups("/", "/a", "/a/b", "/a-b")
    assert nodes.node(nodes.find(NodePath("/a-b"))).path == NodePath("/a-b")
    assert nodes.find(NodePath("/a-")) == -1
    assert nodes.find(NodePath("/z")) == -1
    assert Nodes.empty().find(ROOT) == -1


def test_under_gives_the_node_and_all_below_it() -> None:
    nodes = groups("/", "/a", "/a!", "/a-b", "/a/b", "/a/b/c", "/a0", "/b/x")
    assert texts(nodes, nodes.under(NodePath("/a"))) == ["/a", "/a/b", "/a/b/c"]
    assert texts(nodes, nodes.under(NodePath("/b"))) == ["/b/x"]
    assert len(nodes.under(ROOT)) == len(nodes)
    assert len(nodes.under(NodePath("/none"))) == 0


def test_below_leaves_the_node_itself_out() -> None:
    nodes = groups("/", "/a", "/a/b")
    assert texts(nodes, nodes.below(ROOT)) == ["/a", "/a/b"]
    assert texts(nodes, nodes.below(NodePath("/a"))) == ["/a/b"]


def test_children_are_one_level_below() -> None:
    nodes = groups("/", "/a", "/a/b", "/a/b/c", "/a/d", "/e")
    assert texts(nodes, nodes.children(ROOT)) == ["/a", "/e"]
    assert texts(nodes, nodes.children(NodePath("/a"))) == ["/a/b", "/a/d"]
    assert nodes.children(NodePath("/e")) == []


def test_patched_removes_replaces_and_adds() -> None:
    nodes = groups("/", "/a", "/b", "/c")
    new = [
        Node(NodeId(b"new-----"), NodePath("/aa"), b"new", ArrayData((2,), (1,), ("x",))),
        Node(NodeId(b"changed-"), NodePath("/c"), b"changed"),
    ]
    patched = nodes.patched(remove=[NodePath("/b"), NodePath("/not-there")], put=new)
    assert texts(patched, range(len(patched))) == ["/", "/a", "/aa", "/c"]
    assert patched.node(2) == new[0]
    assert patched.node(3) == new[1]
    assert len(nodes) == 4


def test_a_node_both_removed_and_put_is_there() -> None:
    new = Node(NodeId(b"again---"), NodePath("/a"), b"again")
    assert list(groups("/a").patched(remove=[NodePath("/a")], put=[new])) == [new]


def test_patched_with_nothing_changes_nothing() -> None:
    nodes = groups("/", "/a")
    assert nodes.patched(remove=[], put=[]) is nodes


def test_manifest_ids_are_those_of_all_arrays() -> None:
    other = ManifestId(b"x" * 12)
    refs = (ManifestRef(other, ((0, 1),)), ManifestRef(MANIFEST_ID, ((1, 2),)))
    array = Node(NodeId(b"1" * 8), NodePath("/z"), b"", ArrayData((2,), (2,), None, refs))
    nodes = Nodes.from_nodes([*sample_nodes(), array])
    assert [raw.tobytes() for raw in nodes.manifest_ids()] == [
        MANIFEST_ID.raw,
        other.raw,
        MANIFEST_ID.raw,
    ]
    assert Nodes.empty().manifest_ids().shape == (0, 12)


@pytest.mark.parametrize("path", [b"no-slash", b"/a//b", b"/a/", b"/..", b"/\xff"])
def test_a_path_that_is_not_valid_is_a_format_error(path: bytes) -> None:
    table = groups("/a").table.replace(path=StringColumn.from_list([path]))
    with pytest.raises(FormatError):
        Nodes(table).node(0)


def test_huge_shapes_are_kept() -> None:
    array = ArrayData((2**64 - 1, 0), (2**32 - 1, 0), (None, "t"))
    nodes = Nodes.from_nodes([Node(NodeId(b"1" * 8), ROOT, b"", array)])
    assert nodes.node(0).array == array


PARTS = st.sampled_from(["a", "a-", "a.b", "a0", "b", "é", "-", "zz"])
PATHS = st.lists(st.lists(PARTS, min_size=1, max_size=4).map("/".join), max_size=40)


@given(texts=PATHS, under=st.lists(PARTS, max_size=2).map("/".join), reads=st.booleans())
def test_names_and_rows_below_a_path_are_those_of_all_paths(
    *, texts: list[str], under: str, reads: bool
) -> None:
    """Also where names sort between a group and what is in it, as `a-` does."""
    paths = sorted({f"/{text}" for text in texts}, key=str.encode)
    listed = [Node(NodeId.random(), NodePath(path), b"{}") for path in paths]
    nodes = Nodes(node_table(listed))
    if reads:
        assert len(nodes.paths) == len(paths)  # the list that is used from there on
    group = NodePath(f"/{under}")
    prefix = group.descendant_prefix
    below = [path[len(prefix) :] for path in paths if path.startswith(prefix) and path != prefix]
    assert nodes.child_names(group) == {path.partition("/")[0] for path in below}
    assert [paths[row] for row in nodes.below(group)] == [prefix + path for path in below]
    direct = [prefix + path for path in below if "/" not in path]
    assert [paths[row] for row in nodes.children(group)] == direct
