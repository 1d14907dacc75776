"""Columns of metadata tables, from numpy and text to Arrow. Nothing is done per row in Python."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.flatbuf.columns import StringColumn
from frazil.ids import format_ids


def text_column(column: StringColumn) -> pa.Array:
    """Each distinct string becomes an object once."""
    few = column.pruned()
    texts = pa.array(few.strings.to_texts(), pa.string())
    return texts.take(pa.array(few.codes, mask=few.codes < 0))


def id_column(raw: npt.NDArray[np.uint8], present: npt.NDArray[np.bool_]) -> pa.Array:
    """Of raw ids (n, size) as text, NULL where there is none."""
    texts = pa.array(format_ids(raw[present]), pa.string())
    places = np.cumsum(present) - 1
    return texts.take(pa.array(places, mask=~present))


def index_column(index: npt.NDArray[Any]) -> pa.Array:
    """Rows of (n, ndim) as lists."""
    count, ndim = index.shape
    edges = np.arange(count + 1, dtype=np.int32) * ndim
    values = np.ascontiguousarray(index, dtype=np.int64).reshape(-1)
    return pa.ListArray.from_arrays(pa.array(edges, pa.int32()), pa.array(values))


def long_column(numbers: npt.NDArray[Any], null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    return pa.array(numbers.astype(np.int64), mask=null)


def time_column(micros: npt.ArrayLike, null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """TIMESTAMP of microseconds since 1970."""
    counted = np.asarray(micros).astype(np.int64)
    return pa.array(counted, mask=null).view(pa.timestamp("us", tz="UTC"))


def repeated(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def sliced(batch: pa.RecordBatch, batch_rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, batch_rows):
        yield batch.slice(start, batch_rows)


def batch_of(columns: dict[str, Sequence[object] | pa.Array]) -> pa.RecordBatch:
    """Of lists and Arrow arrays, by name."""
    return pa.RecordBatch.from_pydict(columns)
