"""Which nodes and chunks a commit touched. Spec: "Transaction Log Files".

Reading data does not need it; rebase and diff do.
"""

from collections.abc import Buffer, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn, VectorColumn
from frazil.flatbuf.decode import decode
from frazil.flatbuf.encode import encode_parts
from frazil.flatbuf.ragged import even_length, splits_of
from frazil.flatbuf.table import Column, Table, TableVectorColumn
from frazil.format.chunk_index import distinct
from frazil.format.envelope import FileType, decode_envelope, encode_envelope
from frazil.format.nodes import id_column
from frazil.format.schemas import (
    ARRAY_UPDATED_CHUNKS,
    CHUNK_INDICES,
    IDENTIFIER,
    MOVE_OPERATION,
    TRANSACTION_LOG,
)
from frazil.format.small_files import FEW, log_payload
from frazil.ids import NodeId, SnapshotId
from frazil.paths import NodePath

NODE_LISTS = (
    "new_groups",
    "new_arrays",
    "deleted_groups",
    "deleted_arrays",
    "updated_arrays",
    "updated_groups",
)


@dataclass(frozen=True, slots=True)
class Move:
    from_path: NodePath
    to_path: NodePath
    node_id: NodeId
    is_array: bool


def _no_ids() -> npt.NDArray[np.uint8]:
    return np.zeros((0, 8), dtype=np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class TransactionLog:
    """Node ids are (n, 8) rows in ascending order; moves ascend by components of `to_path`."""

    id: SnapshotId
    new_groups: npt.NDArray[np.uint8] = field(default_factory=_no_ids)
    new_arrays: npt.NDArray[np.uint8] = field(default_factory=_no_ids)
    deleted_groups: npt.NDArray[np.uint8] = field(default_factory=_no_ids)
    deleted_arrays: npt.NDArray[np.uint8] = field(default_factory=_no_ids)
    updated_arrays: npt.NDArray[np.uint8] = field(default_factory=_no_ids)
    updated_groups: npt.NDArray[np.uint8] = field(default_factory=_no_ids)
    updated_chunks: dict[NodeId, npt.NDArray[np.uint32]] = field(default_factory=dict)
    moved: tuple[Move, ...] = ()

    @property
    def num_changes(self) -> int:
        """How much there is to remember: nodes, chunks and moves."""
        nodes = sum(len(ids) for _, ids in self.node_lists())
        return nodes + sum(map(len, self.updated_chunks.values())) + len(self.moved)

    def node_lists(self) -> list[tuple[str, npt.NDArray[np.uint8]]]:
        """The six lists of node ids, by the name of their field."""
        return [(name, getattr(self, name)) for name in NODE_LISTS]

    def equals(self, other: "TransactionLog") -> bool:
        return (
            self.id == other.id
            and self.moved == other.moved
            and self.updated_chunks.keys() == other.updated_chunks.keys()
            and all(
                np.array_equal(index, other.updated_chunks[node])
                for node, index in self.updated_chunks.items()
            )
            and all(np.array_equal(ids, getattr(other, name)) for name, ids in self.node_lists())
        )


def decode_txlog(data: Buffer, *, max_size: int | None = None) -> TransactionLog:
    envelope = decode_envelope(data, FileType.TRANSACTION_LOG, max_size=max_size)
    root = decode(envelope.data, TRANSACTION_LOG)
    return replace(decode_log_of(root), moved=decode_moves(root.tables("moved_nodes").rows))


def decode_log_of(root: Table) -> TransactionLog:
    """Everything but the moves."""
    arrays = root.tables("updated_chunks").rows
    return TransactionLog(
        id=SnapshotId(root.struct("id").values[0].tobytes()),
        **{name: root.vector(name).values for name in NODE_LISTS},
        updated_chunks=decode_chunks(arrays, range(len(arrays))),
        moved=(),
    )


def encode_txlog(log: TransactionLog, *, level: int = 3, spec_version: int = 2) -> bytes:
    """Lists are sorted here, so that a log may be put together in any order."""
    if not log.moved and log.num_changes <= FEW:
        plain = log_payload(log.id, log.node_lists(), log.updated_chunks, spec_version=spec_version)
        return encode_envelope(
            plain, FileType.TRANSACTION_LOG, level=level, spec_version=spec_version
        )
    moves: dict[str, Column] = {}
    if spec_version >= 2:
        moves["moved_nodes"] = TableVectorColumn.of(_encode_moves(log.moved))
    elif log.moved:
        raise FormatError("version 1 has no moves", kind="unsupported-spec-version")
    root = Table.build(
        TRANSACTION_LOG,
        1,
        id=StructColumn.of(id_column([log.id.raw], SnapshotId.size)),
        **{name: _encode_ids(ids) for name, ids in log.node_lists()},
        updated_chunks=TableVectorColumn.of(_encode_chunks(log.updated_chunks)),
        **moves,
    )
    payload = encode_parts(root, identifier=IDENTIFIER)
    return encode_envelope(
        payload, FileType.TRANSACTION_LOG, level=level, spec_version=spec_version
    )


def _encode_ids(ids: npt.NDArray[np.uint8]) -> VectorColumn:
    keys = np.ascontiguousarray(ids).view(">u8").reshape(-1)
    ordered = ids[np.argsort(keys, kind="stable")]
    return VectorColumn.of(ordered, np.array([0, len(ids)], dtype=np.int64))


def decode_chunks(arrays: Table, rows: range) -> dict[NodeId, npt.NDArray[np.uint32]]:
    """Of those rows of ARRAY_UPDATED_CHUNKS that are of one log."""
    chunks = arrays.tables("chunks")
    coords = chunks.rows.vector("coords")
    node_ids = arrays.struct("node_id").values
    found: dict[NodeId, npt.NDArray[np.uint32]] = {}
    for row in rows:
        splits = coords.splits[int(chunks.splits[row]) : int(chunks.splits[row + 1]) + 1]
        ndim = even_length(splits)
        if ndim is None:
            raise FormatError("chunk indices of one array differ in length")
        values = coords.values[int(splits[0]) : int(splits[-1])].reshape(len(splits) - 1, ndim)
        node = NodeId(node_ids[row].tobytes())
        if node in found:
            raise FormatError(f"chunks of node {node} are listed twice")
        found[node] = values
    return found


def _encode_chunks(updated: Mapping[NodeId, npt.NDArray[np.uint32]]) -> Table:
    nodes = sorted(updated)
    parts = [distinct(updated[node]) for node in nodes]
    coords = (
        VectorColumn.concat([VectorColumn.regular(part) for part in parts])
        if parts
        else VectorColumn.regular(np.zeros((0, 0), dtype=np.uint32))
    )
    rows = Table.build(CHUNK_INDICES, len(coords), coords=coords)
    splits = splits_of(np.array([len(part) for part in parts], dtype=np.int64))
    return Table.build(
        ARRAY_UPDATED_CHUNKS,
        len(nodes),
        node_id=StructColumn.of(id_column([node.raw for node in nodes], NodeId.size)),
        chunks=TableVectorColumn.of(rows, splits),
    )


def decode_moves(moves: Table) -> tuple[Move, ...]:
    sources, targets = moves.string("from").to_texts(), moves.string("to").to_texts()
    ids, types = moves.struct("node_id").values, moves.scalar("node_type").values.tolist()
    try:
        return tuple(
            Move(NodePath(source or ""), NodePath(target or ""), NodeId(raw.tobytes()), kind == 1)
            for source, target, raw, kind in zip(sources, targets, ids, types, strict=True)
        )
    except InvalidInputError as error:
        raise FormatError(f"a moved node's path is not valid: {error}") from error


def _encode_moves(moved: Sequence[Move]) -> Table:
    moves = sorted(moved, key=lambda move: [part.encode() for part in move.to_path.segments])
    columns: dict[str, Column] = {  # `from` is a keyword
        "from": StringColumn.from_list([move.from_path.text for move in moves]),
        "to": StringColumn.from_list([move.to_path.text for move in moves]),
        "node_id": StructColumn.of(id_column([move.node_id.raw for move in moves], 8)),
        "node_type": ScalarColumn.of([int(move.is_array) for move in moves], "u1"),
    }
    return Table.build(MOVE_OPERATION, len(moves), **columns)
