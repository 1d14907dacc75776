"""Overlaps between change sets, in columns, against a model of dicts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frazil.engine.changes.pending import ChunkChanges, PendingChunks
from frazil.engine.merge.chunk_overlaps import changed_since, find_overlaps, select
from frazil.format.chunk_refs import Inline, Native, Payload, Virtual
from frazil.ids import ChunkId

PAYLOADS: list[Payload | None] = [
    None,
    Inline(b"x"),
    Inline(b"y"),
    Native(ChunkId(bytes(12)), 0, 5),
    Native(ChunkId(b"1" * 12), 0, 5),
    Native(ChunkId(b"1" * 12), 0, 6),
    Virtual("file:///x", 0, 5),
    Virtual("file:///y", 0, 5),
]
changed = st.dictionaries(
    st.tuples(st.integers(0, 3), st.integers(0, 2)), st.sampled_from(PAYLOADS), max_size=8
)


def columns(model: dict[tuple[int, int], Payload | None]) -> ChunkChanges:
    pending = PendingChunks(2)
    for index, payload in model.items():
        if payload is None:
            pending.delete(index)
        else:
            pending.set(index, payload)
    return pending.changes()


def as_model(changes: ChunkChanges) -> dict[tuple[int, ...], Payload | None]:
    found: dict[tuple[int, ...], Payload | None] = {
        tuple(index): changes.refs.payload(row)
        for row, index in enumerate(changes.refs.index.tolist())
    }
    return found | {tuple(index): None for index in changes.deleted.tolist()}


@given(st.lists(changed, min_size=1, max_size=4))
def test_overlaps_are_those_a_loop_would_find(
    models: list[dict[tuple[int, int], Payload | None]],
) -> None:
    found = find_overlaps([columns(model) for model in models])
    said: dict[tuple[int, int], set[Payload | None]] = {}
    for model in models:
        for index, payload in model.items():
            said.setdefault(index, set()).add(payload)
    contested = {index for index, payloads in said.items() if len(payloads) > 1}
    uncertain = {pair.index for pair in found.uncertain}
    assert {tuple(row) for row in found.differing.tolist()} | uncertain == contested
    for pair in found.uncertain:
        one, two = pair.payloads
        assert isinstance(one, Native)
        assert isinstance(two, Native)
        assert one != two
        assert one.length == two.length


@given(changed, changed)
def test_what_changed_since_is_what_a_loop_would_find(
    now: dict[tuple[int, int], Payload | None], then: dict[tuple[int, int], Payload | None]
) -> None:
    expected = {i: load for i, load in now.items() if i not in then or then[i] != load}
    assert as_model(changed_since(columns(now), columns(then))) == expected


@given(changed, st.sets(st.tuples(st.integers(0, 3), st.integers(0, 2))))
def test_only_the_wanted_is_looked_at(
    model: dict[tuple[int, int], Payload | None], wanted: set[tuple[int, int]]
) -> None:
    index = np.array(sorted(wanted), dtype=np.uint32).reshape(len(wanted), 2)
    expected = {i: load for i, load in model.items() if i in wanted}
    assert as_model(select(columns(model), index)) == expected
