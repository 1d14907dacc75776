"""Many transaction logs decoded together: most are small, and rebase looks at hundreds."""

from collections.abc import Buffer, Sequence

from frazil.flatbuf.decode import decode_batch
from frazil.flatbuf.table import Table
from frazil.format.envelope import FileType, decode_envelope
from frazil.format.schemas import TRANSACTION_LOG
from frazil.format.txlog import (
    NODE_LISTS,
    TransactionLog,
    decode_chunks,
    decode_moves,
    decode_txlog,
)
from frazil.ids import SnapshotId

_SMALL = 2**16  # bytes; a larger file gains nothing by company


def decode_txlogs(files: Sequence[Buffer]) -> list[TransactionLog]:
    """Each file's log, in order.

    Raises FormatError if one of them is damaged; which one, only `decode_txlog` of each can tell.
    """
    sizes = [memoryview(data).nbytes for data in files]
    small = [data for data, size in zip(files, sizes, strict=True) if size <= _SMALL]
    payloads = [decode_envelope(data, FileType.TRANSACTION_LOG).data for data in small]
    together = iter(_split(decode_batch(payloads, TRANSACTION_LOG)) if payloads else [])
    return [
        next(together) if size <= _SMALL else decode_txlog(data)
        for data, size in zip(files, sizes, strict=True)
    ]


def _split(logs: Table) -> list[TransactionLog]:
    """A log for each row."""
    ids = logs.struct("id").values
    lists = {name: logs.vector(name) for name in NODE_LISTS}
    splits = {name: column.splits.tolist() for name, column in lists.items()}
    arrays, moves = logs.tables("updated_chunks"), logs.tables("moved_nodes")
    array_splits, move_splits = arrays.splits.tolist(), moves.splits.tolist()
    moved = decode_moves(moves.rows)
    return [
        TransactionLog(
            id=SnapshotId(ids[row].tobytes()),
            **{
                name: lists[name].values[splits[name][row] : splits[name][row + 1]]
                for name in NODE_LISTS
            },
            updated_chunks=decode_chunks(
                arrays.rows, range(array_splits[row], array_splits[row + 1])
            ),
            moved=moved[move_splits[row] : move_splits[row + 1]],
        )
        for row in range(len(logs))
    ]
