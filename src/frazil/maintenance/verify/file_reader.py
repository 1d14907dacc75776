"""Opens files one by one, or many together, which costs little more than one.

If a batch cannot be decoded, its files are opened one by one: then it is known which one fails.
"""

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from frazil.errors import FormatError, ObjectNotFoundError, StorageError
from frazil.flatbuf.columns import StringColumn, VectorColumn
from frazil.flatbuf.decode import decode, decode_batch
from frazil.flatbuf.schema import TableSchema
from frazil.flatbuf.table import Column, Table, TableVectorColumn, UnionColumn
from frazil.format.envelope import HEADER, Envelope, FileType, decode_envelope, decode_header
from frazil.format.schemas import MANIFEST, REPO, SNAPSHOT, TRANSACTION_LOG
from frazil.format.transaction_log import decode_log_root
from frazil.ids import format_base32
from frazil.maintenance.verify.problems import Problem, problem
from frazil.objectstore.protocol import Data, ObjectStore

SCHEMAS: dict[FileType, TableSchema] = {
    FileType.SNAPSHOT: SNAPSHOT,
    FileType.MANIFEST: MANIFEST,
    FileType.TRANSACTION_LOG: TRANSACTION_LOG,
    FileType.REPO_INFO: REPO,
}


@dataclass(frozen=True, slots=True, eq=False)
class OpenedFile:
    """A file as it is in the bytes: nothing sorted, nothing converted."""

    key: str
    spec_version: int
    root: Table  # one row
    size_bytes: int


def open_file(
    key: str,
    data: Data,
    expected: FileType,
    problems: list[Problem],
    envelope: Envelope | None = None,
) -> OpenedFile | None:
    """None if it cannot be read; `problems` gets what was noticed.

    `envelope` is that of the data, if it is known already: it may be large.
    """
    try:
        header = decode_header(data)
    except FormatError as error:
        problems.append(problem("header-invalid", key, error.message))
        return None
    problems += check_writer(key, data)
    if header.file_type is not expected:
        text = f"file is of type {header.file_type.name}, expected {expected.name}"
        problems.append(problem("file-type", key, text))
        return None
    try:
        envelope = envelope or decode_envelope(data, expected)
        if expected is FileType.TRANSACTION_LOG:
            root = decode_log_root(envelope.data)
        else:
            root = decode(envelope.data, SCHEMAS[expected])
    except FormatError as error:
        problems.append(problem("file-damaged", key, error.message))
        return None
    return OpenedFile(key, envelope.spec_version, root, len(data))


def check_id(opened: OpenedFile, problems: list[Problem]) -> None:
    """Checks a file that is named after the id inside it."""
    found = format_base32(opened.root.struct("id").values[0].tobytes())
    name = opened.key.rpartition("/")[2]
    if found != name:
        problems.append(problem("file-id", opened.key, f"the id inside is {found}"))


def check_version(opened: OpenedFile, repository: int | None) -> list[Problem]:
    """A repository may have files of an older version than its own, since it may be migrated."""
    if repository is None or opened.spec_version <= repository:
        return []
    text = f"of version {opened.spec_version}, in a repository of version {repository}"
    return [problem("version-unexpected", opened.key, text)]


def check_writer(key: str, data: Data) -> list[Problem]:
    _, writer, *_ = HEADER.unpack_from(data)
    try:
        text = writer.decode()
    except UnicodeDecodeError:
        return [problem("header-writer", key, f"the writer is {writer!r}")]
    if text.startswith(" ") or "\0" in text:
        return [problem("header-writer", key, f"the writer is {text!r}")]
    return []


type Fetched = Data | StorageError | None


def fetch(store: ObjectStore, key: str) -> Fetched:
    """None if it is not there."""
    try:
        return store.get(key).data
    except ObjectNotFoundError:
        return None
    except StorageError as error:
        return error


_BYTES_TOGETHER = 1 << 21  # decompressed
_FILES_TOGETHER = 64

type Opened = tuple[OpenedFile | None, list[Problem]]
"""A result of `open_file`: the file, and the problems that were found in it."""


def open_together(
    keys: Sequence[str], data: Sequence[Fetched], expected: FileType
) -> Iterator[Opened]:
    """Opens each file, in order; None without a problem for what is not bytes.

    A large one is opened when it is asked for, so that no two are in memory if the caller lets go
    of each.
    """
    waiting: list[tuple[str, Data, Envelope]] = []
    held = 0
    for key, found in zip(keys, data, strict=True):
        is_large = isinstance(found, Sized) and len(found) > _BYTES_TOGETHER
        envelope = None if is_large else _envelope(found, expected)
        if isinstance(found, Exception) or found is None or envelope is None:
            yield from _open_batch(waiting, expected)
            waiting, held = [], 0
            yield _open_single(key, found, expected)
            continue
        if waiting and held + len(envelope.data) > _BYTES_TOGETHER:
            yield from _open_batch(waiting, expected)
            waiting, held = [], 0
        waiting.append((key, found, envelope))
        held += len(envelope.data)
        if len(waiting) == _FILES_TOGETHER:
            yield from _open_batch(waiting, expected)
            waiting, held = [], 0
    yield from _open_batch(waiting, expected)


def _envelope(data: Fetched, expected: FileType) -> Envelope | None:
    if data is None or isinstance(data, Exception):
        return None
    try:
        return decode_envelope(data, expected)
    except FormatError:
        return None


def _open_single(
    key: str, data: Fetched, expected: FileType, envelope: Envelope | None = None
) -> Opened:
    problems: list[Problem] = []
    if data is None or isinstance(data, Exception):
        return None, problems
    return open_file(key, data, expected, problems, envelope), problems


def _open_batch(
    files: Sequence[tuple[str, Data, Envelope]], expected: FileType
) -> Iterator[Opened]:
    table: Table | None = None
    if len(files) > 1:
        try:
            table = decode_batch([each.data for _, _, each in files], SCHEMAS[expected])
        except FormatError:
            table = None
    for number, (key, data, envelope) in enumerate(files):
        if table is None:
            yield _open_single(key, data, expected, envelope)
            continue
        root = _slice_table(table, slice(number, number + 1))
        opened = OpenedFile(key, envelope.spec_version, root, len(data))
        yield opened, check_writer(key, data)


def _slice_table(table: Table, rows: slice) -> Table:
    """Some rows as if there were no others, without the values of those."""
    columns = {name: _slice_column(column, rows) for name, column in table.columns.items()}
    return Table(table.schema, rows.stop - rows.start, MappingProxyType(columns))


def _slice_column(column: Column, rows: slice) -> Column:
    match column:
        case StringColumn():
            return column.take(rows).pruned()
        case TableVectorColumn():
            start, stop = int(column.splits[rows.start]), int(column.splits[rows.stop])
            splits = column.splits[rows.start : rows.stop + 1] - start
            inner = _slice_table(column.rows, slice(start, stop))
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
        variants[code] = _slice_table(table, slice(*edges))
    return UnionColumn(types, index, MappingProxyType(variants))
