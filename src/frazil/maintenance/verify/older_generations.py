"""Verification of repositories before version 1, and of pre-releases of version 2.

The engine decodes their files to the records of version 2. These are encoded as files of version 2,
in memory, and verified as such: paths, parents, zarr metadata, extents, every reference and object,
on request every chunk. The order of entries in files is not checked. Transaction logs and refs are
only checked for being readable.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import CHUNKS, MANIFESTS, SNAPSHOTS, TRANSACTIONS
from frazil.engine.repository import Repository
from frazil.errors import FormatError, IcechunkError, ObjectNotFoundError
from frazil.format.generation import CURRENT
from frazil.format.manifest import encode_manifest
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import encode_snapshot
from frazil.ids import ManifestId, SnapshotId, format_base32
from frazil.maintenance.executor import quiet_files
from frazil.maintenance.id_sets import GrowingIdSet
from frazil.maintenance.verify.chunk_checks import ChunkChecks, ChunkDecoder
from frazil.maintenance.verify.file_checks import ManifestChecker, SnapshotChecker, SnapshotsChecked
from frazil.maintenance.verify.manifest_checks import RefCounts
from frazil.maintenance.verify.node_checks import ManifestTask, manifest_tasks
from frazil.maintenance.verify.problems import Problem, first_of_each, problem, worst_first
from frazil.maintenance.verify.repo_info_checks import SnapshotTask
from frazil.maintenance.verify.report import Unreferenced, VerifyReport
from frazil.maintenance.verify.stored_objects import Listing, list_everything
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.pool import Pool
from frazil.objectstore.protocol import ObjectStore

_NO_ENTRY = {
    "repository-missing",
    "branch-main-missing",
    "repo-info-unreadable",
    "repo-metadata-invalid",
    "snapshot-metadata-invalid",
}
# What the rewriting makes so, or the generation never said
_NOT_KEPT = {"manifest-size", "manifest-count", "manifest-lacks-array", "log-missing"}


def open_old(store: ObjectStore, problems: Iterable[Problem]) -> Repository | None:
    """The repository, if it is of a generation that is not read byte by byte.

    `problems` of the entry point as one of today.
    """
    if _NO_ENTRY.isdisjoint(each.kind for each in problems):
        return None
    try:
        repository = Repository.open(store)
    except IcechunkError:
        return None
    return None if repository.generation in CURRENT else repository


@dataclass(frozen=True, slots=True)
class CheckOld:
    """Task with one row: checks a repository of an old generation."""

    total_files: int  # in the storage
    total_bytes: int
    virtual: bool
    decode: ChunkDecoder | None

    def __call__(self, files: Files, rows: range) -> VerifyReport:
        del rows
        repository = Repository.open(files.raw_store)
        chunks = ChunkChecks.find(files, virtual=self.virtual, decode=self.decode)
        report = _verify(repository, chunks)
        return replace(report, files=self.total_files, total_bytes=self.total_bytes)


def _verify(repository: Repository, chunks: ChunkChecks | None) -> VerifyReport:
    files, problems = quiet_files(repository), list[Problem]()
    listing = list_everything(repository.store, [])  # by the names of today
    info = _readable_info(repository, problems)
    names = list(_history(info, problems))
    found = SnapshotsChecked([], [], [])
    logs = set(listing.names(TRANSACTIONS))
    for name in names:
        _check_snapshot(files, name, found, with_metadata=chunks is not None)
        if name in logs:
            _check_log(files, name, problems)
    tasks = manifest_tasks(found.uses, found.listed)
    counts, chunk_ids = RefCounts(), GrowingIdSet()
    for task in tasks:
        copy = _copy_manifest(files, task, found.problems)
        if copy is None:
            continue
        checker = ManifestChecker(copy, Pool(1), None, listing.chunks, None, chunks)
        for checked in checker.check([task], [0]):
            found.problems.extend(checked.problems)
            counts += checked.counts
            chunk_ids.add_set(checked.chunk_ids)
    kept = [each for each in found.problems if each.kind not in _NOT_KEPT]
    return VerifyReport(
        spec_version=repository.spec_version,
        problems=tuple(worst_first([*problems, *first_of_each(kept)])),
        snapshots=len(names),
        manifests=len(tasks),
        refs=counts,
        files=0,
        total_bytes=0,
        unreferenced=_count_unreferenced(listing, chunk_ids),
    )


def _readable_info(repository: Repository, problems: list[Problem]) -> RepoInfo:
    """The entry point without the refs that cannot be read, which are problems."""
    info, damaged = repository.entry.fetch_readable()
    for key, error in damaged.items():
        problems.append(problem("ref-unreadable", key, error.message))
    return info


def _check_log(files: Files, name: str, problems: list[Problem]) -> None:
    """Checks that a log can be read; its content never met the rules of later versions."""
    try:
        files.fetch_log(SnapshotId.parse(name))
    except FormatError as error:
        if error.where == TRANSACTIONS + name:  # else the snapshot is damaged, which is known
            problems.append(problem("file-damaged", TRANSACTIONS + name, error.message))
    except ObjectNotFoundError:
        pass  # of the snapshot, which is known


def _count_unreferenced(listing: Listing, chunks: GrowingIdSet) -> dict[str, Unreferenced]:
    return {CHUNKS: Unreferenced(*listing.chunks.bytes_outside(chunks.done()))}


def _history(info: RepoInfo, problems: list[Problem]) -> Iterator[str]:
    """Names of the snapshots reachable from branches and tags, each once."""
    seen = set[int]()
    for ref, row in [*sorted(info.branches.items()), *sorted(info.tags.items())]:
        try:
            for ancestor in info.snapshots.ancestors(row):
                if ancestor in seen:
                    break
                seen.add(ancestor)
                yield str(info.snapshots.id(ancestor))
        except IcechunkError as error:
            problems.append(problem("parent-dangling", ref, error.message))


def _check_snapshot(
    files: Files, name: str, found: SnapshotsChecked, *, with_metadata: bool
) -> None:
    key = SNAPSHOTS + name
    try:
        snapshot = files.fetch_snapshot(SnapshotId.parse(name))
        data = encode_snapshot(snapshot)
    except ObjectNotFoundError:
        found.problems.append(problem("snapshot-missing", key, "it is not there"))
        return
    except FormatError as error:
        found.problems.append(problem("file-damaged", key, error.message))
        return
    store = MemoryStore()
    store.put(key, data)
    checker = SnapshotChecker(store, Pool(1), None, with_metadata=with_metadata)
    for part in checker.check([SnapshotTask(name, needs_log=False)]):
        found.extend(part)


def _copy_manifest(files: Files, task: ManifestTask, problems: list[Problem]) -> MemoryStore | None:
    """A store with the manifest as a file of version 2."""
    key = MANIFESTS + format_base32(task.manifest)
    try:
        data = encode_manifest(files.fetch_manifest(ManifestId(task.manifest)))
    except ObjectNotFoundError:
        text = f"{task.uses[0].path if task.uses else task.listed[0].snapshot} needs it"
        problems.append(problem("manifest-missing", key, text))
        return None
    except FormatError as error:
        problems.append(problem("file-damaged", key, error.message))
        return None
    store = MemoryStore()
    store.put(key, data)
    return store
