"""Metadata files as records; tests/compat compares them with what the reference shows."""

from typing import Any

import numpy as np
import pytest

from frazil.describe.inspect import (
    composite,
    inspect_manifest,
    inspect_repo_info,
    inspect_snapshot,
    inspect_transaction_log,
)
from frazil.engine.repository import Repository
from frazil.errors import FormatError, ObjectNotFoundError
from frazil.format.envelope import writer_name
from frazil.format.transaction_log import Move, TransactionLog
from frazil.ids import INITIAL_SNAPSHOT, ManifestId, NodeId, SnapshotId
from frazil.objectstore.memory import MemoryStore
from frazil.paths import ROOT, NodePath
from tests.unit.engine.conftest import GROUP, array_metadata

ARRAY = NodePath("/a")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def tip(store: MemoryStore) -> SnapshotId:
    """A commit with a group and an array with one inline and one native chunk."""
    session = Repository.create(store).writable_session("main")
    session.set_node(ROOT, GROUP)
    session.set_node(ARRAY, array_metadata(4, 4))
    session.set_chunk(ARRAY, (0, 0), b"small")
    session.set_chunk(ARRAY, (1, 1), bytes(1000))
    return session.commit("first", {"k": 1})


def test_a_snapshot_lists_its_nodes_and_manifests(store: MemoryStore, tip: SnapshotId) -> None:
    shown: Any = inspect_snapshot(Repository.open(store), tip)
    assert shown["id"] == str(tip)
    assert shown["header"]["written_by"] == writer_name()
    assert shown["commit_message"] == "first"
    assert [node["path"] for node in shown["nodes"]] == ["/", "/a"]
    array = shown["nodes"][1]
    assert array["shape"] == [{"array_length": 4, "num_chunks": 2}] * 2
    assert array["manifest_refs"][0]["extents"] == [[0, 2], [0, 2]]
    assert array["manifest_refs"][0]["id"] == shown["manifests"][0]["id"]
    assert shown["manifests"][0]["num_chunk_refs"] == 2


def test_a_manifest_is_counted(store: MemoryStore, tip: SnapshotId) -> None:
    snapshot: Any = inspect_snapshot(Repository.open(store), tip)
    shown: Any = inspect_manifest(
        Repository.open(store), ManifestId.parse(snapshot["manifests"][0]["id"])
    )
    counts = {"num_chunk_refs": 2, "num_inline": 1, "num_native": 1, "num_virtual": 0}
    assert shown["arrays"] == [{"node_id": snapshot["nodes"][1]["id"], **counts}]
    assert (shown["total_chunk_refs"], shown["total_inline"], shown["total_native"]) == (2, 1, 1)
    assert shown["compression"] == {"uses_location_compression": False, "num_compressed_refs": 0}


def test_a_log_lists_what_the_commit_did(store: MemoryStore, tip: SnapshotId) -> None:
    snapshot: Any = inspect_snapshot(Repository.open(store), tip)
    group, array = (node["id"] for node in snapshot["nodes"])
    shown = inspect_transaction_log(Repository.open(store), tip)
    assert shown["new_groups"] == [group]
    assert shown["new_arrays"] == [array]
    assert shown["updated_chunks"] == [{"node_id": array, "chunks": [[0, 0], [1, 1]]}]
    assert "synthetic_composite" not in shown


def test_the_entry_point_is_shown_with_its_log(store: MemoryStore, tip: SnapshotId) -> None:
    shown: Any = inspect_repo_info(Repository.open(store))
    assert shown["branches"] == {"main": str(tip)}
    assert [each["update_type"]["type"] for each in shown["latest_updates"]] == [
        "NewCommitUpdate",
        "RepoInitializedUpdate",
    ]
    assert {each["id"]: each.get("parent_id") for each in shown["snapshots"]} == {
        str(INITIAL_SNAPSHOT): None,
        str(tip): str(INITIAL_SNAPSHOT),
    }


def test_a_missing_file_is_missing_and_a_damaged_one_is_named(
    store: MemoryStore, tip: SnapshotId
) -> None:
    with pytest.raises(ObjectNotFoundError):
        inspect_snapshot(Repository.open(store), SnapshotId(bytes(12)))
    store.put(f"snapshots/{tip}", b"rubbish")
    with pytest.raises(FormatError, match=f"snapshots/{tip}"):
        inspect_snapshot(Repository.open(store), tip)


# --- several logs as one ------------------------------------------------------------------------


def ids(*numbers: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.array([[0] * 7 + [n] for n in numbers], dtype=np.uint8).reshape(-1, 8)


def test_logs_are_summed_up() -> None:
    one, two = NodeId(bytes(7) + b"\1"), NodeId(bytes(7) + b"\2")
    first = TransactionLog(
        id=SnapshotId(bytes(12)),
        new_arrays=ids(2, 1),
        updated_chunks={one: np.array([[3], [1]], dtype=np.uint32)},
        moved=(Move(NodePath("/a"), NodePath("/b"), one, is_array=True),),
    )
    second = TransactionLog(
        id=INITIAL_SNAPSHOT,
        new_arrays=ids(1),
        deleted_arrays=ids(2),
        updated_chunks={
            one: np.array([[1], [2]], dtype=np.uint32),
            two: np.array([[0]], dtype=np.uint32),
        },
        moved=(Move(NodePath("/b"), NodePath("/c"), one, is_array=True),),
    )
    found = composite([first, second])
    expected = TransactionLog(
        id=INITIAL_SNAPSHOT,
        new_arrays=ids(1, 2),
        deleted_arrays=ids(2),
        updated_chunks={
            one: np.array([[1], [2], [3]], dtype=np.uint32),
            two: np.array([[0]], dtype=np.uint32),
        },
        moved=(Move(NodePath("/a"), NodePath("/c"), one, is_array=True),),
    )
    assert found.equals(expected)
