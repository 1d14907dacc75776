from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.spark.ingestion.ingest_layout import Layout, plan_layout
from frazil.spark.ingestion.ingest_plan import (
    BaseRead,
    IngestPlan,
    SourceRead,
    plan_ingest,
    plan_reads,
    region,
)
from frazil.spark.sources import SourceDescription, VariableDescription

HOURS = {"units": "hours since 2024-01-01", "calendar": "standard"}


def variable(
    name: str,
    dims: tuple[str, ...],
    shape: tuple[int, ...],
    *,
    dtype: str = "f4",
    attrs: Mapping[str, object] | None = None,
    values: npt.NDArray[np.generic] | None = None,
    digest: bytes | None = None,
    chunks: tuple[int, ...] | None = None,
) -> VariableDescription:
    return VariableDescription(
        name=name,
        dims=dims,
        shape=shape,
        dtype=np.dtype(dtype) if values is None else values.dtype,
        attrs=attrs or {},
        chunks=chunks,
        values=values,
        digest=digest,
    )


def source(path: str, *variables: VariableDescription) -> SourceDescription:
    return SourceDescription(path=path, attrs={}, variables={v.name: v for v in variables})


def day(
    path: str,
    times: Sequence[float],
    *,
    units: Mapping[str, object] | None = None,
    lat: Sequence[float] = (10.0, 20.0),
    data: VariableDescription | None = None,
    dtype: str = "i8",
) -> SourceDescription:
    hours = np.array(times, dtype=dtype)
    return source(
        path,
        variable("time", ("time",), hours.shape, values=hours, attrs=units or HOURS),
        variable("lat", ("lat",), (len(lat),), values=np.array(lat)),
        data or variable("t2m", ("time", "lat"), (len(hours), len(lat))),
    )


def layout_of(
    *sources: SourceDescription,
    chunks: Mapping[str, int] | None = None,
    existing: SourceDescription | None = None,
) -> Layout:
    return plan_layout(sources, concat_dim="time", chunks=chunks or {}, existing=existing)


def coordinate(layout: Layout) -> list[float]:
    values = next(array.values for array in layout.arrays if array.name == "time")
    assert values is not None
    return [float(value) for value in values.tolist()]


# ---- which source contributes what ---------------------------------------------------------------


def test_sources_are_ordered_by_their_coordinate() -> None:
    layout = layout_of(day("b.nc", [24, 25]), day("a.nc", [0, 1]), day("c.nc", [48]))

    assert layout.order == (1, 0, 2)
    assert layout.starts.tolist() == [0, 2, 4, 5]
    assert coordinate(layout) == [0, 1, 24, 25, 48]


def test_a_falling_coordinate_is_kept_falling() -> None:
    layout = layout_of(day("low.nc", [1, 0]), day("high.nc", [3, 2]))

    assert coordinate(layout) == [3, 2, 1, 0]


def test_without_a_coordinate_sources_keep_the_order_given() -> None:
    pieces = [source(f"{n}.nc", variable("x", ("time",), (n,))) for n in (3, 1, 2)]

    layout = plan_layout(pieces, concat_dim="time", chunks={})

    assert layout.order == (0, 1, 2)
    assert layout.arrays[0].shape == (6,)


@pytest.mark.parametrize("second", [[1, 2], [0, 1], [-1, 0], [-5, 5]])
def test_overlapping_sources_are_refused_and_named(second: list[float]) -> None:
    with pytest.raises(InvalidInputError, match=r"[ab]\.nc.*time.*[ab]\.nc.*overlapping"):
        layout_of(day("a.nc", [0, 1]), day("b.nc", second))


def test_a_coordinate_that_repeats_a_value_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"a\.nc.*not strictly monotonic: 5 at position 2"):
        layout_of(day("a.nc", [0, 5, 5]))


def test_a_coordinate_with_nan_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"b\.nc.*monotonic"):
        layout_of(day("a.nc", [0, 1], dtype="f8"), day("b.nc", [np.nan], dtype="f8"))


def test_times_counted_from_another_day_are_converted_to_the_first_source() -> None:
    other = {"units": "minutes since 2024-01-02 00:00", "calendar": "gregorian"}

    layout = layout_of(day("a.nc", [0, 1]), day("b.nc", [0, 60], units=other))

    assert coordinate(layout) == [0, 1, 24, 25]
    assert layout.arrays[0].attrs["units"] == HOURS["units"]


def test_times_that_are_not_whole_in_the_first_sources_unit_are_refused() -> None:
    other = {"units": "minutes since 2024-01-02", "calendar": "standard"}

    with pytest.raises(InvalidInputError, match=r"b\.nc.*not whole numbers.*hours since"):
        layout_of(day("a.nc", [0]), day("b.nc", [30], units=other))


def test_packed_times_of_other_units_are_refused() -> None:
    """Stored numbers are converted as they are: with a scale that would be another time."""
    packing = {"scale_factor": 0.5, "add_offset": 12.0}
    first = day("a.nc", [0, 1], units={**HOURS, **packing})
    same = day("b.nc", [2], units={**HOURS, **packing})
    assert coordinate(layout_of(first, same)) == [0, 1, 2]
    other = day("b.nc", [60], units={"units": "minutes since 2024-01-02", **packing})
    with pytest.raises(InvalidInputError, match=r"b\.nc.*'scale_factor', 'add_offset'"):
        layout_of(first, other)


def test_bounds_are_converted_like_the_coordinate_they_bound() -> None:
    def bounded(path: str, units: str) -> SourceDescription:
        return source(
            path,
            variable(
                "time",
                ("time",),
                (1,),
                values=np.array([0]),
                attrs={"units": units, "bounds": "time_bnds"},
            ),
            variable("time_bnds", ("time", "nv"), (1, 2), dtype="i8"),
        )

    layout = layout_of(
        bounded("a.nc", "hours since 2024-01-01"), bounded("b.nc", "hours since 2024-01-02")
    )

    bounds = next(array for array in layout.arrays if array.name == "time_bnds")
    assert {number: c.shift_us for number, c in bounds.conversions.items()} == {1: 86_400_000_000}


def test_calendars_that_differ_are_refused() -> None:
    noleap = {"units": HOURS["units"], "calendar": "noleap"}

    with pytest.raises(InvalidInputError, match=r"b\.nc.*calendars differ"):
        layout_of(day("a.nc", [0]), day("b.nc", [24], units=noleap))


# ---- what does not fit ---------------------------------------------------------------------------


def misfit(**changes: object) -> SourceDescription:
    given: dict[str, object] = {"dims": ("time", "lat"), "shape": (1, 2), "dtype": "f4"}
    given.update(changes)
    return day("b.nc", [24], data=variable("t2m", **given))  # type: ignore[arg-type]  # parameters of a table


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (misfit(dtype="f8"), "type float64, float32 in"),
        (misfit(dims=("time", "lon")), "dimensions"),
        (misfit(shape=(1, 3)), "length 3 along 'lat', 2 in"),
        (misfit(attrs={"scale_factor": 0.1}), r"scale_factor 0\.1, not set in"),
        (misfit(attrs={"units": "K"}), "units 'K', not set"),
        (misfit(attrs={"_FillValue": np.float32(-1)}), "_FillValue"),
        (day("b.nc", [24], lat=(10.0, 21.0)), "'lat'.*other values"),
        (day("b.nc", [24], data=variable("msl", ("time", "lat"), (1, 2))), "lacks variable 't2m'"),
    ],
)
def test_a_source_that_does_not_fit_is_named(other: SourceDescription, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"b\.nc: .*{problem}"):
        layout_of(day("a.nc", [0]), other)


def test_nan_as_fill_value_equals_itself() -> None:
    fill = {"_FillValue": np.float32("nan")}
    data = variable("t2m", ("time", "lat"), (1, 2), attrs=fill)

    layout = layout_of(day("a.nc", [0], data=data), day("b.nc", [24], data=data))

    assert layout.arrays[2].shape == (2, 2)


def test_a_static_variable_with_other_values_is_refused() -> None:
    def masked(path: str, digest: bytes) -> SourceDescription:
        return source(
            path, variable("t", ("time",), (1,)), variable("mask", ("lat",), (2,), digest=digest)
        )

    with pytest.raises(InvalidInputError, match=r"b\.nc: variable 'mask'.*other values"):
        layout_of(masked("a.nc", b"1"), masked("b.nc", b"2"))


def test_a_dimension_that_no_variable_has_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"a\.nc: no variable has the dimension 'step'"):
        plan_layout([day("a.nc", [0])], concat_dim="step", chunks={})


def test_several_sources_need_a_dimension() -> None:
    with pytest.raises(InvalidInputError, match="concat_dim"):
        plan_layout([day("a.nc", [0]), day("b.nc", [24])], concat_dim=None, chunks={})


@pytest.mark.parametrize("chunks", [{"step": 1}, {"time": 0}, {"lat": -2}])
def test_impossible_chunks_are_refused(chunks: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError, match="chunks"):
        layout_of(day("a.nc", [0]), chunks=chunks)


# ---- chunks --------------------------------------------------------------------------------------


def test_chunks_are_as_asked_but_not_larger_than_a_fixed_dimension() -> None:
    layout = layout_of(day("a.nc", [0, 1]), chunks={"time": 24, "lat": 100})

    assert layout.arrays[2].chunks == (24, 2)  # time will grow, lat will not


def test_chunks_not_asked_for_are_about_eight_mebibytes() -> None:
    data = variable("t2m", ("time", "lat"), (4000, 1024))
    times = variable("time", ("time",), (4000,), values=np.arange(4000))

    layout = layout_of(source("a.nc", times, data))

    assert layout.arrays[1].chunks == (2048, 1024)


def test_a_growing_coordinate_is_one_chunk_with_room() -> None:
    layout = layout_of(day("a.nc", [0, 1]))

    assert [array.chunks for array in layout.arrays[:2]] == [(8192,), (2,)]


def existing_group(length: int, chunk: int) -> SourceDescription:
    return source(
        "the group",
        variable(
            "time",
            ("time",),
            (length,),
            values=np.arange(length),
            attrs=HOURS,
            chunks=(8192,),
        ),
        variable("lat", ("lat",), (2,), values=np.array([10.0, 20.0]), chunks=(2,)),
        variable("t2m", ("time", "lat"), (length, 2), chunks=(chunk, 2)),
    )


def test_appending_keeps_the_chunks_of_the_group_and_leaves_static_arrays_alone() -> None:
    layout = layout_of(day("a.nc", [5, 6]), existing=existing_group(5, 3))

    assert [(a.name, a.shape, a.chunks) for a in layout.arrays] == [
        ("time", (7,), (8192,)),
        ("t2m", (7, 2), (3, 2)),
    ]
    assert coordinate(layout) == [0, 1, 2, 3, 4, 5, 6]


def test_appending_does_not_need_what_the_group_holds_once() -> None:
    times = variable("time", ("time",), (1,), values=np.array([5]), attrs=HOURS)
    data = variable("t2m", ("time", "lat"), (1, 2))

    layout = layout_of(source("a.nc", times, data), existing=existing_group(5, 3))

    assert [array.name for array in layout.arrays] == ["time", "t2m"]


def test_appending_needs_all_that_grows() -> None:
    times = variable("time", ("time",), (1,), values=np.array([5]), attrs=HOURS)

    with pytest.raises(InvalidInputError, match=r"a\.nc: lacks variable 't2m'"):
        layout_of(source("a.nc", times), existing=existing_group(5, 3))


def test_appending_with_other_chunks_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="chunks of 3 along 'time', not 4"):
        layout_of(day("a.nc", [5]), existing=existing_group(5, 3), chunks={"time": 4})


def test_appending_what_is_already_there_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"a\.nc.*starts at 4.*the group already reaches 4"):
        layout_of(day("a.nc", [4, 5]), existing=existing_group(5, 3))


# ---- the work ------------------------------------------------------------------------------------


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Arrays of 1 to 3 dimensions, the concat dimension anywhere, over sources of any length."""
    lengths = draw(st.lists(st.integers(0, 7), min_size=1, max_size=5))
    base = draw(st.integers(0, 9))
    ndim = draw(st.integers(1, 3))
    axis = draw(st.integers(0, ndim - 1))
    others = draw(st.lists(st.integers(0, 6), min_size=ndim - 1, max_size=ndim - 1))
    dims = tuple("time" if i == axis else f"d{i}" for i in range(ndim))
    chunk = {dim: draw(st.integers(1, 5)) for dim in dims}

    def piece(path: str, length: int, chunks: tuple[int, ...] | None) -> SourceDescription:
        shape = (*others[:axis], length, *others[axis:])
        fixed = variable("fixed", ("s",), (5,), digest=b"same", chunks=(5,))
        return source(path, variable("a", dims, shape, chunks=chunks), fixed)

    pieces = [piece(f"{i}.nc", n, None) for i, n in enumerate(lengths)]
    existing = piece("base", base, tuple(chunk.values())) if base else None
    return plan_layout(
        pieces, concat_dim="time", chunks=chunk if existing is None else {}, existing=existing
    )


def planned(layout: Layout, task_bytes: int, partition_bytes: int) -> IngestPlan:
    return plan_ingest(layout, task_bytes=task_bytes, partition_bytes=partition_bytes)


sizes = st.integers(1, 400)


@given(layouts(), sizes, sizes)
def test_every_chunk_that_changes_is_owned_by_exactly_one_task(
    layout: Layout, task_bytes: int, partition_bytes: int
) -> None:
    plan = planned(layout, task_bytes, partition_bytes)

    counts = [np.zeros(tiling.grid, dtype=int) for tiling in plan.tilings]
    for partition in range(plan.partitions):
        for task in plan.tasks_of(partition):
            box = tuple(slice(*ends) for ends in zip(task.lo, task.hi, strict=True))
            counts[plan.work.index(task.array)][box] += 1
    for position, count in zip(plan.work, counts, strict=True):
        array = layout.arrays[position]
        first = 0 if array.axis is None else layout.base_length // array.chunks[array.axis]
        changed = np.moveaxis(count, array.axis or 0, 0)
        assert (changed[first:] == 1).all()
        assert (changed[:first] == 0).all()
    assert plan.chunks() == sum(int(count.sum()) for count in counts)


@given(layouts(), sizes, sizes)
def test_every_input_element_is_read_once_and_lands_where_concatenation_puts_it(
    layout: Layout, task_bytes: int, partition_bytes: int
) -> None:
    plan = planned(layout, task_bytes, partition_bytes)
    position = plan.work[0]
    array = layout.arrays[position]
    expected = np.arange(int(np.prod(array.shape))).reshape(array.shape)
    assert array.axis is not None
    pieces = np.split(expected, layout.starts.tolist(), axis=array.axis)
    base, inputs = pieces[0], pieces[1:-1]
    result = np.full(array.shape, -1)
    if plan.tilings[0].first[array.axis] > 0:  # what no task touches stays
        kept = plan.tilings[0].first[array.axis] * array.chunks[array.axis]
        index = tuple(
            slice(0, kept) if i == array.axis else slice(None) for i in range(array.axis + 1)
        )
        result[index] = expected[index]
    seen = [np.zeros(piece.shape, dtype=int) for piece in inputs]

    for number in range(plan.tasks):
        task = plan.task(number)
        if task.array != position:
            continue
        for read in plan_reads(layout, task):
            block = result[region(array, task)]
            match read:
                case SourceRead(which, selection, into):
                    block[into] = inputs[which][selection]
                    seen[which][selection] += 1
                case BaseRead(selection, into):
                    block[into] = base[selection]

    np.testing.assert_array_equal(result, expected)
    assert all((count == 1).all() for count in seen)


@given(length=st.integers(1, 12), chunk=st.integers(1, 5), task_bytes=sizes, data=st.data())
def test_a_region_is_read_from_sources_and_the_rest_of_its_chunks_from_the_group(
    length: int, chunk: int, task_bytes: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, length - 1))
    lengths = data.draw(
        st.lists(st.integers(1, 3), min_size=1, max_size=4).filter(
            lambda found: sum(found) <= length - start
        )
        if length - start >= 2
        else st.just([1])
    )
    ends = np.cumsum([start, *lengths])
    days = [
        day(f"{k}.nc", list(range(one, two)))
        for k, (one, two) in enumerate(pairwise(ends.tolist()))
    ]
    layout = plan_layout(
        days[::-1],
        concat_dim="time",
        chunks={},
        existing=existing_group(length, chunk),
        inside=True,
    )
    assert layout.starts.tolist() == ends.tolist()
    assert [array.name for array in layout.arrays] == ["t2m"]
    (array,) = layout.arrays
    plan = planned(layout, task_bytes, 1)
    old, new = np.zeros(array.shape, int), np.ones(array.shape, int)
    result = old - 1

    for number in range(plan.tasks):
        task = plan.task(number)
        block = result[region(array, task)]
        for read in plan_reads(layout, task):
            match read:
                case SourceRead(which, selection, into):
                    block[into] = new[ends[which] : ends[which + 1]][selection]
                case BaseRead(selection, into):
                    block[into] = old[selection]

    touched = result[:, 0] >= 0
    first, last = start // chunk * chunk, -(-int(ends[-1]) // chunk) * chunk
    assert touched.tolist() == [first <= row < last for row in range(length)]
    assert (result[:, 0] == 1).tolist() == [start <= row < ends[-1] for row in range(length)]


@pytest.mark.parametrize("hours", [[3, 4, 5], [7], [1, 3], []])
def test_a_region_must_be_there(hours: list[int]) -> None:
    with pytest.raises(InvalidInputError, match="'time'"):
        plan_layout(
            [day("a.nc", hours)],
            concat_dim="time",
            chunks={},
            existing=existing_group(5, 2),
            inside=True,
        )


@given(layouts(), sizes, sizes)
def test_tasks_keep_to_their_size_unless_they_are_one_chunk(
    layout: Layout, task_bytes: int, partition_bytes: int
) -> None:
    plan = planned(layout, task_bytes, partition_bytes)

    for position, tiling in zip(plan.work, plan.tilings, strict=True):
        array = layout.arrays[position]
        size = array.dtype.itemsize * int(np.prod(array.chunks)) * int(np.prod(tiling.tile))
        assert size <= task_bytes or set(tiling.tile) == {1}


def test_static_arrays_are_read_from_the_first_source() -> None:
    mask = variable("mask", ("lat",), (4,), digest=b"same")
    pieces = [source(f"{i}.nc", variable("t", ("time",), (2,)), mask) for i in range(2)]
    layout = plan_layout(pieces, concat_dim="time", chunks={"lat": 2})
    plan = planned(layout, 8, 8)

    reads = [
        read
        for number in range(plan.tasks)
        if layout.arrays[plan.task(number).array].name == "mask"
        for read in plan_reads(layout, plan.task(number))
    ]

    assert reads == [
        SourceRead(0, (slice(0, 2),), (slice(0, 2),)),
        SourceRead(0, (slice(2, 4),), (slice(0, 2),)),
    ]


def test_small_tasks_share_a_partition() -> None:
    data = variable("t2m", ("time", "lat"), (100, 10))
    times = variable("time", ("time",), (100,), values=np.arange(100))
    layout = layout_of(source("a.nc", times, data), chunks={"time": 1})

    plan = planned(layout, 40, 400)

    assert (plan.tasks, plan.partitions, plan.chunks(), plan.size_bytes()) == (100, 10, 100, 4000)
