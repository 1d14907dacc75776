import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.ranges import ByteRange, From, Last, Range, Until, resolve

sizes = st.integers(0, 40)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, b"0123456789"),
        (Range(2, 5), b"234"),
        (Range(8, 20), b"89"),
        (Range(20, 30), b""),
        (From(7), b"789"),
        (From(70), b""),
        (Last(3), b"789"),
        (Last(30), b"0123456789"),
        (Until(3), b"0123456"),
        (Until(30), b""),
    ],
)
def test_a_range_selects_bytes_and_is_cut_off_at_the_ends(
    wanted: ByteRange | None, expected: bytes
) -> None:
    data = b"0123456789"
    part = resolve(wanted, len(data))

    assert data[part.start : part.stop] == expected


@given(
    st.one_of(
        st.tuples(sizes, sizes).map(lambda pair: Range(min(pair), max(pair))),
        sizes.map(From),
        sizes.map(Last),
        sizes.map(Until),
    ),
    sizes,
)
def test_a_resolved_range_lies_inside_the_object(wanted: ByteRange, size: int) -> None:
    part = resolve(wanted, size)

    assert 0 <= part.start <= part.stop <= size


def test_a_range_cannot_run_backwards() -> None:
    with pytest.raises(ValueError, match="not a byte range"):
        Range(3, 2)
