"""A repository in a newer version of the format: planned, made, and confirmed.

    from        to   in place                                      elsewhere
    V1          2    one new file beside the old ones              all files copied, and the new one
    A1 .. V1pre 2    metadata anew, beside the old; chunks stay    metadata anew, chunks copied
    A1 .. V1pre 1    the same; tags take the places of old ones    the same
    V2pre       2    the same; `repo` takes the place of the old   the same

In place nothing is removed before `confirm`: what has the name of a new file is kept aside. Each
step can be taken again: a migration that was interrupted is taken up by the next, and so is a
confirmation.
"""

from dataclasses import dataclass
from functools import partial
from time import perf_counter

from frazil.assets.layout import CONFIG_YAML, REFS
from frazil.errors import ConflictError, InvalidInputError, ReadOnlyError
from frazil.format.generation import CURRENT, Generation
from frazil.format.repo_info import encode_repo_info
from frazil.ids import SnapshotId
from frazil.maintenance.copying.clone import ClonePlan, clone, plan_clone
from frazil.maintenance.copying.derived import DerivedPlan, derive
from frazil.maintenance.copying.origin import RepoFile
from frazil.maintenance.migrate.check import require_same
from frazil.maintenance.migrate.journal import JOURNAL, read_journal, write_journal
from frazil.maintenance.migrate.older import old_files, plan_rewriting
from frazil.maintenance.migrate.upgrade import (
    UpgradePlan,
    plan_finish,
    plan_upgrade,
    upgrade,
    version_1_files,
)
from frazil.maintenance.progress import Progress
from frazil.objectstore.protocol import ObjectStore
from frazil.repo.repository import Repository


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
        """To be written anew."""
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Migrated:
    repository: Repository
    seconds: float


def plan_migration(
    repository: Repository,
    *,
    to: int = 2,
    target: ObjectStore | None = None,
    progress: Progress | None = None,
) -> MigrationPlan:
    """In place, or to `target`, which must be empty or hold what an earlier try left.

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
    steps: UpgradePlan | ClonePlan | DerivedPlan
    if generation is not Generation.V1:
        steps = plan_rewriting(repository, target, to=to, progress=progress)
    elif target is None:
        steps = plan_upgrade(repository)
    else:
        steps = _plan_copy(repository, target, progress)
    return MigrationPlan(
        generation=generation, to=to, target=store, in_place=target is None, steps=steps
    )


def migrate(plan: MigrationPlan, *, progress: Progress | None = None) -> Migrated:
    """The new repository, which is compared with the old one before anybody sees it.

    Raises FormatError, StorageError, ConflictError.
    """
    started = perf_counter()
    match plan.steps:
        case UpgradePlan() as steps:
            made = upgrade(steps)
        case ClonePlan() as steps:
            clone(steps, progress=progress)
            made = Repository.open(plan.target, clock=steps.repository.clock)
        case DerivedPlan() as steps:
            keep_journal(plan)
            derive(steps, check=partial(require_same, progress=progress), progress=progress)
            made = Repository.open(plan.target, clock=steps.repository.clock)
    return Migrated(repository=made, seconds=perf_counter() - started)


def keep_journal(plan: MigrationPlan) -> None:
    """Notes down what is there, before anything is added to it."""
    if plan.in_place and isinstance(plan.steps, DerivedPlan):
        write_journal(plan.target, plan.generation, old_files(plan.steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Old files that a migration in place has kept, in the order in which they should go."""

    generation: str
    keys: tuple[str, ...]
    bytes: int


def find_leftovers(store: ObjectStore) -> Leftovers:
    """Of a repository that was migrated; none if it is confirmed, or never was migrated.

    Raises ConflictError if somebody has written to the old repository since: that would be lost.
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
    """Removes the old files, refs first, so that no old client finds a half of a repository."""
    refs = [key for key in leftovers.keys if key.startswith(("r/", REFS))]
    for key in refs:
        store.delete([key])
    others = leftovers.keys[len(refs) :]
    for start in range(0, len(others), _AT_ONCE):
        store.delete(others[start : start + _AT_ONCE])
    store.delete([JOURNAL])
    return len(leftovers.keys)


_AT_ONCE = 1000


def _plan_copy(repository: Repository, target: ObjectStore, progress: Progress | None) -> ClonePlan:
    """All files of version 1 as they are, with an entry point of version 2."""
    info = plan_upgrade(repository).info
    entry = RepoFile(info, encode_repo_info(info))
    return plan_clone(repository, target, entry=entry, progress=progress)


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
