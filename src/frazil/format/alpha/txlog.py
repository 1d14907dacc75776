"""Transaction logs of the generations before version 1. FORMATS: 4.5.

    [version, new_groups, new_arrays, deleted_groups, deleted_arrays, updated_user_attributes,
     updated_zarr_metadata, {node: [[i, j ...] ...]}]                   A3e has no version

Version 1 lists updated nodes by what they are instead, which only the snapshot tells.
"""

from collections.abc import Buffer
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError
from frazil.format.alpha.identities import node_id
from frazil.format.alpha.manifest import index_rows
from frazil.format.alpha.unpacking import (
    fields,
    is_flatbuffer,
    items,
    mapping,
    payload,
    unpack,
)
from frazil.format.envelope import FileType
from frazil.format.nodes import Nodes, id_column
from frazil.format.schemas import NODE_ARRAY
from frazil.format.transaction_log import TransactionLog, decode_txlog
from frazil.ids import NodeId, SnapshotId


@dataclass(frozen=True, slots=True, eq=False)
class OldLog:
    """A log, with the updated nodes in one list."""

    log: TransactionLog
    updated: frozenset[bytes]

    def resolved(self, nodes: Nodes) -> TransactionLog:
        """With the updated nodes apart, which must be among these. New ones were not updated."""
        log = self.log
        new = {raw.tobytes() for ids in (log.new_groups, log.new_arrays) for raw in ids}
        is_array = nodes.table.union("node_data").types == NODE_ARRAY
        arrays, groups = list[bytes](), list[bytes]()
        for raw, array in zip(nodes.raw_ids(), is_array.tolist(), strict=True):
            if raw in self.updated and raw not in new:
                (arrays if array else groups).append(raw)
        return TransactionLog(
            id=log.id,
            new_groups=log.new_groups,
            new_arrays=log.new_arrays,
            deleted_groups=log.deleted_groups,
            deleted_arrays=log.deleted_arrays,
            updated_arrays=_sorted(arrays),
            updated_groups=_sorted(groups),
            updated_chunks=log.updated_chunks,
        )


def decode_old_log(data: Buffer, name: SnapshotId, *, max_size: int | None = None) -> OldLog:
    """`name` is that of the file, which is that of the snapshot."""
    content = payload(data, FileType.TRANSACTION_LOG, max_size=max_size)
    if is_flatbuffer(content):
        log = decode_txlog(data, max_size=max_size)
        both = (log.updated_arrays, log.updated_groups)
        return OldLog(log, frozenset(raw.tobytes() for ids in both for raw in ids))
    parts = fields(unpack(content), (7, 8), "a transaction log")[-7:]
    updated = {node_id(each) for one in parts[4:6] for each in items(one, "a list of nodes")}
    log = TransactionLog(
        id=name,
        new_groups=_ids(parts[0]),
        new_arrays=_ids(parts[1]),
        deleted_groups=_ids(parts[2]),
        deleted_arrays=_ids(parts[3]),
        updated_chunks=_chunks(parts[6]),
    )
    return OldLog(log, frozenset(updated))


def _ids(value: Any) -> npt.NDArray[np.uint8]:
    return _sorted([node_id(each) for each in items(value, "a list of nodes")])


def _sorted(raw: list[bytes]) -> npt.NDArray[np.uint8]:
    return id_column(sorted(raw), NodeId.size)


def _chunks(value: Any) -> dict[NodeId, npt.NDArray[np.uint32]]:
    found = {}
    for node, listed in mapping(value, "the updated chunks").items():
        rows = items(listed, "a list of chunks")
        if len({len(items(each, "a chunk index")) for each in rows}) > 1:
            raise FormatError("chunk indices of one array differ in length")
        if rows:
            found[NodeId(node_id(node))] = index_rows(list(rows))
    return found
