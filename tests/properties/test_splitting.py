"""Manifests of one array never overlap, and rewriting loses no reference."""

from itertools import pairwise
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frazil.engine.commit.splitting import plan_manifests, split
from frazil.format.chunk_refs import ChunkRefs, Inline
from frazil.format.nodes import ManifestRef
from frazil.ids import ManifestId

type Grid = tuple[int, ...]
type Index = tuple[int, ...]

grids = st.lists(st.integers(1, 8), max_size=3).map(tuple)


def refs_at(indices: set[Index], ndim: int) -> ChunkRefs:
    listed = sorted(indices)
    rows = np.array(listed, dtype=np.uint32).reshape(len(listed), ndim)
    return ChunkRefs.from_payloads(rows, [Inline(b"x")] * len(listed))


def indices_of(refs: ChunkRefs) -> set[Index]:
    return {tuple(row) for row in refs.index.tolist()}


def indices_in(grid: Grid) -> st.SearchStrategy[set[Index]]:
    one = st.tuples(*(st.integers(0, count - 1) for count in grid))
    return st.sets(one, max_size=12)


def overlap(one: ManifestRef, other: ManifestRef) -> bool:
    return all(a < d and c < b for (a, b), (c, d) in zip(one.extents, other.extents, strict=True))


def written(parts: list[ChunkRefs]) -> dict[ManifestRef, ChunkRefs]:
    return {ManifestRef(ManifestId.random(), part.bounding_box()): part for part in parts}


@given(st.data())
def test_splitting_keeps_every_reference_in_its_own_cell(data: st.DataObject) -> None:
    grid = data.draw(grids)
    cell = data.draw(st.tuples(*(st.integers(1, 9) for _ in grid)))
    indices = data.draw(indices_in(grid))

    parts = split(refs_at(indices, len(grid)), cell)

    assert sum(len(part) for part in parts) == len(indices)
    assert {index for part in parts for index in indices_of(part)} == indices
    for part in parts:
        cells = {
            tuple(i // c for i, c in zip(index, cell, strict=True)) for index in indices_of(part)
        }
        assert len(cells) == 1


@given(st.data())
def test_after_any_history_of_cell_sizes_extents_do_not_overlap(data: st.DataObject) -> None:
    grid = data.draw(grids)
    stored: dict[ManifestRef, ChunkRefs] = {}
    expected: set[Index] = set()
    for _ in range(data.draw(st.integers(1, 4))):
        cell = data.draw(st.tuples(*(st.integers(1, 9) for _ in grid)))
        grid = tuple(data.draw(st.integers(1, 8)) for _ in grid)
        changed = data.draw(indices_in(grid))
        fresh = refs_at(changed, len(grid))

        plan = plan_manifests(list(stored), fresh.index, grid=grid, cell=cell)
        old = ChunkRefs.concat([refs_at(set(), len(grid)), *(stored[ref] for ref in plan.rewrite)])
        merged = ChunkRefs.merged(old, fresh, fresh.index[:0]).within(grid)
        stored = {ref: stored[ref] for ref in plan.keep} | written(split(merged, cell))

        expected = {
            i for i in expected | changed if all(p < n for p, n in zip(i, grid, strict=True))
        }
        assert {index for refs in stored.values() for index in indices_of(refs)} == expected
        assert sum(len(refs) for refs in stored.values()) == len(expected)
        listed = list(stored)
        assert not any(overlap(a, b) for at, a in enumerate(listed) for b in listed[at + 1 :])


def test_a_change_in_one_cell_leaves_the_others_alone() -> None:
    refs = refs_at({(i, j) for i in range(6) for j in range(6)}, 2)
    stored = list(written(split(refs, (2, 3))))
    changed = np.array([[5, 5]], dtype=np.uint32)

    plan = plan_manifests(stored, changed, grid=(6, 6), cell=(2, 3))

    assert len(stored) == prod((3, 2))
    assert [ref.extents for ref in plan.rewrite] == [((4, 6), (3, 6))]


def test_rows_of_a_split_ascend() -> None:
    refs = refs_at({(i, j) for i in range(4) for j in range(4)}, 2)

    for part in split(refs, (2, 2)):
        rows = [tuple(row) for row in part.index.tolist()]
        assert all(a < b for a, b in pairwise(rows))
