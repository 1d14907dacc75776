"""Chunks put at other places of their array."""

import json
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.engine.session.fork import fork, merge
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError, NodeNotFoundError, ReadOnlyError
from frazil.objectstore.memory import MemoryStore
from frazil.paths import ROOT, NodePath
from tests.examples_count import scaled
from tests.unit.engine.conftest import GROUP, array_metadata

A = NodePath("/a")


@pytest.fixture
def repository(store: MemoryStore) -> Repository:
    """An array of four chunks, of which 0, 1 and 3 are there."""
    repository = Repository.create(store)
    session = repository.writable_session("main")
    session.set_node(ROOT, GROUP)
    session.set_node(A, array_metadata(8))
    for i in (0, 1, 3):
        session.set_chunk(A, (i,), str(i).encode())
    session.commit("base")
    return repository


@pytest.fixture
def session(repository: Repository) -> Session:
    return repository.writable_session("main")


def chunks(session: Session) -> str:
    """One letter for each chunk, `-` where there is none."""
    found = session.fetch_chunks(A, np.arange(4, dtype=np.uint32).reshape(4, 1))
    return "".join("-" if data is None else bytes(data).decode() for data in found)


def changed(session: Session) -> list[list[int]]:
    found = session.status().updated_chunks.get(A)
    return [] if found is None else found.tolist()


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(1, "-01-"), (-1, "1-3-"), (2, "--01"), (4, "----"), (-(2**62), "----"), (2**70, "----")],
)
def test_a_shift_moves_every_chunk(
    repository: Repository, session: Session, offset: int, expected: str
) -> None:
    session.shift_array(A, [offset])
    assert chunks(session) == expected
    session.commit("shifted")
    assert chunks(repository.readonly_session(Branch("main"))) == expected


def test_a_shift_of_nothing_changes_no_chunk(session: Session) -> None:
    session.shift_array(A, (0,))
    assert chunks(session) == "01-3"


def test_a_shift_sees_what_is_not_committed(session: Session) -> None:
    session.set_chunk(A, (2,), b"2")
    session.delete_chunk(A, (0,))
    session.shift_array(A, (1,))
    assert chunks(session) == "--12"
    session.shift_array(A, (-1,))
    assert chunks(session) == "-12-"


def test_a_shift_only_counts_chunks_that_were_or_are_there(session: Session) -> None:
    session.shift_array(A, (1,))
    assert changed(session) == [[0], [1], [2], [3]]
    session.discard_changes()
    session.shift_array(A, (9,))
    assert changed(session) == [[0], [1], [3]]


@pytest.mark.parametrize("offset", [(), (1, 1)])
def test_an_offset_must_have_the_arrays_dimensions(
    session: Session, offset: tuple[int, ...]
) -> None:
    with pytest.raises(InvalidInputError, match="1 dimensions"):
        session.shift_array(A, offset)
    assert not session.has_uncommitted_changes


def test_an_offset_must_be_whole_numbers(session: Session) -> None:
    with pytest.raises(TypeError):
        session.shift_array(A, (1.5,))  # type: ignore[arg-type]  # what is tested


def test_an_array_without_chunks_has_nothing_to_shift(session: Session) -> None:
    session.set_node(NodePath("/empty"), array_metadata(8, 8))
    session.shift_array(NodePath("/empty"), (1, 1))
    session.reindex_array(NodePath("/empty"), lambda place: place, lambda place: place)
    assert session.status().updated_chunks == {}


def test_a_fork_can_shift_what_it_inherited(repository: Repository, session: Session) -> None:
    session.set_chunk(A, (2,), b"2")
    worker = fork(session)
    worker.shift_array(A, (1,))
    assert chunks(worker) == "-012"
    merge(session, [worker])
    session.commit("merged")
    assert chunks(repository.readonly_session(Branch("main"))) == "-012"


def test_reversing(session: Session) -> None:
    session.reindex_array(A, lambda place: [3 - i for i in place], lambda place: [3 - place[0]])
    assert chunks(session) == "3-10"


def test_without_a_way_back_places_keep_what_they_had(session: Session) -> None:
    session.reindex_array(A, lambda place: [place[0] + 2] if place[0] < 2 else None)
    assert chunks(session) == "0101"
    assert changed(session) == [[2], [3]]


@pytest.mark.parametrize(
    ("source", "expected"),
    [(None, "--01"), ([2], "--01"), ([9], "--01"), ([-1], "--01"), ([1], "0101")],
)
def test_the_way_back_tells_which_places_become_empty(
    session: Session, source: list[int] | None, expected: str
) -> None:
    asked = []

    def backward(place: list[int]) -> list[int] | None:
        asked.append(place)
        return source

    session.reindex_array(A, lambda place: [place[0] + 2] if place[0] < 2 else None, backward)
    assert chunks(session) == expected
    assert asked == [[0], [1]]


def test_each_chunk_there_is_is_asked_for_once(session: Session) -> None:
    asked: list[list[int]] = []
    session.reindex_array(A, asked.append)
    assert asked == [[0], [1], [3]]
    assert not session.has_uncommitted_changes


def test_any_callable_will_do_and_may_read_the_session(session: Session) -> None:
    def forward(by: int, place: list[int]) -> tuple[int, ...]:
        assert session.fetch_chunk(A, tuple(place)) is not None
        return ((place[0] + by) % 4,)

    session.reindex_array(A, partial(forward, 1), lambda place: ((place[0] - 1) % 4,))
    assert chunks(session) == "301-"


@pytest.mark.parametrize("answer", [[4], [-1], [0, 0], [], [2**40]])
def test_a_place_outside_the_grid_is_refused(session: Session, answer: list[int]) -> None:
    with pytest.raises(InvalidInputError) as refused:
        session.reindex_array(A, lambda _: answer)
    assert refused.value.kind == "invalid-chunk-index"
    assert not session.has_uncommitted_changes


def test_the_users_errors_come_through(session: Session) -> None:
    def fail(place: list[int]) -> list[int]:
        raise ZeroDivisionError(place)

    with pytest.raises(ZeroDivisionError):
        session.reindex_array(A, fail)
    with pytest.raises(ZeroDivisionError):
        session.reindex_array(A, lambda _: [2], fail)
    assert not session.has_uncommitted_changes


def test_only_arrays_in_writable_sessions(repository: Repository, session: Session) -> None:
    with pytest.raises(InvalidInputError) as refused:
        session.shift_array(ROOT, ())
    assert refused.value.kind == "not-an-array"
    with pytest.raises(NodeNotFoundError):
        session.shift_array(NodePath("/nope"), ())
    with pytest.raises(ReadOnlyError):
        repository.readonly_session(Branch("main")).shift_array(A, (1,))


def test_chunks_of_different_sizes_stay_where_they_are(session: Session) -> None:
    document = json.loads(array_metadata(8))
    document["chunk_grid"] = {
        "name": "rectilinear",
        "configuration": {"kind": "inline", "chunk_shapes": [[2, 6]]},
    }
    session.set_node(NodePath("/r"), json.dumps(document).encode())
    with pytest.raises(InvalidInputError, match="not regular"):
        session.shift_array(NodePath("/r"), (1,))


@settings(max_examples=scaled(50), deadline=None)
@given(
    present=st.sets(st.tuples(st.integers(0, 3), st.integers(0, 2))),
    offset=st.tuples(st.integers(-5, 5), st.integers(-4, 4)),
)
def test_a_shift_is_the_reindexing_it_stands_for(
    present: set[tuple[int, int]], offset: tuple[int, int]
) -> None:
    session = Repository.create(MemoryStore()).writable_session("main")
    session.set_node(A, array_metadata(8, 6))
    for i, j in present:
        session.set_chunk(A, (i, j), f"{i}{j}".encode())
    session.shift_array(A, offset)
    expected = {
        (i + offset[0], j + offset[1]): f"{i}{j}".encode()
        for i, j in present
        if 0 <= i + offset[0] < 4 and 0 <= j + offset[1] < 3
    }
    found = {
        (i, j): data
        for i in range(4)
        for j in range(3)
        if (data := session.fetch_chunk(A, (i, j))) is not None
    }
    assert found == expected
