"""A branch of very many virtual references, by Spark, and what can be done with it.

    python -m benchmarks.billion FOLDER [--references N] [--batch N] [--copies N ...]

Sources are made up: empty files with a format that says which chunks they have, 100,000 each, so
that there is nothing to read and everything to write down. A commit can have some 76 million of
them, so that it takes several. Then: a million more appended, one element read from cold (from a
bucket with 20 ms latency), a listing, differences, verification, garbage collection, expiry, and
manifests written again. Each line is printed when it is known. Memory of the driver is that of its
Python process, of workers that of the largest.

--copies: the repository is made larger by manifests that are other names (hard links) of those it
has, with other extents. So planning, snapshots and collection are those of a repository of that
size, and the disk is not.

FOLDER is kept: a repository that is there is not made again.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import batched
from pathlib import Path

import numpy as np
import xarray as xr
import zarr
from pyspark.sql import SparkSession

import frazil
from benchmarks.slow_bucket import bucket_storage, slow_bucket
from benchmarks.spark.meter import measure
from benchmarks.timing import status_bytes
from frazil.engine.changes.attached_manifests import AttachedManifest
from frazil.engine.commit.splitting import usual_cells
from frazil.format.chunk_index import ChunkSet
from frazil.format.snapshot import ManifestFile
from frazil.ids import ManifestId
from frazil.paths import NodePath
from frazil.spark import ingest
from frazil.spark.actions.collection import garbage_collect
from frazil.spark.actions.rewrite_manifests import rewrite_manifests
from frazil.spark.actions.verify import verify
from frazil.spark.sources import Source, SourceFormat, register_source_format
from frazil.spark.sources.source_types import ChunkTable, Storage, StoredAs
from frazil.spark.spark_session import session

STEPS, SIDE, CHUNK = 10, 100, 100  # of a file: time steps, chunks along x and y, their length
PER_FILE = STEPS * SIDE * SIDE
CHUNK_BYTES = 4 * CHUNK * CHUNK
SUFFIX = ".madeup"
HEADER = 4096
APPENDED = 1_000_000


def _number(source: Source) -> int:
    return int(Path(source.path).stem)


def open_made_up(source: Source, _group: str | None) -> xr.Dataset:
    times = np.arange(STEPS, dtype=np.int64) + STEPS * _number(source)
    field = np.broadcast_to(np.float32(0), (STEPS, SIDE * CHUNK, SIDE * CHUNK))
    return xr.Dataset({"field": (("time", "y", "x"), field)}, {"time": ("time", times)})


def made_up_storage(_source: Source, names: list[str], _group: str | None) -> dict[str, Storage]:
    codecs = json.dumps([{"name": "bytes", "configuration": {"endian": "little"}}])
    stored = StoredAs(chunks=(1, CHUNK, CHUNK), data_type="float32", codecs=codecs, fill=None)
    return {name: stored if name == "field" else "coordinates" for name in names}


def made_up_chunks(
    source: Source, _name: str, _chunks: tuple[int, ...], _group: str | None
) -> ChunkTable:
    number = np.arange(PER_FILE)
    index = np.stack(np.unravel_index(number, (STEPS, SIDE, SIDE)), axis=1)
    offset = (HEADER + CHUNK_BYTES * number).astype(np.uint64)
    length = np.full(PER_FILE, CHUNK_BYTES, np.uint64)
    return ChunkTable(index, offset, length, (source.path,), modified_s=1_700_000_000)


MADE_UP = SourceFormat(
    name="made-up",
    suffixes=(SUFFIX,),
    open=open_made_up,
    storage=made_up_storage,
    chunks=made_up_chunks,
)


def timed[T](what: str, work: Callable[[], T]) -> T:
    """Does the work, and prints its time, memory added to the driver, and the largest worker's."""
    before = status_bytes("VmRSS")
    answer, taken = measure(work)
    added, largest = taken.peak_bytes["driver"] - before, taken.largest_worker_bytes
    workers = f"; workers {largest / 1e6:,.0f} MB" if largest else ""
    print(f"{what}: {taken.seconds:,.2f} s; driver +{added / 1e6:,.0f} MB{workers}", flush=True)
    return answer


def make_sources(folder: Path, numbers: range) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number:09}{SUFFIX}" for number in numbers]
    for path in paths:
        path.touch()
    return paths


def create(repo: Path, sources: Path) -> None:
    """Manifests are compressed as the reference does it by default, and frazil if told to."""
    config = frazil.RepositoryConfig.default()
    config.compression = frazil.CompressionConfig(level=3)
    store = frazil.local_filesystem_store(f"{sources}/")
    config.set_virtual_chunk_container(frazil.VirtualChunkContainer(f"file://{sources}/", store))
    frazil.Repository.create(frazil.local_filesystem_storage(str(repo)), config).save_config()


def disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def opened(repo: Path, sources: Path, storage: frazil.Storage | None = None) -> frazil.Repository:
    access = {f"file://{sources}/": None}
    where = storage or frazil.local_filesystem_storage(str(repo))
    return frazil.Repository.open(where, authorize_virtual_chunk_access=access)


def build(folder: Path, references: int, batch: int) -> None:
    repo, sources = folder / "repo", folder / "sources"
    spark = session(app_name="billion", master="local[2]", config={"spark.driver.memory": "4g"})
    files = make_sources(sources, range(references // PER_FILE))
    create(repo, sources)
    started = time.perf_counter()
    for number, some in enumerate(batched(files, batch // PER_FILE)):
        mode = "append" if number else "create"
        work = partial(_ingest, spark, list(some), repo, mode=mode)
        timed(f"  commit {number + 1}: {len(some) * PER_FILE:,}", work)
    print(f"ingest of {references:,}: {time.perf_counter() - started:,.0f} s", flush=True)
    size = disk_bytes(repo)
    print(f"on disk: {size / 1e9:.2f} GB, {size / references:.2f} bytes per reference", flush=True)
    spark.stop()


def _ingest(spark: SparkSession, files: list[Path], repo: Path, *, mode: str) -> None:
    ingest(spark, files, repo, concat_dim="time", virtual=True, mode=mode, progress=False)


def use(folder: Path, *, copied: bool = False) -> None:
    repo, sources = folder / "repo", folder / "sources"
    spark = session(app_name="billion", master="local[2]", config={"spark.driver.memory": "4g"})
    store = opened(repo, sources).readonly_session("main").store
    first = zarr.open_array(store, path="field", mode="r").shape[0] // STEPS
    count = APPENDED // PER_FILE
    more = make_sources(sources, range(first, first + 2 * count))
    for what, some in (("the first of a session", more[:count]), ("the next", more[count:])):
        timed(f"append {APPENDED:,}, {what}", partial(_ingest, spark, some, repo, mode="append"))
    _read_cold(repo, sources)
    names = timed("open, list the group", partial(_members, repo, sources))
    assert names == {"field", "time"}
    found = opened(repo, sources)
    history = [each.id for each in found.ancestry(branch="main")]

    def diff(start: str, end: str) -> None:
        found.diff(from_snapshot_id=start, to_snapshot_id=end)

    timed("diff of the last append", partial(diff, history[1], history[0]))
    if not copied:
        timed("diff of the first commit", partial(diff, history[-1], history[-2]))
        check = partial(verify, spark, opened(repo, sources), progress=False)
        report = timed("verify, by Spark", check).report
        print(f"  problems: {len(report.problems)}, {report.refs}", flush=True)
    _collect(spark, repo, sources, dry_run=True)
    expire = opened(repo, sources).expire_snapshots
    timed("expire all but the newest", partial(expire, datetime.now(UTC)))
    _collect(spark, repo, sources, dry_run=False)
    if not copied:
        again = partial(rewrite_manifests, spark, opened(repo, sources), progress=False)
        timed("rewrite all manifests, by Spark", again)
    spark.stop()


def _members(repo: Path, sources: Path) -> set[str]:
    group = zarr.open_group(opened(repo, sources).readonly_session("main").store, mode="r")
    return {name for name, _ in group.members()}


def _collect(spark: SparkSession, repo: Path, sources: Path, *, dry_run: bool) -> None:
    work = partial(
        garbage_collect,
        spark,
        opened(repo, sources),
        datetime.now(UTC),
        safety_age=timedelta(0),
        dry_run=dry_run,
    )
    timed(f"garbage collection, by Spark{', dry run' * dry_run}", work)


def _read_cold(repo: Path, sources: Path) -> None:
    """One element, from the file in the middle of those that there are.

    The file gets its length, of which nothing is on the disk. Nor is it in the bucket.
    """
    files = sorted(sources.iterdir())
    source = files[len(files) // 2]
    os.truncate(source, HEADER + PER_FILE * CHUNK_BYTES)
    os.utime(source, (1_600_000_000, 1_600_000_000))
    place = (STEPS * int(source.stem), SIDE * CHUNK // 2, SIDE * CHUNK // 2)

    def read(storage: frazil.Storage | None) -> object:
        store = opened(repo, sources, storage).readonly_session("main").store
        return zarr.open_array(store, path="field", mode="r")[place]

    with slow_bucket(folder=repo.parent) as port:
        bucket = bucket_storage(frazil, port, repo.name)
        for where, storage in (("the disk", None), ("a bucket", bucket), ("a bucket", bucket)):
            assert timed(f"open, one element, from {where}", partial(read, storage)) == 0


def copy_manifests(folder: Path, references: int) -> None:
    """Makes the array as long as that, with a manifest in each band after those that are there.

    All are names of one manifest, which holds other chunks; nothing reads them.
    """
    repo, store = folder / "repo", frazil.local_filesystem_storage(str(folder / "repo"))
    writable = frazil.Repository.open(store).writable_session("main")
    steps = references // SIDE**2
    array = zarr.open_array(writable.store, path="field")
    begun = array.shape[0]
    array.resize((steps, *array.shape[1:]))
    time_axis = zarr.open_array(writable.store, path="time")
    time_axis.resize((steps,))
    time_axis[begun:] = np.arange(begun, steps)
    path = NodePath("/field")
    node = writable.engine.node(path)
    assert node.array is not None
    (thick, *_), manifests = usual_cells(node.array.num_chunks), node.array.manifests
    source = repo / "manifests" / str(manifests[-1].id)
    nothing = ChunkSet.of(np.zeros((0, 3), np.uint32))
    attached = []
    for start in range(-(-begun // thick) * thick, steps, thick):
        stop = min(start + thick, steps)
        manifest = ManifestId.random()
        os.link(source, repo / "manifests" / str(manifest))
        refs = (stop - start) * SIDE**2
        file = ManifestFile(id=manifest, size_bytes=source.stat().st_size, num_refs=refs)
        attached.append(AttachedManifest(file, ((start, stop), (0, SIDE), (0, SIDE)), nothing))
    print(f"{references:,} references: {len(attached) + len(manifests):,} manifests", flush=True)
    timed("  attached", partial(writable.engine.attach_manifests, path, attached))
    timed("  committed", partial(writable.commit, "manifests that are copies"))
    newest = max((repo / "snapshots").iterdir(), key=lambda each: each.stat().st_mtime)
    print(f"  snapshot: {newest.stat().st_size / 1e6:.1f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--references", type=int, default=1_000_000_000)
    parser.add_argument("--batch", type=int, default=50_000_000)
    parser.add_argument("--copies", type=int, nargs="*", default=[])
    given = parser.parse_args()
    register_source_format(MADE_UP)
    folder = given.folder.resolve()
    if not (folder / "repo").exists():
        build(folder, given.references, given.batch)
        use(folder)
    for references in given.copies:
        copy_manifests(folder, references)
        use(folder, copied=True)


if __name__ == "__main__":
    from benchmarks.billion import main as run  # so that workers find the format by its module

    run()
