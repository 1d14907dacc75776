"""What is drawn of the lines of a history beside each commit.

A segment is [lane, line, from above, to below, lane of the commit that it joins here or -1].
"""

from collections.abc import Sequence

import numpy as np

from frazil.describe.graph import Layout, Line

type Segments = list[list[int]]


def segments_at(layout: Layout, owner: Sequence[int], places: range, shared: int) -> list[Segments]:
    """Of each of the places, whose lines are `owner`; lines in the lane `shared` are one.

    There may be thousands of those, so they are counted rather than looked at one by one.
    """
    lanes = [layout.lines[number].lane for number in owner]
    found: list[Segments] = [[] for _ in places]
    together: list[tuple[int, Line]] = []
    for number, line in enumerate(layout.lines):
        if line.first >= places.stop or line.last < places.start:
            continue
        if line.lane == shared:
            together.append((number, line))
            continue
        for place in range(max(line.first, places.start), min(line.last + 1, places.stop)):
            joins = lanes[place - places.start] if line.joins == place else -1
            above, below = int(line.first < place), int(line.last > place)
            found[place - places.start].append([line.lane, number, above, below, joins])
    if together:
        _add_shared(found, together, lanes, places)
    return found


def _add_shared(
    found: list[Segments], together: Sequence[tuple[int, Line]], lanes: list[int], places: range
) -> None:
    """Adds one segment for all that pass a place, and one for all that end there."""
    lane = together[0][1].lane
    first = np.array([line.first for _, line in together]) - places.start
    last = np.array([line.last for _, line in together]) - places.start
    ends = np.array([line.joins is not None for _, line in together])
    above = _covered(first + 1, last + 1, len(found))
    below = _covered(first, last, len(found))
    here = (first >= 0) & (first < len(found))
    starts = dict(zip(first[here].tolist(), np.flatnonzero(here).tolist(), strict=True))
    joining = set(last[ends].tolist())
    for at, segments in enumerate(found):
        number = together[starts.get(at, 0)][0]
        passing = int(above[at] and (below[at] or at not in joining))
        if passing or below[at] or at in starts:
            segments.append([lane, number, passing, int(below[at]), -1])
        if at in joining:
            segments.append([lane, number, 1, 0, lanes[at]])


def _covered(start: np.ndarray, stop: np.ndarray, count: int) -> np.ndarray:
    """Which of `count` places lie in any of the intervals, whose ends are exclusive."""
    edges = np.zeros(count + 1, np.int64)
    np.add.at(edges, np.clip(start, 0, count), 1)
    np.add.at(edges, np.clip(stop, 0, count), -1)
    return np.cumsum(edges)[:count] > 0
