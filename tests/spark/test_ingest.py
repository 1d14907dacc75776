"""Ingest on real Spark, against xarray's own concatenation of the same files."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import h5netcdf
import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession

from frazil.api import Repository, in_memory_storage, local_filesystem_storage
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    FormatError,
    InvalidInputError,
    NodeNotFoundError,
    ObjectNotFoundError,
    RefNotFoundError,
    StorageError,
)
from frazil.paths import NodePath
from frazil.spark.ingestion.ingest import IngestResult, ingest
from frazil.spark.runtime.progress import JobProgress
from frazil.xarray import to_icechunk
from frazil.zarrstore.arrays import open_array

pytestmark = pytest.mark.spark

DAY_0 = np.datetime64("2024-03-01", "ns")
LAT = np.linspace(60, 40, 5, dtype=np.float32)
LON = np.arange(7, dtype=np.float64) * 2.5


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository.create(local_filesystem_storage(str(tmp_path / "repo")))


def weather(day: int, hours: int = 24) -> xr.Dataset:
    """A day of data; values depend only on the time, so any day can be made alone."""
    time = DAY_0 + (24 * day + np.arange(hours)) * np.timedelta64(1, "h")
    step = 24.0 * day + np.arange(hours)
    field = (280 + step[:, None, None] + LAT[:, None] / 7 + LON / 3).astype(np.float32)
    rain = np.where(field % 3 < 1, np.nan, field % 5).astype(np.float32)
    dims = ("time", "lat", "lon")
    made = xr.Dataset(
        {
            "t2m": (dims, field, {"units": "K", "standard_name": "air_temperature"}),
            "rain": (dims, rain, {"units": "mm", "long_name": "Rain"}),
            "mask": (("lat", "lon"), (LAT[:, None] > LON).astype(np.int8), {"note": "static"}),
            "source": (("time",), np.array([f"run {int(s) % 3}" for s in step], dtype=object)),
            "count": (("time",), (step % 100).astype(np.int32)),
        },
        coords={
            "time": ("time", time, {"standard_name": "time"}),
            "lat": ("lat", LAT, {"units": "degrees_north"}),
            "lon": ("lon", LON, {"units": "degrees_east"}),
            "region": ((), np.int32(7), {"long_name": "a scalar coordinate"}),
            "area": (("lat", "lon"), np.outer(np.cos(np.deg2rad(LAT)), LON + 1)),
        },
        attrs={"Conventions": "CF-1.11", "title": "test data", "levels": [1.5, 2.5]},
    )
    made["rain"].encoding = {
        "dtype": "int16",
        "scale_factor": 0.01,
        "add_offset": 1.0,
        "_FillValue": np.int16(-9999),
        "zlib": True,
        "chunksizes": (6, 5, 7),
    }
    made["t2m"].encoding = {"_FillValue": np.float32(1e20), "zlib": True}
    return made


def write_day(directory: Path, day: int, **options: int) -> Path:
    """Times are counted from the file's own midnight, as many services do."""
    path = directory / f"day-{day:02d}.nc"
    made = weather(day, **options)
    midnight = np.datetime_as_string(DAY_0 + np.timedelta64(day, "D"), unit="D")
    made["time"].encoding = {"units": f"hours since {midnight}", "dtype": "int32"}
    made.to_netcdf(path, engine="h5netcdf")
    return path


@pytest.fixture
def days(tmp_path: Path) -> Callable[..., list[Path]]:
    directory = tmp_path / "files"
    directory.mkdir()
    return lambda *numbers: [write_day(directory, number) for number in numbers]


def concatenated(paths: list[Path]) -> xr.Dataset:
    """The oracle."""
    parts = [xr.open_dataset(path, engine="h5netcdf").load() for path in sorted(paths)]
    return xr.concat(
        parts, "time", data_vars="minimal", coords="minimal", compat="equals", join="exact"
    )


def stored(repo: Repository, group: str = "/", **version: str) -> xr.Dataset:
    session = repo.readonly_session(**(version or {"branch": "main"}))  # type: ignore[arg-type]  # one of branch, tag, snapshot_id
    name = group.strip("/") or None
    found: xr.Dataset = xr.open_zarr(session.store, group=name, consolidated=False, chunks=None)
    return found.load()


def tip(repo: Repository) -> str:
    return repo.lookup_branch("main")


# ---- the result ----------------------------------------------------------------------------------


@pytest.mark.spark_matrix
@pytest.mark.parametrize(
    "chunks",
    [
        {},
        {"time": 24, "lat": 2, "lon": 3},  # aligned with the files
        {"time": 7, "lat": 5},  # chunks that span two files
        {"time": 1000, "lon": 1},  # one chunk for all files
        {"time": 1},
    ],
)
def test_the_result_is_what_xarray_makes_of_the_files(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]], chunks: dict[str, int]
) -> None:
    paths = days(0, 1, 2)

    result = ingest(spark, paths, repo, group="weather", concat_dim="time", chunks=chunks)

    xr.testing.assert_identical(stored(repo, "weather"), concatenated(paths))
    assert result.committed
    assert result.files == 3
    assert result.snapshot_id == tip(repo)


def test_files_are_ordered_by_their_times(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]]
) -> None:
    paths = days(0, 1, 2)

    ingest(spark, [paths[2], paths[0], paths[1]], repo, concat_dim="time")

    np.testing.assert_array_equal(stored(repo).time, concatenated(paths).time)


@pytest.mark.spark_matrix
def test_many_files_are_described_by_executors(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]]
) -> None:
    paths = days(*range(6))

    ingest(spark, paths[0].parent, repo, concat_dim="time", chunks={"time": 48})

    xr.testing.assert_identical(stored(repo), concatenated(paths))


def test_packing_is_kept(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]]
) -> None:
    ingest(spark, days(0), repo, concat_dim="time")

    session = repo.readonly_session("main")
    raw = xr.open_zarr(session.store, consolidated=False, chunks=None, decode_cf=False)
    assert raw["rain"].dtype == np.int16
    assert raw["rain"].attrs["scale_factor"] == 0.01
    assert raw["rain"].attrs["_FillValue"] == -9999
    assert raw["time"].attrs["units"] == "hours since 2024-03-01"


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_stores_are_sources_too(
    spark: SparkSession, repo: Repository, tmp_path: Path, zarr_format: int
) -> None:
    for day in range(2):
        made = weather(day)
        made["rain"].encoding.pop("zlib")
        made["rain"].encoding.pop("chunksizes")
        made["t2m"].encoding.clear()
        # zarr 3 has no fixed name for variable text in format 2 stores written by others
        made = made.drop_vars("source")
        made.to_zarr(
            tmp_path / f"{day}.zarr",
            zarr_format=zarr_format,
            consolidated=False,
        )

    ingest(spark, tmp_path / "*.zarr", repo, concat_dim="time", chunks={"time": 10})

    want = xr.concat(
        [xr.open_zarr(tmp_path / f"{d}.zarr", consolidated=False, chunks=None) for d in range(2)],
        "time",
        data_vars="minimal",
        coords="minimal",
        compat="equals",
        join="exact",
    )
    xr.testing.assert_identical(stored(repo), want.load())


def test_one_file_needs_no_dimension(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]]
) -> None:
    paths = days(0)

    ingest(spark, paths[0], repo, chunks={"time": 5, "lat": 2})

    xr.testing.assert_identical(stored(repo), concatenated(paths))


def test_chosen_variables_only(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]]
) -> None:
    ingest(spark, days(0, 1), repo, concat_dim="time", variables=["t2m"])

    assert set(stored(repo).variables) == {"t2m", "time", "lat", "lon", "area", "region"}


def test_stored_bytes_are_what_zarr_would_write(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]]
) -> None:
    paths = days(0, 1)
    ingest(spark, paths, repo, concat_dim="time", chunks={"time": 10})
    other = Repository.create(local_filesystem_storage(str(paths[0].parent / "other")))
    target = other.writable_session("main")
    source = repo.readonly_session("main")
    for node in source.engine.nodes():
        target.engine.set_node(node.path, node.user_data)
        if node.array is None:
            continue
        whole = tuple(slice(0, length) for length in node.array.shape)
        open_array(target.engine, node.path)[whole] = open_array(source.engine, node.path)[whole]

        for index in np.ndindex(*node.array.num_chunks):
            ours = source.engine.fetch_chunk(node.path, index)
            theirs = target.engine.fetch_chunk(node.path, index)
            assert (ours is None) == (theirs is None), (node.path, index)
            assert ours is None or theirs is None or bytes(ours) == bytes(theirs)


def test_chunks_that_hold_only_fill_are_not_stored(
    spark: SparkSession, repo: Repository, tmp_path: Path
) -> None:
    path = tmp_path / "sparse.nc"
    with h5netcdf.File(path, "w") as made:
        made.dimensions = {"time": 4, "x": 10}
        v = made.create_variable("v", ("time", "x"), "i2", fillvalue=np.int16(-1))
        v[...] = -1
        v[2, 3] = 5

    ingest(spark, path, repo, concat_dim="time", chunks={"time": 1})

    (refs,) = repo.readonly_session("main").engine.chunk_refs(NodePath("/v"))
    assert refs.index.tolist() == [[2, 0]]
    np.testing.assert_array_equal(np.isnan(stored(repo)["v"]).sum(), 39)


# ---- the commit ----------------------------------------------------------------------------------


def test_one_ingest_is_one_commit_that_says_how_it_was_made(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]]
) -> None:
    before = tip(repo)

    result = ingest(
        spark,
        days(0, 1),
        repo,
        concat_dim="time",
        message="Two days",
        metadata={"who": "me"},
        idempotency_key="2024-03-01/02",
    )

    newest, parent = list(repo.ancestry(branch="main"))[:2]
    assert (newest.id, parent.id) == (result.snapshot_id, before)
    assert newest.message == "Two days"
    assert newest.metadata["who"] == "me"
    note = newest.metadata["frazil"]
    assert (note["operation"], note["sources"]) == ("ingest", 2)
    assert note["idempotency_key"] == "2024-03-01/02"
    assert note["job"]
    assert note["application"]


@pytest.mark.spark_matrix
def test_the_same_key_commits_once(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]]
) -> None:
    paths = days(0)
    first = ingest(spark, paths, repo, concat_dim="time", idempotency_key="k")

    again = ingest(spark, paths, repo, concat_dim="time", idempotency_key="k")

    assert not again.committed
    assert again.snapshot_id == first.snapshot_id == tip(repo)
    assert again.chunks == 0


def test_a_branch_that_moved_during_the_ingest_is_not_overwritten(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]]
) -> None:
    def commit_something(progress: JobProgress) -> None:
        if "Writing" in progress.doing and progress.done_bytes == 0:
            other = repo.writable_session("main")
            other.engine.set_node(NodePath("/other"), b'{"zarr_format":3,"node_type":"group"}')
            other.commit("somebody else")

    with pytest.raises(ConflictError):
        ingest(spark, days(0), repo, concat_dim="time", progress=commit_something)

    assert next(iter(repo.ancestry(branch="main"))).message == "somebody else"


def test_of_two_copies_of_one_job_one_commits(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]]
) -> None:
    paths = days(0)
    copies: list[IngestResult] = []

    def run_a_copy(progress: JobProgress) -> None:
        if "Writing" in progress.doing and not copies:
            copies.append(
                ingest(spark, paths, repo, concat_dim="time", idempotency_key="k", progress=False)
            )

    late = ingest(spark, paths, repo, concat_dim="time", idempotency_key="k", progress=run_a_copy)

    assert copies[0].committed
    assert not late.committed
    assert late.snapshot_id == copies[0].snapshot_id == tip(repo)


def test_a_path_will_do_for_a_repository(
    spark: SparkSession, repo: Repository, tmp_path: Path, days: Callable[..., list[Path]]
) -> None:
    result = ingest(spark, days(0), tmp_path / "repo", concat_dim="time")

    assert result.snapshot_id == tip(repo)


def test_a_repository_in_memory_is_refused(
    spark: SparkSession, days: Callable[..., list[Path]]
) -> None:
    with pytest.raises(InvalidInputError, match="workers are other processes"):
        ingest(spark, days(0), Repository.create(in_memory_storage()), concat_dim="time")


def test_progress_is_told_and_ends_complete(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]]
) -> None:
    told: list[JobProgress] = []

    ingest(spark, days(0), repo, concat_dim="time", progress=told.append)

    assert told[-1].finished
    assert told[-1].total_bytes > 24 * 5 * 7 * 4
    assert next(p.done_bytes for p in told if "Writing" in p.doing) == 0


def test_an_ingest_says_nothing_where_there_is_no_terminal(
    spark: SparkSession,
    repo: Repository,
    days: Callable[..., list[Path]],
    capfd: pytest.CaptureFixture[str],
) -> None:
    ingest(spark, days(0), repo, concat_dim="time")

    assert capfd.readouterr() == ("", "")


# ---- appending -----------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [24, 7, 1000])
def test_appending_equals_ingesting_everything_at_once(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]], chunk: int
) -> None:
    paths = days(0, 1, 2)
    first = ingest(spark, paths[:1], repo, concat_dim="time", chunks={"time": chunk, "lat": 2})
    ingest(spark, paths[1:2], repo, concat_dim="time", mode="append")

    last = ingest(spark, paths[2:], repo, concat_dim="time", mode="append")

    xr.testing.assert_identical(stored(repo), concatenated(paths))
    xr.testing.assert_identical(
        stored(repo, snapshot_id=first.snapshot_id), concatenated(paths[:1])
    )
    assert last.committed


def test_files_of_xarray_are_appended_to_arrays_without_a_fill_attribute(
    spark: SparkSession, repo: Repository, tmp_path: Path
) -> None:
    """xarray gives floats the _FillValue NaN in every file."""
    parts = [weather(day)[["t2m"]].drop_vars(["region", "area"]) for day in (0, 1)]
    for part in parts:
        part["t2m"].encoding = {}
    parts[1]["t2m"][3, 2] = np.nan
    session = repo.writable_session("main")
    none = {name: {"_FillValue": None} for name in ("t2m", "lat", "lon")}
    to_icechunk(parts[0], session, encoding=none)
    session.commit("a day")
    parts[1].to_netcdf(tmp_path / "next.nc", engine="h5netcdf")
    with h5netcdf.File(tmp_path / "next.nc") as file:
        assert np.isnan(file["lat"].attrs["_FillValue"])
    ingest(spark, tmp_path / "next.nc", repo, concat_dim="time", mode="append")
    xr.testing.assert_equal(stored(repo), xr.concat(parts, "time"))


def test_appending_writes_only_the_chunks_that_change(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]]
) -> None:
    paths = days(0, 1)
    chunks = {"time": 10, "lat": 5, "lon": 7}
    first = ingest(spark, paths[:1], repo, concat_dim="time", chunks=chunks)

    second = ingest(spark, paths[1:], repo, concat_dim="time", mode="append")

    changed = repo.diff(
        from_snapshot_id=first.snapshot_id, to_snapshot_id=second.snapshot_id
    ).updated_chunks
    assert sorted(changed["/t2m"]) == [[2, 0, 0], [3, 0, 0], [4, 0, 0]]
    assert sorted(changed["/time"]) == [[0]]
    assert "/lat" not in changed
    assert "/mask" not in changed


def test_appending_to_sharded_arrays(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]]
) -> None:
    paths = days(0, 1)
    session = repo.writable_session("main")
    first = concatenated(paths[:1])[["t2m"]].drop_encoding()
    first.to_zarr(
        session.store,
        consolidated=False,
        encoding={
            "t2m": {"chunks": (5, 5, 7), "shards": (10, 5, 7), "_FillValue": np.float32(1e20)},
            "time": {"units": "minutes since 2000-01-01", "dtype": "int64"},
        },
    )
    session.commit("sharded")

    ingest(spark, paths[1:], repo, concat_dim="time", mode="append", variables=["t2m"])

    want = concatenated(paths)[["t2m"]]
    np.testing.assert_array_equal(stored(repo)["t2m"], want["t2m"])
    np.testing.assert_array_equal(stored(repo)["time"], want["time"])


def test_appending_what_is_there_is_refused_and_changes_nothing(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]]
) -> None:
    paths = days(0, 1)
    ingest(spark, paths, repo, concat_dim="time")
    before = tip(repo)

    with pytest.raises(InvalidInputError, match=r"day-01\.nc.*overlapping or duplicate"):
        ingest(spark, paths[1:], repo, concat_dim="time", mode="append")

    assert tip(repo) == before


def test_appending_needs_a_group(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]]
) -> None:
    with pytest.raises(NodeNotFoundError, match="/nowhere"):
        ingest(spark, days(0), repo, group="nowhere", concat_dim="time", mode="append")


# ---- failures leave the branch as it was ---------------------------------------------------------


def test_a_missing_file_is_named(spark: SparkSession, repo: Repository, tmp_path: Path) -> None:
    before = tip(repo)

    with pytest.raises(ObjectNotFoundError, match=r"gone\.nc"):
        ingest(spark, tmp_path / "gone.nc", repo, concat_dim="time")

    assert tip(repo) == before


@pytest.mark.parametrize("count", [2, 6])
def test_a_truncated_file_is_named(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]], count: int
) -> None:
    paths = days(*range(count))
    before = tip(repo)
    os.truncate(paths[-1], paths[-1].stat().st_size // 2)

    with pytest.raises(FormatError, match=rf"day-{count - 1:02d}\.nc"):
        ingest(spark, paths, repo, concat_dim="time")

    assert tip(repo) == before


@pytest.mark.spark_matrix
def test_damage_that_only_tasks_can_see_is_named(
    spark: SparkSession, repo: Repository, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{n}.nc" for n in range(2)]
    for n, path in enumerate(paths):
        with h5netcdf.File(path, "w") as made:
            made.dimensions = {"time": 1, "x": 8192}
            made.create_variable("time", ("time",), "i4", data=[n])
            noise = np.random.default_rng(n).random((1, 8192))
            made.create_variable(
                "v", ("time", "x"), "f8", chunks=(1, 8192), compression="gzip", data=noise
            )
    raw = bytearray(paths[1].read_bytes())
    raw[-30_000:-20_000] = bytes(10_000)
    paths[1].write_bytes(raw)
    before = tip(repo)

    with pytest.raises(FormatError, match=r"1\.nc: cannot be read"):
        ingest(spark, paths, repo, concat_dim="time")

    assert tip(repo) == before
    assert not repo.readonly_session("main").engine.child_names(NodePath("/"))


def test_a_store_that_fails_on_executors_is_told_as_such(
    spark: SparkSession, repo: Repository, tmp_path: Path, days: Callable[..., list[Path]]
) -> None:
    before = tip(repo)
    shutil.rmtree(tmp_path / "repo" / "chunks", ignore_errors=True)
    (tmp_path / "repo" / "chunks").write_text("in the way")

    with pytest.raises(StorageError):
        ingest(spark, days(*range(5)), repo, concat_dim="time")

    assert tip(repo) == before


def test_a_file_that_does_not_fit_is_named(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]]
) -> None:
    paths = days(0, 1)
    weather(1).drop_vars("rain").to_netcdf(paths[1], engine="h5netcdf")
    before = tip(repo)

    with pytest.raises(InvalidInputError, match=r"day-01\.nc: lacks variable 'rain'"):
        ingest(spark, paths, repo, concat_dim="time")

    assert tip(repo) == before


def test_creating_over_existing_arrays_is_refused(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]]
) -> None:
    paths = days(0)
    ingest(spark, paths, repo, concat_dim="time")
    before = tip(repo)

    with pytest.raises(AlreadyExistsError, match="append"):
        ingest(spark, paths, repo, concat_dim="time")

    assert tip(repo) == before


def test_an_unknown_branch_is_refused(
    spark: SparkSession, repo: Repository, days: Callable[..., list[Path]]
) -> None:
    with pytest.raises(RefNotFoundError, match="dev"):
        ingest(spark, days(0), repo, concat_dim="time", branch="dev")


def test_an_unknown_mode_is_refused(spark: SparkSession, repo: Repository) -> None:
    with pytest.raises(InvalidInputError, match="mode is 'replace'"):
        ingest(spark, "x.nc", repo, mode="replace")
