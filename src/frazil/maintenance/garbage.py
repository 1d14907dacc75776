"""Which files nothing leads to any more: the plan of a collection of garbage.

    kept snapshots    those that branches and tags lead to, and those that are young: a commit may
                      be about to name them, or somebody who has their ids may be reading
    kept files        what kept snapshots lead to
    garbage           files that are not kept and older than a time, by the clock of the storage

Times protect what is being written: a session's chunks are referred to by nothing until it is
committed. So the time must lie further back than any session has been open (see `safety_age`).
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from frazil.clock import to_datetime
from frazil.errors import FormatError, IcechunkError, InvalidInputError, ObjectNotFoundError
from frazil.format.projections import ManifestFiles
from frazil.format.repo_info import RepoInfo
from frazil.maintenance.deleting import Deleted, DeleteLimits
from frazil.maintenance.id_sets import Ids, IdSet
from frazil.maintenance.inventory import FileKind, Inventory, Listing, list_files
from frazil.maintenance.key_sets import KeySet
from frazil.maintenance.reachable import ids_of_rows, reachable_rows, root_rows, united
from frazil.maintenance.retained import adoptions, nearest_of
from frazil.repo.repository import Repository

PHASES = (FileKind.SNAPSHOT, FileKind.TRANSACTION, FileKind.MANIFEST, FileKind.CHUNK)
_US = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageRequest:
    cutoff_us: int  # files that are as young, or younger, stay
    incremental: bool = False  # look only at what snapshots that go had
    safety_age_us: int = 0  # the least age that a cutoff must have
    ignored_branches: frozenset[str] = frozenset()  # as if they were not there; for dry runs


class GarbageWork(Protocol):
    """The parts of a collection that are many: done here, or spread over a cluster."""

    @property
    def inventory(self) -> Inventory: ...

    def manifests(self, snapshots: Ids) -> ManifestFiles:
        """What these snapshots list."""
        ...

    def chunks(self, manifests: ManifestFiles, among: IdSet | None = None) -> KeySet:
        """What these manifests refer to; of that, only what is `among` the ids given."""
        ...

    def sized_chunks(self, manifests: ManifestFiles) -> Listing:
        """What these manifests refer to, each once, and how large it is at least."""
        ...

    def unkept(self, kind: FileKind, keep: IdSet | KeySet, cutoff_us: int) -> Listing:
        """Files of a kind that are older and not kept."""
        ...

    def delete(self, listing: Listing, limits: DeleteLimits) -> Deleted: ...


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    snapshots: IdSet
    logs: IdSet
    manifests: IdSet
    chunks: KeySet

    def of(self, kind: FileKind) -> IdSet | KeySet:
        match kind:
            case FileKind.SNAPSHOT:
                return self.snapshots
            case FileKind.TRANSACTION:
                return self.logs
            case FileKind.MANIFEST:
                return self.manifests
            case FileKind.CHUNK:
                return self.chunks

    def united(self, other: "Kept") -> "Kept":
        return Kept(
            IdSet.union([self.snapshots, other.snapshots]),
            IdSet.union([self.logs, other.logs]),
            IdSet.union([self.manifests, other.manifests]),
            KeySet.union([self.chunks, other.chunks]),
        )

    @property
    def nbytes(self) -> int:
        return sum(self.of(kind).nbytes for kind in PHASES)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GarbagePlan:
    request: GarbageRequest
    info: RepoInfo  # as it was
    dropped: IdSet  # snapshots that are listed there and will not be
    kept: Kept
    garbage: Mapping[FileKind, Listing]

    def counts(self) -> dict[FileKind, int]:
        return {kind: len(self.garbage[kind]) for kind in PHASES}

    @property
    def total_bytes(self) -> int:
        return sum(listing.total_bytes for listing in self.garbage.values())

    @property
    def memory_bytes(self) -> int:
        """Of the columns that the collection holds."""
        rows = sum(len(listing) for listing in self.garbage.values())
        return self.kept.nbytes + 28 * rows


@dataclass(frozen=True, slots=True, eq=False)
class _Snapshots:
    """Which snapshots stay, and why."""

    reachable: Ids
    young: Ids  # listed in the repo info, or files only
    dropped: Ids
    logs: Ids = field(default_factory=lambda: np.zeros((0, 12), np.uint8))  # of ancestors gone

    @property
    def kept(self) -> IdSet:
        return IdSet.of(np.concatenate([self.reachable, self.young]))


def require_safe(request: GarbageRequest, now_us: int) -> None:
    """Raises InvalidInputError if a session that is still open may have written what would go."""
    if request.safety_age_us <= 0 or request.cutoff_us <= now_us - request.safety_age_us:
        return
    raise InvalidInputError(
        f"refusing to collect what is older than {to_datetime(request.cutoff_us).isoformat()}: a"
        " session that is still open may have written it. Choose a time at least"
        f" {request.safety_age_us / _US:g} s ago, or, if no session has been open for so long,"
        " give a smaller safety age (0 for none)",
        kind="invalid-key",
    )


def plan_garbage(repository: Repository, work: GarbageWork, request: GarbageRequest) -> GarbagePlan:
    """Reads; changes nothing."""
    require_safe(request, repository.clock())
    info = repository.maintained_info()
    for name in request.ignored_branches:
        info = info.without_branch(name)
    files = list_files(work.inventory, FileKind.SNAPSHOT)
    chosen = _choose(repository, info, files, request.cutoff_us)
    manifests = united([work.manifests(chosen.reachable), _existing(work, chosen.young)])
    snapshots = chosen.kept
    logs = IdSet.union([snapshots, IdSet.of(chosen.logs)])
    found = _Found(files, manifests, snapshots, logs)
    kept, garbage = (_find_incrementally if request.incremental else _find_all)(
        work, found, request.cutoff_us
    )
    return GarbagePlan(
        request=request, info=info, dropped=IdSet.of(chosen.dropped), kept=kept, garbage=garbage
    )


def kept_by(work: GarbageWork, snapshots: Ids, logs: Ids) -> Kept:
    """Files of snapshots that were committed since the plan; `logs` are of ancestors gone."""
    manifests, own = _existing(work, snapshots), IdSet.of(snapshots)
    named = IdSet.union([own, IdSet.of(logs)])
    return Kept(own, named, IdSet.of(manifests.ids), work.chunks(manifests))


def _choose(repository: Repository, info: RepoInfo, files: Listing, cutoff_us: int) -> _Snapshots:
    rows = reachable_rows(info, root_rows(info))
    reachable = ids_of_rows(info, rows)
    is_young = files.created_at_us >= cutoff_us
    strangers = files.ids[is_young]
    if repository.spec_version == 1:  # nobody lists snapshots: the rest are files only
        return _Snapshots(reachable, strangers, np.zeros((0, 12), np.uint8))
    ids = info.snapshots.ids
    stays = ~IdSet.of(files.ids[~is_young]).contains(ids)  # young, or not to be seen yet
    young = np.concatenate([ids[stays], strangers])
    stays[rows] = True
    adopted = adoptions(info, stays, nearest_of(info, stays))
    named = info.snapshots.table.vector("pruned_ancestor_tx_logs").take(np.flatnonzero(stays))
    logs = [named.values, *(adoption.logs for adoption in adopted.values())]
    return _Snapshots(reachable, young, ids[~stays], np.concatenate(logs))


def _existing(
    work: GarbageWork, snapshots: Ids, *, damaged: type[IcechunkError] = ObjectNotFoundError
) -> ManifestFiles:
    """What these list, as far as there are such files; errors of kind `damaged` count as none."""
    distinct = IdSet.of(snapshots).ids()
    try:
        return work.manifests(distinct)
    except (ObjectNotFoundError, damaged):
        pass
    found = ManifestFiles.none()
    for row in range(len(distinct)):
        with suppress(ObjectNotFoundError, damaged):
            found = united([found, work.manifests(distinct[row : row + 1])])
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    files: Listing  # of snapshots
    manifests: ManifestFiles  # to be kept
    snapshots: IdSet  # to be kept
    logs: IdSet  # to be kept


def _find_all(
    work: GarbageWork, found: _Found, cutoff_us: int
) -> tuple[Kept, dict[FileKind, Listing]]:
    chunks = work.chunks(found.manifests)
    kept = Kept(found.snapshots, found.logs, IdSet.of(found.manifests.ids), chunks)
    garbage = {FileKind.SNAPSHOT: _unkept(found.files, kept.snapshots, cutoff_us)}
    for kind in PHASES[1:]:
        garbage[kind] = work.unkept(kind, kept.of(kind), cutoff_us)
    return kept, garbage


def _find_incrementally(
    work: GarbageWork, found: _Found, cutoff_us: int
) -> tuple[Kept, dict[FileKind, Listing]]:
    """Only what snapshots that go lead to, all of which is older than they are."""
    snapshots = _unkept(found.files, found.snapshots, cutoff_us)
    listed, manifests = _existing(work, snapshots.ids, damaged=FormatError), found.manifests
    gone = listed.take(~IdSet.of(manifests.ids).contains(listed.ids))
    chunks = work.sized_chunks(gone)
    kept = Kept(
        found.snapshots,
        found.logs,
        IdSet.of(manifests.ids),
        work.chunks(manifests, among=IdSet.of(chunks.ids)),
    )
    logs = snapshots.take(~kept.logs.contains(snapshots.ids))
    return kept, {
        FileKind.SNAPSHOT: snapshots,
        FileKind.TRANSACTION: _like(FileKind.TRANSACTION, logs.ids),
        FileKind.MANIFEST: _like(FileKind.MANIFEST, gone.ids, gone.size_bytes),
        FileKind.CHUNK: chunks.take(~kept.chunks.contains(chunks.ids)),
    }


def _unkept(files: Listing, keep: IdSet | KeySet, cutoff_us: int) -> Listing:
    return files.take((files.created_at_us < cutoff_us) & ~keep.contains(files.ids))


def _like(kind: FileKind, ids: Ids, size_bytes: npt.NDArray[np.uint64] | None = None) -> Listing:
    count = len(ids)
    sizes = np.zeros(count, np.uint64) if size_bytes is None else size_bytes
    return Listing(kind, ids, sizes, np.zeros(count, np.int64))
