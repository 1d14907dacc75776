"""Chunk references on their way from executors to the driver: one row of an Arrow table per task.

    column      bytes of
    index       (n, ndim) u32
    kind        (n,) u8
    chunk_id    (n, 12) u8
    offset      (n,) u64
    length      (n,) u64
    inline      the inline chunks, one after the other

Little-endian, as on every machine that Spark runs on.
"""

from collections.abc import Mapping

import numpy as np

from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.strings import Strings
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.payloads import Inline, RefKind

COLUMNS = ("index", "kind", "chunk_id", "offset", "length", "inline")


def encode_refs(refs: ChunkRefs) -> dict[str, bytes]:
    """Inline and native references; executors make no others."""
    rows = np.flatnonzero(refs.kind == RefKind.INLINE).tolist()
    payloads = [refs.payload(row) for row in rows]
    return {
        "index": refs.index.astype("<u4").tobytes(),
        "kind": refs.kind.tobytes(),
        "chunk_id": refs.chunk_id.tobytes(),
        "offset": refs.offset.astype("<u8").tobytes(),
        "length": refs.length.astype("<u8").tobytes(),
        "inline": b"".join(one.data for one in payloads if isinstance(one, Inline)),
    }


def decode_refs(columns: Mapping[str, bytes], ndim: int) -> ChunkRefs:
    kind = np.frombuffer(columns["kind"], dtype=np.uint8)
    length = np.frombuffer(columns["length"], dtype="<u8").astype(np.uint64)
    is_inline = kind == RefKind.INLINE
    sizes = length[is_inline].astype(np.int64)
    inline = Strings(
        heap=np.frombuffer(columns["inline"], dtype=np.uint8),
        start=np.cumsum(sizes) - sizes,
        length=sizes,
    )
    codes = np.where(is_inline, np.cumsum(is_inline) - 1, -1).astype(np.int64)
    return ChunkRefs.from_columns(
        np.frombuffer(columns["index"], dtype="<u4").reshape(len(kind), ndim).astype(np.uint32),
        kind,
        chunk_id=np.frombuffer(columns["chunk_id"], dtype=np.uint8).reshape(-1, 12),
        offset=np.frombuffer(columns["offset"], dtype="<u8").astype(np.uint64),
        length=length,
        inline=StringColumn(codes=codes, strings=inline),
    )
