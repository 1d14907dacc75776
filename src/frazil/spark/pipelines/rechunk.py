"""Other chunks, codecs or shards for arrays of a repository: one Spark job, one commit.

    driver      layout of each array -> boxes of whole new chunks -> staging branch  (rechunk_plan)
    executors   if that moves fewer bytes: boxes of whole old chunks -> scratch objects
    executors   read the region of a box, encode it again, store it -> references
    driver      references, or manifests that executors made of them -> commit on the staging branch
                -> the branch is moved there

Readers see the old arrays until the last step, and the new ones after it.
"""

import hashlib
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import SparkSession

from frazil.engine.changes.chunk_reads import refs_in
from frazil.engine.commit.chunk_writer import ChunkWriter
from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import branch_key
from frazil.engine.files.reuse import ReusedObject, refresh_objects
from frazil.engine.refs.version import Branch, Exactly
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import (
    ConflictError,
    InvalidInputError,
    ObjectNotFoundError,
    RefNotFoundError,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.nodes import ManifestRef, Node
from frazil.ids import SnapshotId
from frazil.paths import NodePath
from frazil.spark.io.opening import StorageOptions, open_shared
from frazil.spark.pipelines.rechunk_plan import RechunkPlan, Rewrite, plan_rechunk
from frazil.spark.pipelines.relayout import Codec, Lengths, Wanted, read_bounded
from frazil.spark.pipelines.scratch import Scratch, scratch_objects
from frazil.spark.runtime.commits import METADATA_KEY, CommitNote, commit_once, find_commit
from frazil.spark.runtime.executor import SparkExecutor, spark_executor
from frazil.spark.runtime.jobs import (
    TASKS_PER_CORE,
    Cut,
    Region,
    parallelism,
    partitions_for,
    store_region,
)
from frazil.spark.runtime.progress import ProgressOption
from frazil.spark.runtime.stored_refs import Stored, Written, plan_sink
from frazil.spark.table.documents import group_document
from frazil.spark.table.opened import RepositoryLike

# Tasks.


@dataclass(frozen=True, slots=True)
class ReadJob:
    """First pass: a task reads a box of a source and stores it as a scratch object; picklable."""

    base: Session  # read-only
    staged: tuple[Rewrite, ...]
    scratch: Scratch

    def __call__(self, files: Files, tasks: range) -> None:
        exchanges = [one.exchange for one in self.staged if one.exchange is not None]
        starts = [exchange.start for exchange in exchanges]
        for task in tasks:
            array = bisect(starts, task) - 1
            one, exchange = self.staged[array], exchanges[array]
            number = task - exchange.start
            values = _read(self.base, one, exchange.first.region(number))
            self.scratch.put(files.store, task, exchange.split(number, values))


@dataclass(frozen=True)
class RechunkJob:
    """A task makes the chunks of a box, of the source or of scratch objects; picklable."""

    base: Session  # read-only
    rewrites: tuple[Rewrite, ...]
    writer: ChunkWriter
    scratch: Scratch

    @cached_property
    def ends(self) -> list[int]:
        """End of each array's tasks."""
        return list(accumulate(len(one.cut) for one in self.rewrites))

    def __call__(self, files: Files, tasks: range) -> list[Written]:
        results = [self._run(files, task) for task in tasks]
        self.writer.sync()
        return results

    def _run(self, files: Files, task: int) -> Written:
        array = bisect(self.ends, task)
        one = self.rewrites[array]
        number = task - (self.ends[array] - len(one.cut))
        region = one.cut.region(number)
        if one.exchange is None:
            values = _read(self.base, one, region)
        else:
            values = one.exchange.join(number, files, self.scratch)
        return Written(array, store_region(one.document, self.writer, region, values))


def _read(base: Session, one: Rewrite, region: Region) -> npt.NDArray[Any]:
    return read_bounded(base, one.source, region, one.decoded, itemsize=one.itemsize)


# Work on a branch of its own, shown to others all at once.
#
#     staging branch   at the tip of the branch -> the work, committed
#     publish          the branch is moved there, if it is where it was: one compare-and-swap
#     after            the staging branch is removed, also if the work failed
#
# Of a job that was killed the staging branch stays. The next run of the same work removes it, or
# publishes it, if it holds the result of that very plan and the branch has not moved.

PREFIX = "frazil-staging-"
PLAN = "plan"  # in the note of a commit


@dataclass(frozen=True, slots=True)
class Staging:
    repository: Repository
    branch: str  # that gets the result
    base: SnapshotId  # its tip
    name: str  # of the staging branch

    def publish(self, snapshot: SnapshotId) -> None:
        """Raises ConflictError if the branch has moved."""
        self.repository.reset_branch(self.branch, snapshot, expected=self.base)


def staging_branch(*identity: str) -> str:
    """The same name for the same work, so that a rerun finds what an earlier run left."""
    return PREFIX + digest(*identity)


def digest(*parts: str | bytes) -> str:
    """Short, and different for different lists of parts."""
    made = hashlib.sha256(usedforsecurity=False)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        made.update(len(data).to_bytes(8, "little") + data)
    return made.hexdigest()[:16]


def find_finished(staging: Staging, plan: str) -> SnapshotId | None:
    """The commit of an earlier run of this very plan that was killed before it published."""
    tip = staging.repository.branches().get(staging.name)
    if tip is None or tip == staging.base:
        return None
    record = next(staging.repository.ancestry(Branch(staging.name)))
    note = record.metadata.get(METADATA_KEY)
    same = isinstance(note, dict) and note.get(PLAN) == plan
    if not same or record.parent_id != staging.base:
        return None
    return tip if _claim(staging) else None


def _claim(staging: Staging) -> bool:
    """True if the branch of the earlier run is there, and no leftover to be removed any more.

    Version 2 needs no claim: the branch that gets the result is moved in the same
    compare-and-swap that finds the snapshot still listed.
    """
    repository = staging.repository
    if repository.lists_snapshots:
        return True
    key = branch_key(staging.name)
    try:
        ref = ReusedObject(key, repository.store.head(key).size_bytes)
    except ObjectNotFoundError:
        return False
    return not refresh_objects(repository.store, [ref], repository.files.pool)


@contextmanager
def staged(staging: Staging, *, keep: bool = False) -> Iterator[None]:
    """While inside there is a staging branch, fresh unless it is to be kept."""
    repository = staging.repository
    if not keep:
        remove(staging)
        repository.create_branch(staging.name, staging.base)
    try:
        yield
    finally:
        remove(staging)


def remove(staging: Staging) -> None:
    with suppress(RefNotFoundError):
        staging.repository.delete_branch(staging.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RechunkResult:
    """`committed` is False when there was nothing to change, or an earlier run with the same
    idempotency key had done it; `snapshot_id` is then what there was. A run that only publishes
    what a killed one had finished counts no chunks.
    """

    snapshot_id: str
    arrays: int
    chunks: int  # objects, so shards where there are shards
    bytes: int  # stored, after compression
    seconds: float
    committed: bool


def rechunk(
    spark: SparkSession,
    repo: RepositoryLike,
    path: str = "/",
    *,
    chunks: Lengths | None = None,
    codecs: Sequence[Codec] | None = None,
    shards: Lengths | None = None,
    branch: str = "main",
    into: str | None = None,
    message: str | None = None,
    metadata: Mapping[str, Json] | None = None,
    idempotency_key: str | None = None,
    storage: StorageOptions | None = None,
    progress: ProgressOption = None,
) -> RechunkResult:
    """Rewrites arrays with other chunks, codecs or shards, as one commit.

    Args:
        spark: the session whose executors read and write.
        repo: the repository, or where it is.
        path: an array, or a group: then all arrays below it, dimension coordinates excepted.
        chunks: length by dimension, -1 for the whole; dimensions not named stay as they are. For
            a single array also one length for each dimension.
        codecs: names or objects of the Zarr specification: compressors, or a whole chain.
        shards: like `chunks`, in whole chunks; `{}` takes sharding away.
        branch: the branch that gets the commit.
        into: where the result goes, a path that does not exist; by default it replaces `path`.
        message: of the commit.
        metadata: of the commit, in addition to what rechunk records under the key `frazil`.
        idempotency_key: if a commit in the branch's history was made with the same key,
            nothing is done, and that commit is returned.
        storage: how the bucket that `repo` names is reached, as in `frazil.s3_storage` and such.
        progress: a callback for JobProgress, True for a bar, False for silence; by default
            a bar when standard error is a terminal.

    Raises:
        NodeNotFoundError, AlreadyExistsError: there is nothing at `path`, something at `into`.
        InvalidInputError: the arrays cannot be laid out so.
        ConflictError: the branch moved during the job; it stays as the others left it.
    """
    started = perf_counter()
    repository = open_shared(repo, storage)
    done = find_commit(repository, branch, idempotency_key)
    if done is not None:
        return _nothing(done, started)
    plan = explain_rechunk(
        spark, repository, path, chunks=chunks, codecs=codecs, shards=shards, branch=branch,
        into=into,
    )  # fmt: skip
    if not plan.rewrites and not plan.copies:
        return _nothing(plan.snapshot, started)
    base = SnapshotId.parse(plan.snapshot)
    name = staging_branch("rechunk", branch, plan.path.text, plan.into.text)
    staging = Staging(repository, branch, base, name)
    note = CommitNote(
        operation="rechunk",
        application=spark.conf.get("spark.app.name", "spark") or "spark",
        key=idempotency_key,
        facts={PLAN: _digest(plan), "path": plan.path.text},
    )
    work = _Rechunk(spark, plan, staging, note, message or _message(plan), dict(metadata or {}))
    finished = find_finished(staging, _digest(plan))
    with staged(staging, keep=finished is not None):
        stored = Stored(chunks=0, size_bytes=0)
        if finished is None:
            finished, stored = _run(work, progress)
        try:
            staging.publish(finished)
        except ConflictError:
            twin = find_commit(repository, branch, idempotency_key)
            if twin is None:
                raise
            return _nothing(twin, started)
    return RechunkResult(
        snapshot_id=str(finished),
        arrays=len(plan.rewrites),
        chunks=stored.chunks,
        bytes=stored.size_bytes,
        seconds=perf_counter() - started,
        committed=True,
    )


def explain_rechunk(
    spark: SparkSession | None,
    repo: RepositoryLike,
    path: str = "/",
    *,
    chunks: Lengths | None = None,
    codecs: Sequence[Codec] | None = None,
    shards: Lengths | None = None,
    branch: str = "main",
    into: str | None = None,
    storage: StorageOptions | None = None,
) -> RechunkPlan:
    """Describes what `rechunk` would do; without a session, on one core. Reads metadata only."""
    if isinstance(codecs, str):
        raise InvalidInputError(f"codecs is {codecs!r}, expected a list of them")
    wanted = Wanted(chunks=chunks, shards=shards, codecs=None if codecs is None else tuple(codecs))
    session = open_shared(repo, storage).readonly_session(Branch(branch))
    source = NodePath.from_key_prefix(path)
    target = source if into is None else NodePath.from_key_prefix(into)
    cores = 1 if spark is None else parallelism(spark)
    return plan_rechunk(session, source, target, wanted, parallelism=cores)


@dataclass(frozen=True, slots=True)
class _Rechunk:
    spark: SparkSession
    plan: RechunkPlan
    staging: Staging
    note: CommitNote
    message: str
    metadata: Mapping[str, Json]


def _run(work: _Rechunk, progress: ProgressOption) -> tuple[SnapshotId, Stored]:
    """The commit on the staging branch, and the chunks written."""
    plan, repository = work.plan, work.staging.repository
    session = repository.writable_session(work.staging.name)
    base = repository.readonly_session(Exactly(work.staging.base))
    _set_nodes(session, plan)
    with (
        spark_executor(work.spark, repository, progress, job=work.note.job) as executor,
        scratch_objects(repository.store, plan.scratch_objects) as scratch,
    ):
        _copy_refs(executor, repository, session, base, plan)
        _read_sources(executor, ReadJob(base, plan.staged, scratch))
        arrays = [(one.target, None) for one in plan.rewrites]
        chunks = sum(one.chunks for one in plan.rewrites)
        stored = plan_sink(executor, repository, session, arrays, chunks).run(
            RechunkJob(base, plan.rewrites, session.chunk_writer(), scratch),
            plan.tasks,
            f"Rechunking `{plan.path}`",
            sizes=_box_bytes([(one.cut, one.itemsize) for one in plan.rewrites]),
            partitions=partitions_for(work.spark, plan.size_bytes),
        )
        made = commit_once(
            repository, session, work.note, work.message, branch=work.staging.name,
            metadata=work.metadata, allow_empty=True,
        )  # fmt: skip
    return SnapshotId.parse(made.snapshot_id), stored


def _read_sources(executor: SparkExecutor, job: ReadJob) -> None:
    boxes = [(one.exchange.first, one.itemsize) for one in job.staged if one.exchange is not None]
    sizes = _box_bytes(boxes)
    tasks = executor.run(
        job, len(sizes), "Reading the source", sizes=sizes, partitions=len(sizes)
    )  # fmt: skip
    for _ in tasks:
        pass


def _box_bytes(cuts: Sequence[tuple[Cut, int]]) -> npt.NDArray[np.int64]:
    """Bytes of each box of each array."""
    sizes = [cut.sizes * itemsize for cut, itemsize in cuts]
    return np.concatenate([np.zeros(0, np.int64), *sizes])


def _set_nodes(session: Session, plan: RechunkPlan) -> None:
    if not plan.in_place:
        for above in plan.into.ancestors:
            session.set_node_if_absent(above, group_document({}))
    for copy in plan.copies:
        session.set_node(copy.target, copy.document)
    for one in plan.rewrites:
        if plan.in_place:
            session.delete_node(one.source)  # its chunks are of another grid
        session.set_node(one.target, one.document)


def _copy_refs(
    executor: SparkExecutor,
    repository: Repository,
    session: Session,
    base: Session,
    plan: RechunkPlan,
) -> None:
    """References of arrays that only change their place, by executors if there are many."""
    copies = [copy for copy in plan.copies if copy.is_array]
    nodes = [base.node(copy.source) for copy in copies]
    manifests = [
        (array, node, ref)
        for array, node in enumerate(nodes)
        for ref in (() if node.array is None else node.array.manifests)
    ]
    sizes = {file.id: file.num_refs for file in base.base.manifest_files}
    count = sum(sizes.get(ref.id, 0) for _, _, ref in manifests)
    arrays = [(copy.target, None) for copy in copies]
    sink, copy_refs = plan_sink(executor, repository, session, arrays, count), _CopyRefs(manifests)
    if sink.many:
        cores = parallelism(executor.spark)
        doing = "Copying references"
        sink.run(copy_refs, len(manifests), doing, sizes=0, partitions=cores * TASKS_PER_CORE)
        return
    for written in copy_refs(base.files, range(len(manifests))):
        session.set_chunk_refs(copies[written.array].target, written.refs)


@dataclass(frozen=True, slots=True)
class _CopyRefs:
    """References in manifests, each with the number of the array that gets them; picklable."""

    manifests: Sequence[tuple[int, Node, ManifestRef]]

    def __call__(self, files: Files, rows: range) -> Iterator[Written]:
        for array, node, ref in self.manifests[rows.start : rows.stop]:
            refs = refs_in(files, node, ref)
            if refs is not None and node.array is not None:
                yield Written(array, refs.within(node.array.num_chunks))


def _digest(plan: RechunkPlan) -> str:
    rewritten = [part for one in plan.rewrites for part in (one.target.text, one.document)]
    copied = [part for one in plan.copies for part in (one.target.text, one.document)]
    return digest(plan.snapshot, plan.into.text, *rewritten, "", *copied)


def _message(plan: RechunkPlan) -> str:
    where = f"`{plan.path}`" if plan.in_place else f"`{plan.path}` into `{plan.into}`"
    return f"Rechunk {where}"


def _nothing(snapshot_id: str, started: float) -> RechunkResult:
    return RechunkResult(
        snapshot_id=snapshot_id,
        arrays=0,
        chunks=0,
        bytes=0,
        seconds=perf_counter() - started,
        committed=False,
    )
