"""What the reference implementation writes, we decode; what we encode, it reads."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
import zstandard

from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.decode import decode
from frazil.flatbuf.encode import encode
from frazil.flatbuf.flexbuffers import decode_flexbuffer, encode_flexbuffer
from frazil.flatbuf.schema import (
    Bytes,
    Field,
    Scalar,
    ScalarVector,
    String,
    StringVector,
    Struct,
    StructVector,
    SubTable,
    TableSchema,
    TableVector,
    Union,
)
from frazil.flatbuf.table import Table

icechunk = pytest.importorskip("icechunk", minversion="2.3.0")
pytestmark = pytest.mark.compat

HEADER_SIZE = 39
ID12, ID8 = Struct(12, 1), Struct(8, 1)
# Slots as in the reference's .fbs files
METADATA_ITEM = TableSchema(
    "MetadataItem", (Field("name", 0, String(), True), Field("value", 1, Bytes(), True))
)
REF = TableSchema("Ref", (Field("name", 0, String(), True), Field("index", 1, Scalar("u4"))))
SNAPSHOT_INFO = TableSchema(
    "SnapshotInfo",
    (
        Field("id", 0, ID12, True),
        Field("parent_offset", 1, Scalar("i4")),
        Field("flushed_at", 2, Scalar("u8")),
        Field("message", 3, String(), True),
        Field("metadata", 4, TableVector(METADATA_ITEM)),
        Field("pruned_ancestor_tx_logs", 5, StructVector(12, 1)),
    ),
)
STATUS = TableSchema(
    "RepoStatus",
    (
        Field("availability", 0, Scalar("u1")),
        Field("set_at", 1, Scalar("u8")),
        Field("limited_availability_reason", 2, String()),
    ),
)
EMPTY = TableSchema("Empty", ())
NAMED = TableSchema("Named", (Field("name", 0, String()),))
UPDATE = TableSchema(
    "Update",
    (
        Field(
            "update_type",
            0,
            Union(
                {
                    1: EMPTY,
                    5: NAMED,
                    10: TableSchema(
                        "NewCommit", (Field("branch", 0, String()), Field("new", 1, ID12))
                    ),
                }
            ),
        ),
        Field("updated_at", 2, Scalar("u8")),
        Field("backup_path", 3, String()),
    ),
)
REPO = TableSchema(
    "Repo",
    (
        Field("spec_version", 0, Scalar("u1")),
        Field("tags", 1, TableVector(REF), True),
        Field("branches", 2, TableVector(REF), True),
        Field("deleted_tags", 3, StringVector(), True),
        Field("snapshots", 4, TableVector(SNAPSHOT_INFO), True),
        Field("status", 5, SubTable(STATUS), True),
        Field("metadata", 6, TableVector(METADATA_ITEM)),
        Field("latest_updates", 7, TableVector(UPDATE), True),
        Field("repo_before_updates", 8, String()),
        Field("config", 9, Bytes()),
        Field("enabled_feature_flags", 10, ScalarVector("u2")),
        Field("disabled_feature_flags", 11, ScalarVector("u2")),
    ),
)
CHUNK_REF = TableSchema(
    "ChunkRef",
    (
        Field("index", 0, ScalarVector("u4"), True),
        Field("inline", 1, Bytes()),
        Field("offset", 2, Scalar("u8")),
        Field("length", 3, Scalar("u8")),
        Field("chunk_id", 4, ID12),
        Field("location", 5, String()),
    ),
)
MANIFEST = TableSchema(
    "Manifest",
    (
        Field("id", 0, ID12, True),
        Field(
            "arrays",
            1,
            TableVector(
                TableSchema(
                    "ArrayManifest",
                    (
                        Field("node_id", 0, ID8, True),
                        Field("refs", 1, TableVector(CHUNK_REF), True),
                    ),
                )
            ),
            True,
        ),
        Field("compression_algorithm", 3, Scalar("u1", 1)),
    ),
)
ARRAY_NODE = TableSchema(
    "ArrayNodeData",
    (
        Field("shape", 0, StructVector(16, 8), True),
        Field(
            "manifests",
            2,
            TableVector(
                TableSchema(
                    "ManifestRef",
                    (
                        Field("object_id", 0, ID12, True),
                        Field("extents", 1, StructVector(8, 4), True),
                    ),
                )
            ),
            True,
        ),
        Field(
            "shape_v2",
            3,
            TableVector(
                TableSchema(
                    "DimensionShapeV2",
                    (Field("array_length", 0, Scalar("u8")), Field("num_chunks", 1, Scalar("u4"))),
                )
            ),
        ),
    ),
)
SNAPSHOT = TableSchema(
    "Snapshot",
    (
        Field("id", 0, ID12, True),
        Field(
            "nodes",
            2,
            TableVector(
                TableSchema(
                    "NodeSnapshot",
                    (
                        Field("id", 0, ID8, True),
                        Field("path", 1, String(), True),
                        Field("user_data", 2, Bytes(), True),
                        Field("node_data", 3, Union({1: ARRAY_NODE, 2: EMPTY})),
                    ),
                )
            ),
            True,
        ),
        Field("flushed_at", 3, Scalar("u8")),
        Field("message", 4, String(), True),
        Field("metadata", 5, TableVector(METADATA_ITEM), True),
        Field("manifest_files", 6, StructVector(32, 8), True),
        Field(
            "manifest_files_v2",
            7,
            TableVector(
                TableSchema(
                    "ManifestFileInfoV2",
                    (
                        Field("id", 0, ID12),
                        Field("size_bytes", 1, Scalar("u8")),
                        Field("num", 2, Scalar("u4")),
                    ),
                )
            ),
        ),
    ),
)
MOVE = TableSchema(
    "MoveOperation",
    (
        Field("from", 0, String(), True),
        Field("to", 1, String(), True),
        Field("node_id", 2, ID8, True),
        Field("node_type", 3, Scalar("u1")),
    ),
)
TRANSACTION_LOG = TableSchema(
    "TransactionLog",
    (
        Field("id", 0, ID12, True),
        Field("new_groups", 1, StructVector(8, 1), True),
        Field("new_arrays", 2, StructVector(8, 1), True),
        Field("deleted_groups", 3, StructVector(8, 1), True),
        Field("deleted_arrays", 4, StructVector(8, 1), True),
        Field("updated_arrays", 5, StructVector(8, 1), True),
        Field("updated_groups", 6, StructVector(8, 1), True),
        Field(
            "updated_chunks",
            7,
            TableVector(
                TableSchema(
                    "ArrayUpdatedChunks",
                    (
                        Field("node_id", 0, ID8, True),
                        Field(
                            "chunks",
                            1,
                            TableVector(
                                TableSchema(
                                    "ChunkIndices", (Field("coords", 0, ScalarVector("u4"), True),)
                                )
                            ),
                            True,
                        ),
                    ),
                )
            ),
            True,
        ),
        Field("moved_nodes", 8, TableVector(MOVE)),
    ),
)
METADATA = {
    "n": 7,
    "neg": -3,
    "x": 0.5,
    "l": [1, "two", None, True],
    "m": {"b": [], "a": {}},
    "t": "ü",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository on disk with groups, native and inline chunks, several commits and a tag."""
    repo = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path)))
    session = repo.writable_session("main")
    group = zarr.group(store=session.store)
    # Chunks of 1920 bytes are stored as objects, those of one byte inside the manifest.
    array = group.create_array(
        "a", shape=(8, 6, 40), chunks=(2, 3, 40), dtype="f8", compressors=None
    )
    array[:] = np.arange(1920.0).reshape(8, 6, 40)
    small = group.create_array("deep/small", shape=(50,), chunks=(1,), dtype="u1", compressors=None)
    small[:] = np.arange(1, 51)
    repo.create_tag("v1", session.commit("first", metadata=METADATA))
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="a", mode="r+")[0] = 1.0
    session.commit("second")
    return tmp_path


def payload(path: Path) -> bytes:
    body = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes()[HEADER_SIZE:])
    return bytes(body)


def replace_payload(path: Path, data: bytes) -> None:
    header = path.read_bytes()[:HEADER_SIZE]
    path.write_bytes(header + zstandard.ZstdCompressor().compress(data))


def reopen(root: Path) -> Any:
    return icechunk.Repository.open(icechunk.local_filesystem_storage(str(root)))


def read_all(root: Path) -> tuple[list[float], list[int]]:
    store = reopen(root).readonly_session("main").store
    big = np.asarray(zarr.open_array(store, path="a", mode="r")[:])
    small = np.asarray(zarr.open_array(store, path="deep/small", mode="r")[:])
    return big.ravel().tolist(), small.tolist()


@pytest.mark.parametrize(
    ("pattern", "schema"),
    [
        ("repo", REPO),
        ("snapshots/*", SNAPSHOT),
        ("manifests/*", MANIFEST),
        ("transactions/*", TRANSACTION_LOG),
    ],
)
def test_every_kind_of_file_decodes_and_survives_being_encoded(
    root: Path, pattern: str, schema: TableSchema
) -> None:
    files = sorted(root.glob(pattern))
    assert files
    for path in files:
        table = decode(payload(path), schema)
        assert decode(encode(table, identifier=b"Ichk"), schema).equals(table)


def test_repo_info_says_what_the_reference_says(root: Path) -> None:
    repo = decode(payload(root / "repo"), REPO)
    history = list(reopen(root).ancestry(branch="main"))
    snapshots = repo.tables("snapshots").rows
    tags = repo.tables("tags").rows
    assert repo.scalar("spec_version").values.tolist() == [2]
    assert tags.string("name").to_texts() == ["v1"]
    assert sorted(filter(None, snapshots.string("message").to_texts())) == sorted(
        each.message for each in history
    )
    tagged = int(tags.scalar("index").values[0])
    assert snapshots.string("message").text(tagged) == "first"
    updates = repo.tables("latest_updates").rows.union("update_type")
    assert updates.types.tolist() == [10, 5, 10, 1]
    assert updates.variants[10].string("branch").to_texts() == ["main", "main"]


def test_metadata_written_by_the_reference_is_read(root: Path) -> None:
    repo = decode(payload(root / "repo"), REPO)
    snapshots = repo.tables("snapshots").rows
    row = snapshots.string("message").to_texts().index("first")
    column = snapshots.tables("metadata").take(np.array([row]))
    names = column.rows.string("name").to_texts()
    values = [decode_flexbuffer(each or b"") for each in column.rows.string("value").to_list()]
    assert dict(zip(names, values, strict=True)) == METADATA


def test_manifest_columns_hold_the_chunks(root: Path) -> None:
    kinds = set()
    for path in root.glob("manifests/*"):
        arrays = decode(payload(path), MANIFEST).tables("arrays").rows
        refs = arrays.tables("refs").rows
        if refs.struct("chunk_id").present.all():
            kinds.add("native")
            assert refs.vector("index").length == 3
            assert refs.vector("index").values.reshape(-1, 3).max(axis=0).tolist() == [3, 1, 0]
            assert bool((refs.scalar("length").values > 0).all())
        else:
            kinds.add("inline")
            assert refs.string("inline").to_list() == [bytes([n]) for n in range(1, 51)]
    assert kinds == {"native", "inline"}


def test_the_reference_reads_every_file_encoded_again(root: Path) -> None:
    before = read_all(root)
    for path in root.glob("transactions/*"):
        replace_payload(path, encode(decode(payload(path), TRANSACTION_LOG), identifier=b"Ichk"))
    sizes = {}
    for path in root.glob("manifests/*"):
        table = decode(payload(path), MANIFEST)
        replace_payload(path, encode(table, identifier=b"Ichk"))
        sizes[table.struct("id").values.tobytes()] = path.stat().st_size
    for path in root.glob("snapshots/*"):
        table = resized(decode(payload(path), SNAPSHOT), sizes)
        replace_payload(path, encode(table, identifier=b"Ichk"))
    replace_payload(root / "repo", encode(decode(payload(root / "repo"), REPO), identifier=b"Ichk"))
    assert read_all(root) == before
    repo = reopen(root)
    history = list(repo.ancestry(branch="main"))
    assert [each.message for each in history] == ["second", "first", "Repository initialized"]
    assert history[1].metadata == METADATA
    changed = repo.diff(from_tag="v1", to_branch="main").updated_chunks
    assert sorted(changed["/a"]) == [[0, 0, 0], [0, 1, 0]]


def resized(snapshot: Table, sizes: dict[bytes, int]) -> Table:
    """The snapshot with the sizes of the manifest files as they are now."""
    column = snapshot.tables("manifest_files_v2")
    ids = [each.tobytes() for each in column.rows.struct("id").values]
    values = np.array([sizes[each] for each in ids], np.uint64)
    size_bytes = type(column.rows.scalar("size_bytes")).of(values)
    rows = column.rows.replace(size_bytes=size_bytes)
    return snapshot.replace(manifest_files_v2=type(column)(column.splits, rows, column.present))


def test_the_reference_reads_metadata_that_we_encode(root: Path) -> None:
    metadata = {
        "big": 2**63,
        "small": -(2**62),
        "text": "x" * 300,
        "nested": [[], {}, [[1.25]], {"k": None}],
        "many": list(range(-300, 70000, 97)),
    }
    repo = decode(payload(root / "repo"), REPO)
    column = repo.tables("snapshots")
    items = column.rows.tables("metadata")
    row = column.rows.string("message").to_texts().index("first")
    first = int(items.splits[row])
    names = items.rows.string("name").to_list()
    values = items.rows.string("value").to_list()
    names[first : first + len(metadata)] = [name.encode() for name in sorted(metadata)]
    values[first : first + len(metadata)] = [
        encode_flexbuffer(metadata[name])  # type: ignore[arg-type]  # dict values are Json
        for name in sorted(metadata)
    ]
    kept = items.rows.replace(
        name=StringColumn.from_list(names), value=StringColumn.from_list(values)
    )
    rows = column.rows.replace(metadata=type(items)(items.splits, kept, items.present))
    changed = repo.replace(snapshots=type(column)(column.splits, rows, column.present))
    replace_payload(root / "repo", encode(changed, identifier=b"Ichk"))
    found = {each.message: each.metadata for each in reopen(root).ancestry(tag="v1")}["first"]
    assert {name: found[name] for name in metadata} == metadata
