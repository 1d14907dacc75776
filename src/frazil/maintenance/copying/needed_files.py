"""The files that a copy needs, and those that are not at the target yet. Columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from frazil.engine.files.files import Files
from frazil.errors import ObjectNotFoundError
from frazil.format.nodes import id_column
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import ManifestFiles
from frazil.maintenance.copying.copied_refs import log_ids
from frazil.maintenance.executor import Executor, find_cluster, split_rows
from frazil.maintenance.id_sets import GrowingIdSet, IdSet
from frazil.maintenance.inventory import FileKind, Inventory, Listing, keys_of
from frazil.maintenance.reachable import chunks_of, ids_of_rows, manifests_of, merge_manifest_files
from frazil.objectstore.protocol import ObjectStore
from frazil.objectstore.wrappers import Overlay

_AT_ONCE = 1024  # snapshots or manifests

# Files are copied after those that they refer to.
ORDER = (FileKind.CHUNK, FileKind.MANIFEST, FileKind.TRANSACTION, FileKind.SNAPSHOT)


@dataclass(frozen=True, slots=True, eq=False)
class NeededFiles:
    """Ids by kind. On a cluster those of chunks stay there: `manifests` refer to them."""

    ids: dict[FileKind, IdSet]
    manifests: ManifestFiles = field(default_factory=ManifestFiles.none)

    def __len__(self) -> int:
        return sum(map(len, self.ids.values()))

    def without(self, others: "NeededFiles") -> "NeededFiles":
        return NeededFiles({kind: ids.without(others.ids[kind]) for kind, ids in self.ids.items()})

    def union(self, others: "NeededFiles") -> "NeededFiles":
        return NeededFiles(
            {kind: IdSet.union([ids, others.ids[kind]]) for kind, ids in self.ids.items()}
        )

    @classmethod
    def none(cls) -> "NeededFiles":
        return cls({kind: IdSet.empty() for kind in ORDER})


def needed_files(
    executor: Executor,
    info: RepoInfo,
    *,
    rows: Sequence[int] | None = None,
    known: IdSet | None = None,
    target: ObjectStore | None = None,
) -> NeededFiles:
    """Everything that snapshots of `info` are made of: of all, or of those in `rows`.

    The chunks of manifests that are `known` are left out. What the executor's files do not have is
    read at the target.
    """
    chosen = range(len(info.snapshots)) if rows is None else rows
    snapshots = ids_of_rows(info, chosen)
    read = ReadSnapshots(snapshots, target)
    spans = split_rows(len(snapshots), _AT_ONCE)
    found = executor.run(read, len(snapshots), "reading snapshots", spans=spans)
    manifests = merge_manifest_files([ManifestFiles.none(), *found])
    new = manifests if known is None else manifests.take(~known.contains(manifests.ids))
    on_cluster = find_cluster(executor) is not None
    return NeededFiles(
        {
            FileKind.CHUNK: IdSet.empty() if on_cluster else _chunks_of(executor, new, target),
            FileKind.MANIFEST: IdSet.of(manifests.ids),
            FileKind.TRANSACTION: IdSet.of(id_column(log_ids(info, chosen), 12)),
            FileKind.SNAPSHOT: IdSet.of(snapshots),
        },
        new,
    )


def _chunks_of(executor: Executor, manifests: ManifestFiles, target: ObjectStore | None) -> IdSet:
    read, spans = ReadManifests(manifests, target), split_rows(len(manifests), _AT_ONCE)
    chunks = GrowingIdSet()
    for some in executor.run(read, len(manifests), "reading manifests", spans=spans):
        chunks.add_set(some)
    return chunks.done()


@dataclass(frozen=True, slots=True, eq=False)
class ReadSnapshots:
    """Manifests that snapshots list."""

    snapshots: npt.NDArray[np.uint8]
    target: ObjectStore | None

    def __call__(self, files: Files, rows: range) -> ManifestFiles:
        return manifests_of(
            with_fallback(files, self.target), self.snapshots[rows.start : rows.stop]
        )


@dataclass(frozen=True, slots=True, eq=False)
class ReadManifests:
    """Chunk objects that manifests refer to."""

    manifests: ManifestFiles
    target: ObjectStore | None

    def __call__(self, files: Files, rows: range) -> IdSet:
        some = self.manifests.take(slice(rows.start, rows.stop))
        return chunks_of(with_fallback(files, self.target), some)


def with_fallback(files: Files, target: ObjectStore | None) -> Files:
    """Files that are looked for at the target if the source does not have them."""
    return files if target is None else Files(Overlay(files.store, target), files.settings)


def with_stored_logs(needed: NeededFiles, *inventories: Inventory) -> NeededFiles:
    """Leaves out logs that do not exist: the first snapshot of version 1 never had one."""
    kind = FileKind.TRANSACTION
    found = [_select_listed(needed.ids[kind], each, kind).ids for each in inventories]
    return NeededFiles({**needed.ids, kind: IdSet.of(np.concatenate(found))})


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Files of one kind: those to be copied, and of some others those that are at the target."""

    missing: Listing
    reused: Listing


def compare_files(
    needed: NeededFiles, unsettled: NeededFiles, source: Inventory, target: Inventory
) -> Iterator[Compared]:
    """Kind by kind in ORDER. To be copied is what is not at the target, or not in full size.

    `unsettled` are files that nothing at the target refers to: if they are there, they were left
    by an earlier try. Raises ObjectNotFoundError if a file is in neither place.
    """
    for kind in ORDER:
        ids = needed.ids[kind]
        if not len(ids):  # nothing is listed for nothing
            yield Compared(Listing.none(kind), Listing.none(kind))
            continue
        there, wanted = _select_listed(ids, target, kind), _select_listed(ids, source, kind)
        yield compare_kind(kind, ids, unsettled.ids[kind], there, wanted)


def compare_kind(
    kind: FileKind, ids: IdSet, unsettled: IdSet, there: Listing, wanted: Listing
) -> Compared:
    """The same for files that are listed at the target (`there`) and at the source (`wanted`)."""
    _require_all(ids, [there, wanted], kind)
    missing = wanted.take(~_present_mask(wanted, there))
    left = unsettled.contains(there.ids) & ~IdSet.of(missing.ids).contains(there.ids)
    return Compared(missing, there.take(left))


def lost_files(expected: Sequence[Listing], target: Inventory) -> list[Listing]:
    """Files that are not at the target in the size that they are expected to have."""
    lost = []
    for part in expected:
        if len(part):
            there = _select_listed(IdSet.of(part.ids), target, part.kind)
            lost.append(part.take(~_present_mask(part, there)))
    return [part for part in lost if len(part)]


def _select_listed(ids: IdSet, inventory: Inventory, kind: FileKind) -> Listing:
    parts = (piece.take(ids.contains(piece.ids)) for piece in inventory.pieces(kind))
    return Listing.concat(kind, parts)


def _present_mask(wanted: Listing, there: Listing) -> npt.NDArray[np.bool_]:
    """True for each wanted file of which there is one of the same name and size."""
    if not len(there) or not len(wanted):
        return np.zeros(len(wanted), np.bool_)
    names, sought = _names(there), _names(wanted)
    order = np.argsort(names)
    at = np.minimum(np.searchsorted(names[order], sought), len(order) - 1)
    found = order[at]
    same: npt.NDArray[np.bool_] = (names[found] == sought) & (
        there.size_bytes[found] == wanted.size_bytes
    )
    return same


def _names(listing: Listing) -> npt.NDArray[np.bytes_]:
    """Ids as texts of numpy, which can be sorted; all are equally long."""
    return np.ascontiguousarray(listing.ids).view("S12").reshape(-1)


def _require_all(ids: IdSet, places: Sequence[Listing], kind: FileKind) -> None:
    found = IdSet.of(np.concatenate([place.ids for place in places]))
    if len(found) < len(ids):
        every = ids.ids()
        lost = every[~found.contains(every)][:1]
        raise ObjectNotFoundError(keys_of(kind, lost)[0])
