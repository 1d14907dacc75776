"""Two reads in one Python process: neither sees anything of the other.

Spark reuses its Python workers, and these cache what they opened and decoded. So every pair of
reads here differs in its data, but has columns of the same names: a value of the first read that
comes out of the second is seen. Most pairs run in the test's own process, by the code that
executors run and with the reader pickled as Spark pickles it, since a job of Spark takes longer
than a hundred such reads; some run on Spark's workers.
"""

import pickle
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StructField, StructType

from frazil.api import Repository
from frazil.api.storage_functions import local_filesystem_storage
from frazil.spark import read
from frazil.spark.io.data_source import IcechunkReader, IcechunkSource
from frazil.spark.table.opened import open_pinned, pin, reuse_pinned
from frazil.spark.table.options import ReadOptions, Version
from frazil.spark.table.scan import plan_axes, plan_scan, plan_table
from frazil.spark.table.schema import arrow_schema, spark_schema
from frazil.spark.table.selection import Bounds, Labels, to_index_selection, to_selection
from tests.examples_count import scaled
from tests.spark.stream_cases import batch_here, stream_here

REPOSITORIES, TAGS, GROUPS = ("one", "two"), ("v1", "v2"), ("a", "b", "a/deep")
ZONES = ("UTC", "+02:00", "America/New_York", "Asia/Kolkata")
TIMES, LATITUDES = 5, 4


@dataclass(frozen=True)
class Read:
    """What is read, and of it the rows that `kept` says."""

    repository: str
    tag: str
    group: str
    decode_cf: bool
    variables: tuple[str, ...]
    kept: str  # all, sel, isel or where
    at: int  # a position along time, from which on rows are wanted
    zone: str


reads = st.builds(
    Read,
    repository=st.sampled_from(REPOSITORIES),
    tag=st.sampled_from(TAGS),
    group=st.sampled_from(GROUPS),
    decode_cf=st.booleans(),
    variables=st.sampled_from([("v",), ("v", "w")]),
    kept=st.sampled_from(["all", "sel", "isel", "where"]),
    at=st.integers(0, TIMES - 1),
    zone=st.sampled_from(ZONES),
)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Read, Read]:
    """Often alike but for one thing: that is what a key forgets."""
    first = draw(reads)
    other = draw(reads.filter(lambda each: each != first))
    changed = draw(st.sampled_from(["repository", "tag", "group", "decode_cf", "all"]))
    if changed == "all" or getattr(first, changed) == getattr(other, changed):
        return first, other
    return first, replace(first, **{changed: getattr(other, changed)})


class World:
    """Repositories, and what is in them as xarray has it, undecoded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stored: dict[tuple[str, str, str], xr.Dataset] = {}
        seed = 0
        for name in REPOSITORIES:
            repository = Repository.create(local_filesystem_storage(folder / name))
            for tag in TAGS:
                with repository.transaction("main", message=tag) as store:
                    for group in GROUPS:
                        seed += 1
                        self.stored[name, tag, group] = make_dataset(seed)
                        store_dataset(store, group, self.stored[name, tag, group])
                repository.create_tag(tag, repository.lookup_branch("main"))

    def reader(self, wanted: Read) -> IcechunkReader:
        """As the data source makes it on the driver, but that nothing is opened twice."""
        chosen = self.selection(wanted)
        options = ReadOptions(
            path=str(self.folder / wanted.repository),
            group=f"/{wanted.group}",
            variables=wanted.variables,
            selection=to_selection(chosen.get("sel", {})),
            isel=to_index_selection(chosen.get("isel", {})),
            version=Version(tag=wanted.tag),
            decode_cf=wanted.decode_cf,
            partition_bytes=64,  # several tasks
        )
        pinned = pin(options)
        opened = open_pinned(pinned)
        table = plan_table(opened, options)
        if "where" in chosen:
            first = self.decoded(wanted)["time"].to_numpy()[wanted.at]
            (low,) = to_selection({"time": [first]}).on("time")
            assert isinstance(low, Labels)
            options = replace(options, selection=to_selection({"time": Bounds(ge=low.values[0])}))
        return IcechunkReader(
            pinned,
            (plan_scan(table, plan_axes(opened, table, options), options),),
            spark_schema(table.columns),
        )

    def frame(self, spark: SparkSession, wanted: Read) -> DataFrame:
        return read(
            spark,
            self.folder / wanted.repository,
            group=wanted.group,
            variables=wanted.variables,
            tag=wanted.tag,
            decode_cf=wanted.decode_cf,
            partition_bytes=64,
            **self.selection(wanted),
        )

    def selection(self, wanted: Read) -> dict[str, Any]:
        if wanted.kept == "isel":
            return {"isel": {"time": slice(wanted.at, None)}}
        first = self.decoded(wanted)["time"].to_numpy()[wanted.at]
        if wanted.kept == "sel":
            return {"sel": {"time": slice(first, None)}}
        if wanted.kept == "where":
            return {"where": f"time >= {local_text(first, wanted.zone)}"}
        return {}

    def decoded(self, wanted: Read) -> xr.Dataset:
        dataset = self.stored[wanted.repository, wanted.tag, wanted.group]
        coder = xr.coders.CFDatetimeCoder(time_unit="us")
        return xr.decode_cf(dataset, decode_times=coder) if wanted.decode_cf else dataset

    def rows(self, wanted: Read) -> list[tuple[float | None, ...]]:
        """Of xarray: numbers, microseconds for times, None for what is missing; in order of v."""
        dataset = self.decoded(wanted)
        times = dataset["time"].to_numpy()
        if wanted.kept in {"sel", "where"}:
            dataset = dataset.isel(time=np.flatnonzero(times >= times[wanted.at]))
        elif wanted.kept == "isel":
            dataset = dataset.isel(time=slice(wanted.at, None))
        columns = ("time", "lat", *wanted.variables)
        flat = xr.broadcast(*(dataset[name] for name in columns))
        lists = [plain(each.transpose("time", "lat").to_numpy().ravel()) for each in flat]
        return sorted(zip(*lists, strict=True), key=lambda row: row[2] or 0)


def make_dataset(seed: int) -> xr.Dataset:
    """Values, scales and units that no other dataset has; times ascending or descending."""
    counted = seed * 100 + np.arange(TIMES) * 6
    unit = ("hours", "minutes", "seconds")[seed % 3]
    times = {"units": f"{unit} since {2000 + seed}-01-01", "scale_factor": 0.5}
    if seed % 2:
        counted = counted[::-1]
        del times["scale_factor"]
    bits = (32_000 + 300 * seed + np.arange(LATITUDES)).astype(np.uint16).view(np.int16)
    latitudes = {"_Unsigned": "true", "scale_factor": 0.25} if seed % 4 else {"add_offset": seed}
    shape = (TIMES, LATITUDES)
    values = seed * 1000 + np.arange(TIMES * LATITUDES).reshape(shape)
    packed = (values % 300).astype(np.int16)
    attrs = {"_FillValue": int(packed[1, 1]), "scale_factor": 0.1, "add_offset": float(seed)}
    return xr.Dataset(
        {"v": (("time", "lat"), values), "w": (("time", "lat"), packed, attrs)},
        {
            "time": ("time", counted.astype(np.int32 if seed % 2 else np.int64), times),
            "lat": ("lat", bits, latitudes),
        },
    )


def store_dataset(store: Any, group: str, dataset: xr.Dataset) -> None:
    target = zarr.create_group(store, path=group, overwrite=True)
    for name, variable in dataset.variables.items():
        target.create_array(
            str(name),
            data=np.ascontiguousarray(variable.to_numpy()),
            chunks=(3,) if variable.ndim == 1 else (3, LATITUDES),
            dimension_names=[str(dim) for dim in variable.dims],
            attributes=variable.attrs,
            fill_value=0,
            overwrite=True,
        )


def local_text(value: Any, zone: str) -> str:
    """A literal of SQL: a time as the clocks of a zone show it."""
    if not isinstance(value, np.datetime64):
        return str(value)
    moment = value.astype("datetime64[us]").item().replace(tzinfo=UTC)
    if zone.startswith("+"):
        local = moment + timedelta(hours=int(zone[1:3]))
    else:
        local = moment.astimezone(ZoneInfo(zone))
    return f"'{local:%Y-%m-%d %H:%M:%S.%f}'"


def plain(values: np.ndarray[Any, Any]) -> list[float | None]:
    if values.dtype.kind == "M":
        return [int(each) for each in values.astype("datetime64[us]").astype(np.int64)]
    return [None if np.isnan(each) else each.item() for each in values]


def execute(planned: IcechunkReader) -> pa.Table:
    """What executors do: `IcechunkReader.read` of a reader that was pickled, part by part."""
    serializer: Any = CloudPickleSerializer  # it has no types
    reader = pickle.loads(serializer().dumps(planned))
    found = [batch for part in planned.partitions() for batch in reader.read(part)]
    return pa.Table.from_batches(found, arrow_schema(planned.schema))


def rows_of(table: pa.Table, columns: tuple[str, ...]) -> list[tuple[float | None, ...]]:
    lists = []
    for name in columns:
        column = table[name]
        if pa.types.is_timestamp(column.type):
            column = pc.cast(column, pa.int64())
        lists.append(column.to_pylist())
    return sorted(zip(*lists, strict=True), key=lambda row: row[2])


def require_equal(world: World, wanted: Read) -> None:
    found = rows_of(execute(world.reader(wanted)), ("time", "lat", *wanted.variables))
    expected = world.rows(wanted)
    if wanted.kept == "where":  # Spark applies the predicate to what is read
        first = min(row[0] or 0 for row in expected)
        assert len(found) < TIMES * LATITUDES or len(expected) > (TIMES - 1) * LATITUDES
        found = [row for row in found if (row[0] or 0) >= first]
    assert found == expected


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("reused"))


@pytest.fixture
def fresh_worker() -> Iterator[None]:
    reuse_pinned.cache_clear()
    yield
    reuse_pinned.cache_clear()


def check_pair(world: World, pair: tuple[Read, Read]) -> None:
    reuse_pinned.cache_clear()  # a pair is a worker, so that a failure is a pair's own
    for wanted in pair:
        require_equal(world, wanted)


@settings(max_examples=scaled(40))
@given(pair=pairs())
def test_two_reads_in_one_process_are_those_of_xarray(
    world: World, pair: tuple[Read, Read]
) -> None:
    check_pair(world, pair)


@pytest.mark.long
@settings(max_examples=scaled(1000))
@given(pair=pairs())
def test_a_thousand_pairs_of_reads_are_those_of_xarray(
    world: World, pair: tuple[Read, Read]
) -> None:
    check_pair(world, pair)


# They differ from the first in one thing each. Each is several tasks of one job, which two Python
# processes take in turns: so each process has tasks of several reads.
_FIRST = Read("one", "v1", "a", True, ("v", "w"), "all", 2, "UTC")
ON_SPARK = [
    _FIRST,
    replace(_FIRST, group="b"),
    replace(_FIRST, repository="two"),
    replace(_FIRST, decode_cf=False),
    replace(_FIRST, tag="v2", kept="where", zone="America/New_York"),
    replace(_FIRST, group="a/deep", kept="sel", variables=("v",)),
]


@pytest.mark.spark
def test_reads_in_one_job_of_spark_are_those_of_xarray(spark: SparkSession, world: World) -> None:
    frames = []
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        for number, wanted in enumerate(ON_SPARK):
            spark.conf.set("spark.sql.session.timeZone", wanted.zone)
            frame = world.frame(spark, wanted)
            is_time = dict(frame.dtypes)["time"] == "timestamp"
            time = sf.unix_micros("time") if is_time else sf.col("time").cast("long")
            w = sf.col("w") if "w" in wanted.variables else sf.lit(None)
            columns = [time, sf.col("lat").cast("double"), sf.col("v"), w.cast("double")]
            frames.append(frame.select(sf.lit(number), *columns).toDF("k", "time", "lat", "v", "w"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone or "UTC")
    whole = frames[0]
    for each in frames[1:]:
        whole = whole.unionAll(each)
    table = whole.toArrow()
    for number, wanted in enumerate(ON_SPARK):
        part = table.filter(pc.equal(table["k"], number))
        expected = world.rows(wanted)
        found = rows_of(part, ("time", "lat", *wanted.variables))
        assert found == expected, wanted


@pytest.mark.usefixtures("fresh_worker")
def test_a_repository_that_was_created_again_is_another(tmp_path: Path) -> None:
    found = []
    for first in (0, 100):
        shutil.rmtree(tmp_path / "repo", ignore_errors=True)
        repository = Repository.create(local_filesystem_storage(tmp_path / "repo"))
        with repository.transaction("main", message="x") as store:
            group = zarr.group(store)
            for name in ("lat", "v"):
                group.create_array(name, data=first + np.arange(3), dimension_names=["lat"])
        source = IcechunkSource({"path": str(tmp_path / "repo")})
        reader = source.reader(StructType([StructField(name, LongType()) for name in ("lat", "v")]))
        assert isinstance(reader, IcechunkReader)
        found.append(execute(reader).to_pydict())
    assert found == [{"lat": [n, n + 1, n + 2], "v": [n, n + 1, n + 2]} for n in (0, 100)]


@pytest.mark.usefixtures("fresh_worker")
def test_another_configuration_is_opened_again(tmp_path: Path) -> None:
    """It says where virtual chunks are, for one."""
    repository = Repository.create(local_filesystem_storage(tmp_path / "repo"))
    options = ReadOptions(path=str(tmp_path / "repo"))
    before = reuse_pinned(pin(options))
    assert reuse_pinned(pin(options)) is before
    config = repository.config
    config.inline_chunk_threshold_bytes = 7
    repository.reopen(config=config).save_config()
    assert reuse_pinned(pin(options)) is not before


@pytest.mark.usefixtures("fresh_worker")
def test_a_stream_opens_another_configuration_again(tmp_path: Path) -> None:
    """Each batch is planned with the configuration as it is then, and its tasks are read so."""
    repository = Repository.create(local_filesystem_storage(tmp_path / "repo"))
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="v", data=np.arange(3), dimension_names=["x"])
    session.commit("values")
    stream = stream_here(tmp_path / "repo")
    start = stream.initialOffset()
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert len(batch_here(stream, start, end)) == 3
    opened = reuse_pinned.cache_info().misses
    assert len(batch_here(stream, start, end)) == 3
    assert reuse_pinned.cache_info().misses == opened
    config = repository.config
    config.inline_chunk_threshold_bytes = 7
    repository.reopen(config=config).save_config()
    assert len(batch_here(stream, start, end)) == 3
    assert reuse_pinned.cache_info().misses > opened
