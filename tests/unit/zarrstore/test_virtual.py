"""Virtual references, from what callers give to columns."""

from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pytest

from frazil.errors import InvalidInputError
from frazil.format.chunk_refs import ETag, LastModified, Virtual
from frazil.zarrstore.virtual import (
    VirtualChunkSpec,
    parse_checksum,
    refs_of_grid,
    refs_of_specs,
    virtual_payload,
)


def u64(*values: int) -> npt.NDArray[np.uint64]:
    return np.array(values, dtype=np.uint64)


def test_a_block_of_references_runs_along_the_last_dimension_first() -> None:
    locations = [f"s3://b/{number}" for number in range(6)]
    refs = refs_of_grid(
        (2, 3), locations, u64(*range(6)), u64(*range(10, 16)), first=(4, 7), checksum=None
    ).refs
    assert refs.index.tolist() == [[4, 7], [4, 8], [4, 9], [5, 7], [5, 8], [5, 9]]
    assert refs.payload(3) == Virtual("s3://b/3", 3, 13)


def test_an_empty_location_leaves_its_chunk_out() -> None:
    refs = refs_of_grid(
        (4,), ["", "s3://b/1", "", "s3://b/3"], u64(0, 1, 2, 3), u64(9, 8, 7, 6),
        first=None, checksum="tag",
    ).refs  # fmt: skip
    assert refs.index.tolist() == [[1], [3]]
    assert refs.payload(1) == Virtual("s3://b/3", 3, 6, ETag("tag"))


def test_an_array_without_dimensions_has_one_reference() -> None:
    refs = refs_of_grid((), ["s3://b/k"], u64(1), u64(2), first=None, checksum=None).refs
    assert refs.index.shape == (1, 0)
    assert refs.payload(0) == Virtual("s3://b/k", 1, 2)


def test_a_block_may_be_empty() -> None:
    assert len(refs_of_grid((0, 3), [], u64(), u64(), first=None, checksum="tag").refs) == 0


@pytest.mark.parametrize(
    ("shape", "offsets", "first", "message"),
    [
        ((2,), u64(1), None, r"product of chunk_grid_shape \(2\) != array length \(1\)"),
        ((1,), u64(1, 2), None, "must have the same length"),
        ((1,), u64(1), (0, 0), r"arr_offset length \(2\) != chunk_grid_shape length \(1\)"),
    ],
)
def test_columns_must_fit_together(
    shape: tuple[int, ...], offsets: npt.NDArray[np.uint64], first: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        refs_of_grid(shape, ["s3://b/k"], offsets, u64(1), first=first, checksum=None)


def test_offsets_and_lengths_are_unsigned() -> None:
    signed = np.array([1])
    with pytest.raises(TypeError, match="offsets"):
        refs_of_grid((1,), ["s3://b/k"], signed, u64(1), first=None, checksum=None)


@pytest.mark.parametrize("first", [(-1,), (2**32 - 1,)])
def test_a_block_must_have_indices_of_32_bits(first: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        refs_of_grid((1,), ["s3://b/k"], u64(1), u64(1), first=first, checksum=None)
    assert caught.value.kind == "invalid-chunk-index"


def test_a_location_is_a_url() -> None:
    with pytest.raises(InvalidInputError, match="foo/bar") as caught:
        refs_of_grid((2,), ["s3://b/k", "foo/bar"], u64(1, 2), u64(1, 2), first=None, checksum=None)
    assert caught.value.kind == "invalid-virtual-ref"


def test_specs_become_references_and_the_last_of_equals_wins() -> None:
    specs = [
        VirtualChunkSpec([1, 2], "s3://b/old", 0, 1),
        VirtualChunkSpec([0, 5], "s3://b/k", 3, 4, etag_checksum="tag"),
        VirtualChunkSpec([1, 2], "s3://b/new", 5, 6, "tag", datetime.now(UTC)),
    ]
    refs = refs_of_specs(specs, ndim=2).refs
    assert refs.index.tolist() == [[0, 5], [1, 2]]
    assert refs.payload(0) == Virtual("s3://b/k", 3, 4, ETag("tag"))
    assert refs.payload(1) == Virtual("s3://b/new", 5, 6, ETag("tag"))
    assert len(refs_of_specs([], ndim=2).refs) == 0


@pytest.mark.parametrize("index", [[1], [1, 2, 3], [-1, 0], [2**32, 0]])
def test_the_index_of_a_spec_must_fit_the_array(index: list[int]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        refs_of_specs([VirtualChunkSpec(index, "s3://b/k", 0, 1)], ndim=2)
    assert caught.value.kind == "invalid-chunk-index"


def test_a_time_of_modification_is_kept_in_whole_seconds() -> None:
    when = datetime(2024, 5, 6, 7, 8, 9, 999_999, tzinfo=UTC)
    seconds = int(when.replace(microsecond=0).timestamp())
    assert parse_checksum(when) == LastModified(seconds)
    refs = refs_of_grid((1,), ["s3://b/k"], u64(1), u64(2), first=None, checksum=when).refs
    assert refs.payload(0) == Virtual("s3://b/k", 1, 2, LastModified(seconds))


def test_a_time_needs_a_zone_and_must_fit() -> None:
    with pytest.raises(TypeError):
        parse_checksum(datetime(2024, 1, 1))  # noqa: DTZ001 -- what is tested
    with pytest.raises(InvalidInputError):
        parse_checksum(datetime(1970, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (0, 2**64)])
def test_offset_and_length_have_64_bits(offset: int, length: int) -> None:
    with pytest.raises(OverflowError):
        virtual_payload("s3://b/k", offset=offset, length=length, checksum=None)
