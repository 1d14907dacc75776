"""Positions that are even, or in a grid, are the same positions as when they are listed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.flatbuf import places as module
from frazil.flatbuf.places import Places


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grids are looked for in few positions, and by the first of them."""
    monkeypatch.setattr(module, "FEWEST_OF_GRID", 4)
    monkeypatch.setattr(module, "_HEAD", 40)
    monkeypatch.setattr(module, "PIECE", 7)


@st.composite
def grids(draw: st.DrawFn) -> list[int]:
    """Bands of stripes, of which the last may be cut off, and one position may be another."""
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6)))
    first = draw(st.integers(0, 50))
    along, down, across = (draw(st.integers(0, 90)) for _ in range(3))
    cells = [
        first + along * band + down * row + across * stripe
        for band in range(shape[0])
        for row in range(shape[1])
        for stripe in range(shape[2])
    ]
    kept = cells[: draw(st.integers(0, len(cells)))]
    if kept:
        kept[draw(st.integers(0, len(kept) - 1))] += draw(st.sampled_from([0, 0, 1, 9]))
    return kept


POSITIONS = st.one_of(
    grids(),
    st.lists(st.integers(0, 500), max_size=12),
    st.builds(
        lambda first, step, count: [first + step * i for i in range(count)],
        st.integers(100, 200),
        st.integers(-8, 8),
        st.integers(0, 12),
    ),
)


def of(positions: list[int]) -> Places:
    return Places.of(np.array(positions, np.int64))


@given(POSITIONS)
def test_places_are_the_positions_they_were_made_of(positions: list[int]) -> None:
    places = of(positions)
    assert places.array().tolist() == positions
    assert places.count == len(positions)
    assert places.shifted(7).array().tolist() == [each + 7 for each in positions]
    if positions:
        assert (places.lowest, places.highest) == (min(positions), max(positions))


@given(POSITIONS, st.sampled_from([1, 2, 4, 8]))
def test_alignment_is_that_of_every_position(positions: list[int], align: int) -> None:
    if positions:
        assert of(positions).are_aligned(align) == all(each % align == 0 for each in positions)


@given(POSITIONS, st.data())
def test_offsets_are_added_one_by_one(positions: list[int], data: st.DataObject) -> None:
    count = len(positions)
    even = st.builds(lambda a, b: [a + b * i for i in range(count)], *[st.integers(0, 50)] * 2)
    listed = st.lists(st.integers(0, 50), min_size=count, max_size=count)
    offsets = data.draw(even | listed)
    found = of(positions).plus(np.array(offsets, np.uint32))
    assert found.array().tolist() == [a + b for a, b in zip(positions, offsets, strict=True)]


@given(POSITIONS)
def test_codes_lead_back_to_the_positions(positions: list[int]) -> None:
    codes, found = of(positions).distinct(1)
    assert found.array()[codes].tolist() == positions
    assert found.count == len(set(positions))


@given(POSITIONS, st.data())
def test_a_part_has_its_positions(positions: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(positions)))
    stop = data.draw(st.integers(start, len(positions)))
    assert of(positions).part(start, stop).tolist() == positions[start:stop]


@given(POSITIONS)
def test_without_repeats_are_the_same_positions(positions: list[int]) -> None:
    assert set(of(positions).without_repeats().tolist()) == set(positions)


def test_a_grid_is_not_listed_but_for_its_last_band() -> None:
    band = [100 * stripe + 8 * row for row in range(5) for stripe in range(3)]
    places = of([*band, *[400 + each for each in band], 800, 900])
    assert (places.shape, places.steps) == ((2, 5, 3), (400, 8, 100))
    assert places.listed.tolist() == [800, 900]
    assert places.distinct(4)[1] is places


@pytest.mark.parametrize("step", [0, 48])
def test_even_places_are_not_listed(step: int) -> None:
    places = Places.even(1_000, 8, 48).plus(np.arange(1_000) * (step - 48) + 48_000)
    assert places.is_even
    assert (places.first, places.steps) == (48_008, (step,))
