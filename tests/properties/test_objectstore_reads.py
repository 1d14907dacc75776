"""Merged reads serve every range; names of files and keys are one and the same."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from frazil.objectstore.keys import decode_name, encode_key, encode_prefix
from frazil.objectstore.reads import merge_reads
from frazil.ranges import Range
from frazil.testing.objectstore_model import segments

POSITIONS = st.integers(0, 1000)
WANTED = st.lists(
    st.builds(lambda start, length: Range(start, start + length), POSITIONS, st.integers(0, 100)),
    max_size=12,
)


@given(WANTED, st.integers(0, 50), st.integers(1, 500))
def test_each_range_is_served_by_one_read(
    wanted: list[Range], gap_bytes: int, limit_bytes: int
) -> None:
    reads = merge_reads(wanted, gap_bytes=gap_bytes, limit_bytes=limit_bytes)
    assert sorted(at for read in reads for at in read.serves) == list(range(len(wanted)))
    for read in reads:
        served = [wanted[at] for at in read.serves]
        assert read.span.start == min(one.start for one in served)
        assert read.span.stop == max(one.stop for one in served)


@given(WANTED, st.integers(0, 50), st.integers(1, 500))
def test_no_byte_is_read_twice_and_near_ones_are_read_together(
    wanted: list[Range], gap_bytes: int, limit_bytes: int
) -> None:
    reads = merge_reads(wanted, gap_bytes=gap_bytes, limit_bytes=limit_bytes)
    for one, two in pairwise(reads):
        assert one.span.stop <= two.span.start
        together = max(one.span.stop, wanted[two.serves[0]].stop) - one.span.start
        assert two.span.start - one.span.stop > gap_bytes or together > limit_bytes


@given(WANTED, st.integers(0, 50))
def test_gaps_within_a_read_are_small(wanted: list[Range], gap_bytes: int) -> None:
    for read in merge_reads(wanted, gap_bytes=gap_bytes, limit_bytes=1 << 40):
        reached = read.span.start
        for at in read.serves:
            assert wanted[at].start - reached <= gap_bytes
            reached = max(reached, wanted[at].stop)


@given(st.lists(segments(), min_size=1, max_size=4))
def test_a_key_is_read_back_from_its_names(parts: list[str]) -> None:
    encoded = encode_key("/".join(parts))
    assert encoded.isascii()
    assert encoded.isprintable()
    assert [decode_name(name) for name in encoded.split("/")] == parts
    assert encode_prefix("/".join(parts) + "/") == encoded + "/"


@given(st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=12))
def test_a_name_that_stands_for_a_key_is_the_name_of_that_key(name: str) -> None:
    segment = decode_name(name)
    if segment not in (None, ".", "..", ".frazil.lock"):
        assert encode_key(segment) == name


@given(st.binary(min_size=1, max_size=12))
def test_any_bytes_of_a_directory_entry_can_be_looked_at(raw: bytes) -> None:
    decode_name(raw.decode(errors="surrogateescape"))
