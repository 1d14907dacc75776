"""Makes a repository of another by rewriting its metadata: with fewer nodes, or other references.

    plan      snapshots surveyed, manifests read for the chunks they will refer to
    execute   chunks copied, manifests, snapshots and logs written, the entry point last

Names follow from what is made (rewrite.py): a second run writes the same files again, and copies
only chunks that are new. Snapshots and logs are read and written by threads in any case: for the
generations before version 1 that takes what only the opened repository knows.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import CHUNKS
from frazil.engine.files.settings import Settings
from frazil.engine.repository import Repository
from frazil.errors import InvalidInputError, NodeNotFoundError, ObjectNotFoundError
from frazil.flatbuf.columns import StructColumn, VectorColumn
from frazil.format.chunk_refs import ChunkRefs, RefKind
from frazil.format.config import RepositoryConfig
from frazil.format.config_codec import encode_config
from frazil.format.nodes import id_column
from frazil.format.repo_info import RepoInfo, encode_repo_info
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.format.storage_config import (
    LocalStoreConfig,
    S3CompatibleStoreConfig,
    S3Options,
    S3StoreConfig,
    VirtualChunkContainer,
)
from frazil.ids import INITIAL_SNAPSHOT, ManifestId, SnapshotId, format_ids
from frazil.maintenance.copying.clone import CloneResult
from frazil.maintenance.copying.copied_refs import choose_refs, chooses_main, log_ids
from frazil.maintenance.copying.needed_files import NeededFiles, compare_files, lost_files
from frazil.maintenance.copying.origin import (
    Entry,
    RepoFile,
    Versions,
    publish_entry,
    require_current,
    settled_snapshots,
)
from frazil.maintenance.copying.partial_logs import partial_logs
from frazil.maintenance.copying.rewrite_rules import (
    DerivedNames,
    Names,
    NewManifest,
    Rules,
    Survey,
    path_filter,
    rewrite_log,
    rewrite_manifest,
    rewrite_snapshot,
)
from frazil.maintenance.copying.transfer import (
    refresh_listed,
    require_elsewhere,
    require_no_strangers,
    transfer,
)
from frazil.maintenance.executor import Executor, ThreadExecutor, quiet_files, split_rows
from frazil.maintenance.id_sets import GrowingIdSet, IdSet
from frazil.maintenance.inventory import FileKind, Listing, StoredInventory
from frazil.maintenance.reachable import chunks_of, manifests_of
from frazil.maintenance.snapshot_list import in_order
from frazil.objectstore.credentials import S3AnonymousCredentials
from frazil.objectstore.local import LocalStore
from frazil.objectstore.protocol import ObjectStore
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote.s3 import S3Place
from frazil.paths import ROOT, NodePath

_AT_ONCE = 256  # files


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
    settled: IdSet  # snapshots reachable from the refs at the target

    @property
    def objects(self) -> int:
        """Objects of the copy, at most: a manifest in which nothing is left is not written."""
        return 2 * len(self.made.snapshots) + len(self.survey.manifests) + self.needed_chunks

    @property
    def bytes(self) -> int:
        """Bytes of chunks that are copied."""
        return self.chunks.total_bytes

    def result(
        self, *, dry_run: bool = False, updated: bool = False, seconds: float = 0.0
    ) -> CloneResult:
        return CloneResult(
            dry_run=dry_run,
            exists=bool(self.found),
            branches=tuple(sorted(self.made.branches)),
            tags=tuple(sorted(self.made.tags)),
            snapshots=len(self.made.snapshots),
            objects=self.objects,
            copied=len(self.chunks),
            bytes=self.bytes,
            updated=updated,
            seconds=seconds,
        )


def plan_derived(
    repository: Repository,
    target: ObjectStore,
    info: RepoInfo,
    rules: Rules,
    executor: Executor | None = None,
    *,
    finished: Callable[[RepoInfo], RepoInfo] = lambda made: made,
    entry_of: Callable[[RepoInfo], Entry] | None = None,
) -> DerivedPlan:
    """`info` is what is copied, in order; `finished` completes what that is under its new names.

    The copy is of version 2 unless `entry_of` makes another entry point.
    Raises ConflictError, ObjectNotFoundError.
    """
    executor = executor or ThreadExecutor(quiet_files(repository))
    made = finished(rename_snapshots(info, rules.names))
    survey = _survey(repository, executor, info, rules)
    chunks = chunks_to_copy(executor, survey, rules)
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


def _survey(repository: Repository, executor: Executor, info: RepoInfo, rules: Rules) -> Survey:
    survey, files = Survey(), repository.files
    ids = [info.snapshots.id(row) for row in range(len(info.snapshots))]
    for rows in split_rows(len(ids), _AT_ONCE):
        for snapshot in files.pool.map(files.fetch_snapshot, ids[rows.start : rows.stop]):
            survey.add(snapshot, rules)
        executor.report("reading snapshots", rows.stop, len(ids))
    return survey


def _chunks_of(target: ObjectStore, snapshots: IdSet) -> NeededFiles:
    """Chunks that snapshots at the target refer to."""
    files = Repository.open(target).files
    chunks = chunks_of(files, manifests_of(files, snapshots.ids()))
    return NeededFiles({**NeededFiles.none().ids, FileKind.CHUNK: chunks})


def plan_partial(
    repository: Repository,
    target: ObjectStore,
    executor: Executor | None = None,
    *,
    paths: Sequence[NodePath] = (),
    shallow: bool = False,
    container: VirtualChunkContainer | None = None,
    refs: Sequence[str] | None = None,
) -> DerivedPlan:
    """Plans a copy of the nodes at and below `paths`, with the groups above; by default of all.

    If `shallow`, chunks become virtual: `<source>/chunks/<id>`, in a container that the copy has in
    its configuration; they are found for as long as the source keeps them. `container` tells how
    chunks in a bucket are reached. The copy is of version 2, and snapshots have ids of its own.
    Raises NodeNotFoundError, RefNotFoundError, ConflictError.
    """
    info = in_order(repository.repo_info())
    every = [*(f"branch:{name}" for name in info.branches), *(f"tag:{name}" for name in info.tags)]
    info = choose_refs(info, every if refs is None else refs, clock=repository.clock)
    place = (container or container_of(repository.store)) if shallow else None
    chosen = sorted({path.text for path in paths} or {ROOT.text})
    purpose = f"copy of {chosen}" + (
        "" if place is None else f" by reference to {place.url_prefix}"
    )
    rules = Rules(
        names=DerivedNames(purpose, first=INITIAL_SNAPSHOT, root=INITIAL_SNAPSHOT),
        wants=path_filter(paths) if paths else None,
        refs=virtual_refs(place.url_prefix) if place is not None else lambda refs: refs,
    )
    require_current(repository.generation)
    require_elsewhere(repository.store, target)
    config = _config(repository, place)
    stored = None if config is None else encode_config(config)
    plan = plan_derived(
        repository,
        target,
        info,
        rules,
        executor,
        finished=lambda made: replace(made, spec_version=2, config=stored),
        entry_of=lambda made: RepoFile(
            made, encode_repo_info(made), invents_main=not chooses_main(refs)
        ),
    )
    _require_nodes(repository, plan, paths)
    if not plan.found:
        require_no_strangers(target)
    return plan


def derive(
    plan: DerivedPlan,
    executor: Executor | None = None,
    *,
    check: Callable[[DerivedPlan], None] | None = None,
) -> CloneResult:
    """`check` looks at what is there before anyone can see it."""
    started = perf_counter()
    executor = executor or ThreadExecutor(quiet_files(plan.repository))
    transfer(executor, plan.target, [plan.chunks])
    refresh_listed(executor, plan.target, [plan.reused])
    manifests = _write_manifests(plan, executor)
    _write_history(plan, manifests, executor)
    plan.target.sync()
    if check is not None:
        check(plan)
    updated = _publish_derived(plan, executor)
    return plan.result(updated=updated, seconds=perf_counter() - started)


def _publish_derived(plan: DerivedPlan, executor: Executor) -> bool:
    """Makes it visible; chunks that an earlier try left are looked at before and after."""
    _transfer_lost_reused(plan, executor)
    clock = plan.repository.clock
    updated = publish_entry(plan.entry, plan.target, plan.found, plan.settled, clock)
    plan.target.sync()
    _transfer_lost_reused(plan, executor)
    return updated


def _transfer_lost_reused(plan: DerivedPlan, executor: Executor) -> None:
    if len(plan.reused):
        transfer(executor, plan.target, lost_files([plan.reused], StoredInventory(plan.target)))


def _target_settings(plan: DerivedPlan) -> Settings:
    return Settings.of(plan.repository.config, spec_version=plan.spec_version)


def target_files(plan: DerivedPlan) -> Files:
    return Files(plan.target, _target_settings(plan))


def _write_manifests(plan: DerivedPlan, executor: Executor) -> dict[ManifestId, NewManifest]:
    manifests = tuple(plan.survey.manifests)
    write = RewriteManifests(
        manifests, plan.survey, plan.rules, plan.target, _target_settings(plan)
    )
    spans = split_rows(len(manifests), _AT_ONCE)
    found = executor.run(write, len(manifests), "writing manifests", spans=spans)
    return dict(zip(manifests, (new for some in found for new in some), strict=True))


@dataclass(frozen=True, slots=True)
class RewriteManifests:
    """Writes manifests of the copy."""

    manifests: tuple[ManifestId, ...]
    survey: Survey
    rules: Rules
    target: ObjectStore
    settings: Settings

    def __call__(self, files: Files, rows: range) -> list[NewManifest]:
        target, some = Files(self.target, self.settings), self.manifests[rows.start : rows.stop]
        _note_dimensions(files, some, self.survey)
        new = files.pool.map(
            lambda old: rewrite_manifest(files, target, old, self.survey, self.rules), some
        )
        self.target.sync()
        return new


@dataclass(frozen=True, slots=True)
class ReadNewChunks:
    """Chunk objects that new manifests will refer to."""

    manifests: tuple[ManifestId, ...]
    survey: Survey
    rules: Rules

    def __call__(self, files: Files, rows: range) -> IdSet:
        chunks, some = GrowingIdSet(), self.manifests[rows.start : rows.stop]
        _note_dimensions(files, some, self.survey)
        for manifest in some:
            for node, refs in files.fetch_manifest(manifest).arrays.items():
                grid = self.survey.grids.get(node)
                if grid is not None and refs.ndim == len(grid):
                    new = self.rules.refs(refs.within(grid))
                    chunks.add(np.ascontiguousarray(new.chunk_id[new.kind == RefKind.NATIVE]))
        return chunks.done()


def chunks_to_copy(executor: Executor, survey: Survey, rules: Rules) -> IdSet:
    """Chunk objects that the new manifests will refer to."""
    manifests = tuple(survey.manifests)
    read = ReadNewChunks(manifests, survey, rules)
    return IdSet.union(executor.run(read, len(manifests), "reading manifests"))


def _note_dimensions(files: Files, manifests: Sequence[ManifestId], survey: Survey) -> None:
    """Tells files of the oldest generations what they need to decode manifests."""
    if not files.has_current_encoding:
        ndims = {node: len(grid) for node, grid in survey.grids.items()}
        for manifest in manifests:
            files.note_ndims(manifest, ndims)


def _write_history(
    plan: DerivedPlan, manifests: dict[ManifestId, NewManifest], executor: Executor
) -> None:
    """Writes snapshots and logs; a snapshot without a log, as a first one may be, stays without."""
    names, info = plan.rules.names, plan.info
    source, target = plan.repository.files, target_files(plan)

    def write_snapshot(row: int) -> None:
        snapshot = source.fetch_snapshot(info.snapshots.id(row))
        new = rewrite_snapshot(snapshot, manifests, plan.rules)
        above = info.snapshots.parent(row)
        is_linked = plan.spec_version == 1 and above >= 0  # later the repo info has it
        parent = names.snapshot(info.snapshots.id(above)) if is_linked else None
        target.put_snapshot(replace(new, parent_id=parent))

    _write_logs(plan, source, target)
    for rows in split_rows(len(info.snapshots), _AT_ONCE):
        source.pool.map(write_snapshot, rows)
        executor.report("writing snapshots", rows.stop, len(info.snapshots))


def _write_logs(plan: DerivedPlan, source: Files, target: Files) -> None:
    names, info, wants = plan.rules.names, plan.info, plan.rules.wants

    def write_log(raw: bytes) -> None:
        old = SnapshotId(raw)
        with suppress(ObjectNotFoundError):
            target.put_log(rewrite_log(source.fetch_log(old), names.snapshot(old), plan.survey))

    if wants is None:
        source.pool.map(write_log, log_ids(info))
        return
    rows = range(len(info.snapshots))
    owners = {raw: row for row in reversed(rows) for raw in log_ids(info, [row])}

    def write_logs(row: int) -> None:
        """Logs between a snapshot and its parent; one that several list belongs to the first."""
        for log in partial_logs(source, info, row, wants):
            if owners[log.id.raw] == row:
                target.put_log(replace(log, id=names.snapshot(log.id)))

    source.pool.map(write_logs, rows)


def rename_snapshots(info: RepoInfo, names: Names) -> RepoInfo:
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


def virtual_refs(prefix: str) -> Callable[[ChunkRefs], ChunkRefs]:
    """Turns native references into virtual ones to objects at the prefix; others stay."""

    def change(refs: ChunkRefs) -> ChunkRefs:
        native = refs.kind == RefKind.NATIVE
        if not native.any():
            return refs
        ids, codes = np.unique(
            np.ascontiguousarray(refs.chunk_id[native]), axis=0, return_inverse=True
        )
        names = [prefix + text for text in format_ids(ids)]
        virtual = ChunkRefs.virtual(
            refs.index[native],
            [names[code] for code in codes.reshape(-1).tolist()],
            refs.offset[native],
            refs.length[native],
        )
        return ChunkRefs.concat([refs.take(np.flatnonzero(~native)), virtual])

    return change


def _config(repository: Repository, place: VirtualChunkContainer | None) -> RepositoryConfig | None:
    """Configuration that the source has saved, with the container of its chunks."""
    stored = Repository.fetch_config(repository.store)
    if place is None:
        return stored
    config = stored or RepositoryConfig()
    config.set_virtual_chunk_container(place)
    return config


def _require_nodes(repository: Repository, plan: DerivedPlan, paths: Sequence[NodePath]) -> None:
    """Raises NodeNotFoundError for a path that no snapshot has a node at."""
    missing = {path.raw for path in paths if path != ROOT}
    for row in range(len(plan.info.snapshots)):
        if not missing:
            return
        nodes = repository.files.fetch_snapshot(plan.info.snapshots.id(row)).nodes
        missing -= set(nodes.paths)
    if missing:
        names = ", ".join(sorted(raw.decode() for raw in missing))
        raise NodeNotFoundError(f"no version has a node at {names}")


def container_of(store: ObjectStore) -> VirtualChunkContainer:
    """Container for the chunks of a repository in a folder or in S3. No secrets go into it."""
    if isinstance(store, LocalStore):
        return VirtualChunkContainer(f"file://{store.root}/{CHUNKS}", LocalStoreConfig(store.root))
    if isinstance(store, RemoteStore) and isinstance(store.place, S3Place):
        place = store.place
        if place.scheme == "s3" and not place.rooted:
            return VirtualChunkContainer(f"{place.location}/{CHUNKS}", _s3_config(place))
    raise InvalidInputError(
        "a shallow clone of a repository there needs a `container`, which says how its chunks are"
        " reached"
    )


def _s3_config(place: S3Place) -> S3StoreConfig | S3CompatibleStoreConfig:
    options = S3Options(
        region=place.region,
        endpoint_url=place.endpoint_url,
        allow_http=place.allow_http,
        anonymous=isinstance(place.credentials, S3AnonymousCredentials),
        force_path_style=place.force_path_style,
        requester_pays=place.requester_pays,
    )
    return S3CompatibleStoreConfig(options) if place.endpoint_url else S3StoreConfig(options)
