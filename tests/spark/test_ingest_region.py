"""Sources that replace a part of what a group holds, over stored and over virtual chunks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import frazil
from frazil.errors import InvalidInputError, NodeNotFoundError
from frazil.format.chunk_refs import RefKind
from frazil.paths import NodePath
from frazil.spark.ingestion.ingest import ingest
from tests.examples_count import scaled
from tests.spark.test_ingest import stored, tip
from tests.spark.test_ingest_virtual import repository

pytestmark = pytest.mark.spark

LENGTH = 12


def part(start: int, stop: int, seed: int) -> xr.Dataset:
    values = np.random.default_rng(seed).normal(280, 9, (stop - start, 6, 50)).astype("f4")
    return xr.Dataset(
        {
            "t": (("time", "y", "x"), values, {"units": "K"}),
            "n": (("time",), np.arange(start, stop) + 100 * seed),
        },
        coords={"time": ("time", np.arange(start, stop), {"units": "hours since 2024-01-01"})},
    )


def write(path: Path, data: xr.Dataset) -> Path:
    encoding: dict[str, Any] = {"t": {"chunksizes": (4, 3, 50), "zlib": True}}
    data.to_netcdf(path, engine="h5netcdf", encoding=encoding if data.sizes["time"] >= 4 else {})
    return path


def decoded(data: xr.Dataset) -> xr.Dataset:
    return xr.decode_cf(data)


@pytest.mark.parametrize("virtual", [False, True], ids=["copied", "virtual"])
def test_a_part_is_replaced(spark: SparkSession, tmp_path: Path, *, virtual: bool) -> None:
    whole = part(0, LENGTH, 0)
    options: dict[str, Any] = {"concat_dim": "time", "progress": False}
    repo = repository(tmp_path, split=1)
    chunks = {} if virtual else {"time": 4, "y": 3}
    ingest(
        spark, write(tmp_path / "all.nc", whole), repo, virtual=virtual, chunks=chunks, **options
    )
    new = [write(tmp_path / f"{start}.nc", part(start, start + 3, 1)) for start in (2, 5)]

    result = ingest(spark, new, repo, mode="region", **options)

    want = xr.concat(
        [whole.isel(time=slice(0, 2)), part(2, 5, 1), part(5, 8, 1), whole.isel(time=slice(8, 12))],
        "time",
    )
    xr.testing.assert_identical(stored(repo), decoded(want))
    assert result.files == 2
    newest = next(iter(repo.ancestry(branch="main")))
    assert newest.message == "Replace a part of / by 2 files"
    kinds = np.concatenate(
        [refs.kind for refs in repo.readonly_session("main").engine.chunk_refs(NodePath("/t"))]
    )
    assert (kinds == RefKind.VIRTUAL).sum() == (2 if virtual else 0)  # the last four hours
    changed = repo.diff(from_snapshot_id=newest.parent_id, to_snapshot_id=newest.id)
    assert sorted(changed.updated_chunks["/t"]) == [[i, j, 0] for i in (0, 1) for j in (0, 1)]
    assert not changed.updated_arrays


def test_what_becomes_empty_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    whole = part(0, LENGTH, 0)
    repo = repository(tmp_path)
    options: dict[str, Any] = {"concat_dim": "time", "progress": False}
    ingest(spark, write(tmp_path / "all.nc", whole), repo, chunks={"time": 4}, **options)
    nothing = part(4, 8, 0)
    nothing["t"][:] = np.nan

    ingest(spark, write(tmp_path / "new.nc", nothing), repo, mode="region", **options)

    found = stored(repo)["t"]
    assert np.isnan(found[4:8]).all()
    np.testing.assert_array_equal(found[8:], whole["t"][8:])
    session = repo.readonly_session("main").engine
    assert sum(len(refs) for refs in session.chunk_refs(NodePath("/t"))) == 2


def test_only_what_is_there_can_be_replaced(spark: SparkSession, tmp_path: Path) -> None:
    repo = repository(tmp_path)
    options: dict[str, Any] = {"concat_dim": "time", "mode": "region", "progress": False}
    beyond = write(tmp_path / "beyond.nc", part(10, 14, 1))
    elsewhere = write(tmp_path / "elsewhere.nc", part(20, 24, 1))
    with pytest.raises(NodeNotFoundError, match="group"):
        ingest(spark, beyond, repo, group="none", **options)
    ingest(
        spark, write(tmp_path / "all.nc", part(0, 12, 0)), repo, concat_dim="time", progress=False
    )
    before = tip(repo)

    with pytest.raises(InvalidInputError, match=r"beyond\.nc.*'time' has 12.*mode='append'"):
        ingest(spark, beyond, repo, **options)
    with pytest.raises(InvalidInputError, match=r"elsewhere\.nc.*'time' has 20"):
        ingest(spark, elsewhere, repo, **options)
    gap = [write(tmp_path / f"{start}.nc", part(start, start + 1, 1)) for start in (2, 5)]
    with pytest.raises(InvalidInputError, match=r"2\.nc.*'time' has 5"):
        ingest(spark, gap, repo, **options)
    with pytest.raises(InvalidInputError, match="a region is copied"):
        ingest(spark, gap[:1], repo, virtual=True, **options)
    with pytest.raises(InvalidInputError, match="needs a concat_dim"):
        ingest(spark, gap[:1], repo, mode="region")
    assert tip(repo) == before


@settings(
    max_examples=scaled(4),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    start=st.integers(0, LENGTH - 1),
    length=st.integers(1, LENGTH),
    chunk=st.integers(1, LENGTH),
    virtual=st.booleans(),
)
def test_any_part_is_replaced_as_xarray_would(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    *,
    start: int,
    length: int,
    chunk: int,
    virtual: bool,
) -> None:
    stop = min(LENGTH, start + length)
    folder = tmp_path_factory.mktemp("region")
    repo = repository(folder)
    whole, new = part(0, LENGTH, 0), part(start, stop, 1)
    encoding: dict[str, Any] = {"t": {"chunksizes": (chunk, 6, 25), "zlib": True}}
    whole.to_netcdf(folder / "all.nc", engine="h5netcdf", encoding=encoding)
    new.to_netcdf(folder / "new.nc", engine="h5netcdf")
    options: dict[str, Any] = {"concat_dim": "time", "progress": False}
    chunks = {} if virtual else {"time": chunk}
    ingest(spark, folder / "all.nc", repo, virtual=virtual, chunks=chunks, **options)

    ingest(spark, folder / "new.nc", repo, mode="region", **options)

    want = xr.concat(
        [whole.isel(time=slice(0, start)), new, whole.isel(time=slice(stop, None))], "time"
    )
    xr.testing.assert_identical(stored(repo), decoded(want))
    assert isinstance(repo, frazil.Repository)
