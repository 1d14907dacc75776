"""Exports on real Spark, read back by zarr, pyarrow and xarray."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr
import zarr
from pyspark.sql import SparkSession

from frazil.api import Repository, local_filesystem_storage
from frazil.errors import AlreadyExistsError, InvalidInputError, NodeNotFoundError
from frazil.spark.pipelines.export import export
from tests.spark.repositories import SHAPE, make_weather

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Not to be changed."""
    return make_weather(tmp_path_factory.mktemp("export") / "repo")


def dataset(repo: Repository) -> "xr.Dataset":
    store = repo.readonly_session("main").store
    found: xr.Dataset = xr.open_zarr(store, consolidated=False, chunks=None)
    return found.load()


def test_a_zarr_store_has_the_same_values_and_metadata(
    spark: SparkSession, weather: Repository, tmp_path: Path
) -> None:
    target = tmp_path / "out.zarr"
    result = export(spark, weather, target)
    exported = xr.open_zarr(str(target), consolidated=False, chunks=None).load()
    xr.testing.assert_identical(exported, dataset(weather))
    assert result.objects == 2 * 48 + 3
    files = [file for file in target.rglob("*") if file.is_file() and file.name != "zarr.json"]
    assert result.bytes == sum(file.stat().st_size for file in files)
    assert result.objects == len(files)
    stored, source = (
        zarr.open_group(store, mode="r")["t2m"]
        for store in (str(target), weather.readonly_session("main").store)
    )
    assert stored.metadata == source.metadata
    with pytest.raises(AlreadyExistsError):
        export(spark, weather, target)
    export(spark, weather, target, variables=["pressure"], overwrite=True)
    names = set(zarr.open_group(str(target), mode="r").array_keys())
    assert names == {"pressure", "time", "lat", "lon"}


def test_groups_scalars_and_unwritten_arrays_come_along(
    spark: SparkSession, tmp_path: Path
) -> None:
    repo = Repository.create(local_filesystem_storage(tmp_path / "repo"))
    with repo.transaction("main", message="nested") as store:
        group = zarr.group(store)
        group.create_array("a/scalar", shape=(), dtype="f8")[...] = 1.5
        group.create_array("a/b/square", data=np.arange(16).reshape(4, 4), chunks=(2, 2))
        group.create_array("a/never", shape=(3,), dtype="i4")
    export(spark, repo, tmp_path / "a.zarr", group="a")
    found = zarr.open_group(str(tmp_path / "a.zarr"), mode="r")
    np.testing.assert_array_equal(found["b/square"], np.arange(16).reshape(4, 4))
    np.testing.assert_array_equal(found["scalar"], 1.5)
    np.testing.assert_array_equal(found["never"], [0, 0, 0])


def test_parquet_has_a_row_for_each_cell(
    spark: SparkSession, weather: Repository, tmp_path: Path
) -> None:
    target = tmp_path / "rows"
    result = export(spark, weather, target, format="parquet", variables=["t2m"])
    table = pq.read_table(target)
    assert table.num_rows == np.prod(SHAPE)
    assert table.column_names == ["time", "lat", "lon", "t2m"]
    expected = float(dataset(weather)["t2m"].sum(dtype="f8"))
    assert sum(v for v in table["t2m"].to_pylist() if v is not None) == pytest.approx(expected)
    assert result.objects >= 1
    with pytest.raises(AlreadyExistsError):
        export(spark, weather, target, format="parquet", variables=["t2m"])


def test_netcdf_files_are_read_by_xarray(
    spark: SparkSession, weather: Repository, tmp_path: Path
) -> None:
    export(spark, weather, tmp_path / "one.nc", format="netcdf")
    with xr.open_dataset(tmp_path / "one.nc", engine="h5netcdf") as found:
        xr.testing.assert_equal(found.load(), dataset(weather))
    result = export(
        spark, weather, tmp_path / "parts", format="netcdf", variables=["t2m"], split={"time": 20}
    )
    assert result.objects == 3
    files = sorted((tmp_path / "parts").iterdir())
    assert [file.name for file in files] == [f"part-0000{k}.nc" for k in range(3)]
    parts = []
    for file in files:
        with xr.open_dataset(file, engine="h5netcdf") as part:
            parts.append(part.load())
    xr.testing.assert_equal(xr.concat(parts, "time"), dataset(weather)[["t2m"]])


def test_what_cannot_be_exported_is_refused(
    spark: SparkSession, weather: Repository, tmp_path: Path
) -> None:
    target = tmp_path / "nothing"
    with pytest.raises(InvalidInputError, match="expected zarr, parquet, netcdf"):
        export(spark, weather, target, format="csv")
    with pytest.raises(InvalidInputError, match="not a group"):
        export(spark, weather, target, group="t2m")
    with pytest.raises(InvalidInputError, match="split is tiem=3"):
        export(spark, weather, target, format="netcdf", split={"tiem": 3})
    with pytest.raises(NodeNotFoundError):
        export(spark, weather, target, variables=["nope"])
    assert not target.exists()
