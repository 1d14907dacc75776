"""Cells, blocks, coordinates and columns of a write: the parts that need no Spark."""

import pickle
from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pyspark.sql.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.spark.runtime.storage_options import PlaceText
from frazil.spark.table.cf import Plain, Scaled, decode, plan_decoding
from frazil.spark.table.description import ArrayDescription, GroupDescription
from frazil.spark.table.schema import ColumnPlan, spark_type, to_arrow
from frazil.spark.writing.blocks import (
    BlockGrid,
    Coordinate,
    Growth,
    KnownDimension,
    find_duplicate,
    group_rows,
    grow_blocks,
    locate,
    merge_coordinate,
    place,
    plan_blocks,
    position_of,
)
from frazil.spark.writing.columns import (
    StoredColumn,
    encode_column,
    encode_coordinate,
    new_array,
    snapped_column,
    stored_column,
)
from frazil.spark.writing.layout import Target, choose_chunks, plan_layout, plan_target
from frazil.spark.writing.options import NewArrays, WriteMode, WriteOptions, parse_write_options
from tests.unit.spark.cf_cases import Encoded, encodings

APPEND = Growth(grows=True, touches=False)
REGION = Growth(grows=False, touches=True)
UPSERT = Growth(grows=True, touches=True)

# Blocks and cells


@st.composite
def grids(draw: st.DrawFn) -> BlockGrid:
    shape = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    chunks = [draw(st.lists(st.integers(1, 8), min_size=len(shape), max_size=len(shape)))]
    if draw(st.booleans()):
        chunks.append([draw(st.integers(1, 4)) for _ in shape])
    return plan_blocks(shape, chunks)


@given(grids(), st.integers(1, 100))
def test_grown_blocks_hold_whole_blocks(grid: BlockGrid, cells: int) -> None:
    grown = grow_blocks(grid, max_cells=cells)
    for old, new, size in zip(grid.block, grown.block, grid.shape, strict=True):
        assert new == size or new % old == 0
    assert grown.cells <= max(cells, grid.cells)


@given(grids())
def test_every_cell_has_one_place_and_blocks_cover_the_arrays(grid: BlockGrid) -> None:
    cells = np.array(list(product(*map(range, grid.shape))), dtype=np.int64)
    blocks, places = place(grid, list(cells.T))
    assert len({*zip(blocks.tolist(), places.tolist(), strict=True)}) == len(cells)
    for block, cell, position in zip(blocks.tolist(), places.tolist(), cells, strict=True):
        assert position_of(grid, block, cell) == tuple(position)
        region = grid.region(block)
        assert all(part.start <= k < part.stop for part, k in zip(region, position, strict=True))
    sizes = [prod(p.stop - p.start for p in grid.region(b)) for b in range(prod(grid.counts))]
    assert sum(sizes) == len(cells)


@given(st.integers(1, 9), st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_a_block_holds_whole_chunks_of_every_array(size: int, chunks: list[int]) -> None:
    grid = plan_blocks([size], [[chunk] for chunk in chunks])
    for edge in range(grid.block[0], size, grid.block[0]):
        assert all(edge % chunk == 0 for chunk in chunks)


@given(st.lists(st.integers(0, 9), max_size=12))
def test_a_cell_that_comes_twice_is_found(cells: list[int]) -> None:
    found = find_duplicate(np.array(cells, dtype=np.int64), 10)
    if len(set(cells)) == len(cells):
        assert found is None
    else:
        assert found is not None
        assert cells.count(found) > 1


@given(st.lists(st.integers(0, 4), max_size=12))
def test_rows_are_grouped_by_block_in_their_order(blocks: list[int]) -> None:
    groups = {block: rows.tolist() for block, rows in group_rows(np.array(blocks, dtype=np.int64))}
    assert groups == {b: [i for i, x in enumerate(blocks) if x == b] for b in sorted(set(blocks))}


# Coordinates


def dimension(
    values: Sequence[float] | None, *, descending: bool | None = None, has_coordinate: bool = True
) -> KnownDimension:
    there = np.array([] if values is None else values, dtype=np.float64)
    return KnownDimension(
        name="x",
        column=StoredColumn(name="x", dtype=np.dtype(float), decoding=Plain()),
        has_coordinate=has_coordinate,
        values=there if has_coordinate else there[:0],
        size=len(there),
        is_new=values is None,
        descending=descending,
    )


def merged(known: KnownDimension, found: Sequence[float], growth: Growth) -> list[float]:
    result = merge_coordinate(known, np.array(found, dtype=np.float64), growth)
    assert result.values is not None
    assert result.size == len(result.values)
    return [float(value) for value in result.values]


def test_a_new_coordinate_has_each_value_once_in_order() -> None:
    assert merged(dimension(None), [3, 1, 2, 1], UPSERT) == [1, 2, 3]
    assert merged(dimension(None, descending=True), [3, 1, 2], UPSERT) == [3, 2, 1]


def test_new_values_follow_in_the_order_of_the_coordinate() -> None:
    assert merged(dimension([1, 2]), [5, 4], APPEND) == [1, 2, 4, 5]
    assert merged(dimension([9, 8]), [4, 5], APPEND) == [9, 8, 5, 4]
    assert merged(dimension([1, 2]), [2, 3], UPSERT) == [1, 2, 3]


@pytest.mark.parametrize(
    ("growth", "found", "message"),
    [
        (APPEND, [2, 3], "x is 2.0 in a row, which the array has already"),
        (APPEND, [1.5], "no longer be in order"),
        (REGION, [3], "x is 3.0 in a row, which is outside the grid"),
        (UPSERT, [0], "no longer be in order"),
    ],
)
def test_what_a_coordinate_refuses(growth: Growth, found: list[float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        merged(dimension([1, 2]), found, growth)


def test_the_order_may_be_broken_if_asked_for() -> None:
    growth = Growth(grows=True, touches=False, unordered=True)
    assert merged(dimension([1, 2]), [1.5], growth) == [1, 2, 1.5]


def test_a_dimension_without_coordinate_is_addressed_by_position() -> None:
    found = np.array([0, 4])
    new = merge_coordinate(dimension(None, has_coordinate=False), found, UPSERT)
    assert (new.size, new.values) == (5, None)
    assert locate(new, np.array([4, 5, -1])).tolist() == [4, -1, -1]
    there = dimension([0] * 3, has_coordinate=False)
    assert merge_coordinate(there, found[1:], APPEND).size == 5
    with pytest.raises(InvalidInputError, match="outside the grid"):
        merge_coordinate(there, found, REGION)
    with pytest.raises(InvalidInputError, match="position -1"):
        merge_coordinate(there, np.array([-1]), UPSERT)


@given(st.lists(st.text(max_size=3) | st.just("z"), min_size=1, unique=True), st.text(max_size=3))
def test_text_is_located_as_numbers_are(values: list[str], other: str) -> None:
    column = StoredColumn(name="x", dtype=np.dtypes.StringDType(), decoding=Plain())
    coordinate = Coordinate("x", column, len(values), np.array(values, dtype=object))
    looked_up = np.array([*values, other], dtype=object)
    wanted = [values.index(v) if v in values else -1 for v in looked_up]
    assert locate(coordinate, looked_up).tolist() == wanted


@given(st.lists(st.floats(-9, 9), min_size=1, unique=True), st.floats(-9, 9))
def test_numbers_are_located_in_any_order(values: list[float], other: float) -> None:
    column = StoredColumn(name="x", dtype=np.dtype(float), decoding=Plain())
    coordinate = Coordinate("x", column, len(values), np.array(values))
    wanted = [*range(len(values)), values.index(other) if other in values else -1]
    assert locate(coordinate, np.array([*values, other])).tolist() == wanted


# Columns

INTEGERS = ["int8", "int16", "int32", "int64"]


@given(st.sampled_from(INTEGERS), st.data())
def test_integers_and_nulls_come_back(name: str, data: st.DataObject) -> None:
    dtype = np.dtype(name)
    spec = ArrayDescription(
        name="x", path="x", dims=(), shape=(), chunks=(), dtype=dtype,
        fill_value=dtype.type(np.iinfo(dtype).min),
    )  # fmt: skip
    column = stored_column(spec)
    low = int(np.iinfo(dtype).min) + 1
    numbers = st.integers(low, int(np.iinfo(dtype).max))
    given_values = data.draw(st.lists(numbers | st.none()))
    arrow = pa.array(given_values, type=pa.from_numpy_dtype(dtype))
    assert to_arrow(decode(column.decoding, encode_column(column, arrow))).equals(arrow)


@given(st.lists(st.datetimes().map(lambda t: np.datetime64(t, "us")) | st.none()))
def test_times_come_back(times: list[np.datetime64 | None]) -> None:
    array = new_array("t", TimestampType(), is_coordinate=False)
    column = stored_column(array)
    arrow = pa.array(times, type=pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))
    assert to_arrow(decode(column.decoding, encode_column(column, arrow))).equals(arrow)


def test_times_are_stored_in_the_units_asked_for() -> None:
    hours = stored_column(
        new_array("t", TimestampType(), is_coordinate=True, units="hours since 2024-01-01")
    )
    times = pa.array([np.datetime64("2024-01-02T03", "us")])
    assert encode_column(hours, times).tolist() == [27]
    with pytest.raises(InvalidInputError, match="no whole number of the units"):
        encode_column(hours, pa.array([np.datetime64("2024-01-02T03:30", "us")]))
    days = stored_column(new_array("d", DateType(), is_coordinate=True))
    assert encode_column(days, pa.array([19723], type=pa.date32())).tolist() == [19723]


def encoded_array(case: Encoded, attrs: dict[str, Any]) -> ArrayDescription:
    return ArrayDescription(
        name="x", path="/x", dims=("x",), shape=case.stored.shape, chunks=case.stored.shape,
        dtype=case.stored.dtype, attrs=attrs,
    )  # fmt: skip


@given(encodings())
def test_what_is_read_is_written_as_it_was_stored(case: Encoded) -> None:
    """By whatever attributes; of floats a value that reads the same."""
    column = stored_column(encoded_array(case, case.attrs))
    read = decode(column.decoding, case.stored)
    assume(case.stored.dtype.kind in "iu" or not case.is_time)  # such are rounded to microseconds
    if read.null is not None and column.null is None:
        return  # a time that no timestamp can say
    nanoseconds = "nano" in str(case.attrs.get("units"))
    assume(not nanoseconds)
    stored = encode_column(column, to_arrow(read))
    again = decode(column.decoding, stored)
    assert to_arrow(again).equals(to_arrow(read)) or np.allclose(
        again.values, read.values, rtol=1e-12, equal_nan=True
    )
    valid = np.ones(len(stored), dtype=bool) if read.null is None else ~read.null
    if stored.dtype.kind in "iu":
        assert stored[valid].tolist() == case.stored[valid].tolist()


@given(encodings(distinct=True))
def test_rows_find_the_coordinate_value_that_they_were_read_from(case: Encoded) -> None:
    attrs = {k: v for k, v in case.attrs.items() if k not in {"_FillValue", "missing_value"}}
    array = encoded_array(case, attrs)
    read = decode(plan_decoding(array), case.stored)
    assume(len(np.unique(read.values)) == len(read.values))
    kind = spark_type(
        ColumnPlan("x", array, plan_decoding(array), is_dimension=True, nan_is_null=True)
    )
    column = snapped_column(array, kind, case.stored, None)
    assert encode_coordinate(column, to_arrow(read)).tolist() == case.stored.tolist()


def test_a_packed_time_that_no_number_reads_as_is_refused() -> None:
    attrs = {"units": "hours since 2024-01-01", "scale_factor": 0.5, "add_offset": 12.0}
    array = encoded_array(Encoded(np.zeros(1, dtype=np.int16), attrs), attrs)
    times = pa.array([np.datetime64("2024-01-01T12:30", "us")])
    assert encode_column(stored_column(array), times).tolist() == [1]
    with pytest.raises(InvalidInputError, match="cannot be stored as int16"):
        encode_column(stored_column(array), pa.array([np.datetime64("2024-01-01T12:40", "us")]))


def test_packed_arrays_are_packed_again() -> None:
    column = StoredColumn(
        name="p", dtype=np.dtype(np.int16), decoding=Scaled(0.5, 10.0, (np.int16(-1),))
    )
    assert encode_column(column, pa.array([10.0, 11.5, None])).tolist() == [0, 3, -1]
    with pytest.raises(InvalidInputError, match="does not fit into int16"):
        encode_column(column, pa.array([1e9]))


def column_of(kind: object, **told: object) -> StoredColumn:
    return stored_column(new_array("x", kind, is_coordinate=False, **told))  # type: ignore[arg-type]  # types of a table of cases


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        (column_of(StringType()), pa.array(["a", None]), "has a NULL"),
        (column_of(IntegerType(), fill=7), pa.array([7], pa.int32()), "stores for NULL"),
        (column_of(LongType(), dtype="int8"), pa.array([300]), "300 does not fit into int8"),
        (column_of(LongType(), dtype="uint64"), pa.array([-1]), "-1 does not fit into uint64"),
        (column_of(DoubleType(), dtype="int32"), pa.array([1.5]), "1.5 does not fit"),
        (column_of(LongType(), dtype="float64"), pa.array([2**53 + 1]), "does not fit"),
        (column_of(DoubleType(), dtype="float32"), pa.array([0.1]), "0.1 does not fit"),
        (column_of(StringType(), dtype="U2"), pa.array(["abc"]), "'abc' does not fit"),
    ],
)
def test_what_a_column_refuses(column: StoredColumn, values: pa.Array, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        encode_column(column, values)


def test_a_coordinate_refuses_null_and_nan() -> None:
    column = column_of(DoubleType())
    with pytest.raises(InvalidInputError, match="'x' is NULL in 1 rows"):
        encode_coordinate(column, pa.array([1.0, None]))
    with pytest.raises(InvalidInputError, match="'x' has NaN"):
        encode_coordinate(column, pa.array([float("nan")]))


def test_floats_may_be_narrowed_where_asked() -> None:
    array = new_array("x", DoubleType(), is_coordinate=False, dtype="float32")
    stored = encode_column(stored_column(array, narrows=True), pa.array([0.1, None]))
    assert stored[0] == np.float32(0.1)
    assert np.isnan(stored[1])
    with pytest.raises(InvalidInputError, match="does not fit into float32"):
        encode_column(stored_column(array, narrows=True), pa.array([1e300]))


@pytest.mark.parametrize(
    ("kind", "told", "message"),
    [
        (BinaryType(), {}, "no Zarr array can hold"),
        (DecimalType(10, 2), {}, "no Zarr array can hold"),
        (DoubleType(), {"units": "hours since 2024-01-01"}, "no time"),
        (TimestampType(), {"units": "months since 2024-01-01"}, "does not count times"),
        (IntegerType(), {"fill": 1.5}, "expected a value of int32"),
        (IntegerType(), {"fill": 0}, "not its default"),
        (StringType(), {"dtype": "int8"}, "'dtypes' says 'int8'"),
        (StringType(), {"dtype": "nonsense"}, "'dtypes' says 'nonsense'"),
    ],
)
def test_which_new_arrays_are_refused(kind: object, told: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        column_of(kind, **told)


# Targets and layouts

SCHEMA = StructType(
    [
        StructField("t", LongType()),
        StructField("x", DoubleType()),
        StructField("v", FloatType()),
    ]
)


def described(name: str, dims: str, shape: tuple[int, ...], dtype: str) -> ArrayDescription:
    return ArrayDescription(
        name=name,
        path=f"/{name}",
        dims=tuple(dims),
        shape=shape,
        chunks=shape,
        dtype=np.dtype(dtype),
    )


THERE = GroupDescription(
    "/",
    {
        "t": described("t", "t", (2,), "int64"),
        "x": described("x", "x", (3,), "float64"),
        "v": described("v", "tx", (2, 3), "float32"),
    },
)
COORDINATES = {"t": np.array([1, 2]), "x": np.array([0.0, 0.5, 1.0])}


def target(
    schema: StructType = SCHEMA, there: GroupDescription | None = THERE, **options: str
) -> Target:
    parsed = parse_write_options({"path": "p", **options})
    return plan_target(there, COORDINATES, schema, parsed)


def without(*names: str) -> StructType:
    return StructType([field for field in SCHEMA if field.name not in names])


def with_type(name: str, kind: object) -> StructType:
    return StructType([StructField(f.name, kind) if f.name == name else f for f in SCHEMA])  # type: ignore[arg-type]  # types of a table of cases


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        (SCHEMA, {"dims": "t"}, "'dims' says t, the arrays have t, x"),
        (SCHEMA, {"dims": "t,q"}, "'dims' names 'q'; the columns are t, x, v"),
        (SCHEMA, {"dims": "t,t"}, "names a column twice"),
        (SCHEMA, {"appendDim": "v"}, "'appendDim' is 'v', the dimensions are t, x"),
        (SCHEMA, {"chunks": '{"t": 5}'}, "has chunks of 2 along 't', not 5"),
        (SCHEMA, {"chunks": '{"q": 5}'}, "'chunks' names 'q'"),
        (SCHEMA, {"fill": '{"q": 5}'}, "'fill' names 'q'"),
        (without("v"), {}, "the rows lack 'v'"),
        (without("x"), {}, "the rows lack the column 'x'"),
        (with_type("v", StringType()), {}, "'v' is string, but the array is float32"),
        (with_type("v", DoubleType()), {}, "takes float: cast the column"),
        (with_type("x", TimestampType()), {}, "'x' is timestamp"),
        (StructType([*SCHEMA, StructField("w", LongType())]), {}, "the rows have 'w', of which"),
        (StructType([*SCHEMA, StructField("V", LongType())]), {}, "two columns have the name"),
    ],
)
def test_which_schemas_do_not_fit_what_is_there(
    schema: StructType, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        target(schema, THERE, **options)


def test_modes_say_what_must_be_there() -> None:
    with pytest.raises(AlreadyExistsError, match="has arrays already"):
        target(mode="create")
    with pytest.raises(InvalidInputError, match="mode 'region' makes none"):
        target(there=None, mode="region")
    with pytest.raises(InvalidInputError, match="'dims' is missing"):
        target(there=None)
    assert target(mode="region").growth == REGION
    assert target(mode="upsert").growth == UPSERT
    replaced = plan_target(
        THERE,
        COORDINATES,
        SCHEMA,
        WriteOptions(place=PlaceText("p"), dims=("t", "x"), mode=WriteMode.OVERWRITE),
    )
    assert replaced.replaced == ("t", "v", "x")


def test_a_layout_is_picklable_and_knows_what_was_there() -> None:
    planned = target(there=None, dims="t,x", chunks='{"t": 4}')
    found = {"t": np.array([3, 4, 5]), "x": np.array([0.5])}
    layout = pickle.loads(pickle.dumps(plan_layout(planned, {}, found, NewArrays(chunks={"t": 4}))))
    assert layout.shape == (3, 1)
    assert layout.arrays[0].chunks == (4, 1)
    assert layout.arrays[0].base_shape is None


@given(
    st.lists(st.integers(1, 10**6), min_size=1, max_size=3),
    st.integers(1, 16),
    st.integers(0, 2),
)
def test_chosen_chunks_are_of_a_sensible_size(shape: list[int], item: int, append: int) -> None:
    dims = "abc"[: len(shape)]
    append_dim = dims[min(append, len(dims) - 1)]
    chunks = choose_chunks(tuple(dims), shape, item, wanted={}, append_dim=append_dim)
    assert prod(chunks) * item <= 8 << 20
    assert all(
        1 <= chunk <= max(size, 1024 if dim == append_dim else 1)
        for dim, chunk, size in zip(dims, chunks, shape, strict=True)
    )


def test_a_table_without_rows_gets_room_for_some() -> None:
    assert choose_chunks("ab", (0, 0), 8, wanted={"b": 4}, append_dim="a") == (1024, 4)


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dmis": "x"}, "unknown option 'dmis' .did you mean 'dims'"),
        ({"mode": "replace"}, "mode is 'replace', expected 'create'"),
        ({"chunks": "[1]"}, "expected a JSON object of integers"),
        ({"chunks": '{"x": "1"}'}, "expected a JSON object of integers"),
        ({"chunks": "{"}, "is not JSON"),
        ({"codecs": "3"}, "expected a JSON list of codecs"),
        ({"unordered": "yes"}, "expected true or false"),
        ({"rebase": "maybe"}, "expected 'none' or 'rebase'"),
        ({"input": "cells"}, "expected 'rows' or 'chunks'"),
        ({"dims": "[1]"}, "must be a list of names"),
        ({"txnAppId": "a"}, "go together"),
    ],
)
def test_options_that_are_wrong(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        parse_write_options({"path": "p", **options})


def test_saying_overwrite_and_something_else_is_a_mistake() -> None:
    with pytest.raises(InvalidInputError, match="save mode is overwrite"):
        parse_write_options({"path": "p", "mode": "region"}, overwrite=True)
    with pytest.raises(InvalidInputError, match="'path' is missing"):
        parse_write_options({})


def test_options_come_as_text_in_lower_case() -> None:
    parsed = parse_write_options(
        {"path": "p", "group": "a/b/", "appenddim": "t", "txnappid": "job", "txnversion": "3",
         "fill": '{"v": -1}', "dims": '["t", "x"]', "mode": "errorifexists"}
    )  # fmt: skip
    assert (parsed.group, parsed.append_dim, parsed.key) == ("/a/b", "t", "txn:job:3")
    assert (parsed.dims, parsed.new.fill, str(parsed.mode)) == (("t", "x"), {"v": -1}, "create")
