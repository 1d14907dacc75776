"""Memory that Spark jobs take on the driver, by chunk.

    python -m benchmarks.driver_memory [JOB ...] [--counts N ...] [--inline]
                                       [--folder F] [--copies F]

Every line is a process of its own, whose driver has run the same job over few chunks before. Peak
memory is that of the driver's Python (resident, above what it was before the job), collected is the
size of what Spark sent to it, at once or partition by partition. With `local[2]` the tasks
run in the JVM of the driver and in Python workers: of the JVM only its limit is known (--heap).

Arrays have chunks of one element in two dimensions, so that the rest is as small as can be, and
repositories are in memory (/dev/shm) where there is such a folder, or in --folder. Jobs over chunk
objects (clone, pack, garbage collection, verification) have as many objects as chunks: hard links
of one file. Ten million need a folder without a limit of inodes (mount -t tmpfs -o nr_inodes=0).
With --inline chunks are in manifests, as such small ones are by default, and jobs that store chunks
make no objects: ten million files take 40 GB. A deep clone has to make them: --copies names a
folder for them, such as an ext4 file system made with `inline_data`, where they take 3 GB.
`df.write` plans and commits in Python processes of Spark's own on the driver. Here all of that is
done in this one, as the Java side asks for it, and its tasks run in processes of their own; what is
collected are the messages of the tasks.
"""

import argparse
import itertools
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import numpy as np
import pyarrow as pa
import xarray as xr
import zarr
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

import frazil
from benchmarks.timing import CLEAR_REFS, RESET_PEAK, status_bytes
from frazil.format.chunk_refs import ChunkRefs
from frazil.ids import ChunkId, format_ids
from frazil.maintenance.relocate import random_ids
from frazil.paths import NodePath
from frazil.spark import clone, ingest, map_blocks, rechunk, reduce, write
from frazil.spark.actions.collection import garbage_collect
from frazil.spark.actions.pack import pack
from frazil.spark.actions.verify import verify
from frazil.spark.pipelines.map_blocks import Output
from frazil.spark.runtime import stored_refs
from frazil.spark.spark_session import session
from frazil.spark.writing.options import TASKS, WRITE, parse_write_options
from frazil.spark.writing.sink import RowsWriter, answer_write
from frazil.spark.writing.write_tasks import TasksWriter

COUNTS = (10_000, 100_000, 1_000_000)
WARM = 2_000
MEMORY = Path("/dev/shm")  # noqa: S108 -- a folder in memory, below which a fresh one is made
SMALL = {"x": 1, "y": 1}
INLINE = "FRAZIL_BENCHMARK_INLINE"  # in the environment, for all processes of a run
COPIES = "FRAZIL_BENCHMARK_COPIES"

DRIVER_ROWS = 1_000_000  # spark.frazil.write.driverRows, unless set

type Job = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Sent:
    """Bytes that came to the driver in another way than as rows."""

    count: int


@dataclass(slots=True)
class Taken:
    seconds: float = 0.0
    peak_bytes: int = 0
    collected_bytes: int = 0


@contextmanager
def measured(spark: SparkSession) -> Iterator[Taken]:
    taken, frames = Taken(), type(spark.range(1))
    collect, iterate = frames.toArrow, frames.toLocalIterator

    def counting(frame: DataFrame) -> pa.Table:
        table = collect(frame)
        taken.collected_bytes += table.nbytes
        return table

    def counting_rows(frame: DataFrame, **options: bool) -> Iterator[Row]:
        for row in iterate(frame, **options):
            taken.collected_bytes += sum(len(each) for each in row if isinstance(each, bytes))
            yield row

    CLEAR_REFS.write_text(RESET_PEAK)
    before, started = status_bytes("VmRSS"), perf_counter()
    with (
        patch.object(frames, "toArrow", counting),
        patch.object(frames, "toLocalIterator", counting_rows),
    ):
        yield taken
    taken.seconds = perf_counter() - started
    taken.peak_bytes = status_bytes("VmHWM") - before


def sides(count: int) -> tuple[int, int]:
    """Lengths of a nearly square array of so many elements."""
    rows = 10 ** (len(str(count)) // 2)
    return rows, count // rows


def create(folder: Path) -> frazil.Repository:
    """No chunks are inline, unless asked for."""
    config = frazil.RepositoryConfig(
        inline_chunk_threshold_bytes=512 if INLINE in os.environ else 0
    )
    return frazil.Repository.create(frazil.local_filesystem_storage(str(folder)), config)


def create_array(
    folder: Path, count: int, *, objects: bool | None = None, depth: int = 0
) -> frazil.Repository:
    """An array `a`, made by a process of its own, whose memory is not this one's.

    It is in few chunks, or in chunks of one element: with `objects` each is an object, otherwise
    all are one. With `depth` chunks have the whole of a third dimension.
    """
    make = get_context("spawn").Process(target=make_array, args=(folder, count, objects, depth))
    make.start()
    make.join()
    if make.exitcode:
        raise RuntimeError(f"the array was not made: {make.exitcode}")
    return frazil.Repository.open(frazil.local_filesystem_storage(str(folder)))


def make_array(folder: Path, count: int, objects: bool | None, depth: int) -> None:  # noqa: FBT001 -- arguments of a process
    repo, shape = create(folder), sides(count)
    writable = repo.writable_session("main")
    zarr.create_group(writable.store)
    deep, tiny = (depth,) if depth else (), objects is not None
    array = zarr.create_array(
        writable.store, name="a", shape=(*shape, *deep), dtype="f8", compressors=None,
        chunks=(1, 1, *deep) if tiny else (shape[0], -(-shape[1] // 100)),
        dimension_names=["x", "y", "z"][: 2 + bool(depth)],
    )  # fmt: skip
    if not tiny:
        array[:] = np.arange(count).reshape(shape)
    else:
        size = 8 * max(1, depth)
        is_apart, ndim = bool(objects), array.ndim
        _set_chunks(folder, repo, writable, count, size=size, objects=is_apart, ndim=ndim)
    writable.commit("data")


def _set_chunks(
    folder: Path,
    repo: frazil.Repository,
    writable: Any,
    count: int,
    *,
    size: int,
    objects: bool,
    ndim: int,
) -> None:
    ids = random_ids(count) if objects else np.repeat(random_ids(1), count, axis=0)
    repo.engine.store.put(f"chunks/{ChunkId(ids[0].tobytes())}", bytes(range(1, 9)) * (size // 8))
    if objects:
        _link_objects(folder, format_ids(ids))
    index = np.stack(np.unravel_index(np.arange(count), sides(count)), axis=1)
    index = np.concatenate([index, np.zeros((count, ndim - 2), np.int64)], axis=1)
    refs = ChunkRefs.native(index, ids, np.zeros(count, np.uint64), np.full(count, size, np.uint64))
    writable.engine.set_chunk_refs(NodePath("/a"), refs)


def _link_objects(folder: Path, names: Sequence[str]) -> None:
    """Makes chunk objects of the first one, which exists."""
    chunks = os.open(folder / "chunks", os.O_RDONLY)  # no path for each of ten million names
    try:
        for name in names[1:]:
            os.link(names[0], name, src_dir_fd=chunks, dst_dir_fd=chunks)
    finally:
        os.close(chunks)


def double(values: Any) -> Any:
    return 2 * values


def _rows(spark: SparkSession, count: int) -> DataFrame:
    _, columns = sides(count)
    return spark.range(count).selectExpr(
        f"id div {columns} as x", f"id % {columns} as y", "cast(id as double) as v"
    )


ROWS = StructType(
    [StructField("x", LongType()), StructField("y", LongType()), StructField("v", DoubleType())]
)


def prepare_df_write(spark: SparkSession, folder: Path, count: int) -> Job:
    del spark
    create(folder / "repo")
    return lambda: _df_write(
        {
            "path": str(folder / "repo"), "dims": "x,y", "chunks": json.dumps(SMALL),
            WRITE: json.dumps({"job": str(uuid4()), "rows": DRIVER_ROWS,
                               "chunks": stored_refs.MOST_COLLECTED}),
        },
        count,
    )  # fmt: skip


def _df_write(options: dict[str, str], count: int) -> Sent:
    """Runs rounds of tasks as frazil.spark.WriteJob does; the size of the messages."""
    staged = _apart(_stage_rows, options, count)
    RowsWriter(parse_write_options(options), ROWS).commit([staged])
    sent = len(pickle.dumps(staged))
    for number in itertools.count():
        question = {"tasks": count, "round": number, "epoch": None}
        tasks = answer_write(question, options)["tasks"]
        if not tasks:
            return Sent(sent)
        writer = TasksWriter(parse_write_options({**options, TASKS: json.dumps(question)}))
        messages = [_apart(_run_task, writer, task) for task in range(tasks)]
        writer.commit(messages)
        sent += len(pickle.dumps(messages))
    raise AssertionError


def _stage_rows(options: dict[str, str], count: int) -> Any:
    columns = sides(count)[1]

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, count, 10_000):
            number = np.arange(start, min(start + 10_000, count))
            x, y = np.divmod(number, columns)
            yield pa.record_batch({"x": x, "y": y, "v": number * 1.0})

    return RowsWriter(parse_write_options(options), ROWS).write(batches())


def _run_task(writer: TasksWriter, number: int) -> Any:
    return writer.write(iter([pa.record_batch({"id": [number]})]))


def _apart(function: Callable[..., Any], *arguments: object) -> Any:
    """Result of a call in a process of its own, whose memory is not this one's."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def prepare_write(spark: SparkSession, folder: Path, count: int) -> Job:
    repo, rows = create(folder / "repo"), _rows(spark, count)
    return lambda: write(rows, repo, dims=["x", "y"], chunks=SMALL)


def prepare_ingest(spark: SparkSession, folder: Path, count: int) -> Job:
    values = np.arange(count).reshape(sides(count)) * 1.0
    xr.Dataset({"v": (("x", "y"), values)}).to_netcdf(folder / "f.nc", engine="h5netcdf")
    repo = create(folder / "repo")
    return lambda: ingest(spark, [folder / "f.nc"], repo, concat_dim="x", chunks=SMALL)


def prepare_rechunk(spark: SparkSession, folder: Path, count: int) -> Job:
    repo = create_array(folder / "repo", count)
    return lambda: rechunk(spark, repo, "/a", chunks=SMALL)


def prepare_copied_refs(spark: SparkSession, folder: Path, count: int) -> Job:
    """A rechunk to another path of what has such chunks: references alone."""
    repo = create_array(folder / "repo", count, objects=False)
    return lambda: rechunk(spark, repo, "/a", chunks=SMALL, into="/b")


def prepare_map_blocks(spark: SparkSession, folder: Path, count: int) -> Job:
    repo = create_array(folder / "repo", count)
    made = {"/b": Output(dtype="f8", chunks=SMALL)}
    return lambda: map_blocks(spark, repo, double, "/a", made)


def prepare_reduce(spark: SparkSession, folder: Path, count: int) -> Job:
    repo = create_array(folder / "repo", count, objects=False, depth=2)
    return lambda: reduce(spark, repo, "a", over="z", how="sum", into="/sums")


def prepare_clone(spark: SparkSession, folder: Path, count: int) -> Job:
    repo = create_array(folder / "repo", count, objects=True)
    copies = Path(os.environ.get(COPIES, folder))
    return lambda: clone(spark, repo, copies / f"copy-{folder.name}")


def prepare_shallow_clone(spark: SparkSession, folder: Path, count: int) -> Job:
    repo = create_array(folder / "repo", count, objects=True)
    return lambda: clone(spark, repo, folder / "copy", deep=False)


def prepare_pack(spark: SparkSession, folder: Path, count: int) -> Job:
    repo = create_array(folder / "repo", count, objects=True)
    return lambda: pack(spark, repo)


def prepare_verify(spark: SparkSession, folder: Path, count: int) -> Job:
    repo = create_array(folder / "repo", count, objects=True)
    return lambda: verify(spark, repo)


def prepare_garbage_collect(spark: SparkSession, folder: Path, count: int) -> Job:
    """Half of the objects are garbage."""
    repo = create_array(folder / "repo", count // 2, objects=True)
    names = format_ids(random_ids(count // 2))
    repo.engine.store.put(f"chunks/{names[0]}", b"")
    _link_objects(folder / "repo", names)
    old = datetime.now(UTC) + timedelta(days=1)
    return lambda: garbage_collect(spark, repo, old, safety_age=timedelta(0))


JOBS = {
    "write": prepare_write,
    "df.write": prepare_df_write,
    "ingest": prepare_ingest,
    "rechunk": prepare_rechunk,
    "copied references": prepare_copied_refs,
    "map_blocks": prepare_map_blocks,
    "reduce": prepare_reduce,
    "clone": prepare_clone,
    "shallow clone": prepare_shallow_clone,
    "pack": prepare_pack,
    "garbage_collect": prepare_garbage_collect,
    "verify": prepare_verify,
}


@contextmanager
def prepared(spark: SparkSession, name: str, count: int, home: Path = MEMORY) -> Iterator[Job]:
    place = home if home.is_dir() else None
    with TemporaryDirectory(prefix="frazil-driver-", dir=place) as folder:
        yield JOBS[name](spark, Path(folder), count)


def run_one(name: str, count: int, heap: str, home: Path) -> Taken:
    settings = {"spark.driver.memory": heap}
    spark = session(app_name="driver memory", master="local[2]", config=settings)
    few = stored_refs.MOST_COLLECTED if count <= stored_refs.MOST_COLLECTED else 0
    with (
        prepared(spark, name, min(WARM, count), home) as job,
        patch.object(stored_refs, "MOST_COLLECTED", few),  # in the way of the run that counts
    ):
        job()
    with prepared(spark, name, count, home) as job, measured(spark) as taken:
        result = job()
    if isinstance(result, Sent):
        taken.collected_bytes += result.count
    spark.stop()
    return taken


def run_apart(name: str, count: int, heap: str, home: Path) -> Taken | str:
    """The numbers, or what went wrong."""
    command = [sys.executable, "-m", "benchmarks.driver_memory", "--one", name]
    done = subprocess.run(
        [*command, "--counts", str(count), "--heap", heap, "--folder", str(home)],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return next((line for line in done.stderr.splitlines()[::-1] if line.strip()), "failed")
    return Taken(**json.loads(done.stdout.splitlines()[-1]))


def report(names: list[str], counts: list[int], heap: str, home: Path) -> None:
    print("| job | chunks | time | peak memory added, Python | bytes for each | collected |")
    print("|---|---|---|---|---|---|")
    for name in names:
        last: tuple[int, int] | None = None
        for count in counts:
            taken = run_apart(name, count, heap, home)
            if isinstance(taken, str):
                print(f"| {name} | {count:,} | {taken[:120]} |", flush=True)
                continue
            few, before = last or (0, 0)
            slope = (taken.peak_bytes - before) / (count - few)
            last = count, taken.peak_bytes
            mib, collected = taken.peak_bytes / 2**20, taken.collected_bytes / count
            cells = f"{taken.seconds:.1f} s | {mib:.0f} MiB | {slope:.0f} | {collected:.1f}"
            print(f"| {name} | {count:,} | {cells} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=", ".join(JOBS))
    parser.add_argument("--counts", nargs="+", type=int, default=list(COUNTS), metavar="N")
    parser.add_argument("--heap", default="1g", help="spark.driver.memory")
    parser.add_argument("--folder", type=Path, default=MEMORY, help="where repositories are made")
    parser.add_argument("--copies", type=Path, help="where deep clones are made, and left")
    parser.add_argument("--inline", action="store_true", help="store chunks in manifests")
    parser.add_argument("--one", choices=JOBS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if unknown := set(arguments.jobs) - JOBS.keys():
        parser.error(f"unknown jobs: {', '.join(sorted(unknown))}")
    if arguments.inline:
        os.environ[INLINE] = "1"
    if arguments.copies:
        os.environ[COPIES] = str(arguments.copies)
    if arguments.one:
        (count,) = arguments.counts
        print(json.dumps(asdict(run_one(arguments.one, count, arguments.heap, arguments.folder))))
    else:
        report(arguments.jobs or list(JOBS), arguments.counts, arguments.heap, arguments.folder)


if __name__ == "__main__":
    main()
