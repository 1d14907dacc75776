"""Shallow clones without history: the newest version of some refs, with virtual chunks.

    plan       tips of the refs
    driver     nodes of each version, as pending changes of the clone
    executor   manifests of the source -> manifests of the clone, cell by cell
    driver     manifests attached to the arrays -> a snapshot each -> branches and tags, main last

Chunks become virtual: `<source>/chunks/<id>`, in a container that the new repository has in its
configuration. They are found for as long as the source keeps them. No reference comes to the
driver. A task is a cell of an array, as the clone's manifests are cut: it reads the manifests of
the source that reach into the cell, and writes one. Cells follow from the extents of manifests, so
no reference is looked at to find them. Shallow clones with their history: `plan_partial`.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from time import perf_counter

import numpy as np
import numpy.typing as npt

from frazil.engine.changes.attached_manifests import AttachedManifest
from frazil.engine.changes.chunk_reads import refs_in
from frazil.engine.commit.splitting import cell_sizes
from frazil.engine.files.files import Files
from frazil.engine.files.settings import Settings
from frazil.engine.refs.refs import MAIN
from frazil.engine.refs.version import Exactly
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_index import ChunkSet
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.config import RepositoryConfig
from frazil.format.manifest import Manifest
from frazil.format.nodes import ManifestRef, Node
from frazil.format.storage_config import VirtualChunkContainer
from frazil.format.transaction_log import TransactionLog
from frazil.ids import INITIAL_SNAPSHOT, ManifestId, NodeId, SnapshotId
from frazil.maintenance.copying.clone import CloneResult
from frazil.maintenance.copying.copied_refs import tips_of
from frazil.maintenance.copying.derived import container_of, virtual_refs
from frazil.maintenance.copying.origin import read_origin
from frazil.maintenance.executor import Executor, ThreadExecutor, quiet_files
from frazil.objectstore.protocol import ObjectStore

_CHUNKS_LOGGED_HERE = 200_000  # the log of more is written by a task


@dataclass(frozen=True, slots=True, kw_only=True)
class ShallowPlan:
    """Refs at the same snapshot share one snapshot of the clone."""

    repository: Repository
    target: ObjectStore
    container: VirtualChunkContainer
    branches: Mapping[str, SnapshotId]
    tags: Mapping[str, SnapshotId]

    @property
    def versions(self) -> list[SnapshotId]:
        return list(dict.fromkeys([*self.branches.values(), *self.tags.values()]))


def plan_shallow(
    repository: Repository,
    target: ObjectStore,
    *,
    refs: Sequence[str] | None = None,
    container: VirtualChunkContainer | None = None,
) -> ShallowPlan:
    """Raises RefNotFoundError, InvalidInputError if the source needs a `container`."""
    info = read_origin(repository, refs, repository.files).info
    return ShallowPlan(
        repository=repository,
        target=target,
        container=container or container_of(repository.store),
        branches=tips_of(info, info.branches),
        tags=tips_of(info, info.tags),
    )


def clone_shallow(
    plan: ShallowPlan,
    executor: Executor | None = None,
    *,
    metadata: Mapping[str, Json] | None = None,
) -> CloneResult:
    """`metadata` is that of the commits. Objects of the result are manifests, all of them written.

    Raises InvalidInputError if there is a repository at the target.
    """
    started = perf_counter()
    executor = executor or ThreadExecutor(quiet_files(plan.repository))
    clone, versions = _create(plan), plan.versions
    bases = [plan.repository.readonly_session(Exactly(version)) for version in versions]
    sessions = [_with_nodes(base, clone.writable_session(MAIN)) for base in bases]
    arrays = [
        one
        for version, (base, session) in enumerate(zip(bases, sessions, strict=True))
        for one in _cells_of(version, base, session)
    ]
    written = _write_manifests(plan, clone, arrays, executor)
    for session, array, manifests in _by_array(sessions, arrays, written):
        _attach(session, array, manifests, executor)
    made = {
        version: session.flush(f"Shallow clone of {version}", dict(metadata or {}))
        for version, session in zip(versions, sessions, strict=True)
    }
    _publish(
        clone,
        {name: made[tip] for name, tip in plan.branches.items()},
        {name: made[tip] for name, tip in plan.tags.items()},
    )
    return CloneResult(
        dry_run=False,
        exists=False,
        branches=tuple(sorted(plan.branches)),
        tags=tuple(sorted(plan.tags)),
        snapshots=len(versions),
        objects=len(written),
        copied=len(written),
        bytes=sum(manifest.file.size_bytes for _, manifest in written),
        updated=True,
        seconds=perf_counter() - started,
    )


def _create(plan: ShallowPlan) -> Repository:
    """An empty repository with the containers and the manifest settings of the source.

    A clone that was interrupted before its refs were published is resumed.
    """
    stored = plan.repository.config
    config = RepositoryConfig(
        virtual_chunk_containers=dict(stored.virtual_chunk_containers or {}),
        manifest=stored.manifest,
    )
    config.set_virtual_chunk_container(plan.container)
    if Repository.exists(plan.target):
        there = Repository.open(plan.target, config)
        if there.branches() == {MAIN: INITIAL_SNAPSHOT} and not there.tags():
            there.save_config()
            return there
    return Repository.create(plan.target, config, spec_version=plan.repository.spec_version)


def _with_nodes(base: Session, session: Session) -> Session:
    for node in base.nodes():
        session.set_node(node.path, node.user_data)
    return session


def _publish(
    clone: Repository, branches: Mapping[str, SnapshotId], tags: Mapping[str, SnapshotId]
) -> None:
    for name, tip in tags.items():
        clone.create_tag(name, tip)
    for name, tip in branches.items():
        if name != MAIN:
            clone.create_branch(name, tip)
    clone.reset_branch(MAIN, branches[MAIN])


# ---- Manifests -----------------------------------------------------------------------------------

type Cells = npt.NDArray[np.int64]  # (n, ndim)


@dataclass(frozen=True, slots=True, eq=False)
class ArrayCells:
    """An array, and the cells of its grid in which there may be chunks."""

    version: int  # number of the cloned version
    source: Node
    target: NodeId
    size: tuple[int, ...]  # of a cell, in chunks
    cells: Cells


@dataclass(frozen=True, slots=True, eq=False)
class WriteCells:
    """Writes a manifest for each cell that has chunks, with the number of its array."""

    arrays: tuple[ArrayCells, ...]
    prefix: str  # of the locations of chunks
    target: ObjectStore
    settings: Settings

    def __call__(self, files: Files, rows: range) -> list[tuple[int, AttachedManifest]]:
        ends = list(accumulate(len(one.cells) for one in self.arrays))
        virtual, target = virtual_refs(self.prefix), Files(self.target, self.settings)
        written, loaded, before = [], dict[ManifestId, ChunkRefs | None](), -1
        for row in rows:
            number = int(np.searchsorted(ends, row, side="right"))
            one = self.arrays[number]
            cell = one.cells[row - (ends[number] - len(one.cells))]
            loaded = _load(files, one, cell, loaded if number == before else {})
            before = number
            refs = _refs_of(one, cell, loaded.values())
            if len(refs):
                written.append((number, _store(target, one.target, virtual(refs))))
        self.target.sync()
        return written


@dataclass(frozen=True, slots=True)
class WriteLog:
    """Writes a transaction log: it has some three bytes for each chunk, even when compressed."""

    log: TransactionLog
    chunks: Mapping[NodeId, Sequence[ChunkSet]]
    target: ObjectStore
    settings: Settings

    def __call__(self, files: Files, rows: range) -> None:
        del files, rows
        Files(self.target, self.settings).put_log_stream(self.log, self.chunks)
        self.target.sync()


def _write_manifests(
    plan: ShallowPlan, clone: Repository, arrays: Sequence[ArrayCells], executor: Executor
) -> list[tuple[int, AttachedManifest]]:
    settings = clone.files.settings
    write = WriteCells(tuple(arrays), plan.container.url_prefix, plan.target, settings)
    count = sum(len(one.cells) for one in arrays)
    return [one for some in executor.run(write, count, "writing manifests") for one in some]


def _by_array(
    sessions: Sequence[Session],
    arrays: Sequence[ArrayCells],
    written: Sequence[tuple[int, AttachedManifest]],
) -> Iterator[tuple[Session, ArrayCells, list[AttachedManifest]]]:
    manifests: list[list[AttachedManifest]] = [[] for _ in arrays]
    for number, manifest in written:
        manifests[number].append(manifest)
    for one, some in zip(arrays, manifests, strict=True):
        yield sessions[one.version], one, some


def _attach(
    session: Session, array: ArrayCells, manifests: list[AttachedManifest], executor: Executor
) -> None:
    store, settings = session.files.store, session.files.settings

    def write_log(log: TransactionLog, chunks: Mapping[NodeId, Sequence[ChunkSet]]) -> None:
        write = WriteLog(log, chunks, store, settings)
        deque(executor.run(write, 1, "writing transaction log"), maxlen=0)

    many = sum(each.changed.count for each in manifests) > _CHUNKS_LOGGED_HERE
    session.attach_manifests(array.source.path, manifests, log_writer=write_log if many else None)


def _load(
    files: Files, one: ArrayCells, cell: Cells, loaded: Mapping[ManifestId, ChunkRefs | None]
) -> dict[ManifestId, ChunkRefs | None]:
    """References in manifests that reach into a cell; `loaded` are those of the cell before it."""
    array, size = one.source.array, np.array(one.size, dtype=np.int64)
    parts = dict[ManifestId, ChunkRefs | None]()
    grid, manifests = ((), ()) if array is None else (array.num_chunks, array.manifests)
    for ref in manifests:
        first, last = _cells_covered(ref, grid, size)
        if ((first <= cell) & (cell <= last)).all():
            known = ref.id in loaded
            parts[ref.id] = loaded[ref.id] if known else refs_in(files, one.source, ref)
    return parts


def _refs_of(one: ArrayCells, cell: Cells, parts: Iterable[ChunkRefs | None]) -> ChunkRefs:
    """References that the source has in a cell."""
    grid = () if one.source.array is None else one.source.array.num_chunks
    chosen, size = [ChunkRefs.empty(len(grid))], np.array(one.size, dtype=np.int64)
    for part in parts:
        if part is not None:
            refs = part.within(grid)
            inside = (refs.index.astype(np.int64) // size == cell).all(axis=1)
            chosen.append(refs.take(np.flatnonzero(inside)))
    return ChunkRefs.concat(chosen)


def _store(target: Files, node: NodeId, refs: ChunkRefs) -> AttachedManifest:
    file = target.put_manifest(Manifest(id=ManifestId.random(), arrays={node: refs}))
    return AttachedManifest(file, refs.bounding_box(), ChunkSet.of(refs.index))


def _cells_of(version: int, base: Session, clone: Session) -> Iterator[ArrayCells]:
    """Cells of all arrays that have chunks; `clone` has the same nodes."""
    for node in base.nodes():
        if node.array is None or not node.array.manifests:
            continue
        target = clone.node(node.path)
        size = cell_sizes(clone.files.settings.splitting, target)
        cells = _cells(node.array.manifests, node.array.num_chunks, size)
        yield ArrayCells(version, node, target.id, size, cells)


def _cells(manifests: Sequence[ManifestRef], grid: tuple[int, ...], size: tuple[int, ...]) -> Cells:
    """Cells that the extents of manifests cover, each once."""
    if not grid:
        return np.zeros((1, 0), dtype=np.int64)
    parts = []
    for ref in manifests:
        first, last = _cells_covered(ref, grid, np.array(size, dtype=np.int64))
        along = [np.arange(a, b + 1) for a, b in zip(first, last, strict=True)]
        mesh = np.meshgrid(*along, indexing="ij")
        parts.append(np.stack([axis.ravel() for axis in mesh], axis=-1).reshape(-1, len(grid)))
    return np.unique(np.concatenate(parts), axis=0).astype(np.int64)


def _cells_covered(
    ref: ManifestRef, grid: tuple[int, ...], size: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The first and the last cell, both inclusive; of the whole grid without extents."""
    stated = ref.extents if len(ref.extents) == len(grid) else tuple((0, n) for n in grid)
    bounds = np.array(stated, dtype=np.int64).reshape(len(grid), 2)
    stops = np.minimum(bounds[:, 1], np.array(grid, dtype=np.int64).reshape(len(grid)))
    return bounds[:, 0] // size, (np.maximum(stops, 1) - 1) // size
