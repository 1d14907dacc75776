"""Transaction logs of millions of chunks, written without having them all in memory.

The log without its chunks is encoded as usual. What `updated_chunks` points to follows it, made
some rows at a time and compressed at once; all offsets point forward, and are known beforehand.

    log       root | lists of nodes | moves          its slot of `updated_chunks` is set anew
    arrays    count, an offset for each
    vtable    of ArrayUpdatedChunks
    table     vtable, node id, offset of its chunks  for each array, by id
    for each array
      chunks  count, an offset for each
      rows    vtable | table: vtable, offset | coords: length, values     of equal size

Each row has a vtable of its own: so all rows begin with the same bytes, and compress well.
"""

import struct
from collections.abc import Buffer, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError
from frazil.format.chunk_index import ChunkSet, distinct
from frazil.format.envelope import FileType, decode_envelope, encode_envelope_stream
from frazil.format.txlog import TransactionLog, encode_txlog
from frazil.ids import NodeId

_SLOT = 7  # of `updated_chunks` in the root table
_ROWS_AT_ONCE = 1 << 16
_MAX_BYTES = 2**31 - 1
_ARRAY_VTABLE = struct.pack("<4H", 8, 16, 4, 12)
_ROW_VTABLE = struct.pack("<4H", 6, 8, 4, 0)  # and two bytes to the next multiple of four
_ROW_HEAD = 20  # vtable 8, table 8, length of the coordinates 4


def encode_txlog_stream(
    log: TransactionLog,
    chunks: Mapping[NodeId, Sequence[ChunkSet]],
    *,
    level: int = 3,
    spec_version: int = 2,
) -> bytes:
    """The file of `log`, in which these chunks are listed too: sets of an array are disjoint.

    An array must not be in both. Raises FormatError if it would be larger than 2 GiB.
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
    if places[-1] > _MAX_BYTES:
        raise FormatError(
            f"a transaction log of {places[-1]} bytes: at most {_MAX_BYTES} can be written;"
            " commit fewer chunks at a time",
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
        return cls(node, count, ndim, lambda: _ascending(sets))

    @classmethod
    def of_index(cls, node: NodeId, index: npt.NDArray[np.uint32]) -> "_Listed":
        """Of these chunks, (n, ndim), in any order."""
        ordered = distinct(index)

        def blocks() -> Iterator[npt.NDArray[np.uint32]]:
            for start, stop in _runs(len(ordered)):
                yield ordered[start:stop]

        return cls(node, len(ordered), ordered.shape[1], blocks)


def _point_to_end(payload: bytearray) -> None:
    """Lets the root's slot of `updated_chunks` point to what follows the payload."""
    (root,) = struct.unpack_from("<I", payload, 0)
    (back,) = struct.unpack_from("<i", payload, root)
    (place,) = struct.unpack_from("<H", payload, root - back + 4 + 2 * _SLOT)
    struct.pack_into("<I", payload, root + place, len(payload) - root - place)


def _places(base: int, arrays: Sequence[_Listed]) -> list[int]:
    """Where the chunks of each array begin, and where the last ones end."""
    places = [base + _tables_size(len(arrays))]
    for each in arrays:
        places.append(places[-1] + 4 + each.count * (4 + _row_size(each.ndim)))
    return places


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
    count, ndim = listed.count, listed.ndim
    size = _row_size(ndim)
    yield struct.pack("<I", count)
    # From each offset to its row, which begins behind a vtable: `size - 4` further every time.
    first = 4 * count + len(_ROW_VTABLE)
    for start, stop in _runs(count):
        offsets = np.arange(start, stop, dtype="<u4")
        offsets *= np.uint32(size - 4)
        offsets += np.uint32(first)
        yield offsets
    head = np.frombuffer(_ROW_VTABLE + struct.pack("<iII", len(_ROW_VTABLE), 4, ndim), "<u4")
    block = np.empty((min(count, _ROWS_AT_ONCE), size // 4), dtype="<u4")
    block[:, : len(head)] = head
    for index in listed.blocks():
        if len(index) > len(block):
            block = np.empty((len(index), size // 4), dtype="<u4")
            block[:, : len(head)] = head
        block[: len(index), len(head) :] = index
        yield block[: len(index)]


def _ascending(sets: Sequence[ChunkSet]) -> Iterator[npt.NDArray[np.uint32]]:
    """All chunks of the sets in ascending order, as readers search for them.

    Boxes that come one after another need no sorting. Others do, all at once.
    """
    ordered = sorted((each for each in sets if each.count), key=lambda each: each.lo)
    if all(_precedes(one, other) for one, other in pairwise(ordered)):
        for each in ordered:
            yield from each.blocks()
        return
    yield from _sorted_by_slabs(ordered)


def _precedes(one: ChunkSet, other: ChunkSet) -> bool:
    """Whether the last chunk of one box comes before the first of the other."""
    last = tuple(low + length - 1 for low, length in zip(one.lo, one.shape, strict=True))
    return last < other.lo


def _sorted_by_slabs(sets: Sequence[ChunkSet]) -> Iterator[npt.NDArray[np.uint32]]:
    """Boxes that lie side by side, taken together with those that share their first indices."""
    slab: list[ChunkSet] = []
    reach = -1  # the last first-index of the boxes in the slab
    for each in sets:
        if slab and each.lo[0] > reach:
            yield from _merged(slab)
            slab = []
        slab.append(each)
        reach = max(reach, each.lo[0] + each.shape[0] - 1)
    if slab:
        yield from _merged(slab)


def _merged(sets: Sequence[ChunkSet]) -> Iterator[npt.NDArray[np.uint32]]:
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
