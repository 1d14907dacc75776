"""Small chunk objects put together by executors.

driver      plan: which chunks go together (frazil.maintenance)
executors   read small chunks, write packs; then write manifests that refer to them
driver      one commit, on top of whatever others committed meanwhile
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from frazil.ids import ChunkId
from frazil.maintenance.chunk_parts import Ids
from frazil.maintenance.defaults import PACK_BYTES, SMALL_BYTES
from frazil.maintenance.pack import (
    PackPlan,
    commit_packs,
    placed,
    plan_pack,
    write_packs,
)
from frazil.maintenance.relocate import NewManifests
from frazil.paths import ROOT, NodePath
from frazil.repo.repository import Repository
from frazil.spark.maintenance.files import ExecutorFiles
from frazil.spark.maintenance.moved_manifests import write_moved
from frazil.spark.pipelines.opening import StorageOptions, open_shared
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
from frazil.spark.table.opened import RepositoryLike

PACKS = pa.schema([("pack", pa.int64()), ("object", pa.binary())])
_SHOWN = "pack long, object string, chunks long, bytes long"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackResult:
    """The numbers are those of the local action; `written` has a row for each pack.

    `snapshot` is None if there was nothing to do.
    """

    snapshot: str | None
    chunks: int
    packs: int
    bytes: int
    references: int
    manifests: int
    written: DataFrame = field(repr=False)


def pack(
    spark: SparkSession,
    repo: RepositoryLike,
    message: str | None = None,
    *,
    branch: str = "main",
    paths: Sequence[str] = (),
    small_bytes: int = SMALL_BYTES,
    pack_bytes: int = PACK_BYTES,
    metadata: Mapping[str, Any] | None = None,
    storage: StorageOptions | None = None,
    progress: ProgressOption = None,
) -> PackResult:
    """Puts small chunk objects of the branch's tip together, by one commit.

    Args:
        spark: the session whose executors read chunks and write packs.
        repo: the repository, or where it is.
        message: of the commit; by default it tells how many chunks were packed.
        branch: whose tip it is.
        paths: arrays, or groups above them; by default all.
        small_bytes: chunks of at most this size are packed.
        pack_bytes: of a pack, about; at least twice as much.
        metadata: of the commit.
        storage: how the location of a bucket is reached.
        progress: a callback for JobProgress, True for a bar, False for silence; by default
            a bar when standard error is a terminal.

    Raises:
        NodeNotFoundError: there is nothing at or below one of the paths.
    """
    repository = open_shared(repo, storage)
    plan = plan_pack(
        repository,
        branch,
        tuple(map(NodePath, paths)) or (ROOT,),
        small_bytes=small_bytes,
        pack_bytes=pack_bytes,
    )
    note = CommitNote(operation="pack", application="spark")
    names: Ids = np.zeros((0, 12), dtype=np.uint8)
    written: NewManifests = {}
    with progress_callback(progress) as tell, cancelled_on_interrupt(spark, note.job):
        counter = create_counter(spark)
        if plan.packs:
            with watch_progress(counter, "Packing chunks", plan.bytes, tell):
                names = _write_packs(spark, repository, plan, counter)
                moved = placed(plan, names)
                written = write_moved(spark, repository, plan.manifests, moved)
    done = commit_packs(repository, plan, names, message, metadata, written=written)
    return PackResult(
        snapshot=None if done.snapshot is None else str(done.snapshot),
        chunks=done.chunks,
        packs=done.packs,
        bytes=done.bytes,
        references=done.references,
        manifests=done.manifests,
        written=spark.createDataFrame(_shown(plan, names), _SHOWN),
    )


@dataclass(frozen=True, slots=True)
class WritePacks:
    files: ExecutorFiles
    plan: PackPlan
    counter: Counter

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        files = self.files.open()
        rows = []
        for number in tasks:  # one at a time: that is what is in memory
            (name,) = write_packs(files, self.plan, range(number, number + 1))
            rows.append({"pack": number, "object": name.tobytes()})
            self.counter.add(self.plan.chunks.take(self.plan.rows(number)).bytes)
        files.store.sync()
        yield pa.RecordBatch.from_pylist(rows, schema=PACKS)


def _write_packs(
    spark: SparkSession, repository: Repository, plan: PackPlan, counter: Counter
) -> Ids:
    needed = replace(plan, untouched=frozenset(), manifests=())
    write = WritePacks(ExecutorFiles.of(repository), needed, counter)
    partitions = parallelism(spark) * TASKS_PER_CORE
    table = collect(map_tasks(spark, plan.packs, partitions, write, PACKS))
    by_number = dict(zip(table["pack"].to_pylist(), table["object"].to_pylist(), strict=True))
    raw = b"".join(by_number[number] for number in range(plan.packs))
    return np.frombuffer(raw, dtype=np.uint8).reshape(plan.packs, 12)


def _shown(plan: PackPlan, names: Ids) -> list[tuple[int, str, int, int]]:
    shown = []
    for number, name in enumerate(names):
        chunks = plan.chunks.take(plan.rows(number))
        shown.append((number, str(ChunkId(name.tobytes())), len(chunks), chunks.bytes))
    return shown
