"""Ids and their text. Spec: "Common Types"."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.ids import (
    INITIAL_SNAPSHOT,
    ManifestId,
    NodeId,
    SnapshotId,
    format_base32,
    format_ids,
    parse_base32,
)


def test_the_initial_snapshot_is_spelt_as_in_the_specification() -> None:
    assert str(INITIAL_SNAPSHOT) == "1CECHNKREP0F1RSTCMT0"


@pytest.mark.parametrize(("size", "width"), [(5, 8), (8, 13), (12, 20), (16, 26)])
def test_bits_are_padded_on_the_right_to_whole_characters(size: int, width: int) -> None:
    assert format_base32(b"\xff" * size)[: width - 1] == "Z" * (width - 1)
    assert len(format_base32(bytes(size))) == width


@given(st.binary(min_size=12, max_size=12))
def test_text_and_bytes_are_inverse(raw: bytes) -> None:
    assert parse_base32(format_base32(raw), 12) == raw


@given(st.lists(st.binary(min_size=8, max_size=8), max_size=5))
def test_a_column_of_ids_is_formatted_as_each_alone(rows: list[bytes]) -> None:
    column = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, 8)

    assert format_ids(column) == [str(NodeId(raw)) for raw in rows]


def test_lower_case_and_look_alikes_are_understood() -> None:
    assert SnapshotId.parse("icechnkrepof1rstcmt0") == INITIAL_SNAPSHOT


@pytest.mark.parametrize("text", ["", "1CECHNKREP0F1RSTCMT", "1CECHNKREP0F1RSTCMTU", "ü" * 20])
def test_what_is_not_a_snapshot_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        SnapshotId.parse(text)

    assert caught.value.kind == "invalid-snapshot-id"


def test_ids_of_different_things_are_not_equal() -> None:
    same_bytes = bytes(12)
    assert SnapshotId(same_bytes) != ManifestId(same_bytes)  # type: ignore[comparison-overlap]  # the point
    with pytest.raises(ValueError, match="needs 8 bytes"):
        NodeId(bytes(12))
