"""Reductions on real Spark, against xarray's of the same repository."""

import shutil
from datetime import UTC
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from pyspark.sql import SparkSession

from frazil.api import Repository, local_filesystem_storage
from frazil.errors import AlreadyExistsError, InvalidInputError, NodeNotFoundError
from frazil.spark.pipelines.reduce import reduce
from frazil.spark.runtime.progress import JobProgress
from tests.spark.repositories import put

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]

HOURS = np.arange(0, 24 * 90, 6)  # three months and a bit
SHAPE = (len(HOURS), 5, 8)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reduce") / "repo"
    repo = Repository.create(local_filesystem_storage(path))
    chance = np.random.default_rng(5)
    with repo.transaction("main", message="data") as store:
        group = zarr.group(store)
        put(group, "time", HOURS, "time", len(HOURS), units="hours since 2024-01-15")
        put(group, "lat", np.linspace(60, 40, 5), "lat", 5)
        put(group, "zone", np.array([1, 0, 1, 0, 2]), "lat", 5)
        t2m = chance.normal(280, 15, SHAPE).astype(np.float32)
        t2m[:, 0, 0] = np.nan
        t2m[chance.random(SHAPE) < 0.1] = np.nan
        put(group, "t2m", t2m, "time lat lon", (100, 2, 8), units="K")
        packed = chance.integers(0, 50, SHAPE).astype(np.int16)
        attrs = {"scale_factor": 0.5, "add_offset": 900.0, "_FillValue": 7}
        put(group, "pressure", packed, "time lat lon", (100, 2, 8), **attrs)
        put(group, "counts", chance.integers(-9, 9, SHAPE), "time lat lon", (50, 5, 3))
    return path


@pytest.fixture
def repo(path: Path, tmp_path: Path) -> Repository:
    shutil.copytree(path, tmp_path / "repo")
    return Repository.open(local_filesystem_storage(tmp_path / "repo"))


def dataset(repo: Repository, group: str | None = None) -> "xr.Dataset":
    store = repo.readonly_session("main").store
    found: xr.Dataset = xr.open_zarr(store, group=group, consolidated=False, chunks=None)
    return found.load()


def assert_close(got: "xr.DataArray", expected: "xr.DataArray") -> None:
    got = got.transpose(*expected.dims)
    np.testing.assert_allclose(got.to_numpy(), expected.to_numpy(), rtol=1e-5)


def test_a_mean_by_month_is_stored_with_its_coordinates(
    spark: SparkSession, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frazil.spark.pipelines.reduce._CELL_BYTES", 4000)  # several cells
    told: list[JobProgress] = []
    result = reduce(
        spark,
        repo,
        ["t2m", "pressure"],
        groupby="time.month",
        into="monthly",
        idempotency_key="m",
        progress=told.append,
    )
    found = dataset(repo, "monthly")
    expected = dataset(repo)[["t2m", "pressure"]].groupby("time.month").mean()
    assert found["t2m"].dims == ("month", "lat", "lon")
    assert found["t2m"].dtype == np.float32
    assert found["t2m"].attrs == {"units": "K"}
    assert found["month"].to_numpy().tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(found["lat"], dataset(repo)["lat"])
    for name in ("t2m", "pressure"):
        assert_close(found[name], expected[name])
    assert (result.committed, result.variables) == (True, 2)
    assert result.chunks > 2
    assert told[-1].finished
    again = reduce(spark, repo, "t2m", groupby="time.month", into="monthly", idempotency_key="m")
    assert (again.committed, again.snapshot_id) == (False, result.snapshot_id)
    with pytest.raises(AlreadyExistsError):
        reduce(spark, repo, "t2m", groupby="time.month", into="monthly")


@pytest.mark.parametrize(
    "case",
    [
        ("t2m", "std", ["time", "lon"], None),
        ("counts", "sum", ["time", "lat", "lon"], None),
        ("counts", "max", "time", "time.season"),
        ("t2m", "count", ["lat", "lon"], "zone"),
    ],
)
def test_rows_of_a_reduction_are_the_values_of_xarray(
    spark: SparkSession, repo: Repository, case: tuple[str, str, Any, str | None]
) -> None:
    variable, how, over, groupby = case
    frame = reduce(spark, repo, variable, over=over, how=how, groupby=groupby)
    source = dataset(repo).set_coords("zone")[variable]
    dims = [over] if isinstance(over, str) else list(over)
    if groupby is None:
        expected = getattr(source, how)(dims)
    else:
        expected = getattr(source.groupby(groupby), how)(dims)
    table = frame.toArrow()
    keys = [str(dim) for dim in expected.dims]
    assert table.column_names == [*keys, variable]
    rows = {tuple(row[key] for key in keys): row[variable] for row in table.to_pylist()}
    assert len(rows) == expected.size
    labels = [
        expected[key].to_numpy() if key in expected.coords else np.arange(expected.sizes[key])
        for key in keys
    ]
    for position in np.ndindex(expected.shape):
        key = tuple(_plain(along[k]) for along, k in zip(labels, position, strict=True))
        wanted = float(expected.to_numpy()[position])
        if np.isnan(wanted):
            assert rows[key] is None
        else:
            assert rows[key] == pytest.approx(wanted, rel=1e-5)


def test_nan_spoils_what_does_not_skip_it(spark: SparkSession, repo: Repository) -> None:
    reduce(spark, repo, "t2m", over="time", how="max", skipna=False, into="spoilt")
    found = dataset(repo, "spoilt")["t2m"]
    assert_close(found, dataset(repo)["t2m"].max("time", skipna=False))
    assert bool(found.isnull().any())


def test_a_failing_task_commits_nothing(
    spark: SparkSession, repo: Repository, tmp_path: Path
) -> None:
    tip = repo.lookup_branch("main")
    largest = max((tmp_path / "repo" / "chunks").iterdir(), key=lambda one: one.stat().st_size)
    largest.unlink()
    with pytest.raises(Exception, match=largest.name):
        reduce(spark, repo, ["t2m", "counts"], over="time", into="gone")
    assert repo.lookup_branch("main") == tip


def test_what_cannot_be_reduced_is_refused(spark: SparkSession, repo: Repository) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"over": "tiem"}, "the dimensions are time, lat, lon"),
        ({}, "the dimensions are"),
        ({"over": "time", "how": "median"}, "expected one of"),
        ({"over": "lat", "groupby": "time.month"}, "name it in over"),
        ({"groupby": "lat.month"}, "not a time"),
        ({"groupby": "t2m"}, "it must have one of"),
    ]
    for arguments, said in wrong:
        with pytest.raises(InvalidInputError, match=said):
            reduce(spark, repo, "t2m", **arguments)
    with pytest.raises(NodeNotFoundError, match="nope"):
        reduce(spark, repo, "t2m", groupby="nope")
    with pytest.raises(InvalidInputError, match="is a time"):
        reduce(spark, repo, "time", over="time")


def _plain(value: Any) -> Any:
    if isinstance(value, np.datetime64):
        return value.astype("M8[us]").item().replace(tzinfo=UTC)
    return value.item() if isinstance(value, np.generic) else value
