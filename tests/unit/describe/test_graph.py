"""Histories as graphs: what is in them, where it is drawn, and how it looks."""

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.describe.graph import Graph, graph_of, layout_of_all, svg_of, text_of
from frazil.engine.refs.ancestry import ancestor_rows
from frazil.engine.refs.version import Branch, Exactly, Tag
from frazil.errors import RefNotFoundError
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.format.update_log import Availability, RepoStatus
from frazil.ids import SnapshotId

ONLINE = RepoStatus(Availability.ONLINE, 0)


def snapshot(number: int) -> SnapshotId:
    """Ids whose order has nothing to do with time."""
    return SnapshotId((number * 7919 % 65536).to_bytes(12, "big"))


def repo_info(
    parents: list[int | None],
    branches: dict[str, int],
    *,
    tags: dict[str, int] | None = None,
    messages: dict[int, str] | None = None,
    times: list[int] | None = None,
    merged: dict[int, int] | None = None,
) -> RepoInfo:
    """Commits 0, 1, 2 ..., each with a parent before it; some merge another one."""
    info = RepoInfo(
        spec_version=2,
        tags={},
        branches={},
        deleted_tags=(),
        snapshots=SnapshotInfos.empty(),
        status=ONLINE,
        metadata={},
        updates=(),
    )
    for number, parent in enumerate(parents):
        info = info.with_snapshot(
            snapshot(number),
            None if parent is None else snapshot(parent),
            number if times is None else times[number],
            (messages or {}).get(number, f"commit {number}"),
            {"frazil": {"merged": [str(snapshot(merged[number]))]}}
            if merged and number in merged
            else {},
        )
    for name, number in branches.items():
        info = info.with_branch(name, snapshot(number))
    for name, number in (tags or {}).items():
        info = info.with_tag(name, snapshot(number))
    return info


def drawn(info: RepoInfo) -> list[str]:
    """The graph with each commit's number for a caption."""
    text = text_of(graph_of(info), plain=True)
    return [re.sub(r" \S{8}( \(.*\))? commit (\d+)$", r" \2", line) for line in text.splitlines()]


def picture_of(graph: Graph) -> "ET.Element[str]":
    return ET.fromstring(svg_of(graph))  # noqa: S314 -- made here, from a value made here


def test_a_line_is_a_line() -> None:
    assert drawn(repo_info([None, 0, 1], {"main": 2})) == ["● 2", "│", "● 1", "│", "● 0"]


def test_a_branch_joins_where_it_began() -> None:
    info = repo_info([None, 0, 1, 1, 2], {"main": 4, "dev": 3})
    assert drawn(info) == [
        "●   4",
        "│",
        "│ ● 3",
        "│ │",
        "● │ 2",
        "│ │",
        "●─╯ 1",
        "│",
        "●   0",
    ]


def test_several_may_join_at_once_and_lines_may_cross() -> None:
    info = repo_info([None, 0, 0, 1, 2, 0], {"main": 3, "b": 4, "c": 5, "d": 1})
    assert drawn(info)[-1] == "●─┴─╯ 0"
    crossing = repo_info([None, 0, 1, 0, 1, 0], {"main": 5, "a": 2, "x": 3, "z": 4})
    assert [line for line in drawn(crossing) if "┼" in line] == ["│ ●─┼─╯ 1"]


def test_main_is_leftmost_and_lanes_are_used_again() -> None:
    parents: list[int | None] = [None]
    branches = {}
    for i in range(10):  # side branches of one commit each, one after the other
        parents += [len(parents) - 1 - (i > 0), len(parents) - 1 - (i > 0)]
        branches[f"side {i}"] = len(parents) - 1
    branches["main"] = len(parents) - 2
    graph = graph_of(repo_info(parents, branches))
    assert graph.lines[0].lane == 0
    assert len(graph.lines) == 11
    assert graph.width <= 3


def test_names_and_messages_are_shown_short() -> None:
    info = repo_info(
        [None, 0],
        {"main": 1, "also": 1},
        tags={"v2": 0, "v1": 0},
        messages={0: "", 1: "first line " + "x" * 80 + "\nsecond"},
    )
    first, _, second = text_of(graph_of(info), plain=True).splitlines()
    assert first == f"● {str(snapshot(1))[:8]} (main, also) first line {'x' * 46}..."
    assert second == f"● {str(snapshot(0))[:8]} (v1, v2)"


def test_a_message_cannot_steer_the_terminal() -> None:
    info = repo_info([None], {"main": 0}, messages={0: "\x1b[2Jgone\a"})
    for plain in (True, False):
        shown = re.sub(r"\x1b\[[0-9;]*m", "", text_of(graph_of(info), plain=plain))
        assert "\x1b" not in shown
        assert "\a" not in shown
        assert "gone" in shown


def test_one_version_has_its_ancestors_only() -> None:
    info = repo_info([None, 0, 1, 1], {"main": 2, "dev": 3}, tags={"t": 1})

    def ids(graph: Graph) -> list[str]:
        return [commit.id for commit in graph.commits]

    assert ids(graph_of(info, Branch("dev"))) == [str(snapshot(i)) for i in (3, 1, 0)]
    assert ids(graph_of(info, Tag("t"))) == [str(snapshot(i)) for i in (1, 0)]
    assert ids(graph_of(info, Exactly(snapshot(0)))) == [str(snapshot(0))]
    with pytest.raises(RefNotFoundError):
        graph_of(info, Branch("nonsense"))


@st.composite
def histories(draw: st.DrawFn) -> RepoInfo:
    count = draw(st.integers(1, 25))
    parents: list[int | None] = [None]
    parents += [draw(st.integers(max(0, i - 6), i - 1)) for i in range(1, count)]
    tips = st.integers(0, count - 1)
    branches = draw(st.dictionaries(st.sampled_from("abcdefgh"), tips)) | {"main": draw(tips)}
    times = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))  # clocks may lie
    return repo_info(parents, branches, times=times)


@given(histories())
def test_every_commit_is_drawn_once_and_below_its_children(info: RepoInfo) -> None:
    graph = graph_of(info)
    place = {commit.id: at for at, commit in enumerate(graph.commits)}
    reachable = set[str]()
    for tip in info.branches.values():
        rows = list(ancestor_rows(info, tip))
        reachable.update(str(info.snapshots.id(row)) for row in rows)
        places = [place[str(info.snapshots.id(row))] for row in rows]
        assert places == sorted(places)
    assert set(place) == reachable
    assert sorted(at for line in graph.lines for at in line.places) == sorted(place.values())


@given(histories())
def test_lines_in_one_lane_do_not_touch(info: RepoInfo) -> None:
    lines = graph_of(info).lines
    for i, one in enumerate(lines):
        for other in lines[:i]:
            if one.lane == other.lane:
                assert one.last < other.first or other.last < one.first


@given(histories())
def test_text_and_picture_show_the_same(info: RepoInfo) -> None:
    graph = graph_of(info)
    plain = text_of(graph, plain=True)
    assert plain.count("●") == len(graph.commits)
    assert re.sub(r"\x1b\[[0-9;]*m", "", text_of(graph, plain=False)) == plain
    joins = sum(line.joins is not None for line in graph.lines)
    assert sum(map(plain.count, "╯╰┴")) == joins
    picture = picture_of(graph)
    tags = [element.tag.rpartition("}")[2] for element in picture]
    assert tags.count("circle") == tags.count("text") == len(graph.commits)
    assert tags.count("path") == len(graph.lines)


def test_a_picture_is_sound_whatever_the_names() -> None:
    info = repo_info([None], {"main": 0, "a<b&c": 0}, tags={'"x"': 0}, messages={0: "</svg>\x00"})
    text = "".join(picture_of(graph_of(info)).itertext())
    assert '(main, a<b&c, "x") </svg>' in text


@given(histories())
def test_a_layout_of_all_has_every_snapshot_below_its_children(info: RepoInfo) -> None:
    layout = layout_of_all(info, max_lanes=3)
    count = len(info.snapshots)
    assert sorted(layout.rows) == list(range(count))
    place = {row: at for at, row in enumerate(layout.rows)}
    for row in layout.rows:
        if (parent := info.snapshots.parent(row)) >= 0:
            assert place[parent] > place[row]
    assert sorted(at for line in layout.lines for at in line.places) == list(range(count))
    assert max(line.lane for line in layout.lines) < 3


def test_what_nothing_leads_to_has_a_line_of_its_own() -> None:
    info = repo_info([None, 0, 0, 0], {"main": 1}, tags={"t": 2})
    layout = layout_of_all(info, max_lanes=9)
    assert len(layout.lines) == 3
    assert [info.snapshots.id(layout.rows[line.first]) for line in layout.lines] == [
        snapshot(1),
        snapshot(2),
        snapshot(3),
    ]


def test_a_merge_has_a_line_from_what_it_merged() -> None:
    """Whether a branch still leads there, or went on, or not; what was expired is left out."""
    info = repo_info([None, 0, 0, 1, 3], {"main": 4}, merged={3: 2, 4: 77})
    assert [line.rstrip() for line in shapes(graph_of(info))] == ["●", "│", "●─╮", "│ │",
        "│ ●", "│ │", "● │", "│ │", "●─╯"]  # fmt: skip
    kept = repo_info([None, 0, 0, 1], {"main": 3, "fix": 2}, merged={3: 2})
    assert shapes(graph_of(kept))[0] == "●─╮"
    went_on = repo_info([None, 0, 0, 1, 2], {"main": 3, "fix": 4}, merged={3: 2})
    assert "╮" not in "".join(shapes(graph_of(went_on)))
    assert "C" in svg_of(graph_of(kept))


def shapes(graph: Graph) -> list[str]:
    return [line[: 2 * graph.width - 1] for line in text_of(graph, plain=True).splitlines()]


@given(st.data())
def test_every_line_of_any_history_with_merges_keeps_to_its_lane(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    parents = [None, *(data.draw(st.integers(0, at - 1)) for at in range(1, count))]
    merged = data.draw(st.dictionaries(st.integers(1, count), st.integers(0, count - 1)))
    earlier = {at: other for at, other in merged.items() if other < at < count}
    info = repo_info(parents, {"main": count - 1}, merged=earlier)
    graph = graph_of(info)
    taken = set[tuple[int, int]]()
    for line in graph.lines:
        places = {(line.lane, place) for place in range(line.start, line.last)}
        assert not places & taken
        taken |= places
    drawn = text_of(graph, plain=True).splitlines()
    assert sum(row.count("●") for row in drawn) == len(graph.commits)
