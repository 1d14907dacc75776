"""Columns of one value take the room of one, in memory and in pickles."""

import pickle

import numpy as np

from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.ragged import is_constant, stack_rows
from frazil.format.chunk_refs import ChunkRefs

COUNT = 1000


def native(first: int, *, length: int) -> ChunkRefs:
    index = np.arange(first, first + COUNT).reshape(-1, 1)
    ids = np.random.default_rng(first).integers(0, 256, (COUNT, 12), np.uint8)
    return ChunkRefs.native(index, ids, 0, np.full(COUNT, length))


def test_a_pickle_of_references_holds_what_differs() -> None:
    refs = native(0, length=7)
    data = pickle.dumps(refs)
    assert len(data) < COUNT * (4 + 12) + 4000
    again = pickle.loads(data)
    assert again.equals(refs)
    assert not again.index.flags.writeable
    assert again.find([5]) == 5


def test_other_references_are_pickled_as_they_are() -> None:
    locations = StringColumn.from_list([f"s3://b/{at % 3}" for at in range(COUNT)])
    index = np.arange(COUNT).reshape(-1, 1)
    refs = ChunkRefs.virtual(index, locations, np.arange(COUNT), 5, last_modified=9)
    assert pickle.loads(pickle.dumps(refs)).equals(refs)
    for few in (refs.take(slice(0, 0)), refs.take(slice(3, 4))):
        assert pickle.loads(pickle.dumps(few)).equals(few)


def test_what_is_the_same_in_all_parts_stays_one() -> None:
    parts = [pickle.loads(pickle.dumps(native(at, length=7))) for at in (0, COUNT)]
    both = ChunkRefs.concat(parts)
    assert is_constant(both.length)
    assert is_constant(both.location.codes)
    assert both.take(slice(COUNT, None)).equals(native(COUNT, length=7))
    assert not both.inline.present.any()


def test_what_differs_between_parts_does_not() -> None:
    parts = [pickle.loads(pickle.dumps(native(at, length=at))) for at in (0, COUNT)]
    both = ChunkRefs.concat(parts)
    assert both.length.tolist() == [0] * COUNT + [COUNT] * COUNT
    empty = np.zeros(0, np.uint8)
    assert stack_rows([empty, empty]).shape == (0,)
    assert stack_rows([np.broadcast_to(np.uint8(3), 4), empty]).tolist() == [3] * 4
