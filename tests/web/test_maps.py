"""Which cell of a map a chunk is in, and who wrote it."""

from math import prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.ids import SnapshotId
from frazil.objectstore.memory import MemoryStore
from frazil.paths import NodePath
from frazil.repo.repository import Repository
from frazil.web import map_view
from frazil.web.asking import Asked
from frazil.web.chunk_maps import chunk_map
from frazil.web.chunk_writers import MAX_COMMITS, UNKNOWN, chunk_writers
from frazil.web.explored import Explored
from tests.web.made import document

PATH = NodePath("/a")


def indices(grid: tuple[int, ...]) -> np.ndarray:
    """Every chunk of a grid, (n, ndim)."""
    return np.array(list(np.ndindex(*grid)), np.uint32).reshape(-1, len(grid))


@given(
    grid=st.lists(st.integers(1, 30), min_size=1, max_size=3).map(tuple),
    wrapped=st.booleans(),
    data=st.data(),
)
def test_every_chunk_in_the_window_is_in_one_cell(
    grid: tuple[int, ...], data: st.DataObject, *, wrapped: bool
) -> None:
    wishes = {"map_axes": "wrapped"} if wrapped else {}
    whole = map_view.asked_view(Asked(wishes), grid)
    rows = sorted(data.draw(st.tuples(*[st.integers(0, whole.rows)] * 2)))
    columns = sorted(data.draw(st.tuples(*[st.integers(0, whole.columns)] * 2)))
    window = ",".join(map(str, [*rows, *columns]))
    view = map_view.asked_view(Asked({**wishes, "window": window}), grid)
    chosen, cells = view.cells(indices(grid))
    counts = np.bincount(cells, minlength=view.height * view.width)
    assert counts.tolist() == view.slots().reshape(-1).tolist()
    assert len(chosen) == view.slots().sum()


def test_the_whole_map_has_every_chunk_however_they_are_drawn() -> None:
    grid = (7, 13, 3)
    for axes in ("", "wrapped", "0,1", "2,0", "1,2"):
        view = map_view.asked_view(Asked({"map_axes": axes}), grid)
        assert len(view.cells(indices(grid))[0]) == prod(grid) == view.slots().sum()


def test_large_maps_have_few_cells() -> None:
    for grid in ((2_000, 3_000), (4_000_000_000, 4_000_000_000), (10**9,)):
        view = map_view.asked_view(Asked({}), grid)
        assert max(view.height, view.width) <= map_view.MAX_CELLS
        assert view.slots().sum() == prod(grid)
        corner = np.array([[0] * len(grid), [count - 1 for count in grid]], np.uint32)
        chosen, cells = view.cells(corner)
        assert chosen.tolist() == [0, 1]
        assert 0 <= cells.min() <= cells.max() < view.height * view.width


def test_a_position_in_the_other_dimensions_picks_a_layer() -> None:
    view = map_view.asked_view(Asked({"map_axes": "0,1", "chunk_at": "*,*,2"}), (4, 5, 6))
    index = indices((4, 5, 6))
    chosen, _ = view.cells(index)
    assert (index[chosen, 2] == 2).all()
    assert len(chosen) == view.slots().sum() == 20


def explored_with(writes: list[list[int]]) -> tuple[Explored, list[SnapshotId]]:
    """An array of 12 chunks, and a commit for each list of chunks that are written."""
    repository = Repository.create(MemoryStore())
    session = repository.writable_session("main")
    session.set_node(PATH, document((12,), (1,)))
    session.commit("array")
    commits = []
    for chunks in writes:
        session = repository.writable_session("main")
        for chunk in chunks:
            session.set_chunk(PATH, (chunk,), np.float64(chunk).tobytes())
        commits.append(session.commit("write", allow_empty=True))
    return Explored(repository, "made up"), commits


@settings(max_examples=25)
@given(writes=st.lists(st.lists(st.integers(0, 11), max_size=5), min_size=1, max_size=12))
def test_the_writer_of_a_chunk_is_the_last_who_wrote_it(writes: list[list[int]]) -> None:
    explored, commits = explored_with(writes)
    wanted = {
        chunk: commit for chunks, commit in zip(writes, commits, strict=True) for chunk in chunks
    }
    tip = explored.snapshot("main")
    found = chunk_writers(explored, tip, PATH)
    index = explored.chunks(tip, PATH).refs.index[:, 0].tolist()
    named = [found.commits[number] for number in found.writer.tolist()]
    assert dict(zip(index, named, strict=True)) == wanted


def test_logs_that_are_gone_leave_chunks_without_a_writer() -> None:
    explored, commits = explored_with([[0], [1], [2]])
    explored.repository.store.delete([f"transactions/{commits[1]}"])
    fresh = Explored(Repository.open(explored.repository.store), "fresh")
    found = chunk_writers(fresh, commits[2], PATH)
    assert [None if each == UNKNOWN else found.commits[each] for each in found.writer.tolist()] == [
        commits[0],
        None,
        commits[2],
    ]
    assert found.looked_at <= MAX_COMMITS
    legend = chunk_map(fresh, commits[2], PATH, Asked({"by": "commit"})).legend
    assert [each["chunks"] for each in legend] == [1, 1, 1]
