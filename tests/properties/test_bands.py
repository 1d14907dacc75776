"""Where nobody says how to split, manifests are neither huge nor many, and never overlap."""

from collections.abc import Sequence
from math import isqrt, prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frazil.engine.commit.splitting import MOST, Bands, Stored, in_bands, usual_cells
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.nodes import ManifestRef
from tests.properties.test_splitting import (
    Grid,
    Index,
    grids,
    indices_in,
    indices_of,
    overlap,
    refs_at,
    written,
)

type Manifests = dict[ManifestRef, ChunkRefs]


def rows(indices: set[Index], grid: Grid) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    return np.array(sorted(indices), dtype=np.uint32).reshape(len(indices), len(grid))


def commit(
    stored: Manifests, fresh: set[Index], deleted: set[Index], *, grid: Grid, most: int
) -> tuple[Manifests, Bands | None]:
    """As a commit does it: set these, delete those, in an array whose grid is now `grid`."""
    ndim = len(grid)
    refs = refs_at(fresh, ndim)

    def merged(rewritten: Sequence[ManifestRef]) -> ChunkRefs:
        old = ChunkRefs.concat([refs_at(set(), ndim), *(stored[ref] for ref in rewritten)])
        return ChunkRefs.merged(old, refs, rows(deleted, grid)).within(grid)

    known = Stored.of(list(stored), [len(refs) for refs in stored.values()], grid)
    found = in_bands(rows(fresh | deleted, grid), known, grid=grid, most=most, merged=merged)
    if found is None:
        return stored, None
    return {ref: stored[ref] for ref in found.keep} | written(found.parts), found


@given(st.data())
def test_after_any_history_nothing_is_lost_and_extents_do_not_overlap(data: st.DataObject) -> None:
    grid = data.draw(grids)
    stored: Manifests = {}
    expected: set[Index] = set()
    for _ in range(data.draw(st.integers(1, 4))):
        most = data.draw(st.integers(1, 9))
        grid = tuple(data.draw(st.integers(1, 8)) for _ in grid)
        fresh = data.draw(indices_in(grid))
        deleted = data.draw(indices_in(grid)) - fresh
        stored, _ = commit(stored, fresh, deleted, grid=grid, most=most)

        expected = {
            index
            for index in (expected | fresh) - deleted
            if all(at < count for at, count in zip(index, grid, strict=True))
        }
        assert {index for refs in stored.values() for index in indices_of(refs)} == expected
        assert sum(len(refs) for refs in stored.values()) == len(expected)
        listed = list(stored)
        assert not any(overlap(a, b) for at, a in enumerate(listed) for b in listed[at + 1 :])


@given(st.data())
def test_what_is_written_is_no_larger_than_it_may_be(data: st.DataObject) -> None:
    grid = data.draw(grids)
    most = data.draw(st.integers(1, 9))
    _, found = commit({}, data.draw(indices_in(grid)), set(), grid=grid, most=most)

    assert all(len(part) <= most for part in (found.parts if found else ()))


@given(
    rows_at_once=st.integers(1, 3),
    columns=st.integers(1, 6),
    times=st.integers(1, 30),
    axis=st.integers(0, 1),
)
def test_appends_write_one_band_each_and_leave_few_manifests(
    rows_at_once: int, columns: int, times: int, axis: int
) -> None:
    most, length = 32, 1
    grid = turned((length, columns), axis)
    stored, _ = commit({}, block(0, grid, axis), set(), grid=grid, most=most)
    for _ in range(times):
        start, length = length, length + rows_at_once
        grid = turned((length, columns), axis)
        before, fresh = len(stored), block(start, grid, axis)
        stored, found = commit(stored, fresh, set(), grid=grid, most=most)
        assert found is not None
        assert before - len(found.keep) <= 1
        assert sum(map(len, found.parts)) <= most + len(fresh)

    assert len(stored) <= 1 + 4 * length * columns / most


def block(start: int, grid: Grid, axis: int) -> set[Index]:
    """All chunks of the grid from a position on."""
    return {(i, j) for i in range(grid[0]) for j in range(grid[1]) if (i, j)[axis] >= start}


def turned(grid: Grid, axis: int) -> Grid:
    return grid[::-1] if axis else grid


def test_few_references_are_one_manifest_however_large_the_grid() -> None:
    scattered: set[Index] = {(i * 40_000, i * 30_000) for i in range(20)}

    stored, _ = commit({}, scattered, set(), grid=(10**6, 10**6), most=100)

    assert len(stored) == 1


def test_many_small_manifests_that_somebody_wanted_are_not_all_joined_for_one_change() -> None:
    grid = (256,)
    stored = written([refs_at({(i,)}, 1) for i in range(256)])

    _, found = commit(stored, {(100,)}, set(), grid=grid, most=1000)

    assert found is not None
    assert len(found.keep) >= 256 - 8


@given(st.lists(st.integers(0, 2**31), min_size=1, max_size=3).map(tuple))
def test_cells_that_others_write_are_neither_large_nor_many(grid: Grid) -> None:
    cells = usual_cells(grid)
    counts = [-(-size // cell) for size, cell in zip(grid, cells, strict=True)]

    assert sum(count > 1 for count in counts) <= 1
    most = min(max(1024, isqrt(prod(grid)) // 4), 65_536)
    assert max(counts) <= most
    whole = prod(min(size, cell) for size, cell in zip(grid, cells, strict=True))
    assert whole <= MOST or max(counts) > most // 4 or min(grid) == 0 or max(grid) == max(counts)
