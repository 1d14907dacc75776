"""Strategies that draw histories.

A history is drawn together with the tree it leaves behind, so every step makes sense where it
stands: paths exist, parents are groups, regions lie inside shapes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.compat.steps import (
    NUMERIC,
    OTHER,
    Abandon,
    ArraySpec,
    Clear,
    Commit,
    CreateArray,
    CreateBranch,
    CreateGroup,
    CreateTag,
    Delete,
    DeleteBranch,
    DeleteTag,
    Edit,
    History,
    Json,
    ResetBranch,
    Resize,
    SetAttributes,
    Step,
    Write,
)

# Sorts differently by bytes, by components and by code point; holds URL and key syntax.
NAME_ALPHABET = "abcz019 _-%?#éß日𝔸"
names = st.text(NAME_ALPHABET, min_size=1, max_size=4)
# The reference takes any name; frazil refuses to make one that is blank.
ref_names = st.text("abcz01/-_. é日", min_size=1, max_size=6).filter(str.strip)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
json_values: st.SearchStrategy[Json] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
documents = st.dictionaries(texts, json_values, max_size=3)
seeds = st.integers(0, 2**16)


@st.composite
def array_specs(draw: st.DrawFn) -> ArraySpec:
    dtype = draw(st.sampled_from((*NUMERIC, *NUMERIC, *OTHER)))
    ndim = draw(st.integers(0, 3))
    shape = tuple(draw(st.lists(st.integers(0, 7), min_size=ndim, max_size=ndim)))
    chunks = tuple(draw(st.lists(st.integers(1, 4), min_size=ndim, max_size=ndim)))
    sharded = ndim > 0 and dtype in NUMERIC and draw(st.booleans())
    named = draw(st.booleans())
    return ArraySpec(
        dtype=dtype,
        shape=shape,
        chunks=chunks,
        shards=tuple(size * draw(st.integers(1, 2)) for size in chunks) if sharded else None,
        compressed=draw(st.booleans()),
        dimension_names=tuple(draw(st.none() | names) for _ in shape) if named else None,
    )


@dataclass(slots=True)
class Tree:
    """What a drawn sequence of edits leaves behind. Groups are None."""

    nodes: dict[str, ArraySpec | None] = field(default_factory=dict)

    def copy(self) -> "Tree":
        return Tree(dict(self.nodes))

    @property
    def arrays(self) -> list[str]:
        return sorted(path for path, spec in self.nodes.items() if spec is not None)

    @property
    def groups(self) -> list[str]:
        return sorted(path for path, spec in self.nodes.items() if spec is None)

    def spec(self, path: str) -> ArraySpec:
        spec = self.nodes[path]
        assert spec is not None, path
        return spec

    def put(self, path: str, spec: ArraySpec | None) -> None:
        self.nodes[""] = None  # zarr makes missing parents
        self.nodes[path] = spec

    def remove(self, path: str) -> None:
        self.nodes = {
            other: spec
            for other, spec in self.nodes.items()
            if other != path and not other.startswith(f"{path}/")
        }


def _new_path(draw: st.DrawFn, tree: Tree) -> str:
    taken = tree.nodes
    parent = draw(st.sampled_from(["", *tree.groups]))
    return draw(
        names.map(lambda name: f"{parent}/{name}".lstrip("/")).filter(
            lambda path: path not in taken
        )
    )


def _draw_create_group(draw: st.DrawFn, tree: Tree) -> Edit:
    path = _new_path(draw, tree)
    tree.put(path, None)
    return CreateGroup(path, draw(documents))


def _draw_create_array(draw: st.DrawFn, tree: Tree) -> Edit:
    path, spec = _new_path(draw, tree), draw(array_specs())
    tree.put(path, spec)
    return CreateArray(path, spec)


def _draw_overwrite(draw: st.DrawFn, tree: Tree) -> Edit:
    path, spec = draw(st.sampled_from([p for p in sorted(tree.nodes) if p])), draw(array_specs())
    tree.remove(path)
    tree.put(path, spec)
    return CreateArray(path, spec, overwrite=True)


def _draw_write(draw: st.DrawFn, tree: Tree) -> Edit:
    path = draw(st.sampled_from(tree.arrays))
    region: list[tuple[int, int]] = []
    for size in tree.spec(path).shape:
        start = draw(st.integers(0, size))
        region.append((start, draw(st.integers(start, size))) if draw(st.booleans()) else (0, size))
    return Write(path, tuple(region), draw(st.one_of(seeds, seeds, seeds, st.none())))


def _draw_resize(draw: st.DrawFn, tree: Tree) -> Edit:
    path = draw(st.sampled_from([p for p in tree.arrays if tree.spec(p).shape]))
    spec = tree.spec(path)
    shape = tuple(draw(st.integers(0, 9)) for _ in spec.shape)
    tree.put(path, spec.resized(shape))
    return Resize(path, shape)


def _draw_set_attributes(draw: st.DrawFn, tree: Tree) -> Edit:
    return SetAttributes(draw(st.sampled_from(sorted(tree.nodes))), draw(documents))


def _draw_delete(draw: st.DrawFn, tree: Tree) -> Edit:
    path = draw(st.sampled_from([p for p in sorted(tree.nodes) if p]))
    tree.remove(path)
    return Delete(path)


def _draw_clear(draw: st.DrawFn, tree: Tree) -> Edit:
    del draw
    tree.nodes.clear()
    return Clear()


def _draw_edit(draw: st.DrawFn, tree: Tree) -> Edit:
    choices: list[Callable[[st.DrawFn, Tree], Edit]] = [_draw_create_array, _draw_create_group]
    if tree.arrays:
        choices += [_draw_write] * 6
    if any(tree.spec(path).shape for path in tree.arrays):
        choices += [_draw_resize] * 2
    if tree.nodes:
        choices += [_draw_set_attributes]
    if len(tree.nodes) > 1:
        choices += [_draw_delete, _draw_overwrite]
    if len(tree.nodes) > 4:
        choices += [_draw_clear]
    return draw(st.sampled_from(choices))(draw, tree)


def _draw_edits(draw: st.DrawFn, tree: Tree, *, at_least: int = 0) -> tuple[Edit, ...]:
    edits = []
    for _ in range(draw(st.integers(at_least, 5))):
        edits.append(_draw_edit(draw, tree))
        match edits[-1]:
            case CreateArray(path, spec) if draw(st.booleans()):  # most arrays get values at once
                edits.append(Write(path, tuple((0, size) for size in spec.shape), draw(seeds)))
            case _:
                pass
    return tuple(edits)


@dataclass(slots=True)
class Drawn:
    """Where a history being drawn stands. `branches` hold positions in `snapshots`."""

    snapshots: list[Tree] = field(default_factory=lambda: [Tree()])
    branches: dict[str, int] = field(default_factory=lambda: {"main": 0})
    tags: set[str] = field(default_factory=set)
    spent_tags: set[str] = field(default_factory=set)

    def position(self, draw: st.DrawFn) -> int:
        return draw(st.integers(0, len(self.snapshots) - 1))

    def branch(self, draw: st.DrawFn) -> str:
        return draw(st.sampled_from(sorted(self.branches)))


def _draw_commit(draw: st.DrawFn, drawn: Drawn) -> Step:
    branch = drawn.branch(draw)
    tree = drawn.snapshots[drawn.branches[branch]].copy()
    edits = _draw_edits(draw, tree, at_least=draw(st.sampled_from([0, 1, 1, 2, 2])))
    drawn.snapshots.append(tree)
    drawn.branches[branch] = len(drawn.snapshots) - 1
    # A commit that turns out to change nothing must not shift the positions of later snapshots,
    # so it is always allowed; the refusal of empty commits has tests of its own.
    return Commit(
        branch=branch,
        edits=edits,
        message=draw(texts),
        metadata=draw(st.none() | documents),
        allow_empty=True,
    )


def _draw_abandon(draw: st.DrawFn, drawn: Drawn) -> Step:
    branch = drawn.branch(draw)
    return Abandon(branch, _draw_edits(draw, drawn.snapshots[drawn.branches[branch]].copy()))


def _draw_create_branch(draw: st.DrawFn, drawn: Drawn) -> Step:
    name = draw(ref_names.filter(lambda name: name not in drawn.branches))
    drawn.branches[name] = drawn.position(draw)
    return CreateBranch(name, drawn.branches[name])


def _draw_reset_branch(draw: st.DrawFn, drawn: Drawn) -> Step:
    name = drawn.branch(draw)
    drawn.branches[name] = drawn.position(draw)
    return ResetBranch(name, drawn.branches[name])


def _draw_delete_branch(draw: st.DrawFn, drawn: Drawn) -> Step:
    name = draw(st.sampled_from(sorted(drawn.branches.keys() - {"main"})))
    del drawn.branches[name]
    return DeleteBranch(name)


def _draw_create_tag(draw: st.DrawFn, drawn: Drawn) -> Step:
    name = draw(ref_names.filter(lambda name: name not in drawn.tags | drawn.spent_tags))
    drawn.tags.add(name)
    return CreateTag(name, drawn.position(draw))


def _draw_delete_tag(draw: st.DrawFn, drawn: Drawn) -> Step:
    name = draw(st.sampled_from(sorted(drawn.tags)))
    drawn.tags.remove(name)
    drawn.spent_tags.add(name)
    return DeleteTag(name)


def _draw_step(draw: st.DrawFn, drawn: Drawn) -> Step:
    choices: list[Callable[[st.DrawFn, Drawn], Step]] = [_draw_commit] * 6
    choices += [_draw_abandon, _draw_create_branch, _draw_create_tag]
    if len(drawn.snapshots) > 1:
        choices += [_draw_reset_branch]
    if len(drawn.branches) > 1:
        choices += [_draw_delete_branch]
    if drawn.tags:
        choices += [_draw_delete_tag]
    return draw(st.sampled_from(choices))(draw, drawn)


@st.composite
def histories(draw: st.DrawFn, *, max_steps: int = 7) -> History:
    drawn = Drawn()
    steps = [_draw_commit(draw, drawn)]
    steps += [_draw_step(draw, drawn) for _ in range(draw(st.integers(1, max_steps)))]
    return History(
        steps=tuple(steps),
        inline_threshold_bytes=draw(st.sampled_from([None, 0, 16, 60_000])),
        updates_per_file=draw(st.sampled_from([None, 1, 2, 5])),
    )
