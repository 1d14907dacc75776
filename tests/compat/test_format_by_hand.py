"""A repository written by hand with our encoders, read and carried on by the live reference."""

from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import numpy.typing as npt
import zarr
import zarr.storage

from frazil.clock import to_datetime
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_refs import ChunkRefs, Inline, Native
from frazil.format.config import RepositoryConfig
from frazil.format.config_codec import encode_config
from frazil.format.manifest import Manifest, encode_manifest
from frazil.format.nodes import ArrayData, ManifestRef, Node, Nodes
from frazil.format.repo_info import RepoInfo, decode_repo_info, encode_repo_info
from frazil.format.snapshot import ManifestFile, Snapshot, encode_snapshot
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.format.storage_config import ObjectStoreConfig, VirtualChunkContainer
from frazil.format.transaction_log import TransactionLog, encode_txlog
from frazil.format.update_log import Availability, NewCommit, RepoInitialized, RepoStatus, Update
from frazil.ids import INITIAL_SNAPSHOT, ChunkId, ManifestId, NodeId, SnapshotId
from frazil.paths import ROOT, NodePath

ARRAY, GROUP, NEW = NodeId.random(), NodeId.random(), SnapshotId.random()
NOW_US = 1_790_000_000_000_000
ABOUT: dict[str, Json] = {"author": "me", "n": -1}
VALUES = np.arange(12, dtype="<i4").reshape(6, 2)  # in chunks of one row
ZARR_GROUP = b'{"zarr_format":3,"node_type":"group","attributes":{"by":"hand"}}'


def zarr_array() -> bytes:
    store = zarr.storage.MemoryStore()
    zarr.create_array(store, shape=(6, 2), chunks=(1, 2), dtype="<i4", compressors=None)
    return bytes(store._store_dict["zarr.json"].to_bytes())


def write_chunks(root: Path) -> list[ChunkRefs]:
    """Inline chunks, a pack of native ones, and virtual ones, for two manifests."""
    pack, outside = ChunkId.random(), root / "data" / "file.bin"
    (root / "chunks" / str(pack)).write_bytes(b"??" + VALUES[2:4].tobytes())
    outside.write_bytes(b"????" + VALUES[4:].tobytes())
    inline = [Inline(VALUES[row].tobytes()) for row in (0, 1)]
    native = [Native(pack, 2, 8), Native(pack, 10, 8)]
    url = f"file://{outside}"
    return [
        ChunkRefs.from_payloads([[0, 0], [1, 0], [2, 0], [3, 0]], [*inline, *native]),
        ChunkRefs.virtual([[4, 0], [5, 0]], [url, url], [4, 12], 8),
    ]


def write_snapshots(root: Path, parts: list[ChunkRefs]) -> None:
    listed, refs = [], []
    for part in parts:
        manifest = Manifest(ManifestId.random(), {ARRAY: part})
        data = encode_manifest(manifest)
        (root / "manifests" / str(manifest.id)).write_bytes(data)
        listed.append(ManifestFile(manifest.id, len(data), len(part)))
        refs.append(ManifestRef(manifest.id, part.bounding_box()))
    array = ArrayData((6, 2), (6, 1), ("time", None), tuple(refs))
    nodes = Nodes.from_nodes(
        [Node(GROUP, ROOT, ZARR_GROUP), Node(ARRAY, NodePath("/array"), zarr_array(), array)]
    )
    for snapshot in (
        Snapshot(INITIAL_SNAPSHOT, None, NOW_US, "Repository initialized", {}, (), Nodes.empty()),
        Snapshot(NEW, None, NOW_US + 5, "by hand", ABOUT, tuple(listed), nodes),
    ):
        (root / "snapshots" / str(snapshot.id)).write_bytes(encode_snapshot(snapshot))


def one_id(node: NodeId) -> npt.NDArray[np.uint8]:
    return np.frombuffer(node.raw, np.uint8).reshape(1, 8)


def write_logs(root: Path, parts: list[ChunkRefs]) -> None:
    for log in (
        TransactionLog(INITIAL_SNAPSHOT),
        TransactionLog(
            NEW,
            new_groups=one_id(GROUP),
            new_arrays=one_id(ARRAY),
            updated_chunks={ARRAY: np.concatenate([part.index for part in parts[::-1]])},
        ),
    ):
        (root / "transactions" / str(log.id)).write_bytes(encode_txlog(log))


def write_repo_info(root: Path, prefix: str) -> None:
    config = RepositoryConfig()
    local = ObjectStoreConfig.LocalFileSystem(str(root / "data"))
    config.set_virtual_chunk_container(VirtualChunkContainer(prefix, local))
    info = RepoInfo(
        spec_version=2,
        tags={},
        branches={},
        deleted_tags=(),
        snapshots=SnapshotInfos.empty(),
        status=RepoStatus(Availability.ONLINE, NOW_US),
        metadata={"owner": "us"},
        updates=(Update(NewCommit("main", NEW), NOW_US + 6), Update(RepoInitialized(), NOW_US)),
        config=encode_config(config),
    )
    info = info.with_snapshot(INITIAL_SNAPSHOT, None, NOW_US, "Repository initialized", {})
    info = info.with_snapshot(NEW, INITIAL_SNAPSHOT, NOW_US + 5, "by hand", ABOUT)
    info = info.with_branch("main", NEW).with_tag("hand made", NEW)
    (root / "repo").write_bytes(encode_repo_info(info))


def written_by_hand(root: Path) -> icechunk.Repository:
    for folder in ("chunks", "manifests", "snapshots", "transactions", "data"):
        (root / folder).mkdir()
    parts = write_chunks(root)
    write_snapshots(root, parts)
    write_logs(root, parts)
    prefix = f"file://{root / 'data'}/"
    write_repo_info(root, prefix)
    return icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(root)),
        authorize_virtual_chunk_access={prefix: icechunk.credentials.LocalFileSystemAccess},
    )


def array_of(session: icechunk.Session) -> zarr.Array[Any]:
    return zarr.open_array(session.store, path="array", mode="r")


def test_values_and_attributes_are_read(tmp_path: Path) -> None:
    session = written_by_hand(tmp_path).readonly_session(tag="hand made")
    assert dict(zarr.open_group(session.store, mode="r").attrs) == {"by": "hand"}
    assert np.array_equal(np.asarray(array_of(session)[...]), VALUES)


def test_history_and_metadata_are_read(tmp_path: Path) -> None:
    repo = written_by_hand(tmp_path)
    latest, initial = list(repo.ancestry(branch="main"))
    assert (latest.id, latest.parent_id, latest.metadata) == (str(NEW), initial.id, ABOUT)
    assert latest.written_at == to_datetime(NOW_US + 5)
    assert repo.metadata == {"owner": "us"}
    assert [type(update.kind).__name__ for update in repo.ops_log()] == [
        "NewCommit",
        "RepoInitialized",
    ]


def test_the_log_is_read(tmp_path: Path) -> None:
    diff = written_by_hand(tmp_path).diff(
        from_snapshot_id=str(INITIAL_SNAPSHOT), to_snapshot_id=str(NEW)
    )
    assert diff.new_arrays == {"/array"}
    assert diff.new_groups == {"/"}
    assert sorted(diff.updated_chunks["/array"]) == [[row, 0] for row in range(6)]


def test_the_reference_carries_on(tmp_path: Path) -> None:
    repo = written_by_hand(tmp_path)
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="array")[5] = 0
    session.commit("by the reference")
    expected = VALUES.copy()
    expected[5] = 0
    found = array_of(repo.readonly_session(branch="main"))[...]
    assert np.array_equal(np.asarray(found), expected)
    assert decode_repo_info((tmp_path / "repo").read_bytes()).snapshots.find(NEW) >= 0
