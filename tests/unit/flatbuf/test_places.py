"""Positions that are evenly spaced are the same positions as when they are listed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.flatbuf.source import Places

POSITIONS = st.one_of(
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


@pytest.mark.parametrize("step", [0, 48])
def test_even_places_are_not_listed(step: int) -> None:
    places = Places(1_000_000, 8, 48).plus(np.arange(1_000_000) * (step - 48) + 48_000_000)
    assert places.listed is None
    assert (places.first, places.step) == (48_000_008, step)
