"""Parts of chunk objects: which are the same, and where they went."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from frazil.format.chunk_refs import ChunkRefs
from frazil.maintenance import relocate as chunk_parts
from frazil.maintenance.relocate import Parts, Relocation, group_rows, random_ids

NUMBERS = st.sampled_from([0, 1, 2, 2**32 - 1, 2**64 - 1])
rows = st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=12)
ALIKE = (0, 0, 0, 0)  # factors with which all rows have one number


def parts_of(wanted: list[tuple[int, int, int]]) -> Parts:
    ids = b"".join(object_.to_bytes(12) for object_, _, _ in wanted)
    return Parts(
        np.frombuffer(ids, dtype=np.uint8).reshape(-1, 12),
        np.array([offset for _, offset, _ in wanted], dtype=np.uint64),
        np.array([length for _, _, length in wanted], dtype=np.uint64),
    )


@pytest.mark.parametrize("factors", [chunk_parts._FACTORS, ALIKE])
@given(wanted=rows)
def test_equal_rows_are_one_group(
    factors: tuple[int, ...], wanted: list[tuple[int, int, int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_parts, "_FACTORS", factors)
        first, group = group_rows(parts_of(wanted).columns)
    assert [wanted[first[number]] for number in group.tolist()] == wanted
    assert sorted(first.tolist()) == [at for at, row in enumerate(wanted) if row not in wanted[:at]]


@given(wanted=rows)
def test_distinct_parts_are_in_order(wanted: list[tuple[int, int, int]]) -> None:
    found = parts_of(wanted).distinct()
    assert [
        (int.from_bytes(raw.tobytes()), int(offset), int(length))
        for raw, offset, length in zip(found.chunk_id, found.offset, found.length, strict=True)
    ] == sorted(set(wanted))


@pytest.mark.parametrize("factors", [chunk_parts._FACTORS, ALIKE])
@given(moved=rows, asked=rows)
def test_parts_are_found_where_they_went(
    factors: tuple[int, ...], moved: list[tuple[int, int, int]], asked: list[tuple[int, int, int]]
) -> None:
    moved = list(dict.fromkeys(moved))
    names, offsets = random_ids(len(moved)), np.arange(len(moved), dtype=np.uint64)
    old = parts_of([*asked, *moved])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_parts, "_FACTORS", factors)
        relocation = Relocation.of(parts_of(moved), names, offsets)
        index = np.arange(len(old)).reshape(-1, 1)
        new = relocation.apply(ChunkRefs.native(index, old.chunk_id, old.offset, old.length))
    assert (new is None) == (not moved)
    if new is None:
        return
    for row, part in enumerate([*asked, *moved]):
        at = moved.index(part) if part in moved else None
        expected = old.chunk_id[row] if at is None else names[at]
        assert new.chunk_id[row].tobytes() == expected.tobytes()
        assert int(new.offset[row]) == (part[1] if at is None else at)
        assert int(new.length[row]) == part[2]
