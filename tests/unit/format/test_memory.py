"""Memory that decoding takes, in relation to what is decoded."""

import tracemalloc
from collections.abc import Callable

import numpy as np

from frazil.format.nodes import Node, Nodes
from frazil.format.projections import decode_manifest_files
from frazil.format.snapshot import Snapshot, encode_snapshot
from frazil.format.transaction_log import TransactionLog, decode_txlog, encode_txlog_stream
from frazil.ids import NodeId, SnapshotId
from frazil.paths import NodePath


def peak_bytes(act: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        result = act()
        del result
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_large_log_takes_little_more_than_its_file() -> None:
    index = np.argwhere(np.ones((400, 500))).astype("u4")
    log = TransactionLog(id=SnapshotId.random(), updated_chunks={NodeId.random(): index})
    data = encode_txlog_stream(log, {})
    assert decode_txlog(data).equals(log)
    assert peak_bytes(lambda: decode_txlog(data)) < 75 * len(index)  # 130, decoded as any table


def test_many_large_snapshots_are_not_in_memory_together() -> None:
    nodes = [
        Node(id=NodeId.random(), path=NodePath(f"/{i:06}"), user_data=b"%0400d" % i)
        for i in range(5000)
    ]
    snapshot = Snapshot(
        id=SnapshotId.random(),
        parent_id=None,
        flushed_at_us=1,
        message="",
        metadata={},
        manifest_files=(),
        nodes=Nodes.from_nodes(nodes),
    )
    data = encode_snapshot(snapshot, level=1, spec_version=2)
    one = peak_bytes(lambda: decode_manifest_files([data]))
    assert one > 500_000
    assert peak_bytes(lambda: decode_manifest_files([data] * 64)) < 20 * one
