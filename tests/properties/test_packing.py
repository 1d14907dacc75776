"""Where chunks go that are stored together."""

from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frazil.engine.commit import chunk_writer as writer
from frazil.engine.commit.chunk_writer import arrange, store_chunks
from frazil.format.chunk_refs import Inline, Native
from frazil.objectstore.memory import MemoryStore

INLINE, PACKED, PACK = 4, 20, 50  # bytes
LENGTHS = st.lists(st.integers(1, 30), max_size=40)
small_packs = patch.multiple(writer, PACKED_BYTES=PACKED, PACK_BYTES=PACK)


@given(lengths=LENGTHS)
def test_every_chunk_has_its_place(lengths: list[int]) -> None:
    length = np.array(lengths, np.int64)
    with small_packs:
        plan = arrange(length, inline_bytes=INLINE)
    assert (plan.owner < 0).tolist() == [each <= INLINE for each in lengths]
    for number, rows in enumerate(plan.objects):
        assert (plan.owner[rows] == number).all()
        assert plan.offset[rows].tolist() == [0, *np.cumsum(length[rows])[:-1].tolist()]
        assert len(rows) == 1 or length[rows].max() <= PACKED
        assert length[rows].sum() <= PACK + PACKED
    packed = [each for each in lengths if INLINE < each <= PACKED]
    alone = [each for each in lengths if each > PACKED]
    if len(packed) > 1:  # no more objects than it takes
        assert len(plan.objects) - len(alone) <= 1 + sum(packed) // PACK


@given(lengths=LENGTHS)
def test_references_lead_to_the_bytes(lengths: list[int]) -> None:
    store = MemoryStore()
    data = [bytes([number]) * length for number, length in enumerate(lengths)]
    index = np.arange(len(data), dtype=np.uint32).reshape(-1, 1)
    with small_packs:
        refs = store_chunks(store, index, data, inline_bytes=INLINE)
    for number, expected in enumerate(data):
        match refs.payload(refs.find((number,))):
            case Inline(found):
                assert found == expected
            case Native(chunk, offset, length):
                whole = bytes(store.get(f"chunks/{chunk}").data)
                assert whole[offset : offset + length] == expected
            case other:
                raise AssertionError(other)
