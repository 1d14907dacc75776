"""A repository in another place: deep, with all it refers to, or shallow, with references."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from time import perf_counter

from pyspark.sql import SparkSession

from frazil.clock import system_clock
from frazil.format.storage_config import VirtualChunkContainer
from frazil.maintenance.copying.containers import container_of
from frazil.maintenance.copying.joining import settled_snapshots
from frazil.maintenance.copying.origin import publish_entry
from frazil.maintenance.copying.target import require_no_strangers
from frazil.objectstore.protocol import ObjectStore
from frazil.spark.pipelines.clone_deep import (
    CopyObjects,
    copied,
    object_keys,
)
from frazil.spark.pipelines.clone_origin import Origin, read_origin
from frazil.spark.pipelines.clone_shallow import ShallowClone
from frazil.spark.pipelines.opening import (
    StorageOptions,
    open_shared,
    open_target,
    require_elsewhere,
    require_folder,
)
from frazil.spark.runtime.commits import CommitNote
from frazil.spark.runtime.jobs import cancelled_on_interrupt, collect
from frazil.spark.runtime.progress import (
    JobProgress,
    ProgressCallback,
    ProgressOption,
    create_counter,
    progress_callback,
    watch_progress,
)
from frazil.spark.table.opened import RepositoryLike


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneResult:
    """`objects` are those that the clone needs, `copied` those that were not there.

    Of a shallow clone `objects` are the manifests, all of them written.
    """

    target: str
    snapshots: int
    objects: int
    copied: int
    bytes: int  # copied
    seconds: float


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
        deep: copies every object that the refs lead to, history included, and checks sizes.
            Else the clone has the newest version of each ref, as one commit, and its chunks are
            virtual references to the chunks of the source, where they must stay.
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
    origin = read_origin(repository, refs)
    store = open_target(target, target_storage)
    require_elsewhere(repository.store, store)
    require_folder(store, target)
    note = CommitNote(
        operation="clone", application=spark.conf.get("spark.app.name", "spark") or "spark"
    )
    with progress_callback(progress) as tell, cancelled_on_interrupt(spark, note.job):
        if deep:
            counts = _deep(spark, repository.store, store, origin, tell)
            snapshots = len(origin.snapshots)
        else:
            place = container or container_of(repository.store)
            tell(JobProgress("Writing manifests", 0, 0))
            made = ShallowClone(spark, repository, store, place, note).make(
                origin.branches, origin.tags
            )
            snapshots, counts = made.snapshots, (made.manifests, made.manifests, made.size_bytes)
    return CloneResult(
        target=str(target),
        snapshots=snapshots,
        objects=counts[0],
        copied=counts[1],
        bytes=counts[2],
        seconds=perf_counter() - started,
    )


def _deep(
    spark: SparkSession,
    source: ObjectStore,
    target: ObjectStore,
    origin: Origin,
    tell: ProgressCallback,
) -> tuple[int, int, int]:
    """Objects there are, those copied, and their bytes."""
    found = origin.find_clone(target)
    if not found:
        require_no_strangers(target)
    settled = settled_snapshots(target)
    counter = create_counter(spark)
    with watch_progress(counter, "Cloning", 0, tell):
        keys = object_keys(spark, source, origin, settled if found else None)
        rows = collect(copied(keys, CopyObjects(source, target, counter))).to_pylist()
        reused = sum(row["reused"] for row in rows)

        def look_again() -> None:
            """Copies what a collection of garbage has deleted since it was refreshed."""
            if reused:
                left = keys.filter(~keys["settled"])
                collect(copied(left, CopyObjects(source, target, counter, refresh=False)))

        look_again()
        publish_entry(origin.entry, target, found, settled, system_clock)
        look_again()
    return (
        sum(row["objects"] for row in rows) + 1,
        sum(row["copied"] for row in rows),
        sum(row["bytes"] for row in rows),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClonePlan:
    """What a clone would have, and whether there is one already."""

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
    """What `clone` would do. Raises RefNotFoundError, ConflictError."""
    repository, store = open_shared(source, storage), open_target(target, target_storage)
    require_elsewhere(repository.store, store)
    origin = read_origin(repository, refs)
    found = origin.find_clone(store)
    tips = {*origin.branches.values(), *origin.tags.values()}
    return ClonePlan(
        target=str(target),
        exists=bool(found),
        branches=tuple(sorted(origin.branches)),
        tags=tuple(sorted(origin.tags)),
        snapshots=len(origin.snapshots if deep else tips),
    )
