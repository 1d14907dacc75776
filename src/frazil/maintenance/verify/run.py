"""A repository, or what is left of one, verified.

    storage    one listing                      -> names, sizes, what is unknown
    entry      repo info or refs, ops log       -> snapshots to look at
    snapshots  each with its transaction log    -> manifests to look at, and who uses them
    manifests  all references, in columns       -> objects, locations, optionally the chunks

Nothing stops it: what cannot be read is a problem, and the rest is looked at all the same.
The steps are functions of their own, since Spark runs the middle ones elsewhere.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from frazil.assets.layout import CHUNKS, MANIFESTS, SNAPSHOTS, TRANSACTIONS
from frazil.assets.pool import Pool
from frazil.errors import IcechunkError
from frazil.format.storage_config import Containers
from frazil.ids import format_base32, parse_ids
from frazil.maintenance.id_sets import GrowingIdSet, IdSet
from frazil.maintenance.migrate.journal import JOURNAL, read_journal
from frazil.maintenance.progress import Progress
from frazil.maintenance.verify.chunks import ChunkChecks
from frazil.maintenance.verify.config import containers_of
from frazil.maintenance.verify.entry import check_entry, fetch_entry
from frazil.maintenance.verify.files import (
    ManifestChecker,
    ManifestsChecked,
    SnapshotChecker,
    SnapshotsChecked,
)
from frazil.maintenance.verify.history import Entry
from frazil.maintenance.verify.listing import Listed, Listing, list_here, listing_of
from frazil.maintenance.verify.manifest import RefCounts
from frazil.maintenance.verify.old import open_old, verify_old
from frazil.maintenance.verify.problems import Problem, first_of_each, problem, worst_first
from frazil.maintenance.verify.report import Unreferenced, VerifyReport
from frazil.maintenance.verify.uses import ManifestTask, manifest_tasks
from frazil.objectstore.protocol import ObjectStore

IO_THREADS = 16


@dataclass(frozen=True, slots=True, eq=False)
class VerifyPlan:
    """What was learnt without opening snapshots, and what is left to do."""

    entry: Entry
    listing: Listing
    problems: tuple[Problem, ...]

    @property
    def containers(self) -> Containers | None:
        return containers_of(self.entry.config)


def plan_verify(
    store: ObjectStore,
    pool: Pool | None = None,
    lister: Callable[[ObjectStore], Listed] = list_here,
) -> VerifyPlan:
    """Reads the entry point and lists the storage: in this order, since others may be writing.

    `lister` may list it elsewhere.
    """
    problems: list[Problem] = []
    known = fetch_entry(store)
    listed = lister(store)
    listing = listing_of(listed.without(_kept_by_migration(store, listed, problems)), problems)
    entry = check_entry(store, pool or Pool(IO_THREADS), listing, known, problems)
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
    *,
    chunks: ChunkChecks | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """Of whatever is in `store`; nothing is written."""
    tell = progress or _silent
    tell("listing", 0, 0)
    pool = Pool(IO_THREADS)
    plan = plan_verify(store, pool)
    old = open_old(store, plan.problems)
    if old is not None:
        return verify_old(old, plan.listing, chunks)
    decodes = chunks is not None and chunks.decode is not None
    snapshots = SnapshotsChecked([], [], [])
    checker = SnapshotChecker(store, pool, plan.entry.spec_version, with_metadata=decodes)
    done = 0
    for part in checker.check(plan.entry.tasks):
        snapshots.extend(part)
        done = min(done + 64, len(plan.entry.tasks))
        tell("snapshots", done, len(plan.entry.tasks))
    tasks = manifest_tasks(snapshots.uses, snapshots.listed)
    manifests = ManifestChecker(
        store, pool, plan.entry.spec_version, plan.listing.chunks, plan.containers, chunks
    )
    parts, done = [], 0
    for count, checked in manifests.check(tasks, sizes_of(plan.listing, tasks)):
        parts.append(checked)
        done += count
        tell("manifests", done, len(tasks))
    return report_of(plan, snapshots.problems, tasks, parts)


def sizes_of(listing: Listing, tasks: Sequence[ManifestTask]) -> list[int]:
    """Bytes of each manifest; 0 of one that is missing."""
    keys = [MANIFESTS + format_base32(task.manifest) for task in tasks]
    return [listing.sizes.get(key, 0) for key in keys]


def report_of(
    plan: VerifyPlan,
    snapshot_problems: Iterable[Problem],
    tasks: Sequence[ManifestTask],
    parts: Sequence[ManifestsChecked],
) -> VerifyReport:
    chunk_ids, counts = GrowingIdSet(), RefCounts()
    problems = [*plan.problems, *first_of_each(snapshot_problems)]
    for part in parts:
        problems += part.problems
        counts += part.counts
        chunk_ids.add_set(part.chunk_ids)
    used = {
        SNAPSHOTS: _named(task.name for task in plan.entry.tasks),
        TRANSACTIONS: _named([*(task.name for task in plan.entry.tasks), *plan.entry.pruned_logs]),
        MANIFESTS: _set(task.manifest for task in tasks),
        CHUNKS: chunk_ids.done(),
    }
    return VerifyReport(
        spec_version=plan.entry.spec_version,
        problems=tuple(worst_first(problems)),
        snapshots=len(plan.entry.tasks),
        manifests=len(tasks),
        refs=counts,
        files=plan.listing.total_files,
        total_bytes=plan.listing.total_bytes,
        unreferenced={
            folder: Unreferenced(*plan.listing.folders[folder].bytes_outside(ids))
            for folder, ids in used.items()
        },
    )


def _named(names: Iterable[str]) -> IdSet:
    ids, _ = parse_ids(list(names))
    return IdSet.of(ids)


def _set(raw: Iterable[bytes]) -> IdSet:
    return IdSet.of(np.frombuffer(b"".join(raw), dtype=np.uint8).reshape(-1, 12))


def _silent(doing: str, done: int, total: int) -> None:
    del doing, done, total
