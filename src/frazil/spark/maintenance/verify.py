"""A repository verified by executors: the same list of problems as locally.

driver      reads the entry point
executors   list the storage, where it can be listed in parts: by the first letters of names
driver      checks the entry point against the listing
executors   snapshots with their logs; then manifests, against the listing
driver      one report
"""

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from frazil.assets.files import Files
from frazil.assets.layout import SNAPSHOTS
from frazil.assets.pool import Pool
from frazil.assets.settings import Settings
from frazil.errors import IcechunkError
from frazil.format.config import RepositoryConfig
from frazil.format.storage_config import Containers
from frazil.maintenance.quiet_files import quiet_files, quietened
from frazil.maintenance.verify.chunks import ChunkChecks
from frazil.maintenance.verify.files import (
    ManifestChecker,
    ManifestsChecked,
    SnapshotChecker,
    SnapshotsChecked,
)
from frazil.maintenance.verify.history import SnapshotTask
from frazil.maintenance.verify.listing import Listed, listing_ranges
from frazil.maintenance.verify.objects import Objects
from frazil.maintenance.verify.old import open_old, verify_old
from frazil.maintenance.verify.problems import Problem
from frazil.maintenance.verify.report import VerifyReport
from frazil.maintenance.verify.run import IO_THREADS, plan_verify, report_of, sizes_of
from frazil.maintenance.verify.uses import ManifestTask, manifest_tasks
from frazil.objectstore.listing import KeyRange, list_range
from frazil.objectstore.protocol import ObjectStore
from frazil.repo.repository import Repository
from frazil.spark.pipelines.opening import StorageOptions, find_store
from frazil.spark.runtime.access import AccessText, parse_access
from frazil.spark.runtime.commits import CommitNote
from frazil.spark.runtime.jobs import (
    TASKS_PER_CORE,
    cancelled_on_interrupt,
    collect,
    map_tasks,
    parallelism,
)
from frazil.spark.runtime.progress import (
    Counter,
    ProgressOption,
    create_counter,
    progress_callback,
    watch_progress,
)
from frazil.spark.table.opened import RepositoryLike, access_to
from frazil.zarrstore.array_codecs import chunk_problem

# What was found in some files, in the order of the tasks. Pickled: only the driver reads it.
FOUND = pa.schema([("first", pa.int64()), ("found", pa.binary())])
PROBLEMS = (
    "severity string, kind string, file string, node string, chunk array<long>, text string,"
    " count long, repairable boolean"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VerifyResult:
    """`report` is that of the local action; `problems` has a row for each of its problems."""

    report: VerifyReport
    problems: DataFrame = field(repr=False)


def verify(
    spark: SparkSession,
    repo: RepositoryLike,
    *,
    decode: bool = False,
    virtual: bool = False,
    storage: StorageOptions | None = None,
    progress: ProgressOption = None,
) -> VerifyResult:
    """Everything that is wrong with the files of a repository, which need not even open.

    Args:
        spark: the session whose executors read the files.
        repo: the repository, or where it is.
        decode: whether to read and decode every chunk that is in the repository, and those
            outside that may be read.
        virtual: whether to ask for the objects of virtual chunks, as far as whoever opened `repo`
            was given access to them. The executors get that access.
        storage: how the location of a bucket is reached.
        progress: a callback for JobProgress, True for a bar, False for silence; by default
            a bar when standard error is a terminal.
    """
    store = find_store(repo, storage)
    return verify_store(
        spark, store, access_to(repo), decode=decode, virtual=virtual, progress=progress
    )


def verify_store(
    spark: SparkSession,
    store: ObjectStore,
    access: AccessText,
    *,
    decode: bool,
    virtual: bool,
    progress: ProgressOption = None,
) -> VerifyResult:
    """As `verify`, of what is in a store that executors reach, too."""
    note = CommitNote(operation="verify", application="spark")
    plan = plan_verify(store, lister=lambda place: _list(spark, place))
    old = open_old(store, plan.problems)
    if old is not None:  # small, and read by the engine
        decoder = chunk_problem if decode else None
        checks = ChunkChecks(quiet_files(old), virtual=virtual, decode=decoder)
        wanted = checks if decode or virtual else None
        return _result(spark, verify_old(old, plan.listing, wanted))
    version, snapshots = plan.entry.spec_version, SnapshotsChecked([], [], [])
    counter = create_counter(spark)
    with progress_callback(progress) as tell, cancelled_on_interrupt(spark, note.job):
        sizes = [plan.listing.sizes.get(SNAPSHOTS + task.name, 0) for task in plan.entry.tasks]
        with watch_progress(counter, "Checking snapshots", sum(sizes), tell):
            look = CheckSnapshots(store, version, plan.entry.tasks, tuple(sizes), decode, counter)
            looked: list[SnapshotsChecked] = _run(spark, len(plan.entry.tasks), look)
            for part in looked:
                snapshots.extend(part)
        tasks = manifest_tasks(snapshots.uses, snapshots.listed)
        of_manifests = sizes_of(plan.listing, tasks)
        with watch_progress(counter, "Checking manifests", sum(sizes) + sum(of_manifests), tell):
            check = CheckManifests(
                store=store,
                spec_version=version,
                tasks=tuple(tasks),
                sizes=tuple(of_manifests),
                objects=plan.listing.chunks,
                containers=plan.containers,
                decode=decode,
                virtual=virtual,
                access=access,
                counter=counter,
            )
            parts: list[ManifestsChecked] = _run(spark, len(tasks), check)
    return _result(spark, report_of(plan, snapshots.problems, tasks, parts))


def _result(spark: SparkSession, report: VerifyReport) -> VerifyResult:
    rows = [_row(each) for each in report.problems]
    return VerifyResult(report=report, problems=spark.createDataFrame(rows, PROBLEMS))


@dataclass(frozen=True, slots=True)
class CheckSnapshots:
    store: ObjectStore
    spec_version: int | None
    tasks: tuple[SnapshotTask, ...]
    sizes: tuple[int, ...]
    with_metadata: bool
    counter: Counter

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        checker = SnapshotChecker(
            self.store, Pool(IO_THREADS), self.spec_version, self.with_metadata
        )
        found = SnapshotsChecked([], [], [])
        for part in checker.check(self.tasks[tasks.start : tasks.stop]):
            found.extend(part)
        self.counter.add(sum(self.sizes[tasks.start : tasks.stop]))
        yield _batch(tasks.start, found)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CheckManifests:
    store: ObjectStore
    spec_version: int | None
    tasks: tuple[ManifestTask, ...]
    sizes: tuple[int, ...]
    objects: Objects
    containers: Containers | None
    decode: bool
    virtual: bool
    access: AccessText
    counter: Counter

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        chosen = slice(tasks.start, tasks.stop)
        chunks: ChunkChecks | None = None
        if self.decode or self.virtual:
            decoder = chunk_problem if self.decode else None
            chunks = ChunkChecks(self._files(), virtual=self.virtual, decode=decoder)
        checker = ManifestChecker(
            self.store,
            Pool(IO_THREADS),
            self.spec_version,
            self.objects,
            self.containers,
            chunks,
        )
        for _, found in checker.check(self.tasks[chosen], self.sizes[chosen]):
            yield _batch(tasks.start, found)
        self.counter.add(sum(self.sizes[chosen]))

    def _files(self) -> Files:
        """With access to virtual chunks, as far as it was given."""
        try:
            return quiet_files(Repository.open(self.store, access=parse_access(self.access)))
        except IcechunkError:  # it need not open to be verified
            return quietened(Files(self.store, Settings.of(RepositoryConfig())))


@dataclass(frozen=True, slots=True)
class ListRanges:
    store: ObjectStore
    ranges: tuple[KeyRange, ...]

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        listed = Listed()
        for keys in self.ranges[tasks.start : tasks.stop]:
            listed.add(Listed.of(list_range(self.store, keys)))
        yield _batch(tasks.start, listed)


def _list(spark: SparkSession, store: ObjectStore) -> Listed:
    ranges = listing_ranges(store)
    listed = Listed()
    parts: list[Listed] = _run(spark, len(ranges), ListRanges(store, ranges))
    for part in parts:
        listed.add(part)
    return listed


def _run[T](
    spark: SparkSession, tasks: int, function: "CheckSnapshots | CheckManifests | ListRanges"
) -> list[T]:
    """What executors found, in the order of the tasks."""
    if not tasks:
        return []
    partitions = parallelism(spark) * TASKS_PER_CORE
    table = collect(map_tasks(spark, tasks, partitions, function, FOUND)).to_pylist()
    rows: Sequence[dict[str, bytes]] = sorted(table, key=lambda row: row["first"])
    return [pickle.loads(row["found"]) for row in rows]  # noqa: S301 -- written by our executors


def _batch(first: int, found: SnapshotsChecked | ManifestsChecked | Listed) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"first": first, "found": pickle.dumps(found)}], FOUND)


def _row(each: Problem) -> tuple[object, ...]:
    chunk = each.place.chunk
    return (
        str(each.severity),
        each.kind,
        each.place.file,
        each.place.node,
        None if chunk is None else list(chunk),
        each.text,
        each.count,
        each.repairable,
    )
