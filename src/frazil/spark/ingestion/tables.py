"""Where the chunks of a source are, written down: a row of an Arrow table for each array."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.spark.sources.stored import ChunkTable

_TABLES = pa.schema(
    [
        ("index", pa.large_binary()),
        ("offset", pa.large_binary()),
        ("length", pa.large_binary()),
        ("paths", pa.list_(pa.string())),
        ("modified", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class WantedChunks:
    """Of a variable, in these chunks; `stacked` as in StoredAs."""

    name: str
    chunks: tuple[int, ...]
    stacked: int


def encode_tables(tables: Sequence[ChunkTable]) -> pa.Table:
    rows = [
        {
            "index": table.index.astype("<i8").tobytes(),
            "offset": table.offset.astype("<u8").tobytes(),
            "length": table.length.astype("<u8").tobytes(),
            "paths": list(table.paths),
            "modified": table.modified_s,
        }
        for table in tables
    ]
    return pa.Table.from_pylist(rows, schema=_TABLES)


def decode_tables(
    found: pa.Table | None, wanted: Sequence[WantedChunks]
) -> list[ChunkTable] | None:
    """None for what is nothing of the kind."""
    if found is None or found.schema.names != _TABLES.names or found.num_rows != len(wanted):
        return None
    try:
        rows = zip(found.to_pylist(), wanted, strict=True)
        return [_table(row, len(one.chunks)) for row, one in rows]
    except ValueError:
        return None


def _table(row: dict[str, Any], ndim: int) -> ChunkTable:
    offset = np.frombuffer(row["offset"], "<u8").astype(np.uint64)
    return ChunkTable(
        np.frombuffer(row["index"], "<i8").astype(np.int64).reshape(len(offset), ndim),
        offset,
        np.frombuffer(row["length"], "<u8").astype(np.uint64),
        tuple(row["paths"]),
        row["modified"],
    )
