"""Healthy repositories in memory, and ways to damage their files."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.engine.files.object_keys import MANIFESTS, REPO_INFO, SNAPSHOTS, TRANSACTIONS
from frazil.engine.repository import Repository
from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn
from frazil.flatbuf.encode import encode_parts
from frazil.flatbuf.table import SubTableColumn, Table, TableVectorColumn, UnionColumn
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.conditions import ManifestSplitCondition, ManifestSplitDimCondition
from frazil.format.config import ManifestConfig, ManifestSplittingConfig, RepositoryConfig
from frazil.format.envelope import FileType, decode_header, encode_envelope
from frazil.format.schemas import IDENTIFIER, NODE_ARRAY
from frazil.format.storage_config import S3Options, S3StoreConfig, VirtualChunkContainer
from frazil.ids import INITIAL_SNAPSHOT, SnapshotId
from frazil.maintenance.verify.file_reader import OpenedFile, open_file
from frazil.maintenance.verify.verify_store import verify
from frazil.objectstore.memory import MemoryStore
from frazil.paths import ROOT, NodePath

GROUP = b'{"zarr_format": 3, "node_type": "group"}'
A, B = NodePath("/a"), NodePath("/g/b")
FOLDER_TYPES = {
    SNAPSHOTS: FileType.SNAPSHOT,
    MANIFESTS: FileType.MANIFEST,
    TRANSACTIONS: FileType.TRANSACTION_LOG,
}


def array(*shape: int, chunk: int = 2) -> bytes:
    chunks = ", ".join([str(chunk)] * len(shape))
    names = ", ".join(f'"d{axis}"' for axis in range(len(shape)))
    return (
        '{"zarr_format": 3, "node_type": "array", "shape": '
        f'{list(shape)}, "data_type": "uint8", "chunk_grid": {{"name": "regular",'
        f' "configuration": {{"chunk_shape": [{chunks}]}}}}, "chunk_key_encoding":'
        ' {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 0,'
        f' "codecs": [{{"name": "bytes"}}], "dimension_names": [{names}]}}'
    ).encode()


def healthy(spec_version: int = 2) -> MemoryStore:
    """All kinds of references, two manifests for /a, a move, refs, an ops log of several pages."""
    store = MemoryStore()
    by_axis: Any = {ManifestSplitCondition.AnyArray(): {ManifestSplitDimCondition.Any(): 5}}
    config = RepositoryConfig(
        inline_chunk_threshold_bytes=8,
        num_updates_per_repo_info_file=3,
        manifest=ManifestConfig(splitting=ManifestSplittingConfig.from_dict(by_axis)),
    )
    config.set_virtual_chunk_container(
        VirtualChunkContainer("s3://bucket/", S3StoreConfig(S3Options()))
    )
    repository = Repository.create(store, config, spec_version=spec_version)
    session = repository.writable_session("main")
    session.set_node(ROOT, GROUP)
    session.set_node(NodePath("/g"), GROUP)
    session.set_node(A, array(20))
    session.set_node(B, array(6, 6))
    session.set_chunk(A, (0,), b"in")
    session.set_chunk(A, (1,), b"native" * 20)
    session.set_chunk(A, (7,), b"second" * 20)
    for place in ((0, 0), (0, 1), (2, 2)):
        session.set_chunk(B, place, b"bbbb" * 20)
    session.commit("first", {"a": 1, "b": 2})
    session = repository.writable_session("main")
    index = np.array([[3], [4], [8]], dtype=np.uint32)
    places = [f"s3://bucket/file-{i}.nc" for i in range(3)]
    session.set_chunk_refs(A, ChunkRefs.virtual(index, places, 7, 8, etag=["e"] * 3))
    session.set_node(NodePath("/x"), GROUP)
    session.set_node(NodePath("/y"), GROUP)
    session.commit("second", {"a": 1, "b": 2})
    if spec_version == 2:
        session = repository.rearrange_session("main")
        session.move(NodePath("/x"), NodePath("/p"))
        session.move(NodePath("/y"), NodePath("/q"))
        session.commit("moved", {"a": 1, "b": 2})
    session = repository.writable_session("main")
    session.delete_node(NodePath("/q" if spec_version == 2 else "/y"))
    session.set_chunk(A, (1,), b"again!" * 20)
    session.set_chunk(A, (2,), b"again!" * 20)
    session.commit("last", {"a": 1, "b": 2})
    repository.save_config()
    tip = repository.lookup_branch("main")
    for tag in ("t1", "t2", "t3", "t4"):
        repository.create_tag(tag, tip)
    for tag in ("t3", "t4"):
        repository.delete_tag(tag)
    repository.create_branch("dev", INITIAL_SNAPSHOT)
    return store


def copied(store: MemoryStore) -> MemoryStore:
    copy = MemoryStore()
    for info in store.list():
        copy.put(info.key, bytes(store.get(info.key).data))
    return copy


def found(store: Any) -> set[str]:
    """Kinds of all problems."""
    return set(verify(store).kinds)


# Finding files


def keys(store: MemoryStore, prefix: str) -> list[str]:
    return sorted(info.key for info in store.list(prefix))


def tip_id(store: MemoryStore) -> SnapshotId:
    return Repository.open(store).lookup_branch("main")


def tip_key(store: MemoryStore, folder: str = SNAPSHOTS) -> str:
    return f"{folder}{tip_id(store)}"


def older_key(store: MemoryStore, message: str, folder: str = SNAPSHOTS) -> str:
    """Of the commit with this message."""
    info = Repository.open(store).repo_info().snapshots
    row = next(row for row in range(len(info)) if info.message(row) == message)
    return f"{folder}{info.id(row)}"


def raw(store: MemoryStore, key: str) -> OpenedFile:
    kind = FileType.REPO_INFO if key == REPO_INFO or "repo." in key else None
    kind = kind or FOLDER_TYPES[key.partition("/")[0] + "/"]
    opened = open_file(key, store.get(key).data, kind, [])
    assert opened is not None, key
    return opened


def manifest_with(store: MemoryStore, test: Callable[[Table], bool]) -> str:
    """The first manifest whose table of references the test likes."""
    return next(
        key
        for key in keys(store, MANIFESTS)
        if test(raw(store, key).root.tables("arrays").rows.tables("refs").rows)
    )


def manifest_of_a(store: MemoryStore) -> str:
    """One that holds several native references, of one array."""
    return manifest_with(store, lambda refs: int(refs.struct("chunk_id").present.sum()) >= 3)


# Changing them


@dataclass(frozen=True, slots=True)
class Damage:
    """`plant` changes the files of a healthy repository; `kind` is what must be found."""

    name: str
    kind: str
    plant: Callable[[MemoryStore], None]
    spec_version: int = 2


def rewrite(
    store: MemoryStore, key: str, change: Callable[[Table], Table], *, spec: int | None = None
) -> None:
    """Through the format's encoders, in whatever order `change` leaves things."""
    opened = raw(store, key)
    header = decode_header(store.get(key).data)
    payload = encode_parts(change(opened.root), identifier=IDENTIFIER)
    version = spec or opened.spec_version
    store.put(key, encode_envelope(payload, header.file_type, spec_version=version))


def rewrite_manifest(store: MemoryStore, key: str, change: Callable[[Table], Table]) -> None:
    """The same, with the size that snapshots list put right."""
    rewrite(store, key, change)
    size = store.head(key).size_bytes
    count = len(raw(store, key).root.tables("arrays").rows.tables("refs").rows)
    name = key.partition("/")[2]
    for snapshot in keys(store, SNAPSHOTS):
        listed = raw(store, snapshot).root.tables("manifest_files_v2").rows
        ids = [each.tobytes() for each in listed.struct("id").values]
        known = SnapshotId.parse(name).raw
        if known in ids:
            row = ids.index(known)
            sizes = listed.scalar("size_bytes").values.copy()
            counts = listed.scalar("num_chunk_refs").values.copy()
            sizes[row], counts[row] = size, count
            rewrite(store, snapshot, partial(with_sizes, sizes=sizes, counts=counts))


def with_sizes(root: Table, sizes: npt.NDArray[np.uint64], counts: npt.NDArray[np.uint32]) -> Table:
    listed = root.tables("manifest_files_v2").rows
    listed = listed.replace(
        size_bytes=ScalarColumn.of(sizes, "u8"), num_chunk_refs=ScalarColumn.of(counts, "u4")
    )
    return root.replace(manifest_files_v2=TableVectorColumn.of(listed))


def with_rows(root: Table, name: str, change: Callable[[Table], Table]) -> Table:
    """The rows of a vector of tables changed."""
    return root.replace(**{name: TableVectorColumn.of(change(root.tables(name).rows))})


def reversed_rows(table: Table) -> Table:
    return table.take(np.arange(len(table))[::-1])


def twice(table: Table) -> Table:
    """The first row there again."""
    return table.take(np.array([0, *range(len(table))]))


def with_struct(table: Table, name: str, row: int, value: bytes) -> Table:
    values = table.struct(name).values.copy()
    values[row] = np.frombuffer(value, dtype=np.uint8)
    return table.replace(**{name: StructColumn(values, table.struct(name).present)})


def with_scalar(table: Table, name: str, row: int, value: int) -> Table:
    column = table.scalar(name)
    values, present = column.values.copy(), column.present.copy()
    values[row], present[row] = value, True
    return table.replace(**{name: ScalarColumn(values, present)})


def with_string(table: Table, name: str, row: int, value: bytes | None) -> Table:
    items = table.string(name).to_list()
    items[row] = value
    return table.replace(**{name: StringColumn.from_list(items)})


def with_refs(root: Table, change: Callable[[Table], Table]) -> Table:
    """The references of the first array of a manifest changed; it must be the only one."""
    arrays = root.tables("arrays").rows
    assert len(arrays) == 1
    refs = change(arrays.tables("refs").rows)
    return root.replace(
        arrays=TableVectorColumn.of(arrays.replace(refs=TableVectorColumn.of(refs)))
    )


def with_arrays(root: Table, change: Callable[[Table], Table]) -> Table:
    """The array nodes of a snapshot changed."""
    nodes = root.tables("nodes").rows
    data = nodes.union("node_data")
    variants = {**data.variants, NODE_ARRAY: change(data.variants[NODE_ARRAY])}
    nodes = nodes.replace(node_data=UnionColumn(data.types, data.index, variants))
    return root.replace(nodes=TableVectorColumn.of(nodes))


def with_status(root: Table, availability: int) -> Table:
    status = with_scalar(root.subtable("status").rows, "availability", 0, availability)
    return root.replace(status=SubTableColumn.of(status))


def flipped(store: MemoryStore, key: str, at: int, bits: int = 0xFF) -> None:
    data = bytearray(store.get(key).data)
    data[at] ^= bits
    store.put(key, bytes(data))


def with_byte(store: MemoryStore, key: str, at: int, value: int) -> None:
    data = bytearray(store.get(key).data)
    data[at] = value
    store.put(key, bytes(data))


def truncated(store: MemoryStore, key: str, size: int) -> None:
    store.put(key, bytes(store.get(key).data)[:size])


def removed(store: MemoryStore, key: str) -> None:
    assert store.delete([key]) == 1
