"""The shape of a history: which commits there are, and where each is drawn.

Commits are rows, newest first. Every branch has a line: the commits that no branch before it had
already, down to where it joins another line. Lines that do not overlap share a lane.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from frazil.format.repo_info import RepoInfo
from frazil.repo import history
from frazil.repo.refs import MAIN
from frazil.repo.version import Version, resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    id: str
    message: str
    branches: tuple[str, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Places of its commits, from the top; `joins` is the place of the commit it grew from."""

    places: tuple[int, ...]
    joins: int | None
    lane: int

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
    """Where every commit is drawn, without what is written beside it."""

    rows: tuple[int, ...]  # of the repo info, from the top, newest first
    lines: tuple[Line, ...]


def graph_of(info: RepoInfo, version: Version | None = None) -> Graph:
    """The history that leads to `version`, or to all branches."""
    if version is None:
        tips = [info.branches[name] for name in _main_first(info.branches)]
    else:
        tips = [resolve(info, version)]
    layout = _layout(info, tips, max_lanes=None)
    return Graph(_commits(info, layout.rows), layout.lines)


def layout_of_all(info: RepoInfo, *, max_lanes: int) -> Layout:
    """Every snapshot there is: of branches, of tags, and those that nothing leads to.

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


def _layout(info: RepoInfo, tips: Sequence[int], *, max_lanes: int | None) -> Layout:
    strands = _strands(info, tips)
    order = _newest_first(info, [row for rows, _ in strands for row in rows])
    place = {row: at for at, row in enumerate(order)}
    lanes = _Lanes(max_lanes)
    lines: list[Line] = []
    for rows, joins in strands:
        places = tuple(place[row] for row in rows)
        end = None if joins is None else place[joins]
        last = places[-1] if end is None else end
        lines.append(Line(places=places, joins=end, lane=lanes.take(places[0], last)))
    return Layout(tuple(order), tuple(lines))


def _main_first(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (name != MAIN, name))


def _strands(info: RepoInfo, tips: Sequence[int]) -> list[tuple[list[int], int | None]]:
    """Rows of each line, and the row it joins; a tip that another line passes has none."""
    taken = set[int]()
    strands = []
    for tip in tips:
        rows, joins = list[int](), None
        for row in history.ancestor_rows(info, tip):
            if row in taken:
                joins = row
                break
            rows.append(row)
        taken.update(rows)
        if rows:
            strands.append((rows, joins))
    return strands


def _newest_first(info: RepoInfo, rows: Sequence[int]) -> list[int]:
    """By time, but never a parent above its child, whatever their clocks said."""
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
    """Which stretches of each lane are taken; in the last of `most`, stretches may overlap."""

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
        )
        for row in order
    )
