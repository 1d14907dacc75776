"""Chunks and tasks of a scan."""

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.spark.table.description import ArrayDescription
from frazil.spark.table.scan_plan import (
    Axis,
    box_rows,
    count_chunks,
    count_grid,
    list_chunks,
    plan_boxes,
    runs,
    touched_chunks,
)
from frazil.spark.table.selection import Positions, compact


def variable(
    shape: tuple[int, ...], chunks: tuple[int, ...], dims: tuple[str, ...] | None = None
) -> ArrayDescription:
    names = dims or tuple("xyz"[: len(shape)])
    return ArrayDescription(
        name="v", path="/v", dims=names, shape=shape, chunks=chunks, dtype=np.dtype("f4")
    )


def boxes(axes: list[Axis], grids: list[ArrayDescription], target: int) -> list[list[set[int]]]:
    """Positions of each box, per axis."""
    found = plan_boxes(axes, grids, read=grids, row_bytes=4, target_bytes=target)
    return [
        [set(axis.positions[lo:hi]) for axis, (lo, hi) in zip(axes, box, strict=True)]
        for box in found
    ]


@st.composite
def scans(draw: st.DrawFn) -> tuple[list[Axis], ArrayDescription]:
    shape = tuple(draw(st.lists(st.integers(1, 30), min_size=1, max_size=3)))
    chunks = tuple(draw(st.integers(1, 12)) for _ in shape)
    wanted: list[Positions] = [
        compact(np.array(sorted(draw(st.sets(st.integers(0, n - 1)))), dtype=np.int64))
        for n in shape
    ]
    axes = [Axis(name, positions) for name, positions in zip("xyz", wanted, strict=False)]
    return axes, variable(shape, chunks)


@given(scans(), st.integers(1, 5000))
def test_boxes_hold_every_row_once_and_never_cut_a_chunk(
    scan: tuple[list[Axis], ArrayDescription], target: int
) -> None:
    axes, array = scan
    planned = boxes(axes, [array], target)
    rows = [row for box in planned for row in product(*box)]
    assert len(rows) == len(set(rows)) == prod(len(axis) for axis in axes)
    owners: dict[tuple[int, ...], int] = {}
    for number, box in enumerate(planned):
        for row in product(*box):
            chunk = tuple(p // c for p, c in zip(row, array.chunks, strict=True))
            assert owners.setdefault(chunk, number) == number


@given(scans())
def test_runs_read_the_chunks_that_were_counted_and_no_other(
    scan: tuple[list[Axis], ArrayDescription],
) -> None:
    axes, array = scan
    per_axis = []
    for axis, chunk in zip(axes, array.chunks, strict=True):
        read = runs(axis, (0, len(axis)), chunk)
        chunks = {p // chunk for run in read for p in range(run.start, run.stop)}
        assert chunks == set(touched_chunks(axis, chunk).tolist())
        placed = [
            run.start + (k if run.taken is None else int(run.taken[k]))
            for run in read
            for k in range(run.count)
        ]
        assert placed == list(axis.positions)
        assert [run.offset for run in read] == [
            sum(r.count for r in read[:k]) for k in range(len(read))
        ]
        per_axis.append(chunks)
    assert set(list_chunks(axes, array)) == set(product(*per_axis))
    assert count_chunks(axes, array) == len(list_chunks(axes, array))


def test_a_slice_touches_only_the_chunks_under_it() -> None:
    array = variable((100, 100), (10, 25))
    axes = [Axis("x", range(15, 31)), Axis("y", np.array([3, 80]))]
    assert list_chunks(axes, array) == [(1, 0), (1, 3), (2, 0), (2, 3), (3, 0), (3, 3)]
    assert count_grid(array) == 40


def test_tasks_grow_to_the_wanted_size_along_the_last_axes_first() -> None:
    array = variable((8, 8), (2, 2))  # 16 chunks of 16 bytes
    axes = [Axis("x", range(8)), Axis("y", range(8))]

    def count(target: int) -> int:
        return len(plan_boxes(axes, [array], read=[array], row_bytes=4, target_bytes=target))

    assert [count(t) for t in (1, 16, 32, 64, 128, 256, 10_000)] == [16, 16, 8, 4, 2, 1, 1]
    assert boxes(axes, [array], 64)[0] == [{0, 1}, set(range(8))]


def test_a_chunk_larger_than_the_wanted_size_is_one_task() -> None:
    array = variable((1000, 10), (1000, 10))
    axes = [Axis("x", range(1000)), Axis("y", range(10))]
    assert len(boxes(axes, [array], 1)) == 1


def test_a_thin_selection_weighs_what_is_decoded_for_it() -> None:
    array = variable((1000,), (10,))  # 100 chunks of 40 bytes
    axes = [Axis("x", np.arange(0, 1000, 10))]
    assert len(boxes(axes, [array], 400)) == 10


def test_grids_that_meet_are_cut_where_they_meet() -> None:
    coarse, fine = variable((24,), (6,)), variable((24,), (4,))
    cut = boxes([Axis("x", range(24))], [coarse, fine], 1)
    assert cut == [[set(range(12))], [set(range(12, 24))]]


def test_grids_that_rarely_meet_follow_the_coarser() -> None:
    coarse, fine = variable((140,), (70,)), variable((140,), (13,))
    assert len(boxes([Axis("x", range(140))], [coarse, fine], 1)) == 2


def test_nothing_wanted_is_no_task() -> None:
    assert boxes([Axis("x", range(0)), Axis("y", range(3))], [variable((3, 3), (1, 1))], 1) == []


def test_a_scalar_is_one_row() -> None:
    array = variable((), ())
    assert plan_boxes([], [array], read=[array], row_bytes=4, target_bytes=1) == [()]
    assert box_rows(()) == 1
    assert count_chunks([], array) == count_grid(array) == 1


@pytest.mark.parametrize("dims", [("x", "y"), ("y", "x")])
def test_chunks_are_named_in_the_order_of_the_array(dims: tuple[str, str]) -> None:
    array = variable((4, 6), (2, 6), dims)
    axes = [Axis("x", range(1)), Axis("y", range(1))]
    assert list_chunks(axes, array) == [(0, 0)]
    wide = [Axis(dims[0], range(4)), Axis(dims[1], range(6))]
    assert list_chunks(wide, array) == [(0, 0), (1, 0)]
