"""Aggregates of blocks by group, against plain Python over every cell."""

import base64
import zlib
from collections.abc import Sequence
from math import fsum, isnan
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from frazil.spark.native import tally as tally_module
from frazil.spark.native.aggregate import Aggregate, Derived, Wanted, plan_tasks
from frazil.spark.native.tally import (
    Grouped,
    Tally,
    coded_groups,
    cut_block,
    cut_places,
    index_of,
    one_group,
    outer_sizes,
    own_groups,
    piece_of,
)
from frazil.spark.table.description import Grid
from frazil.spark.table.scan import Scan, Table
from frazil.spark.table.scan_plan import Axis as ScanAxis

FUNCTIONS = ("sum", "min", "max")
DTYPES = ("<f4", ">f4", "<f8", ">f8", "f2", "i1", ">i2", "<i4", "<i8", ">i8", "u1", "<u4")


class Axis:
    """Positions of an axis: all one group, each a group, or grouped by code."""

    def __init__(self, kind: str, codes: npt.NDArray[np.int64]) -> None:
        self.kind = kind
        self.codes = codes
        self.known = np.unique(codes)

    @property
    def count(self) -> int:
        return {"one": 1, "own": len(self.codes), "coded": len(self.known)}[self.kind]

    def grouped(self, start: int, stop: int) -> Grouped:
        if self.kind == "one":
            return one_group(stop - start)
        if self.kind == "own":
            return own_groups(start, stop - start)
        return coded_groups(self.codes[start:stop], self.known)

    def group_of(self, position: int) -> int:
        coded = int(np.searchsorted(self.known, self.codes[position]))
        return {"one": 0, "own": position, "coded": coded}[self.kind]


def _random_axis(rng: np.random.Generator) -> Axis:
    size = int(rng.integers(1, 9))
    codes = rng.integers(0, 4, size) * rng.integers(1, 3)
    if rng.random() < 0.5:
        codes = np.sort(codes)
    return Axis(str(rng.choice(["one", "own", "coded"])), codes)


def _random_values(
    rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        found = rng.integers(limits.min, limits.max, shape, dtype.newbyteorder("="), endpoint=True)
        extreme = rng.random(shape) < 0.2
        return np.where(extreme, limits.max, found).astype(dtype)
    values = rng.normal(0, 100, shape)
    special = rng.choice([-0.0, 0.0, np.inf, np.nan, 1.0], shape)
    return np.where(rng.random(shape) < 0.2, special, values).astype(dtype)


def _tally(
    axes: Sequence[Axis],
    values: npt.NDArray[Any],
    null: npt.NDArray[np.bool_] | None,
    dtype: np.dtype[Any],
) -> tuple[Tally, npt.NDArray[np.int64]]:
    """Adds a block piece by piece, as a task does."""
    shape = [axis.count for axis in axes]
    tally, rows = Tally(FUNCTIONS, dtype, shape, values.size), np.zeros(shape, np.int64)
    whole = [axis.grouped(0, n) for axis, n in zip(axes, values.shape, strict=True)]
    steps = cut_block(values, whole)
    for place in cut_places(values.shape, steps):
        parts = zip(axes, place, strict=True)
        groups = [axis.grouped(part.start, part.stop) for axis, part in parts]
        rows[index_of(groups)] += outer_sizes(groups)
        mask = None if null is None else piece_of(null, place)
        tally.add(index_of(groups), groups, piece_of(values, place), mask)
    return tally, rows


def _cells(
    axes: Sequence[Axis], values: npt.NDArray[Any], null: npt.NDArray[np.bool_] | None
) -> dict[int, list[Any]]:
    """Values of each group, one after the other."""
    shape = [axis.count for axis in axes]
    cells: dict[int, list[Any]] = {k: [] for k in range(int(np.prod(shape, dtype=int)))}
    for place in np.ndindex(values.shape):
        group = [axis.group_of(k) for axis, k in zip(axes, place, strict=True)]
        if null is None or not null[place]:
            cells[int(np.ravel_multi_index(group, shape)) if shape else 0].append(values[place])
    return cells


def _same(found: Any, expected: Any) -> bool:
    return bool(found == expected) or (isnan(found) and isnan(expected))


@pytest.mark.parametrize("calls", [1, 1 << 30], ids=["reduce", "reduceat"])
@pytest.mark.parametrize("seed", range(40))
def test_aggregates_are_those_of_the_cells(
    seed: int, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(tally_module, "_CALL_CELLS", calls)
    monkeypatch.setattr(tally_module, "_PIECE_CELLS", int(rng.integers(1, 60)))
    monkeypatch.setattr(tally_module, "_RUN_CELLS", int(rng.integers(1, 9)))
    axes = [_random_axis(rng) for _ in range(int(rng.integers(0, 4)))]
    shape = [len(axis.codes) for axis in axes]
    dtype = np.dtype(str(rng.choice(DTYPES)))
    order = rng.permutation(len(shape))
    values = _random_values(rng, [shape[k] for k in order], dtype).transpose(np.argsort(order))
    null = rng.random(shape) < rng.choice([0.0, 0.3, 1.0])
    given = null if null.any() else None
    tally, rows = _tally(axes, values, given, dtype)
    sums, left = tally.sums()
    for group, cells in _cells(axes, values, given).items():
        assert rows.flat[group] - tally.nulls.flat[group] == len(cells)
        if not cells:
            continue
        numbers = [float(v) if dtype.kind == "f" else int(v) for v in cells]
        more = sum(part for where, part in left if where == group)
        if dtype.kind == "f":
            exact = fsum(numbers)
            total = float(sums[group])
            assert _same(total, exact) or total == pytest.approx(exact, rel=1e-12, abs=1e-10)
        else:
            assert int(sums[group]) + more == sum(numbers)
        there = [v for v in numbers if not isnan(v)]
        spoilt = len(there) < len(numbers)
        least = min(there) if there else np.nan
        assert _same(float(tally.extremes("min")[group]), float(least))
        assert _same(float(tally.extremes("max")[group]), np.nan if spoilt else float(max(numbers)))


@pytest.mark.parametrize(
    ("stored", "cast"), [("f4", "f8"), ("i2", "f4"), ("i4", "f8"), ("i8", "f8"), ("i2", "i8")]
)
def test_values_are_added_up_in_the_wider_type_without_a_copy(stored: str, cast: str) -> None:
    rng = np.random.default_rng(5)
    axes = [Axis("own", np.arange(3)), Axis("coded", np.array([1, 0, 1, 0]))]
    values = _random_values(rng, (3, 4), np.dtype(stored))
    tally, _ = _tally(axes, values, None, np.dtype(cast))
    other, _ = _tally(axes, values.astype(cast), None, np.dtype(cast))
    np.testing.assert_array_equal(tally.sums()[0], other.sums()[0])
    for function in ("min", "max"):
        np.testing.assert_array_equal(tally.extremes(function), other.extremes(function))
        assert tally.extremes(function).dtype == np.dtype(cast)


def test_coordinates_that_stand_for_many_cells_are_added_up_exactly() -> None:
    values = np.array([[2**62, 2**62 + 1, -5]])
    tally = Tally(("sum",), values.dtype, (1, 2), 3 * 7)
    groups = [one_group(1), coded_groups(np.array([0, 0, 1]), np.array([0, 1]))]
    tally.add(index_of(groups), groups, values, None, np.array([[7]]))
    sums, left = tally.sums()
    assert int(sums[0]) + sum(part for _, part in left) == 7 * (2**63 + 1)
    assert int(sums[1]) == -35


def test_blocks_are_cut_first_where_every_position_is_a_group() -> None:
    block = np.zeros((100, 200, 512), np.float32)
    each, one = own_groups(0, 200), one_group(100)
    last = own_groups(0, 512)
    assert cut_block(block, [one, each, last]) == [100, 5, 512]
    assert cut_block(block, [one, one_group(200), last]) == [2, 200, 512]  # no runs of 13 cells
    assert cut_block(block.transpose(2, 1, 0), [last, each, one]) == [512, 5, 100]


def _packed(values: npt.NDArray[Any]) -> str:
    return base64.b64encode(zlib.compress(values.tobytes())).decode()


@pytest.mark.parametrize(("cores", "tasks"), [(1, 4), (2, 8), (100, 48)])
def test_tasks_are_a_few_for_each_core_and_have_boxes_of_the_same_groups(
    cores: int, tasks: int
) -> None:
    months = np.tile(np.arange(12), 4)
    month = Derived(
        "time",
        "i4",
        _packed(np.arange(12, dtype="<i8")),
        _packed(np.zeros(12, np.bool_)),
        _packed(months.astype("<i4")),
    )
    boxes = tuple(((k, k + 1), (0, 1000)) for k in range(48))
    axes = (ScanAxis("time", range(48)), ScanAxis("x", range(1000)))
    scan = Scan(Table(Grid("/", (), ()), (), ()), axes, boxes, 1)
    found = plan_tasks(scan, Aggregate((month,), (Wanted("rows", None),), cores))
    assert len(found) == tasks
    assert sorted(box for task in found for box in task) == list(boxes)
    groups = [{int(months[box[0][0]]) for box in task} for task in found]
    assert sum(map(len, groups)) <= 12 + tasks  # by time it would be one for each box
