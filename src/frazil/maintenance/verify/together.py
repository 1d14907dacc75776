"""Opens many files together, which costs little more than one, with the same results as alone.

If a batch cannot be decoded, its files are opened one by one: then it is known which one fails.
"""

from collections.abc import Iterator, Sequence
from types import MappingProxyType

import numpy as np

from frazil.errors import FormatError
from frazil.flatbuf.columns import StringColumn, VectorColumn
from frazil.flatbuf.decode import decode_batch
from frazil.flatbuf.table import Column, Table, TableVectorColumn, UnionColumn
from frazil.format.envelope import Envelope, FileType, decode_envelope
from frazil.maintenance.verify.opening import (
    SCHEMAS,
    Fetched,
    OpenedFile,
    check_writer,
    open_file,
)
from frazil.maintenance.verify.problems import Problem
from frazil.objectstore.protocol import Data

_BYTES_TOGETHER = 1 << 21  # decompressed
_FILES_TOGETHER = 64

type Opened = tuple[OpenedFile | None, list[Problem]]
"""As `open_file` would have it: with what was noticed."""


def open_together(
    keys: Sequence[str], data: Sequence[Fetched], expected: FileType
) -> Iterator[Opened]:
    """Opens each file, in order; None without a problem for what is not bytes."""
    waiting: list[tuple[str, Data, Envelope]] = []
    held = 0
    for key, found in zip(keys, data, strict=True):
        envelope = _envelope(found, expected)
        if isinstance(found, Exception) or found is None or envelope is None:
            yield from _opened(waiting, expected)
            waiting, held = [], 0
            yield _alone(key, found, expected)
            continue
        if waiting and held + len(envelope.data) > _BYTES_TOGETHER:
            yield from _opened(waiting, expected)
            waiting, held = [], 0
        waiting.append((key, found, envelope))
        held += len(envelope.data)
        if len(waiting) == _FILES_TOGETHER:
            yield from _opened(waiting, expected)
            waiting, held = [], 0
    yield from _opened(waiting, expected)


def _envelope(data: Fetched, expected: FileType) -> Envelope | None:
    if data is None or isinstance(data, Exception):
        return None
    try:
        return decode_envelope(data, expected)
    except FormatError:
        return None


def _alone(key: str, data: Fetched, expected: FileType) -> Opened:
    problems: list[Problem] = []
    if data is None or isinstance(data, Exception):
        return None, problems
    return open_file(key, data, expected, problems), problems


def _opened(files: Sequence[tuple[str, Data, Envelope]], expected: FileType) -> Iterator[Opened]:
    table: Table | None = None
    if len(files) > 1:
        try:
            table = decode_batch([each.data for _, _, each in files], SCHEMAS[expected])
        except FormatError:
            table = None
    for number, (key, data, envelope) in enumerate(files):
        if table is None:
            yield _alone(key, data, expected)
            continue
        root = _part(table, slice(number, number + 1))
        opened = OpenedFile(key, envelope.spec_version, root, len(data))
        yield opened, check_writer(key, data)


def _part(table: Table, rows: slice) -> Table:
    """Some rows as if there were no others, without the values of those."""
    columns = {name: _cut(column, rows) for name, column in table.columns.items()}
    return Table(table.schema, rows.stop - rows.start, MappingProxyType(columns))


def _cut(column: Column, rows: slice) -> Column:
    match column:
        case StringColumn():
            return column.take(rows).pruned()
        case TableVectorColumn():
            start, stop = int(column.splits[rows.start]), int(column.splits[rows.stop])
            splits = column.splits[rows.start : rows.stop + 1] - start
            inner = _part(column.rows, slice(start, stop))
            return TableVectorColumn(splits, inner, column.present[rows])
        case VectorColumn():
            start, stop = int(column.splits[rows.start]), int(column.splits[rows.stop])
            splits = column.splits[rows.start : rows.stop + 1] - start
            return VectorColumn(column.values[start:stop], splits, column.present[rows])
        case UnionColumn():
            return _cut_union(column, rows)
        case _:
            return column.take(rows)


def _cut_union(column: UnionColumn, rows: slice) -> UnionColumn:
    types, taken = column.types[rows], column.index[rows]
    index = np.full(len(types), -1, np.int64)
    variants = {}
    for code, table in column.variants.items():
        mine = types == code
        found = taken[mine]
        index[mine] = np.arange(len(found))
        edges = (int(found[0]), int(found[-1]) + 1) if len(found) else (0, 0)
        variants[code] = _part(table, slice(*edges))
    return UnionColumn(types, index, MappingProxyType(variants))
