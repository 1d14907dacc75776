import pickle
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.strings import Strings
from frazil.format.chunk_index import Box, SortedKeys, distinct
from frazil.format.chunk_refs import ChunkRefs, ETag, Inline, LastModified, Native, RefKind, Virtual
from tests.unit.format.samples import CHUNK_ID, ids, sample_refs

HUGE = 2**32 - 1


def index(*rows: Sequence[int]) -> npt.NDArray[np.uint32]:
    return np.array(rows, dtype=np.uint32)


def inline(rows: npt.NDArray[np.uint32], *data: bytes) -> ChunkRefs:
    return ChunkRefs.from_payloads(rows, [Inline(each) for each in data])


def test_payloads_come_back_as_they_went_in() -> None:
    refs = sample_refs()
    assert [refs.payload(row) for row in range(len(refs))] == [
        Inline(b"tiny"),
        Native(CHUNK_ID, 7, 100),
        Virtual("s3://bucket/a.nc", 1, 2, ETag("etag")),
        Virtual("s3://bucket/a.nc", 3, 4, LastModified(1_600_000_000)),
        Virtual("s3://bucket/b.nc", 2**40, 2**33),
    ]


def test_rows_are_put_in_order_and_the_last_of_equals_wins() -> None:
    refs = inline(index([2, 0], [0, 1], [2, 0], [0, 0]), b"first", b"b", b"last", b"a")
    assert refs.index.tolist() == [[0, 0], [0, 1], [2, 0]]
    assert refs.payload(2) == Inline(b"last")


def test_the_length_of_an_inline_chunk_is_known_without_its_bytes() -> None:
    assert inline(index([0], [1]), b"four", b"").length.tolist() == [4, 0]


def test_lookup_finds_rows_in_any_order_and_says_which_are_absent() -> None:
    refs = sample_refs()
    wanted = index([2, 5], [0, 0], [9, 9], [2, 4], [0, HUGE], [1, 1])
    assert refs.lookup(wanted).tolist() == [4, 0, -1, -1, -1, 3]


def test_lookup_in_a_full_grid_finds_everything_inside_it() -> None:
    rows = np.argwhere(np.ones((3, 4, 5))).astype(np.uint32) + np.uint32(7)
    refs = ChunkRefs.native(rows, np.zeros((60, 12), np.uint8), 0, 1)
    assert refs.lookup(rows[::-1]).tolist() == list(range(60))[::-1]
    assert refs.lookup(index([6, 7, 7], [10, 7, 7], [7, 7, 12], [7, 7, 6])).tolist() == [-1] * 4


def test_lookup_works_where_a_row_does_not_fit_into_64_bits() -> None:
    rows = index([0, 0, 0], [0, HUGE, 1], [HUGE, 0, HUGE], [HUGE, HUGE, HUGE])
    refs = inline(rows[::-1], b"d", b"c", b"b", b"a")
    assert refs.index.tolist() == rows.tolist()
    assert refs.lookup(rows).tolist() == [0, 1, 2, 3]
    assert refs.lookup(index([0, HUGE, 0], [1, 0, 0])).tolist() == [-1, -1]


@pytest.mark.parametrize("top", [4, 200, HUGE])  # many, few, and keys of more than 64 bits
@pytest.mark.parametrize("ndim", [1, 3])
def test_one_index_is_found_where_a_lookup_finds_it(ndim: int, top: int) -> None:
    rng = np.random.default_rng(top + ndim)
    rows = distinct(rng.integers(1, top, (60, ndim), np.uint32, endpoint=True))
    refs = inline(rows, *[b"x"] * len(rows))
    near = np.concatenate([rows, rows[:20] - 1, rng.integers(0, HUGE, (20, ndim), np.uint32)])
    assert [refs.find(each) for each in near.tolist()] == refs.lookup(near).tolist()
    assert refs.find([-1] * ndim) == refs.find([2**32] * ndim) == -1
    assert ChunkRefs.empty(ndim).find([0] * ndim) == -1
    with pytest.raises(ValueError, match="axes"):
        refs.find([1] * (ndim + 1))


def test_lookup_in_nothing_finds_nothing() -> None:
    assert ChunkRefs.empty(2).lookup(index([0, 0])).tolist() == [-1]


def test_lookup_of_another_number_of_axes_is_refused() -> None:
    with pytest.raises(ValueError, match="2 axes"):
        sample_refs().lookup(index([1]))


def test_an_array_without_axes_has_one_chunk() -> None:
    refs = inline(np.zeros((1, 0), np.uint32), b"only")
    assert refs.find(()) == 0
    assert refs.bounding_box() == ()
    assert ChunkRefs.empty(0).find(()) == -1
    twice = ChunkRefs.concat([refs, inline(np.zeros((1, 0), np.uint32), b"new")])
    assert [twice.payload(row) for row in range(len(twice))] == [Inline(b"new")]


def test_find_takes_any_integer() -> None:
    refs = sample_refs()
    assert refs.find((2, 5)) == 4
    assert refs.find((-1, 0)) == -1
    assert refs.find((2**32, 0)) == -1


def test_the_bounding_box_is_tight() -> None:
    assert sample_refs().bounding_box() == ((0, 3), (0, 6))
    assert inline(index([5, 7], [6, 7]), b"a", b"b").bounding_box() == ((5, 7), (7, 8))
    assert inline(index([HUGE]), b"a").bounding_box() == ((HUGE, HUGE + 1),)


def test_within_drops_what_lies_outside_the_grid() -> None:
    assert sample_refs().within((2, 1)).index.tolist() == [[0, 0], [1, 0]]
    assert len(sample_refs().within((3, 6))) == 5
    assert len(sample_refs().within((0, 6))) == 0


def test_changes_win_over_the_base_and_deleted_rows_vanish() -> None:
    base = inline(index([0], [1], [2]), b"a", b"b", b"c")
    changes = inline(index([1], [3]), b"B", b"D")
    merged = ChunkRefs.merged(base, changes, index([2], [7]))
    assert merged.index.tolist() == [[0], [1], [3]]
    assert [merged.payload(row) for row in range(3)] == [Inline(b"a"), Inline(b"B"), Inline(b"D")]


def test_merging_keeps_every_kind_intact() -> None:
    refs = sample_refs()
    odd, even = refs.take(np.array([1, 3])), refs.take(np.array([0, 2, 4]))
    none = np.zeros((0, 2), dtype=np.uint32)
    assert ChunkRefs.merged(odd, even, none).equals(refs)
    assert ChunkRefs.merged(refs, ChunkRefs.empty(2), none).equals(refs)
    assert ChunkRefs.merged(ChunkRefs.empty(2), refs, none).equals(refs)


def test_locations_shared_by_both_sides_are_stored_once() -> None:
    rows = np.arange(100, dtype=np.uint32).reshape(-1, 1)
    parts = [ChunkRefs.virtual(part, ["s3://b/x"] * 50, 0, 1) for part in np.split(rows, 2)]
    both = ChunkRefs.concat(parts)
    assert len(both.location.strings) == 1
    assert both.payload(99) == Virtual("s3://b/x", 0, 1)


def test_virtual_references_are_made_from_lists_codes_or_strings() -> None:
    rows, names = index([0], [1], [2]), ["s3://b/x", "s3://b/ÿ", "s3://b/x"]
    by_list = ChunkRefs.virtual(rows, names, [0, 1, 2], 9, etag=["e", "f", "e"])
    by_strings = ChunkRefs.virtual(
        rows, Strings.from_list(names), [0, 1, 2], 9, etag=Strings.from_list(["e", "f", "e"])
    )
    coded = StringColumn(np.array([0, 1, 0]), Strings.from_list(names[:2]))
    etags = StringColumn(np.array([0, 1, 0]), Strings.from_list(["e", "f"]))
    by_codes = ChunkRefs.virtual(rows, coded, [0, 1, 2], 9, etag=etags)
    assert by_list.equals(by_strings)
    assert by_list.equals(by_codes)
    assert len(by_list.location.strings) == 2
    assert by_list.payload(1) == Virtual("s3://b/ÿ", 1, 9, ETag("f"))
    dated = ChunkRefs.virtual(rows, names, 0, 9, last_modified=77)
    assert dated.payload(2) == Virtual("s3://b/x", 0, 9, LastModified(77))


def test_native_references_are_made_from_columns() -> None:
    refs = ChunkRefs.native(index([1], [0]), ids(b"x" * 12, b"y" * 12), [5, 6], 7)
    assert refs.chunk_id[0].tobytes() == b"y" * 12
    assert refs.offset.tolist() == [6, 5]
    assert set(refs.kind.tolist()) == {RefKind.NATIVE}


def test_columns_cannot_be_written_to() -> None:
    refs = ChunkRefs.virtual(index([0]), ["s3://b/x"], 0, 1)
    with pytest.raises(ValueError, match="read-only"):
        refs.offset[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        refs.index[0, 0] = 1


def test_references_survive_pickling() -> None:
    assert pickle.loads(pickle.dumps(sample_refs())).equals(sample_refs())


def test_references_that_differ_anywhere_are_not_equal() -> None:
    refs = sample_refs()
    assert not refs.equals(refs.take(np.array([0, 1])))
    changed = ChunkRefs.merged(refs, inline(index([0, 0]), b"tinY"), np.zeros((0, 2), np.uint32))
    assert not refs.equals(changed)


def test_distinct_rows_ascend() -> None:
    assert distinct(index([1, 0], [0, 2], [1, 0])).tolist() == [[0, 2], [1, 0]]
    assert distinct(np.zeros((3, 0), np.uint32)).shape == (1, 0)


def test_a_box_around_nothing_holds_nothing() -> None:
    box = Box.around(np.zeros((0, 3), np.uint32))
    assert box.cells == 0
    assert not SortedKeys.of(np.zeros((0, 3), np.uint32)).lookup(index([0, 0, 0]))[0] >= 0
