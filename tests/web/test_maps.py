"""Which cell of a map a chunk is in, and who wrote it."""

from math import prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.describe.graph import Layout, layout_of_all
from frazil.engine.repository import Repository
from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId
from frazil.objectstore.memory import MemoryStore
from frazil.paths import ROOT, NodePath
from frazil.web import images as map_view
from frazil.web.chunk_changes import chunk_changes
from frazil.web.chunk_maps import chunk_map
from frazil.web.chunk_tables import MAX_COMMITS, UNKNOWN, chunk_writers
from frazil.web.commits import segments_at
from frazil.web.explored import Explored
from frazil.web.http import Asked
from tests.examples_count import scaled
from tests.unit.describe.test_graph import histories
from tests.unit.spec.written import GROUP
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
    whole = map_view.requested_view(Asked(wishes), grid)
    rows = sorted(data.draw(st.tuples(*[st.integers(0, whole.rows)] * 2)))
    columns = sorted(data.draw(st.tuples(*[st.integers(0, whole.columns)] * 2)))
    window = ",".join(map(str, [*rows, *columns]))
    view = map_view.requested_view(Asked({**wishes, "window": window}), grid)
    chosen, cells = view.cells(indices(grid))
    counts = np.bincount(cells, minlength=view.height * view.width)
    assert counts.tolist() == view.slots().reshape(-1).tolist()
    assert len(chosen) == view.slots().sum()


def test_the_whole_map_has_every_chunk_however_they_are_drawn() -> None:
    grid = (7, 13, 3)
    for axes in ("", "wrapped", "0,1", "2,0", "1,2"):
        view = map_view.requested_view(Asked({"map_axes": axes}), grid)
        assert len(view.cells(indices(grid))[0]) == prod(grid) == view.slots().sum()


def test_large_maps_have_few_cells() -> None:
    for grid in ((2_000, 3_000), (4_000_000_000, 4_000_000_000), (10**9,)):
        view = map_view.requested_view(Asked({}), grid)
        assert max(view.height, view.width) <= map_view.MAX_CELLS
        assert view.slots().sum() == prod(grid)
        corner = np.array([[0] * len(grid), [count - 1 for count in grid]], np.uint32)
        chosen, cells = view.cells(corner)
        assert chosen.tolist() == [0, 1]
        assert 0 <= cells.min() <= cells.max() < view.height * view.width


def test_a_position_in_the_other_dimensions_picks_a_layer() -> None:
    view = map_view.requested_view(Asked({"map_axes": "0,1", "chunk_at": "*,*,2"}), (4, 5, 6))
    index = indices((4, 5, 6))
    chosen, _ = view.cells(index)
    assert (index[chosen, 2] == 2).all()
    assert len(chosen) == view.slots().sum() == 20


def naive_segments(layout: Layout, owner: list[int]) -> list[set[tuple[int, ...]]]:
    """Lane, from above, to below, joined lane; of lines in one lane at one place all together."""
    found = []
    for place, own in enumerate(owner):
        passing, joining = dict[int, list[int]](), set[tuple[int, ...]]()
        for line in layout.lines:
            if not line.first <= place <= line.last:
                continue
            if line.joins == place:
                joining.add((line.lane, 1, 0, layout.lines[own].lane))
            else:
                part = passing.setdefault(line.lane, [0, 0])
                part[0] |= line.first < place
                part[1] |= line.last > place
        found.append(joining | {(lane, *part, -1) for lane, part in passing.items()})
    return found


@settings(max_examples=scaled(40))
@given(info=histories(), shared=st.integers(0, 3))
def test_lines_that_share_a_lane_are_drawn_as_one(info: RepoInfo, shared: int) -> None:
    layout = layout_of_all(info, max_lanes=shared + 1)
    owners = {at: number for number, line in enumerate(layout.lines) for at in line.places}
    owner = [owners[at] for at in range(len(layout.rows))]
    found = segments_at(layout, owner, range(len(owner)), shared)
    shown = [{(part[0], *part[2:]) for part in parts} for parts in found]
    wanted = naive_segments(layout, owner)
    for one, other in zip(shown, wanted, strict=True):
        assert {part for part in one if part[0] != shared} == {
            part for part in other if part[0] != shared
        }
        for place in (1, 2):  # from above, to below
            assert any(part[place] for part in one) == any(part[place] for part in other)
        assert {part for part in one if part[3] >= 0} == {part for part in other if part[3] >= 0}
    for size in (1, 3):
        parts = [
            segments_at(
                layout, owner[at : at + size], range(at, min(at + size, len(owner))), shared
            )
            for at in range(0, len(owner), size)
        ]
        again = [{(part[0], *part[2:]) for part in each} for page in parts for each in page]
        assert again == shown


def test_chunks_of_an_array_that_was_moved_are_compared_with_what_it_was() -> None:
    explored, commits = explored_with([[0, 1]])
    session = explored.repository.rearrange_session("main")
    session.move(PATH, NodePath("/b"))
    session.commit("moved")
    session = explored.repository.writable_session("main")
    session.set_chunk(NodePath("/b"), (1,), bytes(8))
    tip = session.commit("changed")
    found = chunk_changes(explored, commits[0], tip, NodePath("/b"))
    assert (found.index.tolist(), found.counts()) == (
        [[1]],
        {"added": 0, "changed": 1, "removed": 0},
    )


def explored_with(writes: list[list[int]]) -> tuple[Explored, list[SnapshotId]]:
    """An array of 12 chunks, and a commit for each list of chunks that are written."""
    repository = Repository.create(MemoryStore())
    session = repository.writable_session("main")
    session.set_node(ROOT, GROUP)
    session.set_node(PATH, document((12,), (1,)))
    session.commit("array")
    commits = []
    for chunks in writes:
        session = repository.writable_session("main")
        for chunk in chunks:
            session.set_chunk(PATH, (chunk,), np.float64(chunk).tobytes())
        commits.append(session.commit("write", allow_empty=True))
    return Explored(repository, "made up"), commits


@settings(max_examples=scaled(25))
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
