"""Packs small chunk objects: a pack is one object that holds many chunks.

    plan      chunks of the branch's tip that are small, and the packs they go to
    write     packs, and manifests that refer to them
    commit    one snapshot that refers to the packs; its content is that of its parent

The objects that were packed stay until no snapshot needs them any more and garbage is collected:
until then the bytes are stored twice. Virtual and inline chunks are not touched.

An object is small by what the tip refers to in it: one chunk, or a few that were stored together,
or what is left of a pack. Chunks go together in the order of the scan. An array whose small chunks
fill a pack has packs of its own; the others share theirs. What is in one object already, and would
be in one again, stays; and every other pack is larger than what is small: so packing twice does
nothing.

On a cluster one worker makes the plan, and sends its parts to the workers that write packs and
manifests. The caller has a row for each pack.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import chunk_key
from frazil.engine.refs.commit_metadata import require_json, with_notes
from frazil.engine.repository import Repository
from frazil.errors import InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.snapshot import ManifestFile, Snapshot
from frazil.ids import ChunkId, ManifestId, SnapshotId
from frazil.maintenance.executor import (
    HERE,
    PACK_BYTES,
    SHARES,
    SMALL_BYTES,
    Block,
    Cluster,
    Executor,
    Scattered,
    Task,
    ThreadExecutor,
    find_cluster,
    quiet_files,
    require_current,
    wave_spans,
    waves,
)
from frazil.maintenance.id_sets import IdSet
from frazil.maintenance.relocate import (
    Ids,
    Ints,
    NewManifests,
    Parts,
    PartScan,
    Relocated,
    Relocation,
    RelocationRequest,
    WriteManifests,
    WriteMoved,
    group_rows,
    random_ids,
    relocate,
    scan_parts,
    write_moved,
)
from frazil.paths import ROOT, NodePath

BYTES_AT_ONCE = 64 << 20  # of chunks, in the memory of a task
_ROWS_SENT = 1 << 17  # chunks of a plan that are sent to a worker together


@dataclass(frozen=True, slots=True, kw_only=True)
class PackResult:
    """Chunks that were packed or unpacked, or in a dry run would be; `bytes` are theirs.

    `snapshot` is the new tip of the branch, None after a dry run and if there was nothing to do.
    `manifests` were rewritten.
    """

    snapshot: str | None
    chunks: int
    packs: int
    bytes: int
    references: int
    manifests: int

    @property
    def snapshot_id(self) -> str | None:
        return self.snapshot


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackPlan:
    """Row i of `chunks` goes to pack `pack[i]`, after the rows of that pack before it.

    On a cluster these rows are `scattered`, and there are none here.
    """

    branch: str
    snapshot: SnapshotId
    paths: tuple[NodePath, ...]
    chunks: Parts  # each once
    pack: Ints  # ascending from 0
    names: Ids  # of the packs; drawn with the plan, so that tasks may run twice
    packed: Ints  # number of chunks of each pack
    pack_bytes: Ints  # of each pack
    references: int  # to these chunks
    untouched: frozenset[ManifestId]  # manifests that refer to none of them
    touched: frozenset[ManifestId]  # the others
    scattered: "ScatteredPlan | None" = None

    @property
    def packs(self) -> int:
        return len(self.names)

    @property
    def bytes(self) -> int:
        return int(self.pack_bytes.sum())

    def relocation(self) -> Relocation:
        """Places of the chunks in their packs."""
        starts = _starts(self.chunks.length, self.pack)
        return Relocation.of(self.chunks, self.names[self.pack], starts)

    def result(self, done: Relocated | None = None) -> PackResult:
        return PackResult(
            snapshot=None if done is None else str(done.snapshot),
            chunks=int(self.packed.sum()),
            packs=self.packs,
            bytes=self.bytes,
            references=self.references,
            manifests=0 if done is None else done.manifests,
        )


def plan_pack(
    repository: Repository,
    branch: str,
    paths: Sequence[NodePath] = (ROOT,),
    executor: Executor | None = None,
    *,
    small_bytes: int = SMALL_BYTES,
    pack_bytes: int = PACK_BYTES,
) -> PackPlan:
    """Reads the manifests of the arrays chosen.

    Chunks of at most `small_bytes` go into packs of about `pack_bytes`, which must be twice as
    much: then a pack has two chunks or more.
    """
    if small_bytes < 1 or pack_bytes < 2 * small_bytes:
        raise InvalidInputError(
            f"packs of {pack_bytes} bytes for chunks of up to {small_bytes}:"
            " they must be twice as large, or more"
        )
    require_current(repository)
    session = repository.writable_session(branch)  # raises if nothing may be written
    executor = executor or ThreadExecutor(quiet_files(repository))
    plan = PlanPacks(branch, session.snapshot_id, tuple(paths), small_bytes, pack_bytes)
    cluster = find_cluster(executor)
    if cluster is None:
        return plan.make(executor, session.base)[0]
    scattered = cluster.scatter(plan, 1, "reading manifests")
    made: PackPlan = scattered.results[0]
    return replace(made, scattered=ScatteredPlan(cluster, scattered, made.touched))


@dataclass(frozen=True, slots=True)
class PlanPacks:
    """Makes a plan; as a task with one row, which sends its parts to those who execute it."""

    branch: str
    snapshot: SnapshotId
    paths: tuple[NodePath, ...]
    small_bytes: int
    pack_size: int

    def make(self, executor: Executor, snapshot: Snapshot) -> tuple[PackPlan, PartScan]:
        scan = scan_parts(executor, snapshot, self.paths, longest=self.small_bytes)
        first, part = group_rows(scan.parts.columns)
        in_order = np.sort(first)
        rows, pack = _arrange(scan.take(in_order), self.small_bytes, self.pack_size)
        chunks = scan.parts.take(in_order[rows])
        is_chosen = np.zeros(len(first), dtype=np.bool_)
        is_chosen[part[in_order[rows]]] = True
        chosen = is_chosen[part]
        touched, packs = scan.manifests_with(chosen), int(pack[-1]) + 1 if len(pack) else 0
        held = np.bincount(pack, weights=chunks.length, minlength=packs)
        plan = PackPlan(
            branch=self.branch,
            snapshot=self.snapshot,
            paths=self.paths,
            chunks=chunks,
            pack=pack,
            names=random_ids(packs),
            packed=np.bincount(pack, minlength=packs).astype(np.int64),
            pack_bytes=held.astype(np.int64),
            references=int(chosen.sum()),
            untouched=frozenset(scan.manifests) - touched,
            touched=frozenset(touched),
        )
        return plan, scan

    def __call__(self, files: Files, rows: range) -> Iterator[Block]:
        if not rows:
            return
        plan, scan = self.make(ThreadExecutor(files), files.fetch_snapshot(self.snapshot))
        nothing = np.zeros(0, dtype=np.int64)
        yield HERE, replace(plan, chunks=plan.chunks.take(slice(0, 0)), pack=nothing)
        for start in range(0, len(plan.chunks), _ROWS_SENT):
            some = slice(start, start + _ROWS_SENT)
            chunks, pack = plan.chunks.take(some), plan.pack[some]
            for number in np.unique(pack).tolist():
                mine = chunks.take(np.flatnonzero(pack == number))
                yield number % SHARES, PackRows(number, start, mine)
        moved = plan.relocation()
        for at, (manifest, parts) in enumerate(scan.by_manifest()):
            if manifest in plan.touched:
                for start in range(0, len(parts), _ROWS_SENT):
                    piece = moved.only(parts.take(slice(start, start + _ROWS_SENT)))
                    yield at % SHARES, ManifestMoves(manifest, piece)


@dataclass(frozen=True, slots=True, eq=False)
class PackRows:
    """Chunks of a pack, in their order; those that begin earlier in the plan come before them."""

    pack: int
    first: int
    chunks: Parts


@dataclass(frozen=True, slots=True, eq=False)
class ManifestMoves:
    """New places of chunks that a manifest refers to."""

    manifest: ManifestId
    moved: Relocation


type _Sent = PackRows | ManifestMoves


def pack(
    repository: Repository,
    plan: PackPlan,
    message: str | None = None,
    executor: Executor | None = None,
    *,
    metadata: Mapping[str, Any] | None = None,
) -> PackResult:
    """Commits on top of the branch's tip at that time; nothing if there are no packs."""
    if not plan.packs:
        return plan.result()
    executor = executor or ThreadExecutor(quiet_files(repository))
    if plan.scattered is None:
        packs = WritePacks(plan.chunks, plan.pack, plan.names)
        _write_objects(executor, packs, plan.pack_bytes, "packing chunks")
        write: WriteManifests = partial(write_moved, executor, plan.relocation())
    else:
        plan.scattered.write_packs(plan.names)
        write = plan.scattered.write_manifests
    count = int(plan.packed.sum())
    message = message or f"Pack {count} chunks into {plan.packs} objects"
    notes = with_notes(require_json(metadata or {}), {"packed": count})
    return _commit_moved(repository, plan, write, message, notes)


@dataclass(frozen=True, slots=True, eq=False)
class GatherPacks:
    """Writes the packs of shares; those of a share are read at once, as far as memory allows."""

    names: Ids

    def __call__(self, files: Files, shares: Iterator[Sequence[_Sent]]) -> Iterator[None]:
        for blocks in shares:
            mine = [each for each in blocks if isinstance(each, PackRows)]
            mine.sort(key=lambda each: (each.pack, each.first))
            chunks = Parts.concat([each.chunks for each in mine])
            sent = np.repeat([each.pack for each in mine], [len(each.chunks) for each in mine])
            numbers, pack = np.unique(sent.astype(np.int64), return_inverse=True)
            write = WritePacks(chunks, pack.astype(np.int64), self.names[numbers])
            write(files, range(len(numbers)))
        yield None


@dataclass(frozen=True, slots=True, eq=False)
class ScatteredPlan:
    """The rows of a plan, with the workers of a cluster, which execute it."""

    cluster: Cluster
    rows: Scattered
    touched: frozenset[ManifestId]

    def write_packs(self, names: Ids) -> None:
        deque(self.cluster.gather([self.rows], GatherPacks(names), "packing chunks"), maxlen=0)

    def write_manifests(self, snapshot: Snapshot, wanted: Sequence[ManifestId]) -> NewManifests:
        """Rewrites manifests by the workers that have the new places of their chunks."""
        task = GatherManifests(self.touched.intersection(wanted))
        written = dict(self.cluster.gather([self.rows], task, "writing manifests"))
        late = [each for each in wanted if each not in written]
        if late:  # manifests of a commit that was made meanwhile
            moves = self.cluster.gather([self.rows], gather_moves, "new manifests", many=True)
            written |= write_moved(self.cluster, Relocation.concat(moves), snapshot, late)
        return written


@dataclass(frozen=True, slots=True)
class GatherManifests:
    manifests: frozenset[ManifestId]

    def __call__(
        self, files: Files, shares: Iterator[Sequence[_Sent]]
    ) -> Iterator[tuple[ManifestId, ManifestFile | None]]:
        for blocks in shares:
            moves: dict[ManifestId, list[Relocation]] = {}
            for each in blocks:
                if isinstance(each, ManifestMoves) and each.manifest in self.manifests:
                    moves.setdefault(each.manifest, []).append(each.moved)
            for manifest, parts in moves.items():
                moved = Relocation.concat(parts)
                (file,) = WriteMoved((manifest,), np.zeros(1, np.int64), moved)(files, range(1))
                yield manifest, file


def gather_moves(files: Files, shares: Iterator[Sequence[_Sent]]) -> Iterator[Relocation]:
    del files
    for blocks in shares:
        yield from (each.moved for each in blocks if isinstance(each, ManifestMoves))


def _write_objects(
    executor: Executor, write: Task[None], sizes: npt.NDArray[Any], doing: str
) -> None:
    """Runs a task that writes one object for each size, as many at a time as fit into memory."""
    spans = wave_spans(sizes, BYTES_AT_ONCE)
    deque(executor.run(write, len(sizes), doing, spans=spans, sizes=sizes), maxlen=0)


def _commit_moved(
    repository: Repository,
    plan: "PackPlan | UnpackPlan",
    write: WriteManifests,
    message: str,
    metadata: Mapping[str, Json],
) -> PackResult:
    """Commits references to the places that the plan gave to its chunks."""
    request = RelocationRequest(
        branch=plan.branch, paths=plan.paths, message=message, metadata=metadata
    )
    return plan.result(relocate(repository, request, write, plan.untouched))


@dataclass(frozen=True, slots=True, eq=False)
class WritePacks:
    """Reads chunks and writes packs, as many at a time as fit into memory."""

    chunks: Parts
    pack: Ints
    names: Ids

    def __call__(self, files: Files, rows: range) -> None:
        edges = np.searchsorted(self.pack, np.arange(rows.start, rows.stop + 1))
        chunks = self.chunks.take(slice(int(edges[0]), int(edges[-1])))
        edges -= edges[0]
        ends = np.append(np.uint64(0), np.cumsum(chunks.length, dtype=np.uint64))
        for wave in waves(np.diff(ends[edges]), BYTES_AT_ONCE):
            names = self.names[rows.start + wave.start : rows.start + wave.stop]
            _write_packs(files, chunks, edges[wave.start : wave.stop + 1], names)
        files.store.sync()


def _write_packs(files: Files, chunks: Parts, edges: Ints, names: Ids) -> None:
    """Writes packs at once; row i of `names` has the chunks from `edges[i]` to `edges[i + 1]`."""
    some = chunks.take(slice(int(edges[0]), int(edges[-1])))
    data = files.chunks.fetch_many(some.chunk_id, some.offset, some.length)
    rows = (edges - edges[0]).tolist()

    def put(number: int) -> None:
        body = b"".join(data[rows[number] : rows[number + 1]])
        files.store.put(chunk_key(ChunkId(names[number].tobytes())), body)

    files.pool.map(put, range(len(names)))


def _arrange(scan: PartScan, small_bytes: int, pack_bytes: int) -> tuple[Ints, Ints]:
    """Rows in the order of packs, and the pack of each; every part is there once."""
    length = scan.parts.length.astype(np.int64)
    is_small = (length > 0) & (length <= small_bytes)
    _, source = group_rows(scan.parts.columns[:2])
    held = np.bincount(source, weights=length)  # by object, what is referred to
    fills = np.bincount(scan.array, weights=np.where(is_small, length, 0)) >= pack_bytes
    rows = np.flatnonzero(is_small & (held[source] <= small_bytes)) if len(source) else source
    run = np.where(fills[scan.array[rows]], scan.array[rows] + 1, 0)
    rows = rows[np.argsort(run, kind="stable")].astype(np.int64)
    run, length, source = np.sort(run), length[rows], source[rows]
    group = _groups(run, length, small_bytes, pack_bytes)
    pairs = np.unique(group * (source.max(initial=0) + 1) + source)
    sources = np.bincount(pairs // (source.max(initial=0) + 1))
    several = sources[group] > 1
    return rows[several], np.unique(group[several], return_inverse=True)[1].reshape(-1)


def _groups(run: Ints, length: Ints, small_bytes: int, pack_bytes: int) -> Ints:
    """Numbers of packs: each of one run, and of about `pack_bytes`."""
    number = _starts(length, run).astype(np.int64) // pack_bytes
    new = np.ones(len(run), dtype=np.bool_)
    new[1:] = (run[1:] != run[:-1]) | (number[1:] != number[:-1])
    group = np.cumsum(new) - 1
    first = np.flatnonzero(new)
    is_rest = np.bincount(group, weights=length) <= small_bytes
    is_rest[1:] &= run[first[1:]] == run[first[:-1]]
    is_rest[:1] = False
    new[first[is_rest]] = False  # the rest of a run joins what comes before it
    return (np.cumsum(new) - 1).astype(np.int64)


def _starts(length: npt.NDArray[Any], group: Ints) -> npt.NDArray[np.uint64]:
    """Offset of each row from the beginning of its group; groups are runs of rows."""
    ends = np.cumsum(length.astype(np.uint64), dtype=np.uint64)
    starts = ends - length.astype(np.uint64)
    first = np.flatnonzero(np.append(True, group[1:] != group[:-1])) if len(group) else group
    return starts - np.repeat(starts[first], np.diff(np.append(first, len(group))))


# Unpacks chunks: each gets an object of its own again.
#
# For stores and tools that want one object a chunk. The packs stay until no snapshot needs them any
# more and garbage is collected. An object is a pack if references have an offset in it.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnpackPlan:
    branch: str
    snapshot: SnapshotId
    paths: tuple[NodePath, ...]
    chunks: Parts  # by pack, and place in it
    names: Ids  # of the new objects; drawn here, so that tasks may run twice
    packs: int
    references: int
    untouched: frozenset[ManifestId]  # manifests that refer to none of them

    @property
    def bytes(self) -> int:
        return self.chunks.bytes

    def relocation(self) -> Relocation:
        """Places of the chunks, each at the beginning of an object of its own."""
        starts = np.zeros(len(self.names), dtype=np.uint64)
        return Relocation.of(self.chunks, self.names, starts)

    def result(self, done: Relocated | None = None) -> PackResult:
        return PackResult(
            snapshot=None if done is None else str(done.snapshot),
            chunks=len(self.chunks),
            packs=self.packs,
            bytes=self.bytes,
            references=self.references,
            manifests=0 if done is None else done.manifests,
        )


def plan_unpack(
    repository: Repository,
    branch: str,
    paths: Sequence[NodePath] = (ROOT,),
    executor: Executor | None = None,
) -> UnpackPlan:
    """Reads the manifests of the arrays chosen."""
    require_current(repository)
    session = repository.writable_session(branch)  # raises if nothing may be written
    executor = executor or ThreadExecutor(quiet_files(repository))
    scan = scan_parts(executor, session.base, paths)
    packs = IdSet.of(scan.parts.chunk_id[scan.parts.offset > 0])
    chosen = packs.contains(scan.parts.chunk_id) & (scan.parts.length > 0)
    parts = scan.parts.take(np.flatnonzero(chosen))
    chunks = parts.distinct()
    return UnpackPlan(
        branch=branch,
        snapshot=session.snapshot_id,
        paths=tuple(paths),
        chunks=chunks,
        names=random_ids(len(chunks)),
        packs=len(packs),
        references=len(parts),
        untouched=frozenset(scan.manifests) - scan.manifests_with(chosen),
    )


def unpack(
    repository: Repository,
    plan: UnpackPlan,
    message: str | None = None,
    executor: Executor | None = None,
    *,
    metadata: Mapping[str, Any] | None = None,
) -> PackResult:
    """Commits on top of the branch's tip at that time; nothing if there are no packs."""
    if not len(plan.chunks):
        return plan.result()
    executor = executor or ThreadExecutor(quiet_files(repository))
    chunks = WriteChunks(plan.chunks, plan.names)
    _write_objects(executor, chunks, plan.chunks.length, "unpacking chunks")
    message = message or f"Unpack {len(plan.chunks)} chunks of {plan.packs} objects"
    notes = with_notes(require_json(metadata or {}), {"unpacked": len(plan.chunks)})
    write = partial(write_moved, executor, plan.relocation())
    return _commit_moved(repository, plan, write, message, notes)


@dataclass(frozen=True, slots=True, eq=False)
class WriteChunks:
    """Reads packs and writes chunks, as many at a time as fit into memory."""

    chunks: Parts
    names: Ids

    def __call__(self, files: Files, rows: range) -> None:
        chunks = self.chunks.take(slice(rows.start, rows.stop))
        names = self.names[rows.start : rows.stop]
        for wave in waves(chunks.length, BYTES_AT_ONCE):
            _write_chunks(files, chunks.take(wave), names[wave])
        files.store.sync()


def _write_chunks(files: Files, chunks: Parts, names: Ids) -> None:
    data = files.chunks.fetch_many(chunks.chunk_id, chunks.offset, chunks.length)

    def put(row: int) -> None:
        files.store.put(chunk_key(ChunkId(names[row].tobytes())), data[row])

    files.pool.map(put, range(len(names)))
