"""Migration of a repository to a newer version of the format: planned, made, and confirmed.

    from        to   in place                                      to another store
    V1          2    one new file beside the old ones              all files copied, and the new one
    A1 .. V1pre 2    metadata rewritten beside the old; no chunks  metadata rewritten, chunks copied
    A1 .. V1pre 1    the same; tags take the places of old ones    the same
    V2pre       2    the same; `repo` takes the place of the old   the same

In place nothing is removed before `confirm`: what has the name of a new file is kept aside. Each
step can be repeated: a migration that was interrupted is resumed by the next, and so is a
confirmation.
"""

from dataclasses import dataclass, field
from time import perf_counter

from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import CONFIG_YAML, REFS
from frazil.engine.repository import Repository
from frazil.errors import (
    ConflictError,
    FormatError,
    InvalidInputError,
    ObjectNotFoundError,
    ReadOnlyError,
)
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.generation import CURRENT, Generation
from frazil.format.nodes import ArrayData, Node
from frazil.format.repo_info import encode_repo_info
from frazil.format.snapshot import Snapshot
from frazil.ids import SnapshotId
from frazil.maintenance.copying.clone import ClonePlan, clone, plan_clone
from frazil.maintenance.copying.derived import DerivedPlan, chunks_to_copy, derive, target_files
from frazil.maintenance.copying.origin import RepoFile
from frazil.maintenance.executor import Executor, ThreadExecutor, quiet_files
from frazil.maintenance.id_sets import IdSet
from frazil.maintenance.inventory import FileKind, StoredInventory, keys_of
from frazil.maintenance.migrate.older import old_files, plan_rewrite
from frazil.maintenance.migrate.upgrade import (
    UpgradePlan,
    plan_finish,
    plan_upgrade,
    upgrade,
    version_1_files,
)
from frazil.maintenance.migration_journal import JOURNAL, read_journal, write_journal
from frazil.objectstore.protocol import ObjectStore

# Compares a repository whose metadata was rewritten with the old one, in everything.


def require_same(plan: DerivedPlan, executor: Executor) -> None:
    """Compares history, nodes and references, and that chunks exist. Raises FormatError."""
    old, new, count = plan.repository.files, target_files(plan), len(plan.info.snapshots)
    for row in range(count):
        _compare_snapshots(plan, old, new, row)
        executor.report("comparing snapshots", row + 1, count)
    _require_chunks(plan, executor)


def _compare_snapshots(plan: DerivedPlan, old: Files, new: Files, row: int) -> None:
    before, after = plan.info.snapshots, plan.made.snapshots
    listed = after.find(plan.rules.names.snapshot(before.id(row)))
    _require(listed >= 0, f"snapshot {before.id(row)}")
    _compare_history(plan, row, listed, new.fetch_snapshot(after.id(listed)))
    nodes = old.fetch_snapshot(before.id(row)).nodes, new.fetch_snapshot(after.id(listed)).nodes
    _require(nodes[0].paths == nodes[1].paths, f"the nodes of snapshot {before.id(row)}")
    for one, other in zip(*nodes, strict=True):
        _compare_nodes(old, new, one, other)


def _compare_history(plan: DerivedPlan, row: int, listed: int, made: Snapshot) -> None:
    before, after, names = plan.info.snapshots, plan.made.snapshots, plan.rules.names
    what = f"of snapshot {before.id(row)}"
    for message in (made.message, after.message(listed)):
        _require(message == before.message(row), f"the message {what}")
    for time_us in (made.flushed_at_us, after.flushed_at(listed)):
        _require(time_us == before.flushed_at(row), f"the time {what}")
    for metadata in (made.metadata, after.metadata(listed)):
        _require(metadata == before.metadata(row), f"the metadata {what}")
    parents = before.parent(row), after.parent(listed)
    ids = [
        None if at < 0 else table.id(at) for table, at in zip((before, after), parents, strict=True)
    ]
    expected = None if ids[0] is None else names.snapshot(ids[0])
    _require(ids[1] == expected, f"the parent {what}")


def _compare_nodes(old: Files, new: Files, before: Node, after: Node) -> None:
    what = f"node {before.path}"
    _require((before.id, before.user_data) == (after.id, after.user_data), what)
    if before.array is None or after.array is None:
        _require(before.array is after.array, what)
        return
    _require(_shape(before.array) == _shape(after.array), f"the shape of {what}")
    refs = [_refs(files, node) for files, node in ((old, before), (new, after))]
    _require(refs[0].equals(refs[1]), f"the chunks of {what}")


def _shape(array: ArrayData) -> tuple[object, ...]:
    return array.shape, array.num_chunks, array.dimension_names


def _refs(files: Files, node: Node) -> ChunkRefs:
    """All references of an array inside its grid."""
    array = node.array
    if array is None:
        return ChunkRefs.empty(0)
    ndim = len(array.shape)
    found = [ChunkRefs.empty(ndim)]
    for ref in array.manifests:
        refs = files.fetch_manifest(ref.id).arrays.get(node.id)
        if refs is not None and refs.ndim == ndim:
            found.append(refs)
    return ChunkRefs.concat(found).within(array.num_chunks)


def _require_chunks(plan: DerivedPlan, executor: Executor) -> None:
    needed = chunks_to_copy(executor, plan.survey, plan.rules)
    there = StoredInventory(plan.target).pieces(FileKind.CHUNK)
    found = IdSet.union(IdSet.of(piece.ids) for piece in there)
    missing = needed.ids()[~found.contains(needed.ids())]
    if len(missing):
        raise ObjectNotFoundError(keys_of(FileKind.CHUNK, missing[:1])[0])


def _require(same: bool, what: str) -> None:  # noqa: FBT001 -- a condition
    if not same:
        raise FormatError(f"{what} did not come through the migration as they were")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MigrationPlan:
    """`snapshot_ids` are the new ids of snapshots by their old ones, where they differ."""

    generation: Generation
    to: int
    target: ObjectStore
    in_place: bool
    steps: UpgradePlan | ClonePlan | DerivedPlan

    @property
    def snapshots(self) -> int:
        match self.steps:
            case DerivedPlan(made=made):
                return len(made.snapshots)
            case steps:
                return steps.snapshots

    @property
    def manifests(self) -> int:
        """Number of manifests to be rewritten."""
        return len(self.steps.survey.manifests) if isinstance(self.steps, DerivedPlan) else 0

    @property
    def copied(self) -> int:
        """Objects that are copied as they are."""
        match self.steps:
            case DerivedPlan(chunks=chunks):
                return len(chunks)
            case ClonePlan() as steps:
                return steps.objects
            case _:
                return 0

    @property
    def bytes(self) -> int:
        return 0 if isinstance(self.steps, UpgradePlan) else self.steps.bytes

    def snapshot_ids(self) -> dict[str, str]:
        if not isinstance(self.steps, DerivedPlan):
            return {}
        ids = [SnapshotId(raw.tobytes()) for raw in self.steps.info.snapshots.ids]
        new = map(self.steps.rules.names.snapshot, ids)
        return {str(a): str(b) for a, b in zip(ids, new, strict=True) if a != b}

    def result(self, *, dry_run: bool = False, seconds: float = 0.0) -> "MigrateResult":
        return MigrateResult(
            dry_run=dry_run,
            generation=str(self.generation),
            spec_version=self.to,
            in_place=self.in_place,
            snapshots=self.snapshots,
            manifests=self.manifests,
            copied=self.copied,
            bytes=self.bytes,
            snapshot_ids=self.snapshot_ids(),
            seconds=seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateResult:
    """Files that a migration wrote, or in a dry run would write.

    `snapshot_ids` has the new ids of snapshots by the old ones, where they had to change. `copied`
    objects, with `bytes` in them, are copied as they are; `manifests` are rewritten.
    """

    dry_run: bool
    generation: str
    spec_version: int
    in_place: bool
    snapshots: int
    manifests: int
    copied: int
    bytes: int
    snapshot_ids: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def plan_migration(
    repository: Repository,
    executor: Executor | None = None,
    *,
    to: int = 2,
    target: ObjectStore | None = None,
) -> MigrationPlan:
    """Plans it in place, or to `target`, which must be empty or hold what an earlier try left.

    Raises InvalidInputError if the repository is of that version or a later one, ConflictError.
    """
    generation = repository.generation
    if generation in CURRENT and repository.spec_version >= to:
        raise InvalidInputError(
            f"the repository is of version {repository.spec_version} of the format already",
            kind="invalid-repository-migration",
        )
    if generation is Generation.V2PRE and to == 1:
        raise InvalidInputError(
            "the repository is of an early version 2 of the format: there is no way back to"
            " version 1, which has no place for all that it may hold",
            kind="invalid-repository-migration",
        )
    store = repository.raw_store if target is None else target
    if not store.writable:
        raise ReadOnlyError("the storage is read-only", kind="read-only-storage")
    executor = executor or ThreadExecutor(quiet_files(repository))
    steps: UpgradePlan | ClonePlan | DerivedPlan
    if generation is not Generation.V1:
        steps = plan_rewrite(repository, target, executor, to=to)
    elif target is None:
        steps = plan_upgrade(repository)
    else:
        steps = _plan_copy(repository, target, executor)
    return MigrationPlan(
        generation=generation, to=to, target=store, in_place=target is None, steps=steps
    )


def migrate(plan: MigrationPlan, executor: Executor | None = None) -> MigrateResult:
    """Writes the new repository, and compares it with the old one before it becomes visible.

    Raises FormatError, StorageError, ConflictError.
    """
    started = perf_counter()
    match plan.steps:
        case UpgradePlan() as steps:
            upgrade(steps)
        case ClonePlan() as steps:
            clone(steps, executor)
        case DerivedPlan() as steps:
            threads = executor or ThreadExecutor(quiet_files(steps.repository))
            if plan.in_place:  # notes down what is there, before anything is added to it
                write_journal(plan.target, plan.generation, old_files(steps))
            derive(steps, threads, check=lambda made: require_same(made, threads))
    return plan.result(seconds=perf_counter() - started)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Old files that a migration in place has kept, in the order in which they should go."""

    generation: str
    keys: tuple[str, ...]
    bytes: int


def find_leftovers(store: ObjectStore) -> Leftovers:
    """Leftovers of a migration; none if it is confirmed, or never took place.

    Raises ConflictError if the old repository was written to since: that would be lost.
    """
    journal = read_journal(store)
    sizes = {one.key: one.size_bytes for one in store.list()}
    if journal is None:
        keys = plan_finish(store)
        generation = str(Generation.V1)
    else:
        generation, listed = journal.generation, set(journal.keys)
        keys = tuple(key for key in journal.keys if key in sizes)
        _require_no_later_refs(store, sizes, listed)
    return Leftovers(generation=generation, keys=keys, bytes=sum(sizes.get(key, 0) for key in keys))


def confirm(store: ObjectStore, leftovers: Leftovers) -> int:
    """Removes the old files, refs first, so that no old client finds half of a repository."""
    refs = [key for key in leftovers.keys if key.startswith(("r/", REFS))]
    for key in refs:
        store.delete([key])
    others = leftovers.keys[len(refs) :]
    for start in range(0, len(others), _AT_ONCE):
        store.delete(others[start : start + _AT_ONCE])
    store.delete([JOURNAL])
    return len(leftovers.keys)


_AT_ONCE = 1000


def _plan_copy(repository: Repository, target: ObjectStore, executor: Executor) -> ClonePlan:
    """All files of version 1 as they are, with an entry point of version 2."""
    info = plan_upgrade(repository).info
    entry = RepoFile(info, encode_repo_info(info))
    return plan_clone(repository, target, executor, entry=entry)


def _require_no_later_refs(store: ObjectStore, sizes: dict[str, int], listed: set[str]) -> None:
    info = Repository.open(store).repo_info()
    if info.spec_version < 2:
        listed = listed | set(version_1_files(store))
    for key in sizes:
        if key.startswith(("r/", REFS)) and key not in listed and key != CONFIG_YAML:
            raise ConflictError(
                message=f"{key!r} was written since the repository was migrated: another client has"
                " committed to the old one"
            )
