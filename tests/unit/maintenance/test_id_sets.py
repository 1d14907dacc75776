"""Sets of ids in columns do what sets of bytes do."""

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from frazil.maintenance.id_sets import GrowingIdSet, IdSet

# Many of these begin with the same eight bytes, which random ids never do.
BEGINNINGS = st.sampled_from([bytes(8), b"\xff" * 8, bytes(range(8))])
ids = st.builds(bytes.__add__, BEGINNINGS, st.binary(min_size=4, max_size=4))
ids |= st.binary(min_size=12, max_size=12)


def column(raw: list[bytes]) -> npt.NDArray[np.uint8]:
    return np.frombuffer(b"".join(raw), np.uint8).reshape(-1, 12)


@given(st.lists(ids), st.lists(ids))
def test_a_set_holds_each_id_once_in_order_and_knows_which(
    here: list[bytes], there: list[bytes]
) -> None:
    found = IdSet.of(column(here))
    assert [row.tobytes() for row in found.ids()] == sorted(set(here))
    assert found.contains(column([*here, *there])).tolist() == [
        each in set(here) for each in [*here, *there]
    ]


@given(st.lists(st.lists(ids)))
def test_adding_batch_by_batch_is_adding_all(parts: list[list[bytes]]) -> None:
    growing = GrowingIdSet()
    for part in parts:
        growing.add(column(part))
        growing.add_set(IdSet.of(column(part)))
    assert [row.tobytes() for row in growing.done().ids()] == sorted(
        {each for part in parts for each in part}
    )


def test_a_million_ids_take_twelve_bytes_each() -> None:
    raw = np.random.default_rng(1).integers(0, 256, (100_000, 12), dtype=np.uint8)
    growing = GrowingIdSet()
    for _ in range(10):
        growing.add(raw)
    assert len(growing.done()) == len(raw)
    assert growing.done().nbytes == 12 * len(raw)
