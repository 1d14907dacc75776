import json

import numpy as np
import pytest

from frazil.describe.dump import dump
from frazil.errors import FormatError
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.envelope import FileType, encode_envelope
from frazil.format.manifest import Manifest, encode_manifest
from frazil.format.repo_info import encode_repo_info
from frazil.format.snapshot import encode_snapshot
from frazil.format.transaction_log import encode_txlog
from tests.unit.format.samples import (
    ARRAY_ID,
    CHUNK_ID,
    MANIFEST_ID,
    SECOND,
    sample_log,
    sample_manifest,
    sample_repo_info,
    sample_snapshot,
    snapshot_v1,
)


def test_repo_info_is_shown() -> None:
    shown = dump(encode_repo_info(sample_repo_info()))
    assert shown["branches"] == {"main": str(SECOND)}
    assert shown["status"] == {
        "availability": "read-only",
        "set_at": "1970-01-01T00:00:00.000005+00:00",
        "limited_availability_reason": "maintenance",
    }
    updates = shown["latest_updates"]
    assert isinstance(updates, list)
    assert updates[0] == {
        "update_type": {"type": "NewCommitUpdate", "branch": "main", "new_snap_id": str(SECOND)},
        "updated_at": "2023-11-14T22:13:20.000002+00:00",
        "backup_path": None,
    }


def test_a_snapshot_is_shown() -> None:
    shown = dump(encode_snapshot(sample_snapshot()))
    assert shown["commit_message"] == "second: größer"
    nodes = shown["nodes"]
    assert isinstance(nodes, list)
    assert nodes[2] == {
        "id": str(ARRAY_ID),
        "path": "/group/array",
        "node_type": "array",
        "user_data": '{"array": 1}',
        "shape": [
            {"name": "time", "array_length": 30, "num_chunks": 3},
            {"name": None, "array_length": 60, "num_chunks": 6},
        ],
        "manifest_refs": [{"id": str(MANIFEST_ID), "extents": [[0, 3], [0, 6]]}],
    }


def test_a_snapshot_of_version_1_is_shown() -> None:
    header = dump(snapshot_v1([], []))["header"]
    assert isinstance(header, dict)
    assert header["spec_version"] == 1


def test_a_manifest_is_shown() -> None:
    shown = dump(encode_manifest(sample_manifest()))
    assert shown["total_chunk_refs"] == 6
    arrays = shown["arrays"]
    assert isinstance(arrays, list)
    array = arrays[1]
    assert isinstance(array, dict)
    assert (array["num_inline"], array["num_native"], array["num_virtual"]) == (1, 1, 3)
    assert array["refs"] == [
        {"index": [0, 0], "inline": "74696e79", "length": 4},
        {"index": [0, 1], "chunk_id": str(CHUNK_ID), "offset": 7} | {"length": 100},
        {"index": [1, 0], "location": "s3://bucket/a.nc", "offset": 1, "length": 2}
        | {"checksum_etag": "etag"},
        {"index": [1, 1], "location": "s3://bucket/a.nc", "offset": 3, "length": 4}
        | {"checksum_last_modified": "2020-09-13T12:26:40+00:00"},
        {"index": [2, 5], "location": "s3://bucket/b.nc", "offset": 2**40, "length": 2**33},
    ]


def test_a_transaction_log_is_shown() -> None:
    shown = dump(encode_txlog(sample_log()))
    assert shown["new_arrays"] == [str(ARRAY_ID)]
    assert shown["updated_chunks"] == [
        {"node_id": str(ARRAY_ID), "num_chunks": 2, "chunks": [[0, 1], [1, 0]]}
    ]


def test_everything_shown_is_json() -> None:
    for data in (
        encode_repo_info(sample_repo_info()),
        encode_snapshot(sample_snapshot()),
        encode_manifest(sample_manifest()),
        encode_txlog(sample_log()),
    ):
        assert json.loads(json.dumps(dump(data))) == dump(data)


def test_long_lists_are_cut_but_counted() -> None:
    rows = np.arange(1000, dtype=np.uint32).reshape(-1, 1)
    refs = ChunkRefs.virtual(rows, ["s3://b/x"] * 1000, 0, 1)
    data = encode_manifest(Manifest(MANIFEST_ID, {ARRAY_ID: refs}))

    def shown(max_rows: int | None) -> int:
        arrays = dump(data, max_rows=max_rows)["arrays"]
        assert isinstance(arrays, list)
        array = arrays[0]
        assert isinstance(array, dict)
        assert array["num_chunk_refs"] == 1000
        refs = array["refs"]
        assert isinstance(refs, list)
        return len(refs)

    assert shown(10) == 10
    assert shown(None) == 1000


def test_a_kind_of_file_without_content_is_refused() -> None:
    with pytest.raises(FormatError, match="ATTRIBUTES"):
        dump(encode_envelope(b"", FileType.ATTRIBUTES))
