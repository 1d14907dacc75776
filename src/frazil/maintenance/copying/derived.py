"""A repository made of another by rewriting its metadata: with fewer nodes, or other references.

    plan      snapshots surveyed, manifests read for the chunks they will refer to
    execute   chunks copied, manifests, snapshots and logs written, the entry point last

Names follow from what is made (names.py): a second run writes the same files again, and copies only
chunks that are new.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from frazil.assets.files import Files
from frazil.assets.settings import Settings
from frazil.errors import ObjectNotFoundError
from frazil.flatbuf.columns import StructColumn, VectorColumn
from frazil.format.chunk_refs import RefKind
from frazil.format.nodes import id_column
from frazil.format.repo_info import RepoInfo, encode_repo_info
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.ids import ManifestId, SnapshotId
from frazil.maintenance.copying.clone import CloneResult
from frazil.maintenance.copying.files import NeededFiles, compare_files, lost_files
from frazil.maintenance.copying.joining import settled_snapshots
from frazil.maintenance.copying.names import Names
from frazil.maintenance.copying.origin import Entry, RepoFile, Versions, publish_entry
from frazil.maintenance.copying.partial_logs import partial_logs
from frazil.maintenance.copying.refs import log_ids
from frazil.maintenance.copying.rewriting import (
    NewManifest,
    Rules,
    Survey,
    rewrite_log,
    rewrite_manifest,
    rewrite_snapshot,
)
from frazil.maintenance.copying.transfer import refresh_listed, transfer
from frazil.maintenance.id_sets import GrowingIdSet, IdSet
from frazil.maintenance.inventory import FileKind, Listing, StoredInventory
from frazil.maintenance.migrate.listing import in_order
from frazil.maintenance.progress import Progress
from frazil.maintenance.reachable import chunks_of, manifests_of
from frazil.objectstore.protocol import ObjectStore
from frazil.repo.repository import Repository

_BATCH = 256  # files between two reports


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DerivedPlan:
    """`info` lists the snapshots as the source has them, `made` as the copy will."""

    repository: Repository
    target: ObjectStore
    info: RepoInfo
    made: RepoInfo
    rules: Rules
    survey: Survey
    spec_version: int
    chunks: Listing  # to be copied
    reused: Listing  # chunks that an earlier try left at the target
    needed_chunks: int
    entry: Entry
    found: Versions
    settled: IdSet  # snapshots that the refs at the target lead to

    @property
    def objects(self) -> int:
        """Of the copy, at most: a manifest in which nothing is left is not written."""
        return 2 * len(self.made.snapshots) + len(self.survey.manifests) + self.needed_chunks

    @property
    def bytes(self) -> int:
        """Of chunks that are copied."""
        return self.chunks.total_bytes


def plan_derived(
    repository: Repository,
    target: ObjectStore,
    info: RepoInfo,
    rules: Rules,
    *,
    finished: Callable[[RepoInfo], RepoInfo] = lambda made: made,
    entry_of: Callable[[RepoInfo], Entry] | None = None,
    progress: Progress | None = None,
) -> DerivedPlan:
    """`info` is what is copied, in order; `finished` completes what that is under its new names.

    The copy is of version 2 unless `entry_of` makes another entry point.
    Raises ConflictError, ObjectNotFoundError.
    """
    made = finished(renamed(info, rules.names))
    survey = Survey()
    files = repository.files
    for start, some in _batched([info.snapshots.id(row) for row in range(len(info.snapshots))]):
        for snapshot in files.pool.map(files.fetch_snapshot, some):
            survey.add(snapshot, rules)
        _tell(progress, "reading snapshots", start + len(some), len(info.snapshots))
    chunks = chunks_to_copy(files, survey, rules, progress=progress)
    needed = NeededFiles({kind: IdSet.empty() for kind in FileKind} | {FileKind.CHUNK: chunks})
    inventories = StoredInventory(repository.store), StoredInventory(target)
    entry = RepoFile(made, encode_repo_info(made)) if entry_of is None else entry_of(made)
    found = entry.find(target)
    joins = bool(found) and entry.joined is not None
    settled = settled_snapshots(target) if joins else IdSet.empty()
    unsettled = needed.without(_chunks_of(target, settled)) if joins else NeededFiles.none()
    compared = next(iter(compare_files(needed, unsettled, *inventories)))
    return DerivedPlan(
        repository=repository,
        target=target,
        info=info,
        made=made,
        rules=rules,
        survey=survey,
        spec_version=made.spec_version,
        chunks=compared.missing,
        reused=compared.reused,
        needed_chunks=len(chunks),
        entry=entry,
        found=found,
        settled=settled,
    )


def _chunks_of(target: ObjectStore, snapshots: IdSet) -> NeededFiles:
    """Chunks that snapshots at the target lead to."""
    files = Repository.open(target).files
    chunks = chunks_of(files, manifests_of(files, snapshots.ids()))
    return NeededFiles({**NeededFiles.none().ids, FileKind.CHUNK: chunks})


def derive(
    plan: DerivedPlan,
    *,
    check: Callable[[DerivedPlan], None] | None = None,
    progress: Progress | None = None,
) -> CloneResult:
    """`check` looks at what is there before anyone can see it."""
    started = perf_counter()
    source = plan.repository.files
    done = transfer(
        plan.repository.store, plan.target, [plan.chunks], pool=source.pool, progress=progress
    )
    refresh_listed(plan.target, [plan.reused], pool=source.pool, progress=progress)
    target = target_files(plan)
    manifests = write_manifests(source, target, plan, progress=progress)
    write_history(source, target, plan, manifests, progress=progress)
    plan.target.sync()
    if check is not None:
        check(plan)
    updated = publish_derived(plan)
    return CloneResult(
        snapshots=len(plan.made.snapshots),
        objects=plan.objects,
        copied=done.objects,
        bytes=done.bytes,
        updated=updated,
        seconds=perf_counter() - started,
    )


def publish_derived(plan: DerivedPlan) -> bool:
    """Makes it visible; chunks that an earlier try left are looked at before and after."""
    _require_reused(plan)
    clock = plan.repository.clock
    updated = publish_entry(plan.entry, plan.target, plan.found, plan.settled, clock)
    plan.target.sync()
    _require_reused(plan)
    return updated


def _require_reused(plan: DerivedPlan) -> None:
    if len(plan.reused):
        lost = lost_files([plan.reused], StoredInventory(plan.target))
        transfer(plan.repository.store, plan.target, lost, pool=plan.repository.files.pool)


def target_files(plan: DerivedPlan) -> Files:
    settings = Settings.of(plan.repository.config, spec_version=plan.spec_version)
    return Files(plan.target, settings)


def write_manifests(
    source: Files, target: Files, plan: DerivedPlan, *, progress: Progress | None = None
) -> dict[ManifestId, NewManifest]:
    made: dict[ManifestId, NewManifest] = {}

    def rewrite(manifest: ManifestId) -> NewManifest:
        return rewrite_manifest(source, target, manifest, plan.survey, plan.rules)

    for start, some in _batched(list(plan.survey.manifests)):
        made.update(zip(some, source.pool.map(rewrite, some), strict=True))
        _tell(progress, "writing manifests", start + len(some), len(plan.survey.manifests))
    return made


def write_history(
    source: Files,
    target: Files,
    plan: DerivedPlan,
    manifests: dict[ManifestId, NewManifest],
    *,
    progress: Progress | None = None,
) -> None:
    """Snapshots and logs; a snapshot without a log, as a first one may be, stays without."""
    names, info = plan.rules.names, plan.info

    def write_snapshot(row: int) -> None:
        snapshot = source.fetch_snapshot(info.snapshots.id(row))
        new = rewrite_snapshot(snapshot, manifests, plan.rules)
        above = info.snapshots.parent(row)
        is_linked = plan.spec_version == 1 and above >= 0  # later the repo info has it
        parent = names.snapshot(info.snapshots.id(above)) if is_linked else None
        target.put_snapshot(replace(new, parent_id=parent))

    _write_logs(source, target, plan)
    for start, rows in _batched(range(len(info.snapshots))):
        source.pool.map(write_snapshot, rows)
        _tell(progress, "writing snapshots", start + len(rows), len(info.snapshots))


def _write_logs(source: Files, target: Files, plan: DerivedPlan) -> None:
    names, info, wants = plan.rules.names, plan.info, plan.rules.wants

    def write_log(raw: bytes) -> None:
        old = SnapshotId(raw)
        with suppress(ObjectNotFoundError):
            target.put_log(rewrite_log(source.fetch_log(old), names.snapshot(old), plan.survey))

    if wants is None:
        for _, logs in _batched(log_ids(info)):
            source.pool.map(write_log, logs)
        return
    rows = range(len(info.snapshots))
    owners = {raw: row for row in reversed(rows) for raw in log_ids(info, [row])}

    def write_logs(row: int) -> None:
        """Logs that lead to a snapshot; one that several name is written for the first."""
        for log in partial_logs(source, info, row, wants):
            if owners[log.id.raw] == row:
                target.put_log(replace(log, id=names.snapshot(log.id)))

    for _, some in _batched(rows):
        source.pool.map(write_logs, some)


def renamed(info: RepoInfo, names: Names) -> RepoInfo:
    """The same history under the new names of its snapshots."""
    ids = [SnapshotId(raw.tobytes()) for raw in info.snapshots.ids]
    new = id_column([names.snapshot(one).raw for one in ids], SnapshotId.size)
    table = info.snapshots.table.replace(id=StructColumn.of(new))
    logs = table.vector("pruned_ancestor_tx_logs")
    if len(logs.values):
        pruned = [names.snapshot(SnapshotId(raw.tobytes())).raw for raw in logs.values]
        values = id_column(pruned, SnapshotId.size)
        table = table.replace(
            pruned_ancestor_tx_logs=VectorColumn(values, logs.splits, logs.present)
        )
    return in_order(replace(info, snapshots=SnapshotInfos(table)))


def chunks_to_copy(
    files: Files, survey: Survey, rules: Rules, *, progress: Progress | None = None
) -> IdSet:
    """Chunk objects that the new manifests will refer to."""
    found = GrowingIdSet()
    for done, manifest in enumerate(survey.manifests, 1):
        for node, refs in files.fetch_manifest(manifest).arrays.items():
            grid = survey.grids.get(node)
            if grid is not None and refs.ndim == len(grid):
                new = rules.refs(refs.within(grid))
                found.add(np.ascontiguousarray(new.chunk_id[new.kind == RefKind.NATIVE]))
        _tell(progress, "reading manifests", done, len(survey.manifests))
    return found.done()


def _batched[T](items: Sequence[T]) -> Iterator[tuple[int, Sequence[T]]]:
    """Some at a time, with the number of those before."""
    return ((start, items[start : start + _BATCH]) for start in range(0, len(items), _BATCH))


def _tell(progress: Progress | None, doing: str, done: int, total: int) -> None:
    if progress is not None:
        progress(doing, done, total)
