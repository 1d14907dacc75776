"""Other chunks, codecs or shards for arrays of a repository: one Spark job, one commit.

    driver      layout of each array -> boxes of whole new chunks -> staging branch
    executors   read the region of a box, encode it anew, store it -> references
    driver      references -> commit on the staging branch -> the branch is moved there

Readers see the old arrays until the last step, and the new ones after it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from pyspark.sql import SparkSession

from frazil.errors import ConflictError, InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.ids import SnapshotId
from frazil.paths import NodePath
from frazil.repo.session import Session
from frazil.repo.version import Branch, Exactly
from frazil.spark.ingestion.jobs import parallelism
from frazil.spark.ingestion.metadata import group_document
from frazil.spark.jobs.commits import CommitNote, commit_once, find_commit
from frazil.spark.opened import RepositoryLike
from frazil.spark.pipelines.opening import StorageOptions, open_shared
from frazil.spark.pipelines.rechunk_plan import RechunkJob, RechunkPlan, plan_rechunk
from frazil.spark.pipelines.relayout import Codec, Lengths, Wanted
from frazil.spark.pipelines.running import Work, Written, carry_out, refs_of
from frazil.spark.pipelines.staging import (
    PLAN,
    Staging,
    digest,
    find_finished,
    staged,
    staging_branch,
)
from frazil.spark.progress import ProgressOption


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
    """Writes arrays anew with other chunks, codecs or shards, as one commit.

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
        ConflictError: the branch moved meanwhile; it stays as the others left it.
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
        counts = (0, 0)
        if finished is None:
            finished, counts = _run(work, progress)
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
        chunks=counts[0],
        bytes=counts[1],
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
    """What `rechunk` would do; without a session, as if on one core. Reads metadata only."""
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


def _run(work: _Rechunk, progress: ProgressOption) -> tuple[SnapshotId, tuple[int, int]]:
    """The commit on the staging branch, chunks written, and their bytes."""
    plan, repository = work.plan, work.staging.repository
    session = repository.writable_session(work.staging.name)
    base = repository.readonly_session(Exactly(work.staging.base))
    job = RechunkJob(base, plan.rewrites, session.chunk_writer())
    ndims = [len(one.cut.shape) for one in plan.rewrites]
    doing = f"Rechunking `{plan.path}`"
    results = carry_out(work.spark, job, ndims, Work(doing, plan.size_bytes, work.note), progress)
    counts = _apply(session, base, plan, results)
    made = commit_once(
        repository, session, work.note, work.message, branch=work.staging.name,
        metadata=work.metadata, allow_empty=True,
    )  # fmt: skip
    return SnapshotId.parse(made.snapshot_id), counts


def _apply(
    session: Session, base: Session, plan: RechunkPlan, results: Sequence[Written]
) -> tuple[int, int]:
    """Nodes and references into the session."""
    if not plan.in_place:
        for above in plan.into.ancestors:
            session.set_node_if_absent(above, group_document({}))
    for copy in plan.copies:
        session.set_node(copy.target, copy.document)
        if copy.is_array:
            for refs in base.chunk_refs(copy.source):
                session.set_chunk_refs(copy.target, refs)
    chunks, size_bytes = 0, 0
    for position, one in enumerate(plan.rewrites):
        if plan.in_place:
            session.delete_node(one.source)  # its chunks are of another grid
        session.set_node(one.target, one.document)
        refs = refs_of(results, position, len(one.cut.shape))
        session.set_chunk_refs(one.target, refs)
        chunks += len(refs)
        size_bytes += int(refs.length.sum(dtype=np.uint64))
    return chunks, size_bytes


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
