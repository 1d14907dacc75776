"""Parts of arrays, read and written at once."""

from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from frazil import InvalidInputError, NodeNotFoundError, Repository, read_region, write_region
from frazil.zarrstore.arrays import select, selected_shape

VALUES = np.arange(12 * 10, dtype="i4").reshape(12, 10)


@pytest.fixture
def session(repository: Repository) -> Any:
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="g/x", data=VALUES, chunks=(5, 4))
    return session


@given(data=st.data())
def test_a_selection_is_numpys(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=6))
    indices = hnp.basic_indices(shape, allow_newaxis=False)
    chosen = data.draw(indices)
    values = np.arange(np.prod(shape)).reshape(shape)
    places = chosen if isinstance(chosen, tuple) else (chosen,)
    if any(isinstance(place, slice) and (place.step or 1) < 0 for place in places):
        with pytest.raises(InvalidInputError, match="backwards"):
            select(chosen, shape)
        return
    selected = select(chosen, shape)
    assert len(selected) == values.ndim
    assert np.array_equal(values[selected], values[chosen])
    assert selected_shape(selected) == values[chosen].shape


@pytest.mark.parametrize(
    "selection", [..., 3, -1, slice(2, 9), (4, 2), (slice(None), -2), (..., slice(1, None, 3)), ()]
)
def test_regions_are_read_and_written_as_with_numpy(session: Any, selection: Any) -> None:
    assert np.array_equal(read_region(session, "g/x", selection), VALUES[selection])
    changed = VALUES.copy()
    changed[selection] = -7
    write_region(session.store, "/g/x", selection, -7)
    assert np.array_equal(read_region(session.store, "/g/x"), changed)
    write_region(session, "g/x", selection, VALUES[selection])
    assert np.array_equal(read_region(session, "g/x"), VALUES)


def test_values_are_broadcast(session: Any) -> None:
    write_region(session, "g/x", (slice(3), slice(None)), np.arange(10))
    assert np.array_equal(read_region(session, "g/x", 2), np.arange(10))


def test_values_can_be_put_into_an_array(session: Any) -> None:
    out = np.zeros((10, 20), "f8")
    assert read_region(session, "g/x", slice(2, 12), out=out[:, ::2]).base is out
    assert np.array_equal(out[:, ::2], VALUES[2:])
    assert not out[:, 1::2].any()
    same = np.zeros((12, 3), "i4")
    read_region(session, "g/x", (slice(None), 7), out=same[:, 1])
    assert np.array_equal(same, np.stack([VALUES[:, 7] * 0, VALUES[:, 7], VALUES[:, 7] * 0], 1))


def test_what_cannot_be_selected_is_refused(session: Any) -> None:
    wrong: list[Any] = [12, (0, 0, 0), (..., ...), "x", (slice(None, None, -1),), 1.5, np.arange(2)]
    wrong += [(np.arange(2), 0), (slice("a"), 0), (0, slice(None, None, 0)), (0, 0, ..., 0), -13]
    for selection in wrong:
        with pytest.raises(InvalidInputError):
            read_region(session, "g/x", selection)
    with pytest.raises(InvalidInputError, match="shape"):
        read_region(session, "g/x", out=np.zeros(3))
    with pytest.raises(InvalidInputError, match="not an array"):
        read_region(session, "g")
    with pytest.raises(NodeNotFoundError):
        read_region(session, "nope")


def test_a_session_that_is_read_only_is_not_written_to(session: Any) -> None:
    with pytest.raises(ValueError, match="read-only"):
        write_region(session.store.with_read_only(True), "g/x", 0, 0)
    session.commit("made")
    with pytest.raises(ValueError, match="read-only"):
        write_region(session, "g/x", 0, 0)
