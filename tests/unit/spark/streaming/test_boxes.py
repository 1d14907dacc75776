"""Boxes and cells, against elements that are counted one by one."""

from itertools import product

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from frazil.spark.io.stream_rows import (
    boxes_near_cells,
    cell_box,
    cells_touched,
    chunk_boxes,
    inside_boxes,
    slabs,
)
from frazil.spark.table.description import ArrayDescription
from frazil.spark.table.scan_plan import Axis
from frazil.spark.table.selection import compact

SHAPE = (7, 5)


def elements(boxes: npt.NDArray[np.int64]) -> set[tuple[int, ...]]:
    return {
        each
        for first, stop in boxes.tolist()
        for each in product(*(range(lo, hi) for lo, hi in zip(first, stop, strict=True)))
    }


spans = [st.tuples(st.integers(0, n), st.integers(0, n)).map(sorted) for n in SHAPE]
boxes = st.lists(st.tuples(*spans), max_size=4).map(
    lambda found: np.array(found, dtype=np.int64).reshape(-1, 2, 2).transpose(0, 2, 1)
)
axes = st.tuples(
    *(
        st.sets(st.integers(0, n - 1)).map(
            lambda chosen: Axis("d", compact(np.array(sorted(chosen), dtype=np.int64)))
        )
        for n in SHAPE
    )
)
sizes = st.tuples(st.integers(1, 8), st.integers(1, 6))


@given(boxes, axes, sizes)
def test_cells_cover_what_is_wanted_of_the_boxes_and_no_more(
    changed: npt.NDArray[np.int64], along: tuple[Axis, ...], size: tuple[int, int]
) -> None:
    inside = elements(changed)
    cells = cells_touched(changed, along, size)
    assert len({tuple(cell) for cell in cells.tolist()}) == len(cells)
    covered: set[tuple[int, ...]] = set()
    for cell in cells.tolist():
        box = cell_box(cell, along, size)
        places = [
            np.asarray(axis.positions[lo:hi], dtype=np.int64)
            for axis, (lo, hi) in zip(along, box, strict=True)
        ]
        assert all(len(each) for each in places)
        mask = inside_boxes(places, boxes_near_cells(changed, cells, size))
        for at in np.argwhere(mask).tolist():
            element = tuple(int(place[k]) for place, k in zip(places, at, strict=True))
            assert element not in covered
            covered.add(element)
    wanted = set(product(*(np.asarray(axis.positions).tolist() for axis in along)))
    assert covered == inside & wanted


@given(st.tuples(st.integers(1, 8), st.integers(1, 6)))
def test_chunks_are_boxes_inside_the_array(chunks: tuple[int, int]) -> None:
    array = ArrayDescription(
        name="a", path="/a", dims=("y", "x"), shape=SHAPE, chunks=chunks, dtype=np.dtype("f4")
    )
    every = np.array(list(product(range(9), range(9))), dtype=np.uint32)
    found = chunk_boxes(array, every, ["x", "y"])
    assert elements(found) == {(x, y) for y in range(7) for x in range(5)}
    assert len(found) == -(-7 // chunks[0]) * -(-5 // chunks[1])


@given(st.sets(st.integers(0, 6)))
def test_neighbouring_positions_make_one_slab(positions: set[int]) -> None:
    found = slabs(0, np.array(sorted(positions), dtype=np.int64), SHAPE)
    assert elements(found) == {(y, x) for y in positions for x in range(5)}
    assert len(found) == sum(each - 1 not in positions for each in positions)


def test_a_scalar_is_one_cell() -> None:
    found = cells_touched(np.zeros((3, 2, 0), dtype=np.int64), (), ())
    assert found.shape == (1, 0)
    assert inside_boxes([], np.zeros((1, 2, 0), dtype=np.int64)).tolist() is True
