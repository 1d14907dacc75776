"""Tasks that check snapshots with their logs, and manifests, for an executor."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace

import numpy as np

from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import MANIFESTS, SNAPSHOTS, TRANSACTIONS
from frazil.engine.refs.commit_metadata import strip_carried_keys
from frazil.errors import StorageError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.envelope import FileType
from frazil.format.storage_config import Containers
from frazil.ids import format_base32
from frazil.maintenance.executor import HERE, Block
from frazil.maintenance.id_sets import GrowingIdSet, IdSet
from frazil.maintenance.verify.chunk_checks import ChunkChecks, ChunkDecoder
from frazil.maintenance.verify.file_reader import (
    Fetched,
    Opened,
    OpenedFile,
    check_version,
    fetch,
    open_file,
    open_together,
)
from frazil.maintenance.verify.log_checks import Around, check_log
from frazil.maintenance.verify.manifest_checks import RefCounts, Surroundings, check_manifest
from frazil.maintenance.verify.node_checks import (
    ListedManifest,
    ManifestTask,
    ManifestUse,
    NodeFacts,
    Seen,
    node_facts,
)
from frazil.maintenance.verify.problems import Problem, problem
from frazil.maintenance.verify.repo_info_checks import SnapshotTask
from frazil.maintenance.verify.snapshot_checks import SnapshotFacts, check_snapshot
from frazil.maintenance.verify.stored_objects import Objects
from frazil.objectstore.pool import Pool
from frazil.objectstore.protocol import ObjectStore

IO_THREADS = 16
_SNAPSHOTS_AT_ONCE = 64
_SNAPSHOT_BYTES_AT_ONCE = 64 << 20  # of their files, logs included
_MANIFEST_BYTES_AT_ONCE = 32 << 20
_CACHED_NODES = 100_000  # of the snapshots checked last
_FEWEST_CACHED = 3  # snapshots, however large


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotsChecked:
    problems: list[Problem]
    uses: list[ManifestUse]
    listed: list[ListedManifest]

    def extend(self, other: "SnapshotsChecked") -> None:
        self.problems.extend(other.problems)
        self.uses.extend(other.uses)
        self.listed.extend(other.listed)


@dataclass(frozen=True, slots=True, eq=False)
class ManifestsChecked:
    problems: list[Problem]
    counts: RefCounts
    chunk_ids: IdSet
    used: Objects  # by id, and as large as references need them, if they are compared later

    @classmethod
    def of_problems(cls, problems: list[Problem]) -> "ManifestsChecked":
        return cls(problems, RefCounts(), IdSet.empty(), Objects.concat([]))


@dataclass(slots=True)
class _RecentNodes:
    """Nodes of the snapshots checked last: most are the parent of the next."""

    known: OrderedDict[str, NodeFacts] = field(default_factory=OrderedDict)
    total: int = 0

    def find(self, name: str) -> NodeFacts | None:
        found = self.known.get(name)
        if found is not None:
            self.known.move_to_end(name)
        return found

    def add(self, name: str, nodes: NodeFacts) -> None:
        self.known[name] = nodes
        self.total += len(nodes.paths) + 1
        # The last three at least: a commit, its parent, and the one that was needed before it.
        while self.total > _CACHED_NODES and len(self.known) > _FEWEST_CACHED:
            _, old = self.known.popitem(last=False)
            self.total -= len(old.paths) + 1


@dataclass(slots=True)
class CheckSnapshots:
    """Task: checks snapshots, with caches that are kept from one range of rows to the next."""

    tasks: Sequence[SnapshotTask]
    spec_version: int | None
    with_metadata: bool
    pool: Pool = field(default_factory=lambda: Pool(IO_THREADS))
    seen: Seen = field(default_factory=Seen)
    recent: _RecentNodes = field(default_factory=_RecentNodes)

    def __call__(self, files: Files, rows: range) -> SnapshotsChecked:
        checker = SnapshotChecker(
            files.raw_store,
            self.pool,
            self.spec_version,
            self.with_metadata,
            self.seen,
            self.recent,
        )
        done = SnapshotsChecked([], [], [])
        for part in checker.check(self.tasks[rows.start : rows.stop]):
            done.extend(part)
        return done


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CheckManifests:
    """Task: checks manifests, and if asked for the chunks that they refer to."""

    tasks: Sequence[ManifestTask]
    sizes: Sequence[int]  # bytes of the files
    spec_version: int | None
    objects: Objects | None  # None if references are compared with them later
    containers: Containers | None
    virtual: bool  # ask for the objects of virtual chunks
    decode: ChunkDecoder | None  # decode all chunks
    pool: Pool = field(default_factory=lambda: Pool(IO_THREADS))

    def __call__(self, files: Files, rows: range) -> ManifestsChecked:
        problems, counts, chunk_ids = list[Problem](), RefCounts(), GrowingIdSet()
        used = list[Objects]()
        for part in self.check(files, rows):
            problems += part.problems
            counts += part.counts
            chunk_ids.add_set(part.chunk_ids)
            used.append(part.used)
        return ManifestsChecked(problems, counts, chunk_ids.done(), Objects.concat(used))

    def check(self, files: Files, rows: range) -> Iterator[ManifestsChecked]:
        """Checks some at a time."""
        checker = ManifestChecker(
            files.raw_store,
            self.pool,
            self.spec_version,
            self.objects,
            self.containers,
            ChunkChecks.find(files, virtual=self.virtual, decode=self.decode),
        )
        chosen = slice(rows.start, rows.stop)
        return checker.check(self.tasks[chosen], self.sizes[chosen])


# On a cluster references and objects meet at the workers that own the shares of their ids.


@dataclass(frozen=True, slots=True, eq=False)
class Used:
    """Objects that references need, as large as they need them."""

    objects: Objects


@dataclass(frozen=True, slots=True, eq=False)
class ScatterManifests:
    """Task: checks manifests. Objects that they refer to go to the owners of their shares."""

    manifests: CheckManifests

    def __call__(self, files: Files, rows: range) -> Iterator[Block]:
        done = self.manifests(files, rows)
        yield HERE, replace(done, used=Objects.concat([]))
        yield from ((share, Used(objects)) for share, objects in done.used.split())


@dataclass(frozen=True, slots=True, eq=False)
class ObjectsCompared:
    """Objects of some shares."""

    unreferenced: int
    unreferenced_bytes: int
    lacking: Objects  # that references need: with -1 for the size if there is none


def gather_objects(
    files: Files, shares: Iterator[Sequence[Objects | Used]]
) -> Iterator[ObjectsCompared]:
    """Compares references with the objects that are stored."""
    del files
    for blocks in shares:
        stored = Objects.concat(block for block in blocks if isinstance(block, Objects))
        used = Objects.concat(block.objects for block in blocks if isinstance(block, Used))
        sizes = stored.sizes_of(used.ids.ids())
        lacks = np.flatnonzero(sizes < used.sizes)
        lacking = Objects(used.high[lacks], used.low[lacks], sizes[lacks])
        yield ObjectsCompared(*stored.bytes_outside(used.ids), lacking)


def manifest_spans(sizes: Sequence[int]) -> list[range]:
    """Ranges of manifests that are read together, by the sizes of the files."""
    spans, start = list[range](), 0
    while start < len(sizes):
        stop, total = start, 0
        while stop < len(sizes) and (stop == start or total <= _MANIFEST_BYTES_AT_ONCE):
            total += sizes[stop]
            stop += 1
        spans.append(range(start, stop))
        start = stop
    return spans


@dataclass(slots=True)
class SnapshotChecker:
    store: ObjectStore
    pool: Pool
    spec_version: int | None
    with_metadata: bool
    seen: Seen = field(default_factory=Seen)
    recent: _RecentNodes = field(default_factory=_RecentNodes)

    def check(self, tasks: Sequence[SnapshotTask]) -> Iterator[SnapshotsChecked]:
        """Checks some at a time, in order: more at once while their files are small."""
        start, at_once = 0, 4
        while start < len(tasks):
            some = tasks[start : start + at_once]
            keys = [SNAPSHOTS + task.name for task in some]
            keys += [TRANSACTIONS + task.name for task in some]
            data = self.pool.map(lambda key: fetch(self.store, key), keys)
            size = sum(len(each) for each in data if isinstance(each, Sized))
            yield self._check_some(some, keys, data)
            start += len(some)
            fitting = _SNAPSHOT_BYTES_AT_ONCE * len(some) // max(1, size)
            at_once = max(1, min(2 * at_once, fitting, _SNAPSHOTS_AT_ONCE))

    def _check_some(
        self, tasks: Sequence[SnapshotTask], keys: list[str], data: list[Fetched]
    ) -> SnapshotsChecked:
        count, done = len(tasks), SnapshotsChecked([], [], [])
        snapshots = open_together(keys[:count], data[:count], FileType.SNAPSHOT)
        logs = open_together(keys[count:], data[count:], FileType.TRANSACTION_LOG)
        for number, task in enumerate(tasks):  # no name is kept: each may take gigabytes
            self._check_one(
                task, (data[number], next(snapshots)), (data[count + number], next(logs)), done
            )
        return done

    def _check_one(
        self,
        task: SnapshotTask,
        snapshot: tuple[Fetched, Opened],
        log: tuple[Fetched, Opened],
        done: SnapshotsChecked,
    ) -> None:
        key = SNAPSHOTS + task.name
        data, (opened, problems) = snapshot
        done.problems.extend(problems)
        facts: SnapshotFacts | None = None
        if data is None:
            done.problems.append(problem("snapshot-missing", key, "it is not there"))
        elif isinstance(data, StorageError):
            done.problems.append(problem("file-unreadable", key, data.message))
        elif opened is not None:
            facts = self._check_snapshot(task, opened, done)
        self._check_log(task, facts, log, done.problems)

    def _check_snapshot(
        self, task: SnapshotTask, opened: OpenedFile, done: SnapshotsChecked
    ) -> SnapshotFacts:
        done.problems.extend(check_version(opened, self.spec_version))
        facts = check_snapshot(opened, self.seen, done.problems, with_metadata=self.with_metadata)
        done.uses.extend(facts.uses)
        done.listed.extend(facts.listed)
        self.recent.add(task.name, facts.nodes)
        if task.info is not None:
            differing = _differences(task, facts)
            if differing:
                text = f"{', '.join(differing)} in the repo info and the file differ"
                done.problems.append(problem("snapshot-info-differs", opened.key, text))
        return facts

    def _check_log(
        self,
        task: SnapshotTask,
        facts: SnapshotFacts | None,
        log: tuple[Fetched, Opened],
        problems: list[Problem],
    ) -> None:
        key = TRANSACTIONS + task.name
        data, (opened, noticed) = log
        problems += noticed
        if data is None:
            is_old_root = facts is not None and facts.spec_version == 1 and task.parent is None
            if task.needs_log and not is_old_root:
                problems.append(problem("log-missing", key, "it is not there"))
            return
        if isinstance(data, StorageError):
            problems.append(problem("file-unreadable", key, data.message))
            return
        if opened is None:
            return
        problems += check_version(opened, self.spec_version)
        before = None
        if task.compares_parent and task.parent is not None:
            before = self._nodes_of(task.parent)
        after = None if facts is None else facts.nodes
        check_log(opened, Around(after, before, amended=task.amended), problems)

    def _nodes_of(self, name: str) -> NodeFacts | None:
        """Nodes of the parent, whose problems are reported where it is checked itself."""
        known = self.recent.find(name)
        if known is not None:
            return known
        data = fetch(self.store, SNAPSHOTS + name)
        if data is None or isinstance(data, StorageError):
            return None
        opened = open_file(SNAPSHOTS + name, data, FileType.SNAPSHOT, [])
        if opened is None:
            return None
        nodes = node_facts(opened)
        self.recent.add(name, nodes)
        return nodes


@dataclass(slots=True)
class ManifestChecker:
    store: ObjectStore
    pool: Pool
    spec_version: int | None
    objects: Objects | None
    containers: Containers | None
    chunks: ChunkChecks | None = None  # checks of the chunks themselves

    def check(
        self, tasks: Sequence[ManifestTask], sizes: Sequence[int]
    ) -> Iterator[ManifestsChecked]:
        """Checks some at a time, by the sizes of the files."""
        for rows in manifest_spans(sizes):
            some = tasks[rows.start : rows.stop]
            keys = [MANIFESTS + format_base32(task.manifest) for task in some]
            data = self.pool.map(lambda key: fetch(self.store, key), keys)
            yield self._check_some(some, keys, data)

    def _check_some(
        self, tasks: Sequence[ManifestTask], keys: list[str], data: list[Fetched]
    ) -> ManifestsChecked:
        problems: list[Problem] = []
        counts, chunk_ids, used = RefCounts(), GrowingIdSet(), list[Objects]()
        together = open_together(keys, data, FileType.MANIFEST)
        for found, (task, key, (opened, noticed)) in zip(
            data, zip(tasks, keys, together, strict=True), strict=True
        ):
            problems += noticed
            if found is None:
                text = f"{_describe_user(task)} needs it"
                problems.append(problem("manifest-missing", key, text))
                continue
            if isinstance(found, StorageError):
                problems.append(problem("file-unreadable", key, found.message))
                continue
            if opened is None:
                continue
            problems += check_version(opened, self.spec_version)
            surroundings = Surroundings(self.objects, self.containers)
            facts = check_manifest(opened, task, surroundings, problems)
            counts += facts.counts
            if self.objects is None:
                used.append(Objects.of(facts.chunk_ids, facts.ends))
            else:
                chunk_ids.add(np.ascontiguousarray(facts.chunk_ids))
            if self.chunks is not None:
                problems += self.chunks.check(found, facts)
        return ManifestsChecked(problems, counts, chunk_ids.done(), Objects.concat(used))


def _differences(task: SnapshotTask, facts: SnapshotFacts) -> list[str]:
    info = task.info
    if info is None:
        return []
    differing = []
    if info.message != facts.message:
        differing.append("message")
    if info.flushed_at_us != facts.flushed_at_us:
        differing.append("time")
    both = info.metadata is not None and facts.metadata is not None
    if both and not _are_alike(info.metadata or {}, facts.metadata or {}):
        differing.append("metadata")
    return differing


def _are_alike(listed: Mapping[str, Json], own: Mapping[str, Json]) -> bool:
    """True if metadata differ at most in keys of expired commits, which only the list has."""
    return listed == own or strip_carried_keys(listed) == strip_carried_keys(own)


def _describe_user(task: ManifestTask) -> str:
    if task.uses:
        use = task.uses[0]
        return f"{use.path} in {use.snapshot}"
    return task.listed[0].snapshot
