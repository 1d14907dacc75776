"""Node paths and their two orders. Spec: "Node Paths"."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.paths import ROOT, NodePath

segments = st.text(
    st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=5
).filter(lambda segment: segment not in {".", ".."})
paths = st.lists(segments, max_size=4).map(lambda parts: NodePath("/" + "/".join(parts)))


@pytest.mark.parametrize("text", ["", "a", "a/b", "/a/", "//", "/a//b", "/./a", "/a/..", "/\ud800"])
def test_paths_that_are_not_absolute_and_canonical_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        NodePath(text)

    assert caught.value.kind == "invalid-path"


def test_raw_order_and_component_order_differ() -> None:
    nested, dashed = NodePath("/a/b"), NodePath("/a-b")

    assert dashed < nested
    assert nested.segments < dashed.segments


@given(paths)
def test_ancestors_end_at_the_root_and_contain_the_path(path: NodePath) -> None:
    ancestors = list(path.ancestors)

    assert len(ancestors) == len(path.segments)
    assert all(path.is_under(ancestor) for ancestor in ancestors)
    assert not ancestors or ancestors[-1] == ROOT


@given(paths, segments)
def test_a_child_knows_its_parent_and_name(path: NodePath, name: str) -> None:
    child = path.child(name)

    assert (child.parent, child.name) == (path, name)
    assert child.is_under(path)
    assert not path.is_under(child)


def test_a_sibling_with_a_longer_name_is_not_below() -> None:
    assert not NodePath("/ab").is_under(NodePath("/a"))


def test_zarr_calls_the_root_the_empty_prefix() -> None:
    assert NodePath.from_key_prefix("") == ROOT
    assert NodePath.from_key_prefix("a/b") == NodePath("/a/b")
