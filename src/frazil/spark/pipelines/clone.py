"""Clones of repositories: deep, with all that is reachable, or shallow, with virtual chunks.

What is done is `frazil.maintenance.copying`: tasks of it run on Spark's executors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from os import PathLike
from time import perf_counter

from pyspark.sql import SparkSession

from frazil.format.storage_config import VirtualChunkContainer
from frazil.maintenance.copying import clone as engine
from frazil.maintenance.copying.copied_refs import tips_of
from frazil.maintenance.copying.origin import read_origin
from frazil.maintenance.copying.shallow import clone_shallow, plan_shallow
from frazil.spark.io.opening import (
    StorageOptions,
    open_shared,
    open_target,
    require_elsewhere,
    require_folder,
)
from frazil.spark.runtime.commits import METADATA_KEY, CommitNote
from frazil.spark.runtime.executor import spark_executor
from frazil.spark.runtime.progress import ProgressOption
from frazil.spark.table.opened import RepositoryLike


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneResult(engine.CloneResult):
    """`objects` are those that the clone needs, `copied` those that were not there.

    Of a shallow clone `objects` are the manifests, all of them written.
    """

    target: str


def clone(
    spark: SparkSession,
    source: RepositoryLike,
    target: str | PathLike[str],
    *,
    deep: bool = True,
    refs: Sequence[str] | None = None,
    container: VirtualChunkContainer | None = None,
    storage: StorageOptions | None = None,
    target_storage: StorageOptions | None = None,
    progress: ProgressOption = None,
) -> CloneResult:
    """Makes a repository of its own out of another.

    Args:
        spark: the session whose executors copy.
        source: the repository, or where it is.
        target: where the clone goes. A deep clone that is there already is brought up to date,
            which copies only what is new.
        deep: copies every object that is reachable from the refs, history included, and checks
            sizes. Otherwise the clone has the newest version of each ref, as one commit, and its
            chunks are virtual references to the chunks of the source, where they must stay.
        refs: branches and tags; by default all of them. A name means the branch and the tag of
            that name, `branch:NAME` and `tag:NAME` one of them.
        container: for a shallow clone: how the `chunks/` of the source are reached, if not by a
            folder, nor in S3 in the way that the source itself is.
        storage: how the bucket that `source` names is reached, as in `frazil.s3_storage`.
        target_storage: the same of the bucket that `target` names.
        progress: a callback for JobProgress, True for a bar, False for silence; by default
            a bar when standard error is a terminal.

    Raises:
        RefNotFoundError: there is no such branch or tag.
        ConflictError: a branch of the target has commits of its own, or was reset at the source.
        StorageError: an object is missing, or did not arrive in full.
    """
    started = perf_counter()
    repository = open_shared(source, storage)
    store = open_target(target, target_storage)
    require_elsewhere(repository.store, store)
    require_folder(store, target)
    with spark_executor(spark, repository, progress) as executor:
        if deep:
            plan = engine.plan_clone(repository, store, executor, refs=refs)
            done = engine.clone(plan, executor)
        else:
            tips = plan_shallow(repository, store, refs=refs, container=container)
            application = spark.conf.get("spark.app.name", "spark") or "spark"
            note = CommitNote(operation="clone", application=application)
            done = clone_shallow(tips, executor, metadata={METADATA_KEY: note.to_json()})
    result = {field.name: getattr(done, field.name) for field in fields(done)}
    result |= {
        "objects": done.objects + deep,  # the entry point of a deep clone is counted
        "seconds": perf_counter() - started,
    }
    return CloneResult(target=str(target), **result)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClonePlan:
    """Refs and snapshots that a clone would have; `exists` if there is one already."""

    target: str
    exists: bool
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    snapshots: int


def explain_clone(
    source: RepositoryLike,
    target: str | PathLike[str],
    *,
    deep: bool = True,
    refs: Sequence[str] | None = None,
    storage: StorageOptions | None = None,
    target_storage: StorageOptions | None = None,
) -> ClonePlan:
    """Describes what `clone` would do. Raises RefNotFoundError, ConflictError."""
    repository, store = open_shared(source, storage), open_target(target, target_storage)
    require_elsewhere(repository.store, store)
    origin = read_origin(repository, refs, repository.files)
    info, exists = origin.info, bool(origin.entry.find(store))
    tips = {*tips_of(info, info.branches).values(), *tips_of(info, info.tags).values()}
    return ClonePlan(
        target=str(target),
        exists=exists,
        branches=tuple(sorted(info.branches)),
        tags=tuple(sorted(info.tags)),
        snapshots=len(info.snapshots) if deep else len(tips),
    )
