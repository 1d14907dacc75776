"""Expiration of snapshots: history gets shorter, at its old end.

Expired snapshots can no longer be opened, and the next garbage collection deletes their files.

Version 2 lists snapshots in the repo info: one write of it expires any number of them. In version 1
each snapshot file names its parent, so histories are cut in the files: ref by ref, tags first, the
oldest snapshot of a history that stays is rewritten under its own name, with the root as its
parent. Those in between are no longer part of that history, and garbage once they are part of no
other either. The content of no snapshot changes.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import islice

import numpy as np
import numpy.typing as npt

from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import snapshot_key
from frazil.engine.refs import ancestry as history
from frazil.engine.refs import refs
from frazil.engine.refs.commit_metadata import NOTES, CommitKeys, keys_of, with_keys
from frazil.engine.refs.refs import MAIN
from frazil.engine.repository import Repository
from frazil.errors import FormatError, InvalidInputError, ReadOnlyError, RefNotFoundError
from frazil.flatbuf.columns import ScalarColumn, VectorColumn
from frazil.flatbuf.flexbuffers import Json
from frazil.flatbuf.ragged import splits_of
from frazil.flatbuf.table import Table, TableVectorColumn
from frazil.format.envelope import decode_header
from frazil.format.generation import CURRENT
from frazil.format.metadata import encode_metadata
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import encode_snapshot
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.format.update_log import ExpirationRan, UpdateKind
from frazil.ids import SnapshotId, format_ids

# A repo info with fewer snapshots: what stays, whose child it is now, what history it takes over.
#
# A snapshot whose parent goes becomes the child of an older one. The transaction logs of those in
# between are named by it from then on (spec 2.1), so that diffs and rebases still know them. Their
# idempotency keys are added to its metadata in the list.

type Ids = npt.NDArray[np.uint8]  # (n, 12)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Adoption:
    """A snapshot that gets another parent, by rows of the old repo info."""

    parent: int
    logs: Ids  # all that it names from now on, oldest first
    keys: CommitKeys  # of the commits in between


def adoptions(
    info: RepoInfo, keep: npt.NDArray[np.bool_], parent_of: Callable[[int], int]
) -> dict[int, Adoption]:
    """Adoptions of the snapshots that stay while their parent goes, by row.

    `parent_of` finds the new parent. Logs are those of all ancestors younger than the new parent,
    each after those that it named itself, oldest first.
    """
    parents = info.snapshots.parents.tolist()
    named = [row for row in np.flatnonzero(keep).tolist() if parents[row] >= 0]
    orphans = {row: parent_of(row) for row in named if not keep[parents[row]]}
    adopted, noted = {}, _rows_with_notes(info) if orphans else set[int]()
    for row, parent in orphans.items():
        path = _path(parents, row, parent)
        between = (info.snapshots.metadata(each) for each in path[:0:-1] if each in noted)
        adopted[row] = Adoption(parent=parent, logs=_logs(info, path), keys=keys_of(between))
    return adopted


def root_of(info: RepoInfo) -> Callable[[int], int]:
    """The oldest ancestor of a snapshot."""
    parents = info.snapshots.parents.tolist()
    known: dict[int, int] = {}

    def find(row: int) -> int:
        start = row
        while row not in known and (above := parents[row]) >= 0:
            row = above
        root = known[start] = known.get(row, row)
        return root

    return find


def nearest_of(info: RepoInfo, keep: npt.NDArray[np.bool_]) -> Callable[[int], int]:
    """The youngest ancestor of a snapshot that stays; its oldest ancestor if none does."""
    parents, stays = info.snapshots.parents.tolist(), keep.tolist()

    def find(row: int) -> int:
        row = parents[row]
        while not stays[row] and parents[row] >= 0:
            row = parents[row]
        return row

    return find


def retain_snapshots(
    info: RepoInfo,
    keep: npt.NDArray[np.bool_],
    adopted: Mapping[int, Adoption],
    *,
    without_branches: Collection[str] = (),
    without_tags: Collection[str] = (),
) -> RepoInfo:
    """Only the snapshots to keep. Refs that point to others must be among those left out."""
    rows = np.flatnonzero(keep)
    place = np.full(len(keep), -1, np.int64)
    place[rows] = np.arange(len(rows))
    parents = info.snapshots.parents.astype(np.int64)
    for row, adoption in adopted.items():
        parents[row] = adoption.parent
    moved = np.where(parents[rows] < 0, -1, place[parents[rows]])
    table = info.snapshots.table.take(rows)
    if adopted:
        before = info.snapshots.table.vector("pruned_ancestor_tx_logs")
        named = bool(before.splits[-1])
        nothing = np.zeros((0, SnapshotId.size), np.uint8)
        logs = [
            adopted[row].logs if row in adopted else (before.row(row) if named else nothing)
            for row in rows.tolist()
        ]
        table = table.replace(pruned_ancestor_tx_logs=_log_column(logs))
        for row, adoption in adopted.items():
            if adoption.keys:
                said = with_keys(info.snapshots.metadata(row), adoption.keys)
                table = with_metadata(table, int(place[row]), said)
    table = table.replace(parent_offset=ScalarColumn.of(moved, "i4"))
    kept = replace(
        info,
        snapshots=SnapshotInfos(table),
        branches={
            name: int(place[row])
            for name, row in info.branches.items()
            if name not in without_branches
        },
    )
    for name in without_tags:
        kept = kept.without_tag(name)
    return replace(kept, tags={name: int(place[row]) for name, row in kept.tags.items()})


def with_metadata(snapshots: Table, row: int, metadata: Mapping[str, Json]) -> Table:
    """The list of snapshots with other metadata of one."""
    items = TableVectorColumn.of(encode_metadata(metadata))
    own = snapshots.take(slice(row, row + 1)).replace(metadata=items)
    before, after = snapshots.take(slice(0, row)), snapshots.take(slice(row + 1, None))
    return Table.concat([before, own, after])


def _rows_with_notes(info: RepoInfo) -> set[int]:
    """Snapshots whose metadata may have idempotency keys: decoding that of all takes long."""
    items = info.snapshots.table.tables("metadata")
    names = items.rows.string("name").to_list()
    noted = [at for at, name in enumerate(names) if name == NOTES.encode()]
    return set((np.searchsorted(items.splits, noted, side="right") - 1).tolist())


def _path(parents: Sequence[int], row: int, stop: int) -> list[int]:
    """A snapshot and its ancestors younger than `stop`, from it on."""
    path, each = list[int](), row
    for _ in range(len(parents) + 1):
        if each in (stop, -1):
            return path
        path.append(each)
        each = parents[each]
    raise FormatError("the parents of a snapshot form a cycle", where="repo")


def _logs(info: RepoInfo, path: list[int]) -> Ids:
    ids: Ids = info.snapshots.ids[path]
    named = info.snapshots.table.vector("pruned_ancestor_tx_logs")
    if not named.splits[-1]:
        return ids[:0:-1]  # nothing was expired before
    found = list[Ids]()
    for number in range(len(path) - 1, -1, -1):
        found.append(named.row(path[number]))
        if number:
            found.append(ids[number : number + 1])
    return np.concatenate(found)


def _log_column(logs: Sequence[Ids]) -> VectorColumn:
    counts = np.array([len(some) for some in logs], np.int64)
    return VectorColumn(np.concatenate(logs), splits_of(counts), counts > 0)


_DOING = "expiring snapshots"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireRequest:
    """Snapshots to expire: all that are older than a time, or of these only the ones named.

    Roots, and the tip of main, always stay. Tips of other branches and tags are expired only
    together with the ref, if that is asked for.
    """

    older_than_us: int | None = None  # None: of any age
    delete_branches: bool = False
    delete_tags: bool = False
    snapshots: frozenset[SnapshotId] | None = None  # None: all
    retain_last: int = 0  # so many of each branch's history stay, from its tip on
    protected_branches: tuple[str, ...] = ()  # patterns; these and all of their history stay
    protected_tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.older_than_us is None and self.snapshots is None:
            raise InvalidInputError("say what to expire: by age, or by snapshot ids")
        if self.retain_last < 0:
            raise InvalidInputError(f"retain_last is {self.retain_last}, expected 0 or more")

    @property
    def leaves_gaps(self) -> bool:
        """True if the expired snapshots need not be one contiguous old end of each history."""
        return bool(
            self.snapshots is not None
            or self.retain_last
            or self.protected_branches
            or self.protected_tags
        )

    def protects(self, branches: Iterable[str], tags: Iterable[str]) -> Iterator[tuple[str, bool]]:
        """Names that are protected, each with True if it is a tag."""
        yield from ((name, False) for name in branches if _matches(name, self.protected_branches))
        yield from ((name, True) for name in tags if _matches(name, self.protected_tags))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpirePlan:
    """An expiration in version 2: a change of one repo info."""

    request: ExpireRequest
    info: RepoInfo
    released: npt.NDArray[np.bool_]  # of each snapshot there
    adopted: dict[int, Adoption] = field(default_factory=dict)
    branches: tuple[str, ...] = ()  # to be deleted
    tags: tuple[str, ...] = ()

    @property
    def snapshots(self) -> list[str]:
        """Ids of the expired snapshots."""
        return format_ids(self.info.snapshots.ids[self.released])

    def apply(self) -> RepoInfo:
        return retain_snapshots(
            self.info,
            ~self.released,
            self.adopted,
            without_branches=self.branches,
            without_tags=self.tags,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A snapshot that is to become the child of another one."""

    snapshot: SnapshotId
    parent: SnapshotId
    keys: CommitKeys = field(default_factory=CommitKeys)  # of the commits in between


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirePlanV1:
    """An expiration in version 1: changes of snapshot files and refs."""

    released: frozenset[SnapshotId]
    cuts: tuple[Cut, ...]
    branches: Mapping[str, SnapshotId]  # to be deleted, if they are still there
    tags: tuple[str, ...]

    @property
    def snapshots(self) -> list[str]:
        return sorted(str(each) for each in self.released)


def plan_expire(repository: Repository, request: ExpireRequest) -> ExpirePlan | ExpirePlanV1:
    """Reads; changes nothing."""
    if repository.spec_version == 1:
        return _plan_v1(repository.maintained_info(), request)
    return _plan(repository.repo_info(), request)


def expire(repository: Repository, plan: ExpirePlan | ExpirePlanV1) -> ExpirePlan | ExpirePlanV1:
    """Executes a plan, and returns the one that was executed.

    In version 2 it is made again if the repo info has changed since.
    """
    require_writable(repository, doing=_DOING)
    if isinstance(plan, ExpirePlanV1):
        _expire_v1(repository, plan)
        return plan
    done, request = [plan], plan.request

    def change(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
        if info is not done[-1].info:
            done.append(_plan(info, request))
        return done[-1].apply(), ExpirationRan()

    repository.entry.update(change, doing=_DOING)
    return done[-1]


def require_writable(repository: Repository, *, doing: str) -> None:
    """Raises ReadOnlyError, and FormatError for generations before version 1."""
    if repository.generation not in CURRENT:
        raise FormatError(
            f"{doing} needs a repository of version 1 or 2, and this one is of generation"
            f" {repository.generation}: migrate it first",
            kind="unsupported-spec-version",
        )
    if not repository.store.writable:
        raise ReadOnlyError(
            f"the storage is read-only: {doing} is not possible", kind="read-only-storage"
        )


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


# Version 2


def _plan(info: RepoInfo, request: ExpireRequest) -> ExpirePlan:
    expired = _expired_mask(info, request)
    kept_refs = {name for name, is_tag in request.protects(info.branches, ()) if not is_tag}
    kept_tags = {name for name, is_tag in request.protects((), info.tags) if is_tag}
    released = expired.copy()
    if not request.delete_tags:
        released[list(info.tags.values())] = False
    if not request.delete_branches:
        released[list(info.branches.values())] = False
    released[info.branches[MAIN]] = False
    branches = [name for name, row in info.branches.items() if expired[row]]
    tags = [name for name, row in info.tags.items() if expired[row]]
    parent_of = nearest_of(info, ~released) if request.leaves_gaps else root_of(info)
    return ExpirePlan(
        request=request,
        info=info,
        released=released,
        adopted=adoptions(info, ~released, parent_of),
        branches=tuple(b for b in branches if b not in {MAIN, *kept_refs})
        if request.delete_branches
        else (),
        tags=tuple(t for t in tags if t not in kept_tags) if request.delete_tags else (),
    )


def _expired_mask(info: RepoInfo, request: ExpireRequest) -> npt.NDArray[np.bool_]:
    """True for snapshots that may be expired, were it not for refs to them."""
    snapshots = info.snapshots
    expired = snapshots.parents >= 0
    if request.older_than_us is not None:
        expired &= snapshots.flushed_at_us < max(0, request.older_than_us)
    if request.snapshots is not None:
        named = np.zeros(len(expired), np.bool_)
        named[[history.require_row(info, each) for each in request.snapshots]] = True
        expired &= named
    if request.retain_last:
        for row in info.branches.values():
            expired[list(islice(snapshots.ancestors(row), request.retain_last))] = False
    for name, is_tag in request.protects(info.branches, info.tags):
        row = info.tags[name] if is_tag else info.branches[name]
        expired[list(snapshots.ancestors(row))] = False
    return expired


# Version 1


def _plan_v1(info: RepoInfo, request: ExpireRequest) -> ExpirePlanV1:
    """Reads the history of every ref."""
    is_expired = _expiry(info, request)
    released, cuts = set[SnapshotId](), dict[SnapshotId, Cut]()
    branches, tags = dict[str, SnapshotId](), list[str]()
    spared = set(request.protects(info.branches, info.tags)) | {(MAIN, False)}
    ordered = [(name, True) for name in sorted(info.tags, key=str.encode)]
    ordered += [(name, False) for name in sorted(info.branches, key=str.encode)]
    for name, is_tag in ordered:
        tip = info.tags[name] if is_tag else info.branches[name]
        if is_expired(tip):
            may_go = request.delete_tags if is_tag else request.delete_branches
            if may_go and (name, is_tag) not in spared:
                if is_tag:
                    tags.append(name)
                else:
                    branches[name] = history.snapshot_id(info, tip)
        for child, parent, between in _gaps(info, tip, is_expired, request):
            released.update(history.snapshot_id(info, row) for row in between)
            target = history.snapshot_id(info, child)
            cuts[target] = Cut(
                snapshot=target,
                parent=history.snapshot_id(info, parent),
                keys=_keys_between(info, child, parent),
            )
    return ExpirePlanV1(
        released=frozenset(released),
        cuts=tuple(cuts.values()),
        branches=branches,
        tags=tuple(tags),
    )


def _expire_v1(repository: Repository, plan: ExpirePlanV1) -> None:
    for cut in plan.cuts:
        _apply_cut(repository.files, cut)
    repository.store.sync()
    for name in plan.tags:
        repository.delete_tag(name)
    for name, tip in plan.branches.items():
        _delete_branch(repository, name, tip)


def _delete_branch(repository: Repository, name: str, tip: SnapshotId) -> None:
    """Unless it has moved since the plan: then its tip is young, and it stays."""

    def delete_at(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
        found = history.snapshot_id(info, history.branch_row(info, name))
        if found != tip:
            raise RefNotFoundError(f"branch `{name}` is at {found}, no longer at {tip}")
        return refs.delete_branch(info, name)

    with suppress(RefNotFoundError):
        repository.entry.update(delete_at, doing=_DOING)


def _expiry(info: RepoInfo, request: ExpireRequest) -> Callable[[int], bool]:
    kept = set[int]()
    if request.retain_last:
        for row in list(info.branches.values()):
            kept |= set(islice(info.snapshots.ancestors(row), request.retain_last))
    for name, is_tag in request.protects(info.branches, info.tags):
        row = info.tags[name] if is_tag else info.branches[name]
        kept |= set(info.snapshots.ancestors(row))
    named = request.snapshots
    if named is not None:
        for each in named:
            history.require_row(info, each)

    def is_expired(row: int) -> bool:
        if row in kept or (named is not None and history.snapshot_id(info, row) not in named):
            return False
        limit = request.older_than_us
        return limit is None or info.snapshots.flushed_at(row) < limit

    return is_expired


def _gaps(
    info: RepoInfo, tip: int, is_expired: Callable[[int], bool], request: ExpireRequest
) -> list[tuple[int, int, list[int]]]:
    """Child and new parent of each run of expired snapshots below a tip, and the run."""
    rows = list(info.snapshots.ancestors(tip))
    root = len(rows) - 1
    if not request.leaves_gaps:  # the whole of history before the oldest that is young enough
        oldest = max(at for at, row in enumerate(rows) if at == 0 or not is_expired(row))
        if oldest >= root - 1:
            return []
        between = [row for row in rows[:root] if is_expired(row)]
        return [(rows[oldest], rows[root], between)]
    gaps, start = [], 0
    for at in range(1, len(rows)):
        if at == root or not is_expired(rows[at]):
            if at > start + 1:
                gaps.append((rows[start], rows[at], rows[start + 1 : at]))
            start = at
    return gaps


def _keys_between(info: RepoInfo, child: int, parent: int) -> CommitKeys:
    rows = list(islice(info.snapshots.ancestors(child), 1, None))
    between = rows[: rows.index(parent)]
    return keys_of(info.snapshots.metadata(row) for row in reversed(between))


def _apply_cut(files: Files, cut: Cut) -> None:
    """Idempotent, so that a run that was interrupted may be repeated."""
    key = snapshot_key(cut.snapshot)
    if decode_header(files.store.get(key).data).spec_version != 1:
        raise FormatError("expected a snapshot file of version 1", where=key)
    snapshot = files.fetch_snapshot(cut.snapshot)
    metadata = with_keys(snapshot.metadata, cut.keys)
    edited = replace(snapshot, parent_id=cut.parent, metadata=metadata)
    data = encode_snapshot(edited, level=files.settings.compression_level, spec_version=1)
    files.store.put(key, data)
    files.caches.snapshots.remember(cut.snapshot, edited)
    files.caches.heads.remember(cut.snapshot, edited.head)
