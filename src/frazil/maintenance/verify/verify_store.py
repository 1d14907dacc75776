"""Verification of a repository, or of what is left of one.

    storage    one listing                      -> names, sizes, unknown files
    entry      repo info or refs, ops log       -> snapshots to check
    snapshots  each with its transaction log    -> manifests to check, and the arrays that use them
    manifests  all references, in columns       -> objects, locations, optionally the chunks

Nothing stops it: a file that cannot be read is a problem, and the rest is checked all the same.
An executor runs all steps but the entry.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import CHUNKS, MANIFESTS, SNAPSHOTS, TRANSACTIONS
from frazil.engine.files.settings import Settings
from frazil.errors import IcechunkError
from frazil.format.config import RepositoryConfig
from frazil.format.storage_config import Containers
from frazil.ids import format_base32, parse_ids
from frazil.maintenance.executor import (
    Executor,
    ThreadExecutor,
    disable_caches,
    find_cluster,
)
from frazil.maintenance.id_sets import GrowingIdSet, IdSet
from frazil.maintenance.migration_journal import JOURNAL, read_journal
from frazil.maintenance.verify.chunk_checks import ChunkDecoder
from frazil.maintenance.verify.entry_checks import check_entry, fetch_entry
from frazil.maintenance.verify.file_checks import (
    IO_THREADS,
    CheckManifests,
    CheckSnapshots,
    ManifestsChecked,
    ScatterManifests,
    SnapshotsChecked,
    gather_objects,
    manifest_spans,
)
from frazil.maintenance.verify.manifest_checks import OF_OBJECTS, RefCounts
from frazil.maintenance.verify.node_checks import ManifestTask, manifest_tasks
from frazil.maintenance.verify.older_generations import CheckOld, open_old
from frazil.maintenance.verify.problems import Problem, first_of_each, problem, worst_first
from frazil.maintenance.verify.repo_info_checks import Entry, containers_of
from frazil.maintenance.verify.report import Unreferenced, VerifyReport
from frazil.maintenance.verify.stored_objects import (
    LackingObjects,
    Listed,
    Listing,
    Objects,
    list_storage,
    listing_of,
)
from frazil.objectstore.pool import Pool
from frazil.objectstore.protocol import ObjectStore


@dataclass(frozen=True, slots=True, eq=False)
class VerifyPlan:
    """The entry point and the listing, with their problems; snapshots are not opened yet."""

    entry: Entry
    listing: Listing
    problems: tuple[Problem, ...]

    @property
    def containers(self) -> Containers | None:
        return containers_of(self.entry.config)


def unopened_files(store: ObjectStore) -> Files:
    """Files of a repository that need not open."""
    return disable_caches(Files(store, Settings.of(RepositoryConfig())))


def plan_verify(store: ObjectStore, executor: Executor | None = None) -> VerifyPlan:
    """Reads the entry point and lists the storage: in this order, since others may be writing."""
    problems: list[Problem] = []
    known = fetch_entry(store)
    listed = list_storage(store, executor)
    listing = listing_of(listed.without(_kept_by_migration(store, listed, problems)), problems)
    entry = check_entry(store, Pool(IO_THREADS), listing, known, problems)
    return VerifyPlan(entry, listing, tuple(problems))


def _kept_by_migration(
    store: ObjectStore, listed: Listed, problems: list[Problem]
) -> frozenset[str]:
    """Files of an older generation, which a migration keeps until it is confirmed."""
    if JOURNAL not in listed.sizes:
        return frozenset()
    try:
        journal = read_journal(store)
    except IcechunkError as error:
        problems.append(problem("file-damaged", JOURNAL, error.message))
        return frozenset({JOURNAL})
    return frozenset({JOURNAL, *(() if journal is None else journal.keys)})


def verify(
    store: ObjectStore,
    executor: Executor | None = None,
    *,
    virtual: bool = False,
    decode: ChunkDecoder | None = None,
) -> VerifyReport:
    """Checks all that is in `store`; nothing is written.

    Args:
        store: the storage, whose repository need not open.
        executor: threads of this process by default. Its files give access to virtual chunks.
        virtual: asks for the objects of virtual chunks.
        decode: reads and decodes every chunk.
    """
    executor = executor or ThreadExecutor(unopened_files(store))
    executor.report("listing", 0, 0)
    plan = plan_verify(store, executor)
    if open_old(store, plan.problems) is not None:
        files, size_bytes = plan.listing.total_files, plan.listing.total_bytes
        (report,) = executor.run(CheckOld(files, size_bytes, virtual, decode), 1, "snapshots")
        return report
    version, snapshots = plan.entry.spec_version, SnapshotsChecked([], [], [])
    look = CheckSnapshots(plan.entry.tasks, version, with_metadata=decode is not None)
    keys = [SNAPSHOTS + task.name for task in plan.entry.tasks]
    sizes = [plan.listing.sizes.get(key, 0) for key in keys]
    for part in executor.run(look, len(keys), "snapshots", sizes=sizes):
        snapshots.extend(part)
    tasks = manifest_tasks(snapshots.uses, snapshots.listed)
    sizes = _manifest_sizes(plan.listing, tasks)
    check = CheckManifests(
        tasks=tasks,
        sizes=sizes,
        spec_version=version,
        objects=None if plan.listing.scattered else plan.listing.chunks,
        containers=plan.containers,
        virtual=virtual,
        decode=decode,
    )
    parts, chunks = _check_manifests(executor, plan.listing, check)
    return _report(plan, snapshots.problems, tasks, parts, chunks)


def _check_manifests(
    executor: Executor, listing: Listing, check: CheckManifests
) -> tuple[list[ManifestsChecked], Unreferenced]:
    """Checks manifests, and what they refer to; counts the chunk objects that none refers to."""
    count, sizes = len(check.tasks), check.sizes
    spans, cluster = manifest_spans(sizes), find_cluster(executor)
    if cluster is None or listing.scattered is None:
        parts = list(executor.run(check, count, "manifests", spans=spans, sizes=sizes))
        used = GrowingIdSet()
        for part in parts:
            used.add_set(part.chunk_ids)
        return parts, Unreferenced(*listing.chunks.bytes_outside(used.done()))
    scattered = cluster.scatter(ScatterManifests(check), count, "manifests", sizes=list(sizes))
    parts = list(scattered.results)
    compared = list(cluster.gather([listing.scattered, scattered], gather_objects, "chunk objects"))
    lacking = Objects.concat(each.lacking for each in compared)
    if len(lacking):  # which chunks need them is looked up only then
        objects = LackingObjects(lacking.high, lacking.low, lacking.sizes)
        again = replace(check, objects=objects, virtual=False, decode=None)
        for part in executor.run(again, count, "missing chunks", sizes=list(sizes)):
            found = [each for each in part.problems if each.kind in OF_OBJECTS]
            parts.append(ManifestsChecked.of_problems(found))
    files = sum(each.unreferenced for each in compared)
    return parts, Unreferenced(files, sum(each.unreferenced_bytes for each in compared))


def _manifest_sizes(listing: Listing, tasks: Sequence[ManifestTask]) -> list[int]:
    """Bytes of each manifest; 0 of one that is missing."""
    keys = [MANIFESTS + format_base32(task.manifest) for task in tasks]
    return [listing.sizes.get(key, 0) for key in keys]


def _report(
    plan: VerifyPlan,
    snapshot_problems: Iterable[Problem],
    tasks: Sequence[ManifestTask],
    parts: Sequence[ManifestsChecked],
    chunks: Unreferenced,
) -> VerifyReport:
    counts = RefCounts()
    problems = [*plan.problems, *first_of_each(snapshot_problems)]
    for part in parts:
        problems += part.problems
        counts += part.counts
    used = {
        SNAPSHOTS: _parse_id_set(task.name for task in plan.entry.tasks),
        TRANSACTIONS: _parse_id_set(
            [*(task.name for task in plan.entry.tasks), *plan.entry.pruned_logs]
        ),
        MANIFESTS: _set(task.manifest for task in tasks),
    }
    unreferenced = {
        folder: Unreferenced(*plan.listing.folders[folder].bytes_outside(ids))
        for folder, ids in used.items()
    }
    return VerifyReport(
        spec_version=plan.entry.spec_version,
        problems=tuple(worst_first(problems)),
        snapshots=len(plan.entry.tasks),
        manifests=len(tasks),
        refs=counts,
        files=plan.listing.total_files,
        total_bytes=plan.listing.total_bytes,
        unreferenced={**unreferenced, CHUNKS: chunks},
    )


def _parse_id_set(names: Iterable[str]) -> IdSet:
    ids, _ = parse_ids(list(names))
    return IdSet.of(ids)


def _set(raw: Iterable[bytes]) -> IdSet:
    return IdSet.of(np.frombuffer(b"".join(raw), dtype=np.uint8).reshape(-1, 12))
