"""Transaction logs: the nodes and chunks that a commit changed. Spec: "Transaction Log Files".

Reading data does not need it; rebase and diff do.
"""

import struct
from collections.abc import Buffer, Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn, VectorColumn
from frazil.flatbuf.decode import decode, decode_batch, source_of
from frazil.flatbuf.encode import Stripes, encode_parts
from frazil.flatbuf.places import FEWEST_OF_GRID, Places
from frazil.flatbuf.ragged import concat_arrays, constant, even_length, splits_of
from frazil.flatbuf.record_encoder import encode_record
from frazil.flatbuf.schema import SCALAR_SIZES, TableSchema, TableVector
from frazil.flatbuf.table import Column, Table, TableVectorColumn
from frazil.format.chunk_index import ChunkSet, distinct
from frazil.format.envelope import (
    FileType,
    decode_envelope,
    encode_envelope,
    encode_envelope_stream,
)
from frazil.format.limits import MAX_METADATA_BYTES
from frazil.format.nodes import Nodes, id_column
from frazil.format.schemas import (
    ARRAY_UPDATED_CHUNKS,
    CHUNK_INDICES,
    IDENTIFIER,
    MOVE_OPERATION,
    TRANSACTION_LOG,
)
from frazil.ids import NodeId, SnapshotId
from frazil.paths import NodePath

_FEW_CHANGES = 128  # nodes and chunks up to which records are faster to encode than columns
_CHUNKS_SLOT = 7  # of `updated_chunks` in the root table
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
        """Number of nodes, chunks and moves."""
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
    payload = decode_envelope(data, FileType.TRANSACTION_LOG, max_size=max_size).data
    chunks = _find_large(payload)
    if chunks is not None:
        return _decode_large(payload, chunks)
    root = decode(payload, TRANSACTION_LOG)
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
    """Encodes a log; its lists are sorted here, so that they may be collected in any order."""
    payload: bytearray | list[Buffer]
    if not log.moved and log.num_changes <= _FEW_CHANGES:
        payload = encode_record(TRANSACTION_LOG, _record(log, spec_version), identifier=IDENTIFIER)
    else:
        payload = encode_parts(_table(log, spec_version), identifier=IDENTIFIER)
    return encode_envelope(
        payload, FileType.TRANSACTION_LOG, level=level, spec_version=spec_version
    )


def _record(log: TransactionLog, spec_version: int) -> dict[str, Any]:
    """The root of a log without moves, as a record."""
    record: dict[str, Any] = {"id": log.id.raw}
    for name, ids in log.node_lists():
        record[name] = b"".join(sorted(raw.tobytes() for raw in ids)) if len(ids) else b""
    record["updated_chunks"] = [
        {
            "node_id": node.raw,
            "chunks": [{"coords": coords} for coords in sorted({*map(tuple, index.tolist())})],
        }
        for node, index in sorted(log.updated_chunks.items())
    ]
    if spec_version >= 2:
        record["moved_nodes"] = []
    return record


def _table(log: TransactionLog, spec_version: int) -> Table:
    """The root of a log, as columns."""
    moves: dict[str, Column] = {}
    if spec_version >= 2:
        moves["moved_nodes"] = TableVectorColumn.of(_encode_moves(log.moved))
    elif log.moved:
        raise FormatError("version 1 has no moves", kind="unsupported-spec-version")
    return Table.build(
        TRANSACTION_LOG,
        1,
        id=StructColumn.of(id_column([log.id.raw], SnapshotId.size)),
        **{name: _encode_ids(ids) for name, ids in log.node_lists()},
        updated_chunks=TableVectorColumn.of(_encode_chunks(log.updated_chunks)),
        **moves,
    )


def _encode_ids(ids: npt.NDArray[np.uint8]) -> VectorColumn:
    keys = np.ascontiguousarray(ids).view(">u8").reshape(-1)
    ordered = ids[np.argsort(keys, kind="stable")]
    return VectorColumn.of(ordered, np.array([0, len(ids)], dtype=np.int64))


def decode_chunks(arrays: Table, rows: range) -> dict[NodeId, npt.NDArray[np.uint32]]:
    """Decodes the chunks of one log, which are these rows of ARRAY_UPDATED_CHUNKS."""
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
    coords = VectorColumn.regular_parts(parts or [np.zeros((0, 0), dtype=np.uint32)])
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


# -------------------------------------------------------------------------------------------------
# Large logs: writers store the rows of an array at equal distances or in stripes, so that the
# indices of all its chunks are copied from the file at once. Decoded as any table, a row takes four
# times its size in memory.

_LARGE_BYTES = 1 << 20
_MANY_BYTES = 1 << 12  # for each array, on average: looking at arrays one by one has its price
_CHUNKLESS = TableSchema(
    "TransactionLog", tuple(each for each in TRANSACTION_LOG.fields if each.slot != _CHUNKS_SLOT)
)
_NODES_ONLY = TableSchema("ArrayUpdatedChunks", ARRAY_UPDATED_CHUNKS.fields[:1])
_NODES = TableSchema(
    "TransactionLog",
    tuple(
        replace(each, kind=TableVector(_NODES_ONLY))
        for each in TRANSACTION_LOG.fields
        if each.slot == _CHUNKS_SLOT
    ),
)


def decode_log_root(payload: Buffer) -> Table:
    """The root table of a log, of any size."""
    chunks = _find_large(payload)
    return decode(payload, TRANSACTION_LOG) if chunks is None else _with_chunks(payload, chunks)


def _find_large(payload: Buffer) -> list[npt.NDArray[np.uint32]] | None:
    """Chunks of each array of a large log; None if the decoder of any table is to find them."""
    is_large = memoryview(payload).nbytes >= _LARGE_BYTES
    return _EvenRows(payload).find_all() if is_large else None


def _decode_large(payload: Buffer, chunks: list[npt.NDArray[np.uint32]]) -> TransactionLog:
    """The log with these chunks. Nothing of it keeps the payload in memory."""
    nodes = [NodeId(raw.tobytes()) for raw in _node_ids(payload).values]
    if len(set(nodes)) < len(nodes):
        raise FormatError("chunks of a node are listed twice")
    rest = decode(payload, _CHUNKLESS)
    return TransactionLog(
        id=SnapshotId(rest.struct("id").values[0].tobytes()),
        **{name: rest.vector(name).values.copy() for name in NODE_LISTS},
        updated_chunks=dict(zip(nodes, chunks, strict=True)),
        moved=decode_moves(rest.tables("moved_nodes").rows),
    )


def _node_ids(payload: Buffer) -> StructColumn:
    """Ids of the arrays whose chunks are listed."""
    return decode(payload, _NODES).tables("updated_chunks").rows.struct("node_id")


def _with_chunks(payload: Buffer, chunks: list[npt.NDArray[np.uint32]]) -> Table:
    coords = VectorColumn.regular_parts(chunks)
    splits = splits_of(np.array([len(index) for index in chunks], dtype=np.int64))
    rows = Table.build(CHUNK_INDICES, len(coords), coords=coords)
    arrays = Table.build(
        ARRAY_UPDATED_CHUNKS,
        len(chunks),
        node_id=_node_ids(payload),
        chunks=TableVectorColumn.of(rows, splits),
    )
    rest = decode(payload, _CHUNKLESS)
    return Table.build(
        TRANSACTION_LOG, 1, **rest.columns, updated_chunks=TableVectorColumn.of(arrays)
    )


class _EvenRows:
    """Indices of chunks in a log, if the rows of each array are alike, and even or in stripes.

    All positions are checked here. What is not as expected is left to the decoder of any table.
    """

    def __init__(self, payload: Buffer) -> None:
        self._source = source_of(payload)

    def find_all(self) -> list[npt.NDArray[np.uint32]] | None:
        """Chunks of each array, (n, ndim)."""
        try:
            vector = self._reference(self._number(0, "<I"), _CHUNKS_SLOT)
            count = self._number(vector, "<I")
            if not count or count * _MANY_BYTES > self._source.size:
                return None
            places = range(vector + 4, vector + 4 + 4 * count, 4)
            tables = [place + self._number(place, "<I") for place in places]
            return [self._find(self._reference(table, 1)) for table in tables]
        except (struct.error, ValueError, FormatError):
            return None

    def _find(self, vector: int) -> npt.NDArray[np.uint32]:
        count = self._number(vector, "<I")
        if not count:
            return np.zeros((0, 0), dtype=np.uint32)
        jumps = np.diff(self._rows(vector + 4, min(count, 4)).array()).tolist()
        if len(jumps) == 3 and jumps[0] != jumps[1] == jumps[2]:
            # The reference has the vtable that rows share next to the first one.
            parts = [self._rows(vector + 4, 1), self._rows(vector + 8, count - 1)]
        else:
            parts = [self._rows(vector + 4, count)]
        return concat_arrays([self._coordinates(rows) for rows in parts])

    def _rows(self, place: int, count: int) -> Places:
        """Rows that the offsets from a place on point to."""
        cells = Places.even(count, place, 4)
        self._source.check(cells, 4, 4, "offsets of chunks")
        rows = cells.plus(self._source.at("u4", cells))
        self._source.check(rows, 4, 4, "chunks")
        return rows

    def _coordinates(self, rows: Places) -> npt.NDArray[np.uint32]:
        source = self._source
        if not rows.cells:
            raise ValueError("rows are neither even nor in stripes")
        vtables = rows.minus(source.at("i4", rows))
        source.check(vtables, 6, 2, "vtables of chunks")
        for part in range(3):  # its size, that of the table, the field
            self._require_equal("u2", vtables.shifted(2 * part))
        pointers = rows.shifted(self._field(rows.first, 0) - rows.first)
        vectors = pointers.shifted(self._require_equal("u4", pointers))
        ndim = self._require_equal("u4", vectors)
        if rows.count * ndim * 4 > source.size:
            raise ValueError("rows overlap")
        coordinates = vectors.shifted(4)
        source.check(coordinates, 4 * ndim, 4, "coordinates of chunks")
        lengths = constant(ndim, np.int64, rows.count)
        values = source.runs("u4", coordinates, lengths).reshape(rows.count, ndim)
        return values if rows.count > 1 else values.copy()  # not a view that keeps the file

    def _require_equal(self, dtype: str, places: Places) -> int:
        """The number that stands in all places."""
        self._source.check(places, SCALAR_SIZES[dtype], SCALAR_SIZES[dtype], "chunks")
        numbers = self._source.at(dtype, places)
        if not (numbers == numbers[0]).all():
            raise ValueError("rows differ")
        return int(numbers[0])

    def _reference(self, table: int, slot: int) -> int:
        place = self._field(table, slot)
        return place + self._number(place, "<I")

    def _field(self, table: int, slot: int) -> int:
        vtable = table - self._number(table, "<i")
        size, place = self._number(vtable, "<H"), self._number(vtable + 4 + 2 * slot, "<H")
        if size < 6 + 2 * slot or not place:
            raise ValueError("the table lacks a field")
        return table + place

    def _number(self, place: int, kind: str) -> int:
        if place < 0:
            raise ValueError("before the beginning")
        return int(struct.unpack_from(kind, self._source.data, place)[0])


# -------------------------------------------------------------------------------------------------
# Many transaction logs decoded together: most are small, and rebase looks at hundreds.

_BATCHED_BYTES = 2**16  # larger files gain nothing by being decoded together


def decode_txlogs(files: Sequence[Buffer]) -> list[TransactionLog]:
    """Each file's log, in order.

    Raises FormatError if one of them is damaged; which one, only `decode_txlog` of each can tell.
    """
    sizes = [memoryview(data).nbytes for data in files]
    small = [data for data, size in zip(files, sizes, strict=True) if size <= _BATCHED_BYTES]
    payloads = [decode_envelope(data, FileType.TRANSACTION_LOG).data for data in small]
    together = iter(_split(decode_batch(payloads, TRANSACTION_LOG)) if payloads else [])
    return [
        next(together) if size <= _BATCHED_BYTES else decode_txlog(data)
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


# -------------------------------------------------------------------------------------------------
# Transaction logs of millions of chunks, encoded without holding them all in memory.
#
# The log without its chunks is encoded as usual. What `updated_chunks` points to follows it, made
# some rows at a time and compressed at once; all offsets point forward, and are known beforehand.
#
#     log       root | lists of nodes | moves          its slot of `updated_chunks` is rewritten
#     arrays    count, an offset for each
#     vtable    of ArrayUpdatedChunks
#     table     vtable, node id, offset of its chunks  for each array, by id
#     for each array
#       chunks  count, an offset for each
#       rows    table: vtable, offset | coords: length, values     of equal size, in stripes if many
#
# Stripes are those of flatbuf/encode.py. Fewer rows stand behind one vtable, one after the other.

_ROWS_AT_ONCE = 1 << 16
_ARRAY_VTABLE = struct.pack("<4H", 8, 16, 4, 12)
_ROW_VTABLE = struct.pack("<4H", 6, 8, 4, 0)  # and two bytes to the next multiple of four
_ROW_HEAD = 12  # table 8, length of the coordinates 4


def require_log_fits(
    chunks: Sequence[tuple[int, int]], *, nodes: int = 0, max_bytes: int = MAX_METADATA_BYTES
) -> None:
    """Raises FormatError if no log can list as many chunks, given as (count, ndim) of each array.

    To be called before anything of a commit is written.
    """
    size = _tables_size(len(chunks)) + 8 * nodes
    size += sum(_chunks_size(count, ndim) for count, ndim in chunks)
    total = sum(count for count, _ in chunks)
    if size <= max_bytes or not total:
        return
    most = max(1, int(total * (max_bytes / size)))
    raise FormatError(
        f"a commit of {total:,} changed chunks: the transaction log that lists them would have"
        f" {size:,} bytes, and the format allows {max_bytes:,}. Nothing was written; make several"
        f" commits, each of up to {most:,} such chunks",
        kind="serialization",
    )


def encode_txlog_stream(
    log: TransactionLog,
    chunks: Mapping[NodeId, Sequence[ChunkSet]],
    *,
    level: int = 3,
    spec_version: int = 2,
    max_bytes: int = MAX_METADATA_BYTES,
) -> bytes:
    """The file of `log`, in which these chunks are listed too: sets of an array are disjoint.

    An array must not be in both. Raises FormatError if it would be larger than the format allows.
    """
    if log.updated_chunks.keys() & chunks.keys():
        raise FormatError("chunks of an array are listed twice")
    own = [_Listed.of_index(node, index) for node, index in log.updated_chunks.items()]
    others = [_Listed.of_sets(node, sets) for node, sets in chunks.items()]
    plain = encode_txlog(replace(log, updated_chunks={}), level=1, spec_version=spec_version)
    payload = bytearray(decode_envelope(plain, FileType.TRANSACTION_LOG).data)
    payload += bytes(-len(payload) % 8)
    _point_to_end(payload)
    arrays = sorted([*own, *others], key=lambda each: each.node)
    places = _places(len(payload), arrays)
    if places[-1] > max_bytes:
        require_log_fits([(each.count, each.ndim) for each in arrays], max_bytes=max_bytes)
        raise FormatError(
            f"a transaction log of {places[-1]:,} bytes: the format allows {max_bytes:,}",
            kind="serialization",
        )

    def parts() -> Iterator[Buffer]:
        yield payload
        yield _array_tables(len(payload), arrays, places)
        for each in arrays:
            yield from _chunk_rows(each)

    return encode_envelope_stream(
        parts(), places[-1], FileType.TRANSACTION_LOG, level=level, spec_version=spec_version
    )


@dataclass(frozen=True, slots=True)
class _Listed:
    """The chunks of an array, some at a time, in ascending order."""

    node: NodeId
    count: int
    ndim: int
    blocks: Callable[[], Iterator[npt.NDArray[np.uint32]]]

    @classmethod
    def of_sets(cls, node: NodeId, sets: Sequence[ChunkSet]) -> "_Listed":
        count, ndim = sum(each.count for each in sets), sets[0].ndim if sets else 0
        return cls(node, count, ndim, lambda: _iter_ascending(sets))

    @classmethod
    def of_index(cls, node: NodeId, index: npt.NDArray[np.uint32]) -> "_Listed":
        """Lists these chunks, (n, ndim), given in any order."""
        ordered = distinct(index)

        def blocks() -> Iterator[npt.NDArray[np.uint32]]:
            for start, stop in _runs(len(ordered)):
                yield ordered[start:stop]

        return cls(node, len(ordered), ordered.shape[1], blocks)


def _point_to_end(payload: bytearray) -> None:
    """Lets the root's slot of `updated_chunks` point to what follows the payload."""
    (root,) = struct.unpack_from("<I", payload, 0)
    (back,) = struct.unpack_from("<i", payload, root)
    (place,) = struct.unpack_from("<H", payload, root - back + 4 + 2 * _CHUNKS_SLOT)
    struct.pack_into("<I", payload, root + place, len(payload) - root - place)


def _places(base: int, arrays: Sequence[_Listed]) -> list[int]:
    """Start of the chunks of each array, and the end of the last ones."""
    sizes = [_chunks_size(each.count, each.ndim) for each in arrays]
    return list(accumulate(sizes, initial=base + _tables_size(len(arrays))))


def _chunks_size(count: int, ndim: int) -> int:
    """Bytes of the vector of an array's chunks, and of its rows."""
    stripes = _stripes(count, ndim)
    rows = len(_ROW_VTABLE) + count * _row_size(ndim) if stripes is None else stripes.size
    return 4 + 4 * count + rows


def _stripes(count: int, ndim: int) -> Stripes | None:
    if count < FEWEST_OF_GRID:
        return None
    return Stripes.of(count, _row_size(ndim), len(_ROW_VTABLE), 4)


def _tables_size(arrays: int) -> int:
    return 4 + 4 * arrays + len(_ARRAY_VTABLE) + 16 * arrays


def _row_size(ndim: int) -> int:
    return _ROW_HEAD + 4 * ndim


def _array_tables(base: int, arrays: Sequence[_Listed], places: Sequence[int]) -> bytes:
    count = len(arrays)
    vtable = base + 4 + 4 * count
    first = vtable + len(_ARRAY_VTABLE)
    tables = [first + 16 * number for number in range(count)]
    offsets = [table - (base + 4 + 4 * number) for number, table in enumerate(tables)]
    rows = [
        struct.pack("<i8sI", table - vtable, each.node.raw, place - (table + 12))
        for each, table, place in zip(arrays, tables, places, strict=False)
    ]
    return struct.pack(f"<I{count}I", count, *offsets) + _ARRAY_VTABLE + b"".join(rows)


def _chunk_rows(listed: _Listed) -> Iterator[Buffer]:
    """The vector of an array's chunks, and the rows that it points to."""
    count, size = listed.count, _row_size(listed.ndim)
    stripes = _stripes(count, listed.ndim)
    first = 4 + 4 * count + len(_ROW_VTABLE)
    rows = Places.even(count, first, size) if stripes is None else stripes.places(first - 8)
    yield struct.pack("<I", count)
    for start, stop in _runs(count):
        offsets = rows.part(start, stop) - np.arange(4 + 4 * start, 4 + 4 * stop, 4)
        yield offsets.astype("<u4")
    if stripes is None:
        yield _ROW_VTABLE
        back = len(_ROW_VTABLE)
        for index in listed.blocks():
            yield _row_block(back, index)
            back += size * len(index)
    else:
        for bands in _rebatch(listed.blocks(), stripes.rows_of_band):
            yield _bands(stripes, bands)


def _row_block(back: int, index: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Rows of which the first is so far behind the vtable that all share."""
    count, ndim = index.shape
    block = np.empty((count, 3 + ndim), dtype="<u4")
    block[:, 0] = np.arange(back, back + count * _row_size(ndim), _row_size(ndim))
    block[:, 1], block[:, 2], block[:, 3:] = 4, ndim, index
    return block


def _bands(stripes: Stripes, index: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Bands of stripes; after the last row of the last one are zeros."""
    _, depth, width = stripes.shape
    count, ndim = index.shape
    bands = -(-count // stripes.rows_of_band)
    words = 3 + ndim
    stored = np.zeros((bands, width, stripes.stripe // 4), dtype="<u4")
    stored[:, :, :2] = np.frombuffer(_ROW_VTABLE, "<u4")
    rows = stored[:, :, 2:].reshape(bands, width, depth, words)
    rows[..., 0] = len(_ROW_VTABLE) + 4 * words * np.arange(depth)
    rows[..., 1], rows[..., 2] = 4, ndim
    whole = np.zeros((bands * depth * width, ndim), dtype="<u4")
    whole[:count] = index
    rows[..., 3:] = whole.reshape(bands, depth, width, ndim).swapaxes(1, 2)
    return stored


def _rebatch(
    blocks: Iterator[npt.NDArray[np.uint32]], unit: int
) -> Iterator[npt.NDArray[np.uint32]]:
    """The same rows, in multiples of `unit` but for the last ones."""
    waiting: list[npt.NDArray[np.uint32]] = []
    size = 0
    for block in blocks:
        waiting.append(block)
        size += len(block)
        if size >= max(unit, _ROWS_AT_ONCE):
            rows = concat_arrays(waiting)
            whole = size // unit * unit
            yield rows[:whole]
            waiting, size = [rows[whole:]], size - whole
    if size:
        yield concat_arrays(waiting)


def _iter_ascending(sets: Sequence[ChunkSet]) -> Iterator[npt.NDArray[np.uint32]]:
    """All chunks of the sets in ascending order, as readers search for them.

    Boxes that come one after another need no sorting. Others do, all at once.
    """
    ordered = sorted((each for each in sets if each.count), key=lambda each: each.lo)
    if all(_precedes(one, other) for one, other in pairwise(ordered)):
        for each in ordered:
            yield from each.blocks()
        return
    yield from _sort_by_slabs(ordered)


def _precedes(one: ChunkSet, other: ChunkSet) -> bool:
    """True if the last chunk of one box comes before the first of the other."""
    last = tuple(low + length - 1 for low, length in zip(one.lo, one.shape, strict=True))
    return last < other.lo


def _sort_by_slabs(sets: Sequence[ChunkSet]) -> Iterator[npt.NDArray[np.uint32]]:
    """Boxes that lie side by side, taken together with those that share their first indices."""
    slab: list[ChunkSet] = []
    reach = -1  # the last first-index of the boxes in the slab
    for each in sets:
        if slab and each.lo[0] > reach:
            yield from _merge_slab(slab)
            slab = []
        slab.append(each)
        reach = max(reach, each.lo[0] + each.shape[0] - 1)
    if slab:
        yield from _merge_slab(slab)


def _merge_slab(sets: Sequence[ChunkSet]) -> Iterator[npt.NDArray[np.uint32]]:
    """A few first indices at a time."""
    bits = [each.unpacked() for each in sets]
    first = min(each.lo[0] for each in sets)
    last = max(each.lo[0] + each.shape[0] for each in sets)
    step = max(1, _ROWS_AT_ONCE // sum(prod(each.shape[1:]) for each in sets))
    for start in range(first, last, step):
        found = [
            each.within(mine, start, start + step) for each, mine in zip(sets, bits, strict=True)
        ]
        index = np.concatenate(found)
        yield index[np.lexsort(index.T[::-1])]


def _runs(count: int) -> Iterator[tuple[int, int]]:
    for start in range(0, count, _ROWS_AT_ONCE):
        yield start, min(count, start + _ROWS_AT_ONCE)


# Transaction logs of version 2 before March 2026, whose moves have paths and no node ids.
#
# The ids are those of the nodes at the new paths in the snapshot of the same commit.

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
