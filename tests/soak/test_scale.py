"""Costs grow no faster than they should, on small sizes: `make bench-scale` measures large ones.

A point is the least processor time of a few processes, so that a busy machine does not matter much;
limits leave room for the rest. What grows linearly grows tenfold here, what does not a hundredfold.
"""

import pytest

from benchmarks.scale import Point, measured

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

TRIES = 3


def best(kind: str, size: int) -> Point:
    points = [measured(kind, "frazil", size) for _ in range(TRIES)]
    assert not [point for point in points if isinstance(point, str)], points
    found = [point for point in points if isinstance(point, dict)]
    return {name: min(point[name] for point in found) for name in found[0]}


@pytest.mark.parametrize(
    ("kind", "few", "limits"),
    [
        (
            "history",
            10_000,
            {
                "open, s": 12,
                "commit, s": 15,
                "tag, s": 15,
                "10 of the ancestry, s": 15,
                "whole ancestry, s": 20,
                "10 of the ops log, s": 3,
                "whole ops log, s": 20,
                "expire all but three, s": 25,
            },
        ),
        (
            "arrays",
            3_000,
            {
                "commit, s": 20,
                "open, one array, s": 12,
                "first list_dir of a group, s": 12,
                "change one, s": 15,
                "diff of that, s": 12,
                "gc, dry run, s": 15,
                "verify, s": 20,
            },
        ),
        (
            "references",
            100_000,
            {
                "set + commit, s": 20,
                "open, look one up, s": 5,
                "append 1,000, s": 5,
                "diff, s": 20,
                "verify, s": 20,
                "bytes on disk per reference": 1.2,
            },
        ),
    ],
)
def test_ten_times_the_size_costs_about_ten_times_as_much(
    kind: str, few: int, limits: dict[str, float]
) -> None:
    small, large = best(kind, few), best(kind, 10 * few)
    growth = {name: large[name] / max(small[name], 1e-3) for name in limits}
    assert {name: factor for name, factor in growth.items() if factor > limits[name]} == {}


def test_copies_of_the_entry_point_are_bounded_by_a_collection() -> None:
    """Without one they grow with the square of the history; it leaves as many as the log names."""
    small, large = measured("backups", "frazil", 2_000), measured("backups", "frazil", 4_000)
    assert isinstance(small, dict), small
    assert isinstance(large, dict), large
    assert large["MB below overwritten/"] > 3 * small["MB below overwritten/"]
    assert large["MB after a collection"] < 2.8 * small["MB after a collection"]
