"""Reductions in parts, without Spark: however the work is cut, the result is xarray's."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from frazil.errors import InvalidInputError
from frazil.spark.native.tally import one_group
from frazil.spark.pipelines.reduce_job import ORDER, _encode, add_block, cells
from frazil.spark.pipelines.reduce_plan import (
    Grouping,
    How,
    Partial,
    ReducePlan,
    combine,
    finish,
    make_grouping,
    plan_reduce,
    reduce_block,
    result_dtype,
    split_name,
)
from frazil.spark.table.cf import Values
from frazil.spark.table.description import ArrayDescription, Dimension, Grid
from tests.examples_count import scaled
from tests.unit.spark.cf_cases import Encoded, encodings

DIMS = ("x", "y", "z")
FLOATS = st.sampled_from([0.0, 1.5, -2.25, 1e6, -3e-5, np.nan, 7.0])
ELEMENTS: dict[str, st.SearchStrategy[Any] | None] = {
    "float64": FLOATS,
    "float32": st.sampled_from([0.0, 1.5, -2.25, 1024.0, np.nan]),
    "int32": st.integers(-1000, 1000),
    "uint8": None,
    "bool": None,
    "int64": st.integers(-(2**40), 2**40),
}


@st.composite
def arrays(draw: st.DrawFn) -> npt.NDArray[Any]:
    dtype = draw(st.sampled_from(sorted(ELEMENTS)))
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=6))
    return draw(hnp.arrays(dtype, shape, elements=ELEMENTS[dtype]))


def grid_of(values: npt.NDArray[Any], chunks: tuple[int, ...]) -> Grid:
    dims = DIMS[: values.ndim]
    one = ArrayDescription(
        name="v", path="/v", dims=dims, shape=values.shape, chunks=chunks, dtype=values.dtype
    )
    sizes = zip(dims, values.shape, strict=True)
    return Grid("/", tuple(Dimension(dim, n, None) for dim, n in sizes), (one,))


def carried_out(plan: ReducePlan, values: npt.NDArray[Any], seed: int) -> npt.NDArray[Any]:
    """What executors do, in an order that depends on the seed."""
    chance = random.Random(seed)
    rows = []
    for task in range(plan.tasks):
        variable, cell, region = plan.locate(task)
        parts: dict[int, Any] = {}
        add_block(plan, plan.variables[variable], parts, values[region], region)
        rows += _encode((variable, cell), parts, task).to_pylist()
    chance.shuffle(rows)
    rows.sort(key=lambda row: [row[name] for name in ORDER])
    batches = [pa.RecordBatch.from_pylist(rows[k : k + 3]) for k in range(0, len(rows), 3)]
    result = np.zeros(plan.shape, dtype=plan.variables[0].result)
    covered = np.zeros(plan.shape, dtype=int)
    for cell, found in cells(plan, batches):
        result[plan.cell_region(cell)] = found[0]
        covered[plan.cell_region(cell)] += 1
    assert (covered == 1).all()
    return result


def assert_like_xarray(got: npt.NDArray[Any], expected: "xr.DataArray", scale: float) -> None:
    """To the precision of the type, relative to the largest value that was added up."""
    assert got.dtype == expected.dtype
    wanted = expected.to_numpy()
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, wanted)
    else:
        eps = 1e-5 if got.dtype.itemsize == 4 else 1e-12
        np.testing.assert_allclose(got, wanted, rtol=eps, atol=eps * max(1.0, scale))


def largest(values: npt.NDArray[Any]) -> float:
    finite = np.abs(np.nan_to_num(values.astype(np.float64)))
    return float(finite.max(initial=0.0)) * max(1, values.size)


@settings(max_examples=scaled(15))
@given(st.integers(0, 2**32 - 1), st.sampled_from([How.SUM, How.MEAN, How.STD]))
def test_the_order_in_which_parts_arrive_changes_no_bit(seed: int, how: How) -> None:
    values = np.random.default_rng(seed).lognormal(0, 9, (5, 24)).astype(np.float64)
    grid = grid_of(values, (2, 3))
    plan = plan_reduce(grid, ["y"], how, grouping=None, skipna=True, max_bytes=64)
    assert plan.tasks > len(plan.cells) * 4  # many parts of a cell
    bits = {carried_out(plan, values, order).tobytes() for order in range(4)}
    assert len(bits) == 1


@given(encodings(), st.sampled_from([How.MIN, How.MAX, How.SUM, How.COUNT, How.MEAN]))
@pytest.mark.filterwarnings("ignore:Mean of empty", "ignore:All-NaN", "ignore:invalid value")
def test_encoded_values_are_reduced_as_xarray_reduces_them(case: Encoded, how: How) -> None:
    if case.is_time:  # reduced as the numbers that its units count
        case = Encoded(case.stored, {k: v for k, v in case.attrs.items() if k != "units"})
    grid = grid_of(case.stored, (2,))
    grid = replace(grid, variables=(replace(grid.variables[0], attrs=case.attrs),))
    plan = plan_reduce(grid, ["x"], how, grouping=None, skipna=True, max_bytes=16)
    decoded = xr.DataArray(case.expected, dims=["x"])
    if decoded.dtype.kind == "f":
        decoded = decoded.astype(plan.variables[0].dtype)  # NaN as fill keeps xarray at float32
    expected = getattr(decoded, str(how))("x")
    got = carried_out(plan, case.stored, seed=1)
    wanted = expected.to_numpy().astype(got.dtype)
    scale = largest(case.expected)
    eps = 1e-5 if got.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(got, wanted, rtol=eps, atol=eps * max(1.0, scale))


@given(arrays(), st.sampled_from(list(How)), st.booleans(), st.data())
@settings(max_examples=scaled(300), deadline=None)
@pytest.mark.filterwarnings("ignore:Degrees of freedom", "ignore:Mean of empty")
def test_a_reduction_in_parts_is_that_of_xarray(
    values: npt.NDArray[Any],
    how: How,
    skipna: bool,  # noqa: FBT001 -- hypothesis passes by position
    data: st.DataObject,
) -> None:
    dims = DIMS[: values.ndim]
    over = data.draw(st.lists(st.sampled_from(dims), min_size=1, unique=True))
    chunks = data.draw(st.tuples(*(st.integers(1, n + 1) for n in values.shape)))
    plan = plan_reduce(
        grid_of(values, chunks),
        over,
        how,
        grouping=None,
        skipna=skipna,
        max_bytes=data.draw(st.integers(1, 400)),
    )
    got = carried_out(plan, values, data.draw(st.integers(0, 9)))
    array = xr.DataArray(values, dims=dims)
    options = {} if how is How.COUNT else {"skipna": skipna}
    expected = getattr(array, how.value)(over, **options)
    assert plan.dims == expected.dims
    assert_like_xarray(got, expected, largest(values))


@given(arrays(), st.sampled_from(list(How)), st.data())
@settings(max_examples=scaled(200), deadline=None)
@pytest.mark.filterwarnings("ignore:Degrees of freedom", "ignore:Mean of empty")
def test_groups_in_parts_are_those_of_xarray(
    values: npt.NDArray[Any], how: How, data: st.DataObject
) -> None:
    dims = DIMS[: values.ndim]
    dim = data.draw(st.sampled_from(dims))
    length = values.shape[dims.index(dim)]
    labels = np.array(data.draw(st.lists(st.integers(-2, 2), min_size=length, max_size=length)))
    grouping = make_grouping("label", None, dim, Values(labels, None))
    chunks = data.draw(st.tuples(*(st.integers(1, n + 1) for n in values.shape)))
    plan = plan_reduce(
        grid_of(values, chunks),
        [dim],
        how,
        grouping=grouping,
        skipna=True,
        max_bytes=data.draw(st.integers(1, 2000)),
    )
    got = carried_out(plan, values, 0)
    array = xr.DataArray(values, dims=dims, coords={"label": (dim, labels)})
    options = {} if how is How.COUNT else {"skipna": True}
    expected = getattr(array.groupby("label"), how.value)(**options)
    assert grouping.labels.tolist() == expected["label"].to_numpy().tolist()
    assert_like_xarray(got, expected.transpose(*plan.dims), largest(values))


def _reduce_all(values: npt.NDArray[Any], how: How, *, skipna: bool) -> Partial:
    return reduce_block(values, [one_group(len(values))], how, skipna=skipna)


@given(st.lists(FLOATS, max_size=12), st.integers(0, 12), st.sampled_from(list(How)))
def test_parts_combine_in_any_order(values: list[float], at: int, how: How) -> None:
    a, b = np.array(values[:at]), np.array(values[at:])
    one, other = (_reduce_all(part, how, skipna=True) for part in (a, b))
    both = [combine(one, other, how), combine(other, one, how)]
    whole = _reduce_all(np.array(values), how, skipna=True)
    dtype = result_dtype(how, np.dtype(np.float64))
    expected = finish(whole, how, dtype)
    for total in both:
        np.testing.assert_allclose(finish(total, how, dtype), expected, rtol=1e-12, atol=1e-5)


def test_infinities_are_those_of_numpy() -> None:
    values = np.array([1.0, np.inf, -np.inf, 2.0])
    for how, wanted in [(How.SUM, np.nan), (How.MIN, -np.inf), (How.MAX, np.inf)]:
        parts = [_reduce_all(values[k : k + 1], how, skipna=False) for k in range(4)]
        total = parts[0]
        for part in parts[1:]:
            total = combine(total, part, how)
        np.testing.assert_equal(float(finish(total, how, values.dtype)[0]), wanted)


def test_what_has_no_values() -> None:
    none = np.array([np.nan, np.nan])
    expected = {"sum": 0, "count": 0, "mean": np.nan, "min": np.nan, "max": np.nan, "std": np.nan}
    for how in How:
        part = _reduce_all(none, how, skipna=True)
        found = finish(part, how, result_dtype(how, none.dtype))
        np.testing.assert_equal(float(found[0]), expected[how])
    empty = _reduce_all(np.zeros(0, np.int32), How.MIN, skipna=True)
    with pytest.raises(InvalidInputError, match="no min of no int32"):
        finish(empty, How.MIN, np.dtype(np.int32))


@pytest.mark.filterwarnings("ignore:.*day_of_year")  # xarray asks pandas 3 by the old name
@pytest.mark.parametrize("part", ["year", "month", "dayofyear", "season", "hour", "quarter"])
def test_parts_of_a_time_are_those_of_xarray(part: str) -> None:
    times = np.datetime64("2023-11-20T05", "us") + np.arange(400) * np.timedelta64(31, "h")
    found = make_grouping("time", part, "time", Values(times, None))
    array = xr.DataArray(np.arange(400.0), dims="time", coords={"time": times.astype("M8[ns]")})
    expected = array.groupby(f"time.{part}").sum()
    assert found.labels.tolist() == expected[part].to_numpy().tolist()
    sums = np.bincount(found.codes, weights=np.arange(400.0))
    np.testing.assert_array_equal(sums, expected.to_numpy())


def test_positions_without_a_label_are_in_no_group() -> None:
    null = np.array([False, True, False])
    found: Grouping = make_grouping("r", None, "x", Values(np.array(["b", "?", "a"], "O"), null))
    assert found.labels.tolist() == ["a", "b"]
    assert found.codes.tolist() == [1, -1, 0]


def test_an_unknown_part_is_refused() -> None:
    assert split_name("time.month") == ("time", "month")
    assert split_name("region") == ("region", None)
    with pytest.raises(InvalidInputError, match=r"time\.fortnight"):
        split_name("time.fortnight")
    with pytest.raises(InvalidInputError, match="expected one of mean, min"):
        How.parse("median")


@pytest.mark.parametrize("dtype", [">i2", ">f4", "<i8"])
@pytest.mark.parametrize("how", [How.MIN, How.MAX])
def test_extremes_of_values_in_either_byte_order(how: How, dtype: str) -> None:
    stored = np.array([0, 0, 3, 0, 0, -2], dtype=dtype)
    grid = grid_of(stored, (2,))
    plan = plan_reduce(grid, ["x"], how, grouping=None, skipna=True, max_bytes=16)
    got = carried_out(plan, stored, seed=1)
    assert got.dtype == stored.dtype
    assert got == (-2 if how is How.MIN else 3)
