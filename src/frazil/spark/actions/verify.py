"""Verification on Spark (frazil.maintenance.verify): the same list of problems as locally.

driver      reads the entry point
executors   list the storage, where it can be listed in parts: by the first letters of names
driver      checks the entry point against the listing
executors   check snapshots with their logs; then manifests, against the listing
driver      one report
"""

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from frazil.engine.files.files import Files
from frazil.engine.repository import Repository
from frazil.errors import IcechunkError
from frazil.maintenance.executor import quiet_files
from frazil.maintenance.verify.problems import Problem
from frazil.maintenance.verify.report import VerifyReport
from frazil.maintenance.verify.verify_store import unopened_files
from frazil.maintenance.verify.verify_store import verify as verify_with
from frazil.objectstore.protocol import ObjectStore
from frazil.spark.io.opening import StorageOptions, find_store
from frazil.spark.runtime.access import AccessText, parse_access
from frazil.spark.runtime.executor import spark_executor
from frazil.spark.runtime.progress import ProgressOption
from frazil.spark.table.opened import RepositoryLike, access_to
from frazil.zarrstore.array_codecs import chunk_problem

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
        decode: reads and decodes every chunk that is in the repository, and those outside that may
            be read.
        virtual: asks for the objects of virtual chunks, as far as `repo` was opened with access to
            them. The executors get that access.
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
    """Verifies what is in a store that executors reach, too."""
    decoder = chunk_problem if decode else None
    files = VerifiedFiles(store, access, reads_chunks=decode or virtual)
    with spark_executor(spark, files, progress) as executor:
        report = verify_with(store, executor, virtual=virtual, decode=decoder)
    rows = [_row(each) for each in report.problems]
    return VerifyResult(report=report, problems=spark.createDataFrame(rows, PROBLEMS))


@dataclass(frozen=True, slots=True)
class VerifiedFiles:
    """Opens files on an executor, with access to virtual chunks as far as it was given."""

    store: ObjectStore
    access: AccessText
    reads_chunks: bool

    def open(self) -> Files:
        if not self.reads_chunks:
            return unopened_files(self.store)
        try:
            return quiet_files(Repository.open(self.store, access=parse_access(self.access)))
        except IcechunkError:  # it need not open to be verified
            return unopened_files(self.store)


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
