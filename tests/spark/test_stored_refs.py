"""Jobs whose manifests executors write: the same result as with manifests made by the commit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pyarrow as pa
import pytest
import xarray as xr
import zarr
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no annotations
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import frazil
from frazil.paths import NodePath
from frazil.spark import ingest, map_blocks, rechunk, reduce, write
from frazil.spark.pipelines.map_blocks import Output
from frazil.spark.runtime import stored_refs
from frazil.spark.runtime.jobs import collect, map_tasks
from frazil.spark.runtime.stored_refs import RefsSink

pytestmark = pytest.mark.spark

type Job = Callable[[SparkSession, frazil.Repository, Path], object]

SHAPE = (9, 14)


def create(folder: Path, split: int | None) -> frazil.Repository:
    """Half of a group of arrays, in two commits, the second of them split in the usual way."""
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=24)
    if split is not None:
        sizes: Any = {frazil.ManifestSplitDimCondition.Any(): split}
        config.manifest = frazil.ManifestConfig(
            splitting=frazil.ManifestSplittingConfig.from_dict(
                {frazil.ManifestSplitCondition.AnyArray(): sizes}
            )
        )
    storage = frazil.local_filesystem_storage(str(folder))
    repo = frazil.Repository.create(storage, config)
    for given, rows in ((frazil.RepositoryConfig(), slice(0, 6)), (config, slice(4, 9))):
        session = frazil.Repository.open(storage, given).writable_session("main")
        group = zarr.open_group(session.store, mode="a")
        random = np.random.default_rng(3)
        for name, chunks in (("v", (2, 3)), ("w", (4, 4))):
            array = group.require_array(
                name, shape=SHAPE, chunks=chunks, dtype="f8", dimension_names=["x", "y"],
                fill_value=np.nan,
            )  # fmt: skip
            array[rows] = random.normal(size=SHAPE)[rows]
        for name, size in zip("xy", SHAPE, strict=True):
            group.require_array(name, shape=(size,), dtype="i8", dimension_names=[name])[:] = (
                np.arange(size)
            )
        session.commit("rows")
    return repo


def _rows(spark: SparkSession, x: range, y: range, value: str) -> Any:
    frame = spark.range(len(x) * len(y)).selectExpr(
        f"id div {len(y)} + {x.start} as x", f"id % {len(y)} + {y.start} as y"
    )
    return frame.selectExpr("x", "y", f"{value} as v", "double(x) as w")


def create_by_rows(spark: SparkSession, repo: frazil.Repository, _: Path) -> object:
    rows = _rows(spark, range(7), range(5), "double(x + y)")
    return write(rows, repo, group="new", dims=["x", "y"], chunks={"x": 1, "y": 2})


def upsert_rows(spark: SparkSession, repo: frazil.Repository, _: Path) -> object:
    rows = _rows(spark, range(5, 12), range(3, 9), "double(x * y)")
    return write(rows, repo, mode="upsert")


def empty_by_rows(spark: SparkSession, repo: frazil.Repository, _: Path) -> object:
    rows = _rows(spark, range(8), range(6), "cast(null as double)")
    return write(rows, repo, mode="region")


def ingest_new(spark: SparkSession, repo: frazil.Repository, folder: Path) -> object:
    random = np.random.default_rng(1)
    data = {
        "t": (("time", "y"), random.normal(size=(8, 6))),
        "n": (("time",), np.arange(8)),
        "s": ((), np.float64(7)),
    }
    for start in (0, 4):
        part = xr.Dataset(data, coords={"time": np.arange(8)}).isel(time=slice(start, start + 4))
        part.to_netcdf(folder / f"{start}.nc", engine="h5netcdf")
    first, second = (folder / f"{start}.nc" for start in (0, 4))
    options: dict[str, Any] = {"group": "files", "concat_dim": "time"}
    ingest(spark, first, repo, chunks={"time": 3, "y": 2}, **options)
    return ingest(spark, second, repo, mode="append", **options)


def ingest_region(spark: SparkSession, repo: frazil.Repository, folder: Path) -> object:
    values = np.where(np.arange(14) < 7, np.nan, 5.0) * np.ones((4, 1))
    dims = ("x", "y")
    part = xr.Dataset(
        {"v": (dims, values), "w": (dims, values)},
        coords={"x": np.arange(2, 6), "y": np.arange(14)},
    )
    plain = {"v": {"_FillValue": None}, "w": {"_FillValue": None}}
    part.to_netcdf(folder / "part.nc", engine="h5netcdf", encoding=plain)
    return ingest(spark, folder / "part.nc", repo, mode="region", concat_dim="x")


def rechunk_into(spark: SparkSession, repo: frazil.Repository, _: Path) -> object:
    return rechunk(spark, repo, "/", chunks={"x": 2, "y": 3}, into="/other")  # v is only copied


def double(values: Any) -> Any:
    return 2 * values


def map_values(spark: SparkSession, repo: frazil.Repository, _: Path) -> object:
    made = {"/doubled": Output(dtype="f8", chunks={"x": 3, "y": 1})}
    return map_blocks(spark, repo, double, "/v", made)


def reduce_values(spark: SparkSession, repo: frazil.Repository, _: Path) -> object:
    return reduce(spark, repo, "v", over="x", how="max", into="/largest")


JOBS: list[Job] = [
    create_by_rows,
    upsert_rows,
    empty_by_rows,
    ingest_new,
    ingest_region,
    rechunk_into,
    map_values,
    reduce_values,
]


def contents(repo: frazil.Repository) -> dict[str, dict[tuple[int, ...], bytes]]:
    """Bytes of all chunks, by array and index."""
    session = repo.readonly_session("main").engine
    found: dict[str, dict[tuple[int, ...], bytes]] = {}
    for node in session.nodes():
        if node.array is not None:
            parts = session.chunk_refs(node.path)
            rows = [tuple(row) for refs in parts for row in refs.index.tolist()]
            assert len(set(rows)) == len(rows)
            data = {row: session.fetch_chunk(node.path, row) for row in rows}
            found[node.path.text] = {row: bytes(each or b"") for row, each in data.items()}
    return found


def by_icechunk(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values of all arrays, and the chunks that the last commit changed."""
    repo = icechunk.Repository.open(icechunk.local_filesystem_storage(str(folder)))
    group = zarr.open_group(repo.readonly_session("main").store, mode="r")
    tip, before = list(repo.ancestry(branch="main"))[:2]
    changed = repo.diff(from_snapshot_id=before.id, to_snapshot_id=tip.id).updated_chunks
    values = {
        path: np.asarray(each[...]).tobytes()
        for path, each in group.members(max_depth=None)
        if isinstance(each, zarr.Array)
    }
    return values, {path: sorted(each) for path, each in changed.items()}


@pytest.mark.parametrize("split", [None, 2])
@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.__name__)
def test_the_result_is_the_same(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    job: Job,
    split: int | None,
) -> None:
    found, attached, as_it_is = [], list[int](), RefsSink.attach

    def attach(sink: RefsSink, table: pa.Table) -> Any:
        attached.append(table.num_rows)
        return as_it_is(sink, table)

    for name in ("few", "many"):
        with monkeypatch.context() as patched:
            patched.setattr(RefsSink, "attach", attach)
            if name == "many":
                patched.setattr(stored_refs, "MOST_COLLECTED", 0)
                patched.setattr(stored_refs, "CHUNKS_LOGGED_HERE", 3)
            repo = create(tmp_path / name, split)
            result: Any = job(spark, repo, tmp_path)
        assert bool(attached) == (name == "many")
        numbers = (result.chunks, result.bytes, result.committed)
        found.append((numbers, contents(repo), *by_icechunk(tmp_path / name)))
    assert found[0] == found[1]


def test_a_write_that_executors_made_manifests_for_is_rebased(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = create(tmp_path / "repo", 2)
    monkeypatch.setattr(stored_refs, "MOST_COLLECTED", 0)
    attach = RefsSink.attach

    def attach_overtaken(sink: RefsSink, table: pa.Table) -> Any:
        other = repo.writable_session("main")
        zarr.open_array(other.store, path="v")[8, 13] = 77.0
        other.commit("in between")
        return attach(sink, table)

    monkeypatch.setattr(RefsSink, "attach", attach_overtaken)
    rows = _rows(spark, range(4), range(4), "double(x * y)")
    write(rows, repo, mode="region", rebase=True)
    values = zarr.open_array(repo.readonly_session("main").store, path="v")
    assert values[8, 13] == 77.0
    np.testing.assert_array_equal(values[:4, :4], np.multiply.outer(range(4), range(4)))


# ---- the limit of what Spark sends to the driver -----------------------------------------------


@contextmanager
def limited_results(spark: SparkSession, size: str) -> Iterator[None]:
    """What `spark.driver.maxResultSize` does; the scheduler looks at it for each job."""
    key = "spark.driver.maxResultSize"
    conf = spark.sparkContext._jsc.sc().conf()
    before = conf.get(key, "1g")
    conf.set(key, size)
    try:
        yield
    finally:
        conf.set(key, before)


def test_the_limit_of_results_does_not_limit_the_number_of_chunks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.range(20_000).selectExpr("id div 100 as x", "id % 100 as y", "double(id) as v")

    def run(name: str) -> frazil.Repository:
        storage = frazil.local_filesystem_storage(str(tmp_path / name))
        repo = frazil.Repository.create(storage)
        with limited_results(spark, "300k"):
            write(rows, repo, dims=["x", "y"], chunks={"x": 1, "y": 1})
        return repo

    monkeypatch.setattr("frazil.spark.runtime.jobs._collect_partitions", refuse)
    with pytest.raises(AssertionError, match="too much"):
        run("few")
    monkeypatch.setattr(stored_refs, "MOST_COLLECTED", 0)
    repo = run("many")
    refs = list(repo.readonly_session("main").engine.chunk_refs(NodePath("/v")))
    assert sum(map(len, refs)) == 20_000


def refuse(_: object) -> Any:
    raise AssertionError("too much for the driver")


def test_results_that_are_too_large_together_are_fetched_in_parts(spark: SparkSession) -> None:
    schema = pa.schema([("first", pa.int64()), ("result", pa.binary())])
    frame = map_tasks(spark, 8, 8, large_rows, schema)
    with limited_results(spark, "200k"):
        with pytest.raises((PySparkException, Py4JError), match="maxResultSize"):
            frame.toArrow()
        table = collect(frame)
    assert table.schema == schema
    assert sorted(table["first"].to_pylist()) == list(range(8))
    assert {len(each) for each in table["result"].to_pylist()} == {100_000}


def large_rows(rows: range) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(rows.start)
    yield pa.RecordBatch.from_pylist(
        [{"first": row, "result": random.bytes(100_000)} for row in rows]
    )
