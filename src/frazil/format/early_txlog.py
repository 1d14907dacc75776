"""Transaction logs of version 2 before March 2026, whose moves have paths and no node ids.

The ids are those of the nodes at the new paths in the snapshot of the same commit.
"""

from collections.abc import Buffer, Callable
from dataclasses import replace

from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.decode import decode
from frazil.flatbuf.schema import TableSchema, TableVector
from frazil.format.envelope import FileType, decode_envelope
from frazil.format.nodes import Nodes
from frazil.format.schemas import MOVE_OPERATION, TRANSACTION_LOG
from frazil.format.transaction_log import Move, TransactionLog, decode_log_of
from frazil.paths import NodePath

_PATHS = TableSchema("MoveOperation", MOVE_OPERATION.fields[:2])  # from and to
_MOVES = "moved_nodes"
_LOG = TableSchema(
    "TransactionLog",
    tuple(
        replace(field, kind=TableVector(_PATHS)) if field.name == _MOVES else field
        for field in TRANSACTION_LOG.fields
    ),
)


def decode_early_log(
    data: Buffer, nodes_of: Callable[[], Nodes], *, max_size: int | None = None
) -> TransactionLog:
    """`nodes_of` gives the nodes of the commit's snapshot, and is asked only if need be."""
    root = decode(decode_envelope(data, FileType.TRANSACTION_LOG, max_size=max_size).data, _LOG)
    moves = root.tables(_MOVES).rows
    sources, targets = moves.string("from").to_texts(), moves.string("to").to_texts()
    if not targets:
        raise FormatError("a transaction log is damaged")
    nodes = nodes_of()
    moved = [_move(nodes, *pair) for pair in zip(sources, targets, strict=True)]
    return replace(decode_log_of(root), moved=tuple(moved))


def _move(nodes: Nodes, source: str | None, target: str | None) -> Move:
    try:
        origin, place = NodePath(source or ""), NodePath(target or "")
    except InvalidInputError as error:
        raise FormatError(f"a moved node's path is not valid: {error}") from error
    row = nodes.find(place)
    if row < 0:
        raise FormatError(f"a node was moved to {place}, where there is none")
    node = nodes.node(row)
    return Move(origin, place, node.id, node.is_array)
