"""The shape of a history: which commits there are, and where each is drawn.

Commits are rows, newest first. Every branch has a line: the commits that no branch before it had
already, down to where it joins another line. Lines that do not overlap share a lane.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from frazil.clock import to_datetime
from frazil.dataclass import dataclass
from frazil.engine.refs import ancestry as history
from frazil.engine.refs.commit_metadata import merged_snapshots
from frazil.engine.refs.refs import MAIN
from frazil.engine.refs.version import Version, resolve
from frazil.format.repo_info import RepoInfo
from frazil.lazy import lazy_module

if TYPE_CHECKING:
    import html
else:
    html = lazy_module("html")  # only pictures need it


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    id: str
    message: str
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    written_at_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Places of its commits, from the top; `joins` is the place of the commit it grew from, `into`
    that of the commit that merged all of it.
    """

    places: tuple[int, ...]
    joins: int | None
    lane: int
    into: int | None = None

    @property
    def start(self) -> int:
        """The highest place the line reaches."""
        return self.places[0] if self.into is None else self.into

    @property
    def ends(self) -> tuple[int | None, int | None]:
        """Places of commits of other lines that this one ends at."""
        return self.into, self.joins

    @property
    def first(self) -> int:
        return self.places[0]

    @property
    def last(self) -> int:
        """The lowest place the line reaches."""
        return self.places[-1] if self.joins is None else self.joins


@dataclass(frozen=True, slots=True)
class Graph:
    commits: tuple[Commit, ...]  # from the top, newest first
    lines: tuple[Line, ...]

    @property
    def width(self) -> int:
        """Number of lanes."""
        return 1 + max((line.lane for line in self.lines), default=0)


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions of all commits in a drawing, without the text beside them."""

    rows: tuple[int, ...]  # of the repo info, from the top, newest first
    lines: tuple[Line, ...]


def graph_of(info: RepoInfo, version: Version | None = None) -> Graph:
    """The ancestors of `version`, or of all branches."""
    if version is None:
        tips = [info.branches[name] for name in _main_first(info.branches)]
    else:
        tips = [resolve(info, version)]
    layout = _layout(info, tips, max_lanes=None, merges=True)
    return Graph(_commits(info, layout.rows), layout.lines)


def layout_of_all(info: RepoInfo, *, max_lanes: int) -> Layout:
    """Every snapshot: of branches, of tags, and unreachable ones.

    Lines that find no free lane share the last one. Version 1 does not list the last kind.
    """
    named = [info.branches[name] for name in _main_first(info.branches)]
    named += [row for _, row in sorted(info.tags.items())]
    parents, times = info.snapshots.parents, info.snapshots.flushed_at_us
    is_tip = np.ones(len(parents), np.bool_)
    is_tip[parents[parents >= 0]] = False
    tips = np.flatnonzero(is_tip)
    newest = tips[np.argsort(times[tips].astype(np.int64), kind="stable")[::-1]]
    return _layout(info, [*named, *newest.tolist()], max_lanes=max_lanes)


def _layout(
    info: RepoInfo, tips: Sequence[int], *, max_lanes: int | None, merges: bool = False
) -> Layout:
    strands = _strands(info, tips)
    merged = _add_merged(info, strands) if merges else {}
    order = _newest_first(info, [row for rows, _ in strands for row in rows])
    place = {row: at for at, row in enumerate(order)}
    lanes = _Lanes(max_lanes)
    lines: list[Line] = []
    for rows, joins in strands:
        places = tuple(place[row] for row in rows)
        end = None if joins is None else place[joins]
        last = places[-1] if end is None else end
        into = place[merged[rows[0]]] if rows[0] in merged else None
        if into is not None and into > places[0]:  # clocks disagree
            into = None
        first = places[0] if into is None else into
        lines.append(Line(places=places, joins=end, lane=lanes.take(first, last), into=into))
    return Layout(tuple(order), tuple(lines))


def _main_first(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (name != MAIN, name))


def _strands(info: RepoInfo, tips: Sequence[int]) -> list[tuple[list[int], int | None]]:
    """Rows of each line, and the row it joins; a tip that another line passes has none."""
    taken = set[int]()
    strands = []
    for tip in tips:
        rows, joins = _strand(info, tip, taken)
        taken.update(rows)
        if rows:
            strands.append((rows, joins))
    return strands


def _strand(info: RepoInfo, tip: int, taken: set[int]) -> tuple[list[int], int | None]:
    """Rows of a tip's line, down to the first one that is taken, which it joins."""
    rows = list[int]()
    for row in history.ancestor_rows(info, tip):
        if row in taken:
            return rows, row
        rows.append(row)
    return rows, None


def _add_merged(info: RepoInfo, strands: list[tuple[list[int], int | None]]) -> dict[int, int]:
    """Adds lines of merged commits without a branch; returns the row of the merge of each row."""
    taken = {row for rows, _ in strands for row in rows}
    merged = dict[int, int]()
    pending = sorted(taken)
    while pending:
        row = pending.pop()
        for snapshot in merged_snapshots(info.snapshots.metadata(row)):
            source = info.snapshots.find(snapshot)
            if source < 0:  # expired
                continue
            merged.setdefault(source, row)
            if source not in taken:
                rows, joins = _strand(info, source, taken)
                strands.append((rows, joins))
                taken.update(rows)
                pending += rows
    return merged


def _newest_first(info: RepoInfo, rows: Sequence[int]) -> list[int]:
    """Orders commits by time, but never a parent above its child, even if clocks disagree."""
    parents, times = info.snapshots.parents, info.snapshots.flushed_at_us
    children = dict.fromkeys(rows, 0)
    for row in rows:
        if (parent := int(parents[row])) >= 0:
            children[parent] += 1
    ready: list[tuple[int, int]] = []
    for row in rows:
        if not children[row]:
            heappush(ready, (-int(times[row]), row))
    order = []
    while ready:
        _, row = heappop(ready)
        order.append(row)
        if (parent := int(parents[row])) >= 0:
            children[parent] -= 1
            if not children[parent]:
                heappush(ready, (-int(times[parent]), parent))
    return order


class _Lanes:
    """Occupied stretches of each lane; in the last of `most`, stretches may overlap."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._stretches: list[list[tuple[int, int]]] = []  # disjoint, ascending

    def take(self, first: int, last: int) -> int:
        """The first lane that is free from `first` to `last`, both included."""
        for lane, stretches in enumerate(self._stretches):
            at = bisect_right(stretches, last, key=lambda stretch: stretch[0])
            if not at or stretches[at - 1][1] < first:
                stretches.insert(at, (first, last))
                return lane
        if self._most is not None and len(self._stretches) >= self._most - 1:
            return self._most - 1
        self._stretches.append([(first, last)])
        return len(self._stretches) - 1


def _commits(info: RepoInfo, order: Sequence[int]) -> tuple[Commit, ...]:
    branches, tags = dict[int, list[str]](), dict[int, list[str]]()
    for name in _main_first(info.branches):
        branches.setdefault(info.branches[name], []).append(name)
    for name, row in sorted(info.tags.items()):
        tags.setdefault(row, []).append(name)
    return tuple(
        Commit(
            id=str(info.snapshots.id(row)),
            message=info.snapshots.message(row),
            branches=tuple(branches.get(row, ())),
            tags=tuple(tags.get(row, ())),
            written_at_us=info.snapshots.flushed_at(row),
        )
        for row in order
    )


# A graph of commits as text and as SVG.
#
# ●─╮   PSYBB5Y5 (main) a merge
# │ │
# │ ●   21GF7B26 (feature) on a branch
# │ │
# ●─╯   GY4K0K3A (v1) where it began

_SHOWN_ID = 8
_SHOWN_MESSAGE = 60
_COLOURS = ("#4c9f38", "#c2559d", "#d98200", "#2f80c9", "#8a63d2", "#c0392b", "#17897f")
_TAG_COLOUR = "#2a9fc9"
_RESET, _BOLD, _DIM, _ITALIC = "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[3m"

_ROW, _LANE, _MARGIN, _RADIUS, _LETTER = 28, 20, 15, 5, 8  # pixels

type Cell = tuple[str, int]  # a glyph, and the line it belongs to

_BLANK: Cell = (" ", -1)


def text_of(graph: Graph, *, plain: bool, dates: bool = False) -> str:
    """One commit a row, with a row of lines between; coloured for a terminal unless `plain`."""
    rows = []
    for place, (cells, below) in enumerate(_grid(graph)):
        commit = graph.commits[place]
        colour = next((line for glyph, line in cells if glyph == "●"), 0)
        caption = _caption(commit, colour, plain=plain, dates=dates)
        rows.append(f"{_paint(cells, plain=plain)} {caption}")
        if place + 1 < len(graph.commits):
            rows.append(_paint(below, plain=plain).rstrip())
    return "".join(f"{row.rstrip()}\n" for row in rows)


def _grid(graph: Graph) -> Iterator[tuple[list[Cell], list[Cell]]]:
    """Cells of each commit's row, and of the row below it."""
    starting: dict[int, list[int]] = {}
    for number, line in enumerate(graph.lines):
        starting.setdefault(line.start, []).append(number)
    commits = {place: number for number, line in enumerate(graph.lines) for place in line.places}
    active: list[int] = []
    for place in range(len(graph.commits)):
        active += starting.get(place, [])
        cells = [_BLANK] * (2 * graph.width - 1)
        for number in active:
            cells[2 * graph.lines[number].lane] = ("│", number)
        owner = commits[place]
        home = graph.lines[owner]
        cells[2 * home.lane] = ("●", owner)
        joining = [number for number in active if place in graph.lines[number].ends]
        joining.sort(key=lambda number: abs(graph.lines[number].lane - home.lane))
        for number in joining:  # the nearest first: the others pass its corner
            _join(cells, graph.lines[number], number, home, place)
        active = [number for number in active if graph.lines[number].last > place]
        below = [_BLANK] * len(cells)
        for number in active:
            below[2 * graph.lines[number].lane] = ("│", number)
        yield cells, below


def _join(cells: list[Cell], line: Line, number: int, owner: Line, place: int) -> None:
    """Draws the way of a line to the commit it grew from, or that merged it, over and under what
    is there.
    """
    start, end = 2 * line.lane, 2 * owner.lane
    corners = "╮╭" if line.into == place else "╯╰"
    cells[start] = (corners[0] if start > end else corners[1], number)
    for at in range(min(start, end) + 1, max(start, end)):
        glyph, under = cells[at]
        match glyph:
            case " ":
                cells[at] = ("─", number)
            case "│":
                cells[at] = ("┼", under)
            case "╯" | "╰":
                cells[at] = ("┴", under)
            case "╮" | "╭":
                cells[at] = ("┬", under)


def _paint(cells: list[Cell], *, plain: bool) -> str:
    if plain:
        return "".join(glyph for glyph, _ in cells)
    return "".join(
        glyph if line < 0 else f"{_ansi(_colour(line))}{glyph}{_RESET}" for glyph, line in cells
    )


def _caption(commit: Commit, line: int, *, plain: bool, dates: bool = False) -> str:
    shown_id, message = commit.id[:_SHOWN_ID], _headline(commit.message)
    if dates:
        shown_id += f" {to_datetime(commit.written_at_us):%Y-%m-%d %H:%M}"
    branches, tags = map(_printable, commit.branches), map(_printable, commit.tags)
    if plain:
        labels = [*branches, *tags]
    else:
        shown_id = f"{_DIM}{shown_id}{_RESET}"
        labels = [f"{_BOLD}{_ansi(_colour(line))}{name}{_RESET}" for name in branches]
        labels += [f"{_BOLD}{_ITALIC}{_ansi(_TAG_COLOUR)}{name}{_RESET}" for name in tags]
    return " ".join(filter(None, [shown_id, f"({', '.join(labels)})" if labels else "", message]))


def _headline(message: str) -> str:
    first = _printable(message.strip().partition("\n")[0].strip())
    return first if len(first) <= _SHOWN_MESSAGE else first[: _SHOWN_MESSAGE - 3] + "..."


def _printable(text: str) -> str:
    """Escapes control characters: a message or a name must not steer the terminal."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def _colour(line: int) -> str:
    return _COLOURS[line % len(_COLOURS)]


def _ansi(colour: str) -> str:
    red, green, blue = bytes.fromhex(colour[1:])
    return f"\x1b[38;2;{red};{green};{blue}m"


# ---- SVG -----------------------------------------------------------------------------------


def svg_of(graph: Graph) -> str:
    text_x = 2 * _MARGIN + _LANE * graph.width
    letters = max((len(_caption(each, 0, plain=True)) for each in graph.commits), default=0)
    width, height = text_x + _LETTER * letters + _MARGIN, _y(len(graph.commits)) + _MARGIN
    owner = {place: number for number, line in enumerate(graph.lines) for place in line.places}
    parts = [_svg_line(graph, owner, number) for number in range(len(graph.lines))]
    for place, commit in enumerate(graph.commits):
        parts.append(
            f'<circle cx="{_x(graph.lines[owner[place]].lane)}" cy="{_y(place)}" r="{_RADIUS}"'
            f' fill="{_colour(owner[place])}"><title>{html.escape(commit.id)}</title></circle>'
        )
        parts.append(
            f'<text x="{text_x}" y="{_y(place) + _RADIUS}">{_svg_caption(commit, owner[place])}'
            "</text>"
        )
    body = "\n".join(f"  {part}" for part in parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' font-family="monospace" font-size="13" fill="currentColor">\n{body}\n</svg>\n'
    )


def _x(lane: int) -> int:
    return _MARGIN + _LANE * lane


def _y(place: int) -> int:
    return _MARGIN + _ROW * place


def _svg_line(graph: Graph, owner: dict[int, int], number: int) -> str:
    line = graph.lines[number]
    x, path = _x(line.lane), f"M {_x(line.lane)} {_y(line.first)}"
    if line.into is not None:
        from_x, from_y = _x(graph.lines[owner[line.into]].lane), _y(line.into)
        bend, middle = _y(line.into + 1), from_y + _ROW // 2
        path = f"M {from_x} {from_y} C {from_x} {middle}, {x} {middle}, {x} {bend}"
    if line.joins is None:
        path += f" V {_y(line.last)}"
    else:
        end_x, end_y = _x(graph.lines[owner[line.joins]].lane), _y(line.joins)
        bend, middle = _y(line.joins - 1), end_y - _ROW // 2
        path += f" V {bend} C {x} {middle}, {end_x} {middle}, {end_x} {end_y}"
    return f'<path d="{path}" fill="none" stroke="{_colour(number)}" stroke-width="2"/>'


def _svg_caption(commit: Commit, line: int) -> str:
    labels = [
        f'<tspan font-weight="bold" fill="{_colour(line)}">{html.escape(_printable(name))}</tspan>'
        for name in commit.branches
    ] + [
        '<tspan font-weight="bold" font-style="italic"'
        f' fill="{_TAG_COLOUR}">{html.escape(_printable(name))}</tspan>'
        for name in commit.tags
    ]
    shown = [
        f'<tspan fill-opacity="0.6">{commit.id[:_SHOWN_ID]}</tspan>',
        f"({', '.join(labels)})" if labels else "",
        html.escape(_headline(commit.message)),
    ]
    return " ".join(filter(None, shown))
