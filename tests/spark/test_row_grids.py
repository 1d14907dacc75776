"""Rows that are a grid: found, cut anywhere, and written as the same rows in any order are."""

import json
from itertools import product
from math import prod
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import DoubleType, IntegerType, LongType, StructField, StructType

from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.objectstore.local import LocalStore
from frazil.paths import NodePath
from frazil.spark.runtime.workers import TaskFailedError
from frazil.spark.writing import row_grids
from frazil.spark.writing import stage as staging
from frazil.spark.writing.row_grids import codes_of, divide, find_grid, last_edge
from frazil.spark.writing.stage import stage
from frazil.zarrstore.arrays import read_region
from tests.examples_count import scaled
from tests.spark.writing_cases import by_tasks, make_repository, write_here

SCHEMA = StructType(
    [
        StructField("t", LongType()),
        StructField("x", DoubleType()),
        StructField("v", IntegerType()),
    ]
)
SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def rows_of(shape: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    """A column for each dimension, of coordinates in no order."""
    random = Random(seed)
    axes = [random.sample(range(-9, 9), size) for size in shape]
    return [np.array(column) for column in zip(*product(*axes), strict=True)]


def find_shape(columns: list[np.ndarray]) -> tuple[int, ...] | None:
    """The oracle: the shape of the grid that all rows are, None if they are none."""
    axes = [list(dict.fromkeys(column.tolist())) for column in columns]
    rows = [tuple(row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    return tuple(map(len, axes)) if rows == list(product(*axes)) else None


@given(SHAPES, st.integers(0, 9))
def test_a_grid_is_found(shape: tuple[int, ...], seed: int) -> None:
    assert find_grid(rows_of(shape, seed)) == shape


@given(st.data())
def test_rows_begin_with_a_grid(data: st.DataObject) -> None:
    dims = data.draw(st.integers(1, 3))
    one = st.tuples(*[st.integers(0, 2)] * dims)
    rows = data.draw(st.lists(one, min_size=1, max_size=12))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    shape = find_grid(columns)
    assert find_shape([column[: prod(shape)] for column in columns]) == shape
    if find_shape(columns) is not None:
        assert prod(shape) == len(rows)


@settings(max_examples=scaled(100))
@given(st.lists(SHAPES, min_size=1, max_size=6), st.integers(1, 40))
def test_rows_are_divided_into_grids(shapes: list[tuple[int, ...]], window: int) -> None:
    shapes = [shape for shape in shapes if len(shape) == len(shapes[0])]
    grids = [rows_of(shape, seed) for seed, shape in enumerate(shapes)]
    columns = [np.concatenate(axis) for axis in zip(*grids, strict=True)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(row_grids, "_WINDOW_ROWS", window)
        parts = list(divide(columns))
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert parts[-1].stop == len(columns[0])
    for part in parts:
        assert find_shape([column[part.start : part.stop] for column in columns]) == part.shape


@pytest.mark.parametrize("window", [1, 7, 100, 10_000])
def test_boxes_of_chunks_that_are_read_in_turn_are_grids(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_grids, "_WINDOW_ROWS", window)
    cells = np.arange(8 * 6 * 10).reshape(8, 6, 10)
    boxes = [
        cells[t : t + 4, y : y + 3, x : x + 5].ravel()
        for t in (0, 4)
        for y in (0, 3)
        for x in (0, 5)
    ]
    columns = list(np.unravel_index(np.concatenate(boxes), cells.shape))
    assert [part.shape for part in divide(columns)] == [(4, 3, 5)] * 8


@settings(max_examples=scaled(200))
@given(SHAPES, st.data())
def test_a_run_of_a_grid_is_divided_into_grids(shape: tuple[int, ...], data: st.DataObject) -> None:
    columns = rows_of(shape)
    start = data.draw(st.integers(0, len(columns[0]) - 1))
    stop = data.draw(st.integers(start + 1, len(columns[0])))
    run = [column[start:stop] for column in columns]
    parts = list(divide(run))
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert parts[-1].stop == stop - start
    for part in parts:
        assert find_shape([column[part.start : part.stop] for column in run]) == part.shape
    assert len(parts) <= 2 * len(shape) + 1
    edge = last_edge(run)
    assert 0 <= edge < stop - start


def test_values_are_the_same_to_the_last_bit() -> None:
    assert len(set(codes_of(pa.array([0.0, -0.0, 1.0])).tolist())) == 3
    for values in ([True, False, True], ["a", "b", "a"], [b"", b"x", b""]):
        first, second, third = codes_of(pa.array(values)).tolist()
        assert first == third != second


@settings(max_examples=scaled(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_grids_are_written_as_rows_are(data: st.DataObject) -> None:
    """Runs of a grid in pieces of a few rows, over cells that are there, into small chunks."""
    times, xs = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7))
    descends = data.draw(st.booleans())
    axis = [0.5 * x for x in range(xs)][:: -1 if descends else 1]
    rows = [{"t": t, "x": x, "v": 10 * t + int(2 * x)} for t in range(times) for x in axis]
    cut = data.draw(st.integers(0, len(rows)))
    order = data.draw(st.sampled_from(["ascending", "descending"]))
    way = data.draw(st.sampled_from([{}, by_tasks(chunks=999), by_tasks()]))
    chunks = {name: data.draw(st.integers(1, 4)) for name in "tx"}
    options = {"dims": "t,x", "chunks": json.dumps(chunks), "order": json.dumps({"x": order})}
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(staging, "PIECE_BYTES", data.draw(st.integers(20, 500)))
        patched.setattr(staging, "BATCH_ROWS", data.draw(st.integers(1, 9)))
        patched.setattr(staging, "GRID_ROWS", data.draw(st.integers(1, 9)))
        make_repository(Path(folder))
        write_here(folder, SCHEMA, [rows[:cut], rows[cut:]], **options, **way)
        more = [{**row, "v": -row["v"]} for row in rows[cut // 2 : cut]]
        write_here(folder, SCHEMA, [more], mode="region", **way)
        expected = {(row["t"], row["x"]): row["v"] for row in rows}
        expected |= {(row["t"], row["x"]): row["v"] for row in more}
        session = Repository.open(LocalStore(folder)).readonly_session(Branch("main"))
        x = read_region(session, NodePath("/x"), (slice(0, xs),)).tolist()
        assert x == sorted(axis, reverse=order == "descending")
        found = read_region(session, NodePath("/v"), (slice(0, times), slice(0, xs)))
        assert found.tolist() == [[expected[t, each] for each in x] for t in range(times)]


def test_rows_twice_are_refused_if_they_are_grids(tmp_path: Path) -> None:
    make_repository(tmp_path)
    rows = [{"t": t, "x": 1.0 * x, "v": t} for t in range(3) for x in range(4)]
    for again in ([rows[5:6]], [rows[4:8]], [rows]):
        with pytest.raises(TaskFailedError, match=r"two rows are for one cell: t = \d, x = \d"):
            write_here(tmp_path, SCHEMA, [rows, *again], dims="t,x", chunks='{"t": 2, "x": 2}')


def test_a_grid_is_staged_without_coordinates(tmp_path: Path) -> None:
    repository = make_repository(tmp_path)
    writer = repository.readonly_session(Branch("main")).chunk_writer()
    t, x = np.divmod(np.arange(200 * 300), 300)
    table = pa.table({"t": t, "x": x / 2, "v": np.random.default_rng(0).integers(0, 9**9, len(t))})
    pieces = stage(writer, table.to_batches(max_chunksize=999), ["t", "x"])
    assert pieces is not None
    assert [each[-1] for each in pieces["edges"][0].as_py()] == [200, 300]
    assert sum(pieces["length"][0].as_py()) < 8.1 * len(t)
    order = np.random.default_rng(0).permutation(len(t))
    mixed = stage(writer, table.take(pa.array(order)).to_batches(), ["t", "x"])
    assert mixed is not None
    assert mixed["edges"].to_pylist() == [None]
    assert mixed["high t"].to_pylist() == [[199]]
