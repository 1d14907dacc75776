"""Several dimensions, coordinates, formats and bad files; against xarray's own combinations."""

import os
from pathlib import Path
from typing import Any

import h5netcdf
import numpy as np
import pyarrow as pa
import pytest
import tifffile
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from frazil.errors import FormatError, InvalidInputError
from frazil.paths import NodePath
from frazil.spark.ingestion.ingest import ingest
from frazil.spark.runtime import jobs, stored_refs
from frazil.spark.runtime.executor import SparkExecutor
from tests.examples_count import scaled
from tests.sources.test_grib import message
from tests.spark.netcdf3_files import Made, write_netcdf3
from tests.spark.test_ingest import stored, tip
from tests.spark.test_ingest_virtual import grid, repository

pytestmark = pytest.mark.spark


def tile(folder: Path, day: int, row: int) -> Path:
    """Three rows of a day."""
    made = grid(day).isel(y=slice(3 * row, 3 * row + 3))
    made["mask"] = (("y",), np.arange(3) + 10 * row)
    made["t"].encoding["chunksizes"] = (4, 3, 5)
    path = folder / f"{day}-{row}.nc"
    made.to_netcdf(path, engine="h5netcdf")
    return path


def combined(paths: list[Path]) -> xr.Dataset:
    parts = [xr.open_dataset(path, engine="h5netcdf").load() for path in paths]
    return xr.combine_by_coords(
        parts, data_vars="minimal", coords="minimal", compat="equals", join="outer"
    )  # type: ignore[return-value]  # of datasets a dataset


# ---- several dimensions --------------------------------------------------------------------------


@pytest.mark.parametrize("virtual", [False, True])
def test_a_grid_of_files_is_what_xarray_makes_of_them(
    spark: SparkSession, tmp_path: Path, *, virtual: bool
) -> None:
    paths = [tile(tmp_path, day, row) for row in (1, 0) for day in (1, 0, 2)]
    repo = repository(tmp_path, split=2)
    options: dict[str, Any] = {"virtual": virtual, "progress": False}

    ingest(spark, paths, repo, group="a", concat_dim=["time", "y"], **options)
    ingest(spark, paths, repo, group="b", combine="coords", **options)

    want = combined(paths)
    xr.testing.assert_equal(stored(repo, "a"), want)
    xr.testing.assert_equal(stored(repo, "b"), want)
    refs = next(iter(repo.readonly_session("main").engine.chunk_refs(NodePath("/a/t"))))
    assert (refs.location.text(0) is not None) == virtual


def test_a_grid_is_appended_to(spark: SparkSession, tmp_path: Path) -> None:
    paths = [tile(tmp_path, day, row) for day in (0, 1) for row in (0, 1)]
    repo = repository(tmp_path)
    options: dict[str, Any] = {"concat_dim": ["time", "y"], "progress": False}
    ingest(spark, paths[:2], repo, **options)

    ingest(spark, paths[2:], repo, mode="append", **options)

    xr.testing.assert_equal(stored(repo), combined(paths))


def test_a_grid_with_a_hole_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    paths = [tile(tmp_path, day, row) for day in (0, 1) for row in (0, 1)]
    repo = repository(tmp_path)
    before = tip(repo)

    with pytest.raises(InvalidInputError, match=r"\.nc: variable '\w+' has length"):
        ingest(spark, paths[:3], repo, concat_dim=["time", "y"], progress=False)

    assert tip(repo) == before


def test_files_that_are_the_same_everywhere_cannot_be_combined_by_coordinates(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in "ab":
        grid(0).to_netcdf(tmp_path / f"{name}.nc", engine="h5netcdf")
    with pytest.raises(InvalidInputError, match="nothing to combine"):
        ingest(spark, tmp_path / "*.nc", repository(tmp_path), combine="coords", progress=False)


# ---- bad files -----------------------------------------------------------------------------------


def poisoned(folder: Path) -> list[Path]:
    """Six days; one is cut short, one lacks a variable, one has a chunk of rubbish."""
    paths = [folder / f"{day}.nc" for day in range(6)]
    for day, path in enumerate(paths):
        rain = np.random.default_rng(day).random((8, 9000)) + day
        with h5netcdf.File(path, "w") as made:
            made.dimensions = {"time": 8, "x": 9000}
            made.create_variable("time", ("time",), "i4", data=8 * day + np.arange(8))
            if day != 4:
                made.create_variable(
                    "v", ("time", "x"), "f8", chunks=(8, 9000), compression="gzip", data=rain
                )
    os.truncate(paths[2], 4000)
    raw = bytearray(paths[5].read_bytes())
    raw[-300_000:-200_000] = bytes(100_000)
    paths[5].write_bytes(raw)
    return paths


def test_bad_files_are_skipped_and_reported(spark: SparkSession, tmp_path: Path) -> None:
    paths = poisoned(tmp_path)
    repo = repository(tmp_path)

    result = ingest(
        spark, paths, repo, concat_dim="time", on_error="skip", progress=False, variables=None
    )

    good = [path for day, path in enumerate(paths) if day not in {2, 4, 5}]
    want = xr.concat(
        [xr.open_dataset(path, engine="h5netcdf").load() for path in good], "time", join="exact"
    )
    xr.testing.assert_equal(stored(repo), want)
    assert result.files == 3
    reasons = {Path(one.path).name: one.reason for one in result.skipped}
    assert set(reasons) == {"2.nc", "4.nc", "5.nc"}
    assert "lacks variable 'v'" in reasons["4.nc"]
    rows = result.skipped_frame(spark).collect()
    assert {(row.path, row.reason) for row in rows} == {
        (one.path, one.reason) for one in result.skipped
    }
    newest = next(iter(repo.ancestry(branch="main")))
    assert newest.metadata["frazil"]["skipped"] == 3


def test_by_default_a_bad_file_fails_the_ingest(spark: SparkSession, tmp_path: Path) -> None:
    paths = poisoned(tmp_path)
    repo = repository(tmp_path)
    before = tip(repo)
    with pytest.raises(FormatError, match=r"2\.nc"):
        ingest(spark, paths, repo, concat_dim="time", progress=False)
    with pytest.raises(FormatError, match=r"5\.nc"):
        ingest(spark, [paths[0], paths[5]], repo, concat_dim="time", progress=False)
    with pytest.raises(InvalidInputError, match="on_error is 'ignore'"):
        ingest(spark, paths, repo, concat_dim="time", on_error="ignore")
    assert tip(repo) == before


def test_if_all_files_are_bad_the_ingest_fails(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.nc").write_bytes(b"rubbish")
    with pytest.raises(FormatError, match=r"a\.nc"):
        ingest(spark, tmp_path / "a.nc", repository(tmp_path), on_error="skip", progress=False)


# ---- formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize("virtual", [False, True])
def test_netcdf_3(spark: SparkSession, tmp_path: Path, *, virtual: bool) -> None:
    values = np.arange(60, dtype="f4").reshape(6, 2, 5)
    for day in range(2):
        part = slice(3 * day, 3 * day + 3)
        write_netcdf3(
            tmp_path / f"{day}.nc",
            {
                "time": Made(("time",), np.arange(6, dtype="i4")[part], {"units": "days"}),
                "t": Made(("time", "y", "x"), values[part], {"units": "K"}),
                "n": Made(("time", "x"), values[part, 0].astype("i2")),
                "mask": Made(("y", "x"), np.arange(10, dtype="i1").reshape(2, 5)),
            },
            record_dim="time",
            version=1 + day,
        )
    repo = repository(tmp_path)

    result = ingest(
        spark, tmp_path / "*.nc", repo, concat_dim="time", virtual=virtual, progress=False
    )

    found = stored(repo)
    np.testing.assert_array_equal(found["t"], values)
    np.testing.assert_array_equal(found["n"], values[:, 0].astype("i2"))
    np.testing.assert_array_equal(found["mask"], np.arange(10).reshape(2, 5))
    assert found["t"].attrs["units"] == "K"
    assert result.virtual_chunks == (13 if virtual else 0)


def test_grib(spark: SparkSession, tmp_path: Path) -> None:
    for step in (12, 0, 6):
        (tmp_path / f"{step}.grib2").write_bytes(message(step))
    repo = repository(tmp_path)

    ingest(spark, tmp_path, repo, concat_dim="step", progress=False)

    paths = sorted(tmp_path.glob("*.grib2"))
    parts = [
        xr.open_dataset(
            path,
            engine="cfgrib",
            backend_kwargs={"indexpath": ""},
            decode_timedelta=False,
            decode_times=False,
        ).load()
        for path in paths
    ]
    want = xr.concat(parts, "step", coords="different", compat="equals").sortby("step")
    found = stored(repo)
    np.testing.assert_array_equal(found["t2m"], want["t2m"])
    np.testing.assert_array_equal(found["latitude"], want["latitude"])
    hours = found["valid_time"].values - found["valid_time"].values[0]
    assert (hours / np.timedelta64(1, "h")).tolist() == [0, 6, 12]
    assert found["t2m"].attrs["units"] == "K"


def test_tiff(spark: SparkSession, tmp_path: Path) -> None:
    images = np.random.default_rng(3).integers(0, 4000, (3, 20, 30)).astype(np.uint16)
    for day, image in enumerate(images):
        tifffile.imwrite(
            tmp_path / f"{day}.tif",
            image,
            compression="zlib",
            extratags=[
                (33550, "d", 3, (0.5, 0.25, 0.0), True),
                (33922, "d", 6, (0.0, 0.0, 0.0, 10.0, 50.0, 0.0), True),
                (42113, "s", 0, "0", True),
            ],
        )
    repo = repository(tmp_path)

    ingest(spark, tmp_path, repo, concat_dim="time", format="geotiff", progress=False)

    found = stored(repo)
    np.testing.assert_array_equal(found["band_data"].fillna(0), images)
    assert found["x"].values[:2].tolist() == [10.25, 10.75]
    assert found["y"].values[:2].tolist() == [49.875, 49.625]


def test_an_unknown_format_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="format is 'excel', expected one of"):
        ingest(spark, tmp_path, repository(tmp_path), format="excel")


# ---- any files -----------------------------------------------------------------------------------


@st.composite
def file_sets(draw: st.DrawFn) -> tuple[list[int], int, str, str, bool]:
    """Lengths along time, length of a chunk, type, format; with gaps or not."""
    chunk = draw(st.integers(1, 3))
    lengths = [chunk * draw(st.integers(1, 3)) for _ in range(draw(st.integers(1, 3)))]
    dtype = draw(st.sampled_from(["f4", "f8", "i2", "u1", ">f4"]))
    return lengths, chunk, dtype, draw(st.sampled_from(["nc", "nc3", "zarr"])), draw(st.booleans())


@settings(
    max_examples=scaled(5),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(drawn=file_sets(), seed=st.integers(0, 2**31))
def test_ingest_copied_or_virtual_equals_what_xarray_concatenates(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[list[int], int, str, str, bool],
    seed: int,
) -> None:
    lengths, chunk, dtype, kind, zlib = drawn
    folder = tmp_path_factory.mktemp("files")
    parts, start = [], 0
    for number, length in enumerate(lengths):
        values = np.random.default_rng(seed + number).integers(0, 100, (length, 4, 3))
        made = xr.Dataset(
            {"v": (("time", "y", "x"), values.astype(dtype))},
            coords={"time": np.arange(start, start + length), "y": np.arange(4.0)},
        )
        start += length
        parts.append(made)
        path = folder / f"{number}.{kind}"
        if kind == "nc":
            encoding = {"v": {"chunksizes": (chunk, 2, 3), "zlib": zlib}}
            made.to_netcdf(path, engine="h5netcdf", encoding=encoding)
        elif kind == "zarr":
            made.to_zarr(
                path, consolidated=False, zarr_format=3, encoding={"v": {"chunks": (chunk, 4, 3)}}
            )
        else:
            native = values.astype(np.dtype(dtype).newbyteorder("="))
            variables = {"v": Made(("time", "y", "x"), native)}
            times = made["time"].values.astype("i4")
            variables |= {"time": Made(("time",), times), "y": Made(("y",), made["y"].values)}
            write_netcdf3(folder / f"{number}.nc", variables, record_dim="time", version=5)
    repo = repository(folder, "repository", split=2)
    for group in ("copied", "virtual"):
        names = [each for each in folder.iterdir() if each.name != "repository"]
        ingest(
            spark,
            names,
            repo,
            group=group,
            concat_dim="time",
            virtual=group == "virtual",
            progress=False,
        )
    want = xr.concat(parts, "time", data_vars="minimal", join="exact")
    for group in ("copied", "virtual"):
        found = stored(repo, group)
        np.testing.assert_array_equal(found["v"], want["v"])
        np.testing.assert_array_equal(found["time"], want["time"])
        np.testing.assert_array_equal(found["y"], want["y"])


# ---- what the driver gets ------------------------------------------------------------------------


def test_what_the_driver_gets_does_not_grow_with_the_references(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected: list[int] = []

    def counting(_: SparkExecutor, frame: DataFrame) -> pa.Table:
        table = jobs.collect(frame)
        collected.append(table.nbytes)
        return table

    monkeypatch.setattr(SparkExecutor, "collect", counting)
    monkeypatch.setattr(stored_refs, "CHUNKS_LOGGED_HERE", 50_000)
    counts = (1_000, 100_000)
    for count in counts:
        values = np.arange(4 * count, dtype="f4").reshape(2, count // 2, 4)
        for number, part in enumerate(values):
            time = np.arange(count // 2, dtype="i4") + number * (count // 2)
            write_netcdf3(
                tmp_path / f"{count}-{number}.nc",
                {"time": Made(("time",), time), "v": Made(("time", "x"), part)},
            )
        repo = repository(tmp_path, f"repo-{count}")
        result = ingest(
            spark,
            tmp_path / f"{count}-*.nc",
            repo,
            concat_dim="time",
            chunks={"time": 1},
            virtual=True,
            progress=False,
        )
        assert result.virtual_chunks == count
        found = repo.readonly_session("main")
        first, second = [each.id for each in repo.ancestry(branch="main")]
        changed = repo.diff(from_snapshot_id=second, to_snapshot_id=first).updated_chunks
        assert len(changed["/v"]) == count
        data = xr.open_zarr(found.store, consolidated=False, chunks=None)
        np.testing.assert_array_equal(data["v"][-3:], values.reshape(-1, 4)[-3:])

    assert len(collected) == len(counts)
    assert collected[1] < 4 * collected[0] < 2_000  # there are more manifests, of 65,536 each


# ---- rows ----------------------------------------------------------------------------------------


def test_parquet_files_are_written_as_rows(spark: SparkSession, tmp_path: Path) -> None:
    cells = [(y, x, 10.0 * y + x) for y in range(3) for x in range(4)]
    spark.createDataFrame(cells, "y int, x int, v double").write.parquet(
        str(tmp_path / "rows.parquet")
    )
    repo = repository(tmp_path)
    options: dict[str, Any] = {"concat_dim": ["y", "x"], "progress": False}

    first = ingest(spark, tmp_path / "rows.parquet", repo, idempotency_key="a", **options)
    again = ingest(spark, tmp_path / "rows.parquet", repo, idempotency_key="a", **options)

    found = stored(repo)
    np.testing.assert_array_equal(found["v"], 10.0 * np.arange(3)[:, None] + np.arange(4))
    assert first.committed
    assert not again.committed
    with pytest.raises(InvalidInputError, match="not for rows: virtual"):
        ingest(spark, tmp_path / "rows.parquet", repo, virtual=True, **options)
