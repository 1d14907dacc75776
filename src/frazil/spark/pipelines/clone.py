"""A repository in another place: deep, with all it refers to, or shallow, with references."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from time import perf_counter

from pyspark.sql import SparkSession

from frazil.assets.layout import REPO_INFO
from frazil.errors import ConflictError, InvalidInputError, ObjectNotFoundError
from frazil.format.repo_info import RepoInfo, decode_repo_info, encode_repo_info
from frazil.format.storage_config import VirtualChunkContainer
from frazil.objectstore.protocol import Absent, Blob, Matches, ObjectStore, Precondition
from frazil.repo.repository import Repository
from frazil.spark.jobs.commits import CommitNote
from frazil.spark.opened import RepositoryLike
from frazil.spark.pipelines.clone_deep import (
    MAIN,
    CopyObjects,
    choose_refs,
    copied,
    object_keys,
)
from frazil.spark.pipelines.clone_shallow import container_of, copy_refs, create_shallow
from frazil.spark.pipelines.opening import open_shared
from frazil.spark.pipelines.running import cancelled_on_interrupt, collect
from frazil.spark.place import format_path, open_place
from frazil.spark.progress import ProgressOption, create_counter, progress_callback, watched


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneResult:
    """`objects` are those that the clone needs, `copied` those that were not there."""

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
        refs: branches and tags; by default all of them.
        container: for a shallow clone of a bucket: how its `chunks/` are reached.
        progress: a callback for JobProgress, True for a bar, False for silence; by default
            a bar when standard error is a terminal.

    Raises:
        RefNotFoundError: there is no such branch or tag.
        ConflictError: the target has commits of its own.
        StorageError: an object is missing, or did not arrive in full.
    """
    started = perf_counter()
    repository = open_shared(source)
    if repository.spec_version != 2:
        raise InvalidInputError("only repositories of version 2 can be cloned")
    note = CommitNote(
        operation="clone", application=spark.conf.get("spark.app.name", "spark") or "spark"
    )
    place = format_path(str(target))
    store = open_place(place)
    with progress_callback(progress) as tell, cancelled_on_interrupt(spark, note.job):
        if not deep:
            return _shallow(
                repository, store, note, target=str(target), refs=refs, container=container
            )
        counter = create_counter(spark)
        with watched(counter, "Cloning", 0, tell):
            entry, info = _entry(repository.store, refs)
            before = _require_clone(store, info)
            keys = object_keys(spark, repository.store, info, with_log=refs is None)
            table = collect(copied(keys, CopyObjects(repository.store, store, counter)))
    rows = table.to_pylist()
    store.put(REPO_INFO, entry, when=before)
    return CloneResult(
        target=str(target),
        snapshots=len(info.snapshots),
        objects=sum(row["objects"] for row in rows) + 1,
        copied=sum(row["copied"] for row in rows),
        bytes=sum(row["bytes"] for row in rows),
        seconds=perf_counter() - started,
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
) -> ClonePlan:
    """What `clone` would do. Raises RefNotFoundError, ConflictError."""
    store = open_place(format_path(str(target)))
    _, info = _entry(open_shared(source).store, refs)
    exists = not isinstance(_require_clone(store, info), Absent)
    return ClonePlan(
        target=str(target),
        exists=exists,
        branches=tuple(sorted(info.branches)),
        tags=tuple(sorted(info.tags)),
        snapshots=len(info.snapshots) if deep else len(info.branches) + len(info.tags),
    )


def _entry(store: ObjectStore, refs: Sequence[str] | None) -> tuple[bytes, RepoInfo]:
    """The entry point of the clone: the source's, as of now, or one with fewer refs."""
    data = bytes(store.get(REPO_INFO).data)
    info = decode_repo_info(data)
    chosen = choose_refs(info, refs)
    return (data if refs is None else encode_repo_info(chosen)), chosen


def _require_clone(target: ObjectStore, info: RepoInfo) -> Precondition:
    """The target is empty, or an earlier clone: nothing but what the source has."""
    try:
        blob: Blob = target.get(REPO_INFO)
    except ObjectNotFoundError:
        return Absent()
    there = decode_repo_info(blob.data)
    for name, row in {**there.branches, **there.tags}.items():
        if info.snapshots.find(there.snapshots.id(row)) < 0:
            raise ConflictError(
                f"{name!r} at the target is at {there.snapshots.id(row)}, which the source does not"
                " have: it is another repository, or was changed since it was cloned"
            )
    return Matches(blob.version)


def _shallow(
    source: Repository,
    store: ObjectStore,
    note: CommitNote,
    *,
    target: str,
    refs: Sequence[str] | None,
    container: VirtualChunkContainer | None,
) -> CloneResult:
    started = perf_counter()
    choose_refs(source.repo_info(), refs)  # says what is missing, before anything is made
    place = container or container_of(source.store)
    made = create_shallow(source, store, place)
    names = refs if refs is not None else [*sorted(source.branches()), *sorted(source.tags())]
    copy_refs(source, made, names, place.url_prefix, note)
    if MAIN not in names:
        made.reset_branch(MAIN, {**made.branches(), **made.tags()}[names[0]])
    return CloneResult(
        target=target,
        snapshots=len(names),
        objects=0,
        copied=0,
        bytes=0,
        seconds=perf_counter() - started,
    )
