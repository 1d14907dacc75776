"""Uncommitted chunk changes behave as a dict that remembers deletions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frazil.engine.changes.pending import UNTOUCHED, PendingChunks
from frazil.format.chunk_refs import ChunkRefs, Inline, Payload

INDICES = [(i, j) for i in range(3) for j in range(3)]
indices = st.sampled_from(INDICES)
payloads = st.binary(min_size=1, max_size=3).map(Inline)
steps = st.one_of(
    st.tuples(st.just("set"), indices, payloads),
    st.tuples(st.just("delete"), indices),
    st.tuples(st.just("set_many"), st.dictionaries(indices, payloads, max_size=5)),
    st.tuples(st.just("delete_many"), st.lists(indices, max_size=5)),
    st.tuples(st.just("look"), indices),
)


def rows(listed: list[tuple[int, int]]) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    return np.array(listed, dtype=np.uint32).reshape(len(listed), 2)


@given(st.lists(steps, max_size=15))
def test_the_last_change_of_a_chunk_counts(history: list[tuple[object, ...]]) -> None:
    pending, model = PendingChunks(2), dict[tuple[int, int], Payload | None]()
    for step in history:
        match step:
            case ("set", index, payload):
                pending.set(index, payload)  # type: ignore[arg-type]  # drawn as such above
                model[index] = payload  # type: ignore[index, assignment]  # same
            case ("delete", index):
                pending.delete(index)  # type: ignore[arg-type]  # same
                model[index] = None  # type: ignore[index]  # same
            case ("set_many", dict() as many):
                keys = list(many)
                pending.set_many(ChunkRefs.from_payloads(rows(keys), list(many.values())))
                model.update(many)
            case ("delete_many", list() as gone):
                pending.delete_many(rows(gone))
                model.update(dict.fromkeys(gone))
            case ("look", index):
                assert pending.find(index) == model.get(index, UNTOUCHED)  # type: ignore[arg-type, call-overload]  # same

    for index in INDICES:
        assert pending.find(index) == model.get(index, UNTOUCHED)
    changes = pending.changes()
    assert {
        tuple(i): changes.refs.payload(row) for row, i in enumerate(changes.refs.index.tolist())
    } == {index: payload for index, payload in model.items() if payload is not None}
    assert [tuple(i) for i in changes.deleted.tolist()] == sorted(
        index for index, payload in model.items() if payload is None
    )
