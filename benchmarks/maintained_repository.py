"""A repository to maintain: 2,000 snapshots and 2,000,000 references, made up rather than lived.

Twenty arrays; each commit rewrites all references of one of them, in a manifest of its own, so
that snapshots share manifests as they do in life. One in ten arrays is virtual, one in twenty
inline. Some more snapshots are on no branch any more: garbage. Written by frazil for every engine
that is measured, from the same numbers each time.

    distinct   every native reference names an object of its own; most of these are not there,
               as they are not read: two million files would be the file system's benchmark
    packed     the native references of one manifest lie in one object, which is there:
               a repository with which nothing is wrong
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import zarr

import frazil
from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import CHUNKS, REPO_INFO, V1_MAIN_BRANCH
from frazil.engine.repository import Repository
from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn
from frazil.flatbuf.table import Table, TableVectorColumn
from frazil.format.chunk_refs import ChunkRefs, Inline
from frazil.format.manifest import Manifest
from frazil.format.metadata import encode_metadata
from frazil.format.nodes import ManifestRef, Node
from frazil.format.ref_file import encode_ref
from frazil.format.repo_info import RepoInfo, encode_repo_info
from frazil.format.schemas import SNAPSHOT_INFO
from frazil.format.snapshot import ManifestFile, Snapshot
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.format.transaction_log import TransactionLog
from frazil.ids import ManifestId, NodeId, SnapshotId, format_ids
from frazil.objectstore.local import LocalStore

SNAPSHOTS = int(os.environ.get("BENCH_SNAPSHOTS", "2000"))
REFERENCES = int(os.environ.get("BENCH_REFERENCES", "2000000"))
ARRAYS = 20
CHUNK_BYTES = 16
LOST = 10  # one snapshot for every so many more is garbage
GARBAGE_FILES = 5_000  # unreachable chunk objects
SOURCE = "file:///nowhere/of/the/benchmark"

type Objects = Literal["distinct", "packed"]


@dataclass(slots=True)
class Made:
    """Files that have been written so far."""

    files: Files
    random: np.random.Generator
    objects: Objects
    size: int  # references of a manifest
    manifests: dict[ManifestId, ManifestFile] = field(default_factory=dict)

    def manifest(self, node: Node, number: int) -> ManifestRef:
        """All references of an array, as a commit with this number leaves them."""
        made = Manifest(ManifestId(self.random.bytes(12)), {node.id: self._refs(number)})
        self.manifests[made.id] = self.files.put_manifest(made)
        return ManifestRef(made.id, ((0, self.size),))

    def _refs(self, number: int) -> ChunkRefs:
        index = np.arange(self.size, dtype=np.uint32).reshape(-1, 1)
        offset = np.arange(self.size, dtype=np.uint64) * CHUNK_BYTES
        match number % ARRAYS:
            case 0 | 1:
                location = [f"{SOURCE}/{number}.nc"] * self.size
                return ChunkRefs.virtual(index, location, offset, CHUNK_BYTES)
            case 2:
                return ChunkRefs.from_payloads(index, [Inline(bytes(CHUNK_BYTES))] * self.size)
            case _ if self.objects == "packed":
                ids = np.frombuffer(self.random.bytes(12), np.uint8).reshape(1, 12)
                self.put(ids, self.size * CHUNK_BYTES)
                return ChunkRefs.native(index, ids.repeat(self.size, axis=0), offset, CHUNK_BYTES)
            case _:
                raw = self.random.integers(0, 256, (self.size, 12), np.uint8)
                self.put(raw[:1], CHUNK_BYTES)
                return ChunkRefs.native(index, raw, 0, CHUNK_BYTES)

    def put(self, ids: np.ndarray, size: int) -> None:
        for name in format_ids(ids):
            self.files.store.put(CHUNKS + name, bytes(size))


def make(
    root: Path,
    *,
    snapshots: int = SNAPSHOTS,
    references: int = REFERENCES,
    objects: Objects = "distinct",
) -> None:
    """A local repository of version 2 in the directory `root`."""
    store = LocalStore(root, fsync=False)
    repository = frazil.Repository.create(frazil.Storage(store))
    size = references // snapshots
    session = repository.writable_session("main")
    group = zarr.open_group(session.store, mode="a")
    for number in range(ARRAYS):
        group.create_array(f"a{number:02}", shape=(size * 4,), chunks=(4,), dtype="i4",
                           compressors=None, filters=None)  # fmt: skip
    session.commit("arrays")
    engine = Repository.open(store)
    made = Made(engine.files, np.random.default_rng(0), objects, size)
    base = engine.files.fetch_snapshot(engine.lookup_branch("main"))
    lived = _history(made, base, snapshots - 2, first=0)
    lost = _history(made, lived[-1], snapshots // LOST, first=snapshots)
    made.put(made.random.integers(0, 256, (GARBAGE_FILES, 12), np.uint8), CHUNK_BYTES)
    info = _listing(engine.repo_info(), base, [*lived, *lost], tip=lived[-1].id)
    store.delete([REPO_INFO])
    store.put(REPO_INFO, encode_repo_info(info))


def make_version_1(root: Path, *, snapshots: int = SNAPSHOTS) -> None:
    """Repository of version 1: as many commits of a few groups, without chunks."""
    store = LocalStore(root, fsync=False)
    repository = frazil.Repository.create(frazil.Storage(store), spec_version=1)
    session = repository.writable_session("main")
    group = zarr.open_group(session.store, mode="a")
    for number in range(ARRAYS):
        group.create_group(f"g{number:02}")
    session.commit("groups")
    engine, random = Repository.open(store), np.random.default_rng(0)
    current = engine.files.fetch_snapshot(engine.lookup_branch("main"))
    for number in range(snapshots - 2):
        current = replace(
            current,
            id=SnapshotId(random.bytes(12)),
            parent_id=current.id,
            flushed_at_us=current.flushed_at_us + 1,
            message=f"commit number {number}",
            metadata={"author": "A. Uthor"},
        )
        engine.files.put_snapshot(current)
        engine.files.put_log(TransactionLog(id=current.id))
    store.put(V1_MAIN_BRANCH, encode_ref(current.id))


def _history(made: Made, base: Snapshot, count: int, *, first: int) -> list[Snapshot]:
    """Commits on top of `base`, without their nodes, but for the last."""
    nodes = [node for node in base.nodes if node.is_array]
    history, current = [], base
    for number in range(first, first + count):
        node = current.nodes.node(current.nodes.find(nodes[number % ARRAYS].path))
        array = node.array
        assert array is not None
        new = replace(node, array=replace(array, manifests=(made.manifest(node, number),)))
        listed = current.nodes.patched(remove=(), put=[new])
        current = Snapshot(
            id=SnapshotId(made.random.bytes(12)),
            parent_id=None,
            flushed_at_us=current.flushed_at_us + 1,
            message=f"commit number {number}",
            metadata={"author": "A. Uthor"},
            manifest_files=_files(made, listed.manifest_ids()),
            nodes=listed,
        )
        made.files.put_snapshot(current)
        made.files.put_log(_log(current.id, node.id, made.size))
        history.append(current)
    return history


def _files(made: Made, ids: np.ndarray) -> tuple[ManifestFile, ...]:
    return tuple(made.manifests[ManifestId(raw)] for raw in sorted({r.tobytes() for r in ids}))


def _log(snapshot: SnapshotId, node: NodeId, size: int) -> TransactionLog:
    index = np.arange(size, dtype=np.uint32).reshape(-1, 1)
    return TransactionLog(id=snapshot, updated_chunks={node: index})


def _listing(
    info: RepoInfo, base: Snapshot, history: Sequence[Snapshot], *, tip: SnapshotId
) -> RepoInfo:
    """The repo info with all of them, each the child of the one before."""
    old = info.snapshots
    ids = [*(old.id(row) for row in range(len(old))), *(each.id for each in history)]
    parents = [*(old.id(old.parent(r)) if old.parent(r) >= 0 else None for r in range(len(old)))]
    parents += [base.id, *(each.id for each in history[:-1])]
    times = [*old.flushed_at_us.tolist(), *(each.flushed_at_us for each in history)]
    messages = [*(old.message(r) for r in range(len(old))), *(each.message for each in history)]
    order = sorted(range(len(ids)), key=ids.__getitem__)
    place = {ids[at]: row for row, at in enumerate(order)}
    above = [parents[at] for at in order]
    author = encode_metadata({"author": "A. Uthor"}).take(np.zeros(len(ids), np.int64))
    table = Table.build(
        SNAPSHOT_INFO,
        len(ids),
        id=StructColumn.of(
            np.frombuffer(b"".join(ids[at].raw for at in order), np.uint8).reshape(-1, 12)
        ),
        parent_offset=ScalarColumn.of([-1 if p is None else place[p] for p in above], "i4"),
        flushed_at=ScalarColumn.of([times[at] for at in order], "u8"),
        message=StringColumn.from_list([messages[at] for at in order]),
        metadata=TableVectorColumn.of(author, np.arange(len(ids) + 1)),
    )
    return replace(info, snapshots=SnapshotInfos(table), branches={"main": place[tip]})
