"""Virtual ingest: references by executors, manifests by executors, the values of a copy."""

from pathlib import Path
from typing import Any, Literal

import h5netcdf
import icechunk
import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil
from frazil.errors import InvalidInputError
from frazil.format.chunk_refs import RefKind
from frazil.objectstore.credentials import LocalFileSystemAccess
from frazil.paths import NodePath
from frazil.spark.ingestion.ingest import ingest
from frazil.spark.runtime.progress import JobProgress
from tests.spark.test_ingest import concatenated, stored, tip, write_day

pytestmark = pytest.mark.spark


def repository(
    folder: Path, name: str = "repo", *, split: int | None = None, container: bool = True
) -> frazil.Repository:
    """That may refer to the files of `folder`."""
    config = frazil.RepositoryConfig.default()
    prefix = f"file://{folder}/"
    if container:
        config.set_virtual_chunk_container(
            frazil.VirtualChunkContainer(prefix, frazil.local_filesystem_store(str(folder)))
        )
    if split is not None:
        every: dict[frazil.ManifestSplitDimCondition, int] = {
            frazil.ManifestSplitDimCondition.Any(): split
        }
        config.manifest = frazil.ManifestConfig(
            splitting=frazil.ManifestSplittingConfig.from_dict(
                {frazil.ManifestSplitCondition.AnyArray(): every}
            )
        )
    repo = frazil.Repository.create(
        frazil.local_filesystem_storage(str(folder / name)),
        config,
        authorize_virtual_chunk_access={prefix: LocalFileSystemAccess()} if container else None,
    )
    repo.save_config()
    return repo


def grid(day: int, *, hours: int = 8, chunk: int = 4, **options: Any) -> xr.Dataset:
    time = np.datetime64("2024-03-01", "ns") + (hours * day + np.arange(hours)) * np.timedelta64(
        1, "h"
    )
    values = np.random.default_rng(day).normal(280, 9, (hours, 6, 5)).astype(np.float32)
    made = xr.Dataset(
        {"t": (("time", "y", "x"), values, {"units": "K"})},
        coords={"time": time, "y": np.arange(6.0), "x": np.arange(5)},
    )
    made["time"].encoding = {"units": "hours since 2024-01-01", "dtype": "i4"}
    made["t"].encoding = {"chunksizes": (chunk, 3, 5), **options}
    return made


ENCODINGS: dict[str, dict[str, Any]] = {
    "deflate": {"zlib": True, "shuffle": True, "fletcher32": True},
    "packed": {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -1},
    "big": {"dtype": ">f4"},
}


@pytest.mark.spark_matrix
@pytest.mark.parametrize(("encoding", "split"), [("deflate", 1), ("packed", None), ("big", 2)])
def test_virtual_equals_copy(
    spark: SparkSession, tmp_path: Path, encoding: str, split: int | None
) -> None:
    for day in range(3):
        grid(day, **ENCODINGS[encoding]).to_netcdf(tmp_path / f"{day}.nc", engine="h5netcdf")
    repo = repository(tmp_path, split=split)

    result = ingest(spark, tmp_path / "*.nc", repo, concat_dim="time", virtual=True, progress=False)

    xr.testing.assert_identical(stored(repo), concatenated(list(tmp_path.glob("*.nc"))))
    assert result.virtual_chunks == 3 * 2 * 2
    session = repo.readonly_session("main").engine
    refs = list(session.chunk_refs(NodePath("/t")))
    assert len(refs) == {None: 1, 1: 12, 2: 3}[split]
    array = session.node(NodePath("/t")).array
    assert array is not None
    assert len(array.manifests) == len(refs)


def test_the_reference_reads_a_virtual_ingest(spark: SparkSession, tmp_path: Path) -> None:
    for day in range(2):
        grid(day, zlib=True).to_netcdf(tmp_path / f"{day}.nc", engine="h5netcdf")
    repo = repository(tmp_path, split=2)
    first = tip(repo)
    ingest(spark, tmp_path / "*.nc", repo, concat_dim="time", virtual=True, progress=False)

    other = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(tmp_path / "repo")),
        authorize_virtual_chunk_access={
            f"file://{tmp_path}/": icechunk.credentials.LocalFileSystemAccess
        },
    )

    found = xr.open_zarr(other.readonly_session("main").store, consolidated=False, chunks=None)
    xr.testing.assert_identical(found.load(), concatenated(list(tmp_path.glob("*.nc"))))
    changed = other.diff(from_snapshot_id=first, to_branch="main").updated_chunks
    assert sorted(changed["/t"]) == [[i, j, 0] for i in range(4) for j in range(2)]


@pytest.mark.parametrize("split", [None, 1, 3])
def test_virtual_files_are_appended(spark: SparkSession, tmp_path: Path, split: int | None) -> None:
    for day in range(4):
        grid(day).to_netcdf(tmp_path / f"{day}.nc", engine="h5netcdf")
    repo = repository(tmp_path, split=split)
    names = [tmp_path / f"{day}.nc" for day in range(4)]
    options: dict[str, Any] = {"concat_dim": "time", "virtual": True, "progress": False}
    ingest(spark, names[:1], repo, **options)

    ingest(spark, names[1:3], repo, mode="append", **options)
    ingest(spark, names[3:], repo, mode="append", **options)

    xr.testing.assert_identical(stored(repo), concatenated(names))


@pytest.mark.parametrize("first", [True, False])
def test_copies_and_virtual_files_can_follow_one_another(
    spark: SparkSession, tmp_path: Path, *, first: bool
) -> None:
    """In the chunks and codecs of what was there first: values that do not fit are copied."""
    names = [tmp_path / f"{day}.nc" for day in range(2)]
    for day, name in enumerate(names):
        grid(day, zlib=True).to_netcdf(name, engine="h5netcdf")
    repo = repository(tmp_path)
    chunks = {} if first else {"time": 4, "y": 3}
    options: dict[str, Any] = {"concat_dim": "time", "progress": False}
    ingest(spark, names[0], repo, virtual=first, chunks=chunks, **options)

    result = ingest(spark, names[1], repo, virtual=not first, mode="append", **options)

    xr.testing.assert_identical(stored(repo), concatenated(names))
    assert result.virtual_chunks == 0


def test_texts_and_converted_times_are_copied(spark: SparkSession, tmp_path: Path) -> None:
    paths = [write_day(tmp_path, day) for day in range(2)]
    repo = repository(tmp_path)

    ingest(spark, paths, repo, concat_dim="time", virtual=True, progress=False)

    xr.testing.assert_identical(stored(repo), concatenated(paths))
    session = repo.readonly_session("main").engine
    (rain,) = session.chunk_refs(NodePath("/rain"))
    assert rain.location.text(0) == f"file://{paths[0]}"


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_stores_are_referred_to(
    spark: SparkSession, tmp_path: Path, zarr_format: Literal[2, 3]
) -> None:
    for day in range(2):
        made = grid(day).drop_encoding()
        made.to_zarr(
            tmp_path / f"{day}.zarr",
            zarr_format=zarr_format,
            consolidated=False,
            encoding={
                "t": {"chunks": (4, 3, 5)},
                "time": {"units": "hours since 2024-01-01", "dtype": "i8"},
            },
        )
    repo = repository(tmp_path)

    result = ingest(
        spark, tmp_path / "*.zarr", repo, concat_dim="time", virtual=True, progress=False
    )

    assert result.virtual_chunks == 8
    want = xr.concat(
        [xr.open_zarr(tmp_path / f"{d}.zarr", consolidated=False, chunks=None) for d in (0, 1)],
        "time",
        data_vars="minimal",
        join="exact",
    )
    xr.testing.assert_equal(stored(repo), want.load())


def test_files_that_no_container_covers_are_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    grid(0).to_netcdf(tmp_path / "0.nc", engine="h5netcdf")
    repo = repository(tmp_path, container=False)
    before = tip(repo)

    with pytest.raises(InvalidInputError, match="no virtual chunk container"):
        ingest(spark, tmp_path / "0.nc", repo, concat_dim="time", virtual=True)

    assert tip(repo) == before


def test_files_that_begin_inside_a_chunk_cannot_be_virtual(
    spark: SparkSession, tmp_path: Path
) -> None:
    for day in range(2):
        with h5netcdf.File(tmp_path / f"{day}.nc", "w") as made:
            made.dimensions = {"time": 10, "x": 60_000}
            made.create_variable("time", ("time",), "i4", data=10 * day + np.arange(10))
            made.create_variable("t", ("time", "x"), "f4", chunks=(4, 60_000))
    repo = repository(tmp_path)

    with pytest.raises(InvalidInputError, match=r"1\.nc.*'t' cannot be virtual.*chunk of 4"):
        ingest(spark, tmp_path / "*.nc", repo, concat_dim="time", virtual=True, progress=False)


@pytest.mark.parametrize("virtual", [False, True], ids=["copied", "virtual"])
def test_what_is_appended_may_begin_inside_a_virtual_chunk(
    spark: SparkSession, tmp_path: Path, *, virtual: bool
) -> None:
    """Which is then copied, with what follows; a small array may be copied where it must."""
    names = [tmp_path / f"{day}.nc" for day in range(3)]
    for day, name in enumerate(names):
        grid(day, hours=6, chunk=4, zlib=True, shuffle=True).to_netcdf(name, engine="h5netcdf")
    repo = repository(tmp_path, split=1)
    options: dict[str, Any] = {"concat_dim": "time", "progress": False}
    first = ingest(spark, names[0], repo, virtual=True, **options)

    result = ingest(spark, names[1:], repo, mode="append", virtual=virtual, **options)

    xr.testing.assert_identical(stored(repo), concatenated(names))
    assert first.virtual_chunks == 2 * 2
    assert result.virtual_chunks == 0
    kinds = [
        int(kind)
        for refs in repo.readonly_session("main").engine.chunk_refs(NodePath("/t"))
        for kind in refs.kind
    ]
    assert kinds.count(RefKind.VIRTUAL) == 2  # those of the first four hours


def test_virtual_chunks_that_nobody_may_read_cannot_be_appended_to(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = [tmp_path / f"{day}.nc" for day in range(2)]
    for day, name in enumerate(names):
        grid(day, hours=6, chunk=4).to_netcdf(name, engine="h5netcdf")
    allowed = repository(tmp_path)
    ingest(spark, names[0], allowed, concat_dim="time", virtual=True, progress=False)
    repo = frazil.Repository.open(frazil.local_filesystem_storage(str(tmp_path / "repo")))
    before = tip(repo)

    with pytest.raises(InvalidInputError, match="authorize the virtual chunk container"):
        ingest(spark, names[1], repo, mode="append", concat_dim="time", progress=False)

    assert tip(repo) == before


def test_progress_of_references_is_told(spark: SparkSession, tmp_path: Path) -> None:
    for day in range(3):
        grid(day).to_netcdf(tmp_path / f"{day}.nc", engine="h5netcdf")
    told: list[JobProgress] = []

    ingest(
        spark,
        tmp_path / "*.nc",
        repository(tmp_path),
        concat_dim="time",
        virtual=True,
        progress=told.append,
    )

    about = [each for each in told if each.doing == "Referring to chunks of 3 files"]
    assert about[0].total_bytes == 3 * 8 * 6 * 5 * 4
    assert about[-1].finished
