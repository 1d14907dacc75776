"""Objects in one file: a tar archive with an index, so that any of them is found at once.

    member                 a tar header and the object, under its key; as many as there are
    frazil-bundle/about    JSON, for people and programs: what the archive is
    frazil-bundle/index    columns, below
    frazil-bundle/end      512 bytes: magic "FRAZILBUNDLE", version u32, offset and length of the
                           index u64, the rest 0; right before the two empty blocks that end a tar

    index, little endian, sorted by the bytes of the keys:
    count u64 | where keys end u64[n] | offset u64[n] | length u64[n] | crc32 u32[n] | keys, UTF-8

`tar -x` makes a folder of it that is the same as the one it was made from. ArchiveStore reads it,
ArchiveWriter writes it. Whole objects are checked against their sums.
"""

import json
import os
import struct
import tarfile
import threading
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Buffer, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.errors import (
    FormatError,
    ObjectNotFoundError,
    PreconditionFailedError,
    ReadOnlyError,
    StorageError,
)
from frazil.objectstore.keys import require_key, require_prefix
from frazil.objectstore.local.local_directories import sync_directory
from frazil.objectstore.protocol import (
    ALWAYS,
    Always,
    Blob,
    DataList,
    ObjectInfo,
    ObjectStore,
    Precondition,
    ReadOnlyStore,
    content_version,
)
from frazil.ranges import ByteRange, Range, resolve

MAGIC = b"FRAZILBUNDLE"
VERSION = 1
BLOCK = 512
ABOUT, INDEX, END = (f"frazil-bundle/{name}" for name in ("about", "index", "end"))
FOOTER = struct.Struct("<12sIQQ")
_COUNT = struct.Struct("<Q")


@dataclass(frozen=True, slots=True, eq=False)
class ArchiveIndex:
    """Positions of all objects in the file; rows ascend by the bytes of the key."""

    keys: memoryview  # UTF-8, one after the other
    ends: npt.NDArray[np.uint64]  # (n,) in `keys`
    offset: npt.NDArray[np.uint64]  # (n,) in the file
    length: npt.NDArray[np.uint64]  # (n,)
    crc32: npt.NDArray[np.uint32]  # (n,)

    def __len__(self) -> int:
        return len(self.ends)

    def key(self, row: int) -> bytes:
        start = int(self.ends[row - 1]) if row else 0
        return bytes(self.keys[start : int(self.ends[row])])

    def first_from(self, key: bytes) -> int:
        """Row of the first key that is not before this one."""
        return bisect_left(range(len(self)), key, key=self.key)


def encode_index(index: ArchiveIndex) -> bytes:
    columns = [column.tobytes() for column in (index.ends, index.offset, index.length, index.crc32)]
    return b"".join([_COUNT.pack(len(index)), *columns, bytes(index.keys)])


def decode_index(data: Buffer) -> ArchiveIndex:
    """Raises FormatError."""
    view = memoryview(data).cast("B")
    count = _COUNT.unpack_from(view)[0] if len(view) >= _COUNT.size else -1
    head = _COUNT.size + 28 * count
    if count < 0 or len(view) < head:
        raise FormatError("the index of the archive is cut off")
    ends, offset, length = np.frombuffer(view[8 : 8 + 24 * count], "<u8").reshape(3, count)
    crc32 = np.frombuffer(view[8 + 24 * count : head], "<u4")
    last = int(ends[-1]) if count else 0
    if last != len(view) - head or bool((ends[1:] < ends[:-1]).any()):
        raise FormatError("the index of the archive is damaged")
    return ArchiveIndex(view[head:], ends, offset, length, crc32)


class ArchiveStore(ReadOnlyStore):
    """The objects of an archive. May be pickled: the file must be there where it is used.

    Its index is read once. If another file is put at the path, every read raises StorageError.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()

    def __reduce__(self) -> tuple[object, ...]:
        return ArchiveStore, (self.path,)

    def __repr__(self) -> str:
        return f"ArchiveStore({str(self.path)!r})"

    @cached_property
    def _status(self) -> os.stat_result:
        """The file that the index is of, as it was when the index was read."""
        try:
            return self.path.stat()
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror}") from error

    @cached_property
    def index(self) -> ArchiveIndex:
        size = self._status.st_size
        at = size - 3 * BLOCK  # of what is in the last member, before two empty blocks
        footer = self._read(at, FOOTER.size) if at >= 0 else b""
        if len(footer) < FOOTER.size:
            raise FormatError(f"{self.path} is not an archive of frazil")
        magic, version, offset, length = FOOTER.unpack(footer)
        if magic != MAGIC:
            raise FormatError(f"{self.path} is not an archive of frazil, or was cut off")
        if version > VERSION:
            raise FormatError(f"{self.path} is of version {version}: a newer frazil is needed")
        if offset + length > size:
            raise FormatError("the index of the archive is cut off")
        index = decode_index(self._read(offset, length))
        # both may be anything, and their sum may not fit
        if len(index) and bool((index.offset > size).any() or (index.length > size).any()):
            raise FormatError("the index of the archive is damaged")
        return index

    def about(self) -> dict[str, Any]:
        try:
            found = json.loads(bytes(self.get(ABOUT).data))
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise FormatError("the archive does not say what it is", where=ABOUT)
        return found

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        row = self._find(key)
        length = int(self.index.length[row])
        part = resolve(byte_range, length)
        data = self._read(int(self.index.offset[row]) + part.start, len(part))
        if len(data) < len(part):
            raise StorageError(f"{key!r} in {self.path} is cut off")
        if byte_range is not None:
            return Blob(data, "")
        if zlib.crc32(data) != int(self.index.crc32[row]):
            raise StorageError(f"{key!r} in {self.path} is damaged")
        return Blob(data)

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        return [self.get(key, one).data for one in ranges]

    def head(self, key: str) -> ObjectInfo:
        return self._info(self._find(key))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        require_prefix(prefix)
        start = prefix.encode()
        for row in range(self.index.first_from(start), len(self.index)):
            if not self.index.key(row).startswith(start):
                return
            yield self._info(row)

    def _find(self, key: str) -> int:
        require_key(key)
        row = self.index.first_from(key.encode())
        if row == len(self.index) or self.index.key(row) != key.encode():
            raise ObjectNotFoundError(key)
        return row

    def _info(self, row: int) -> ObjectInfo:
        key = self.index.key(row).decode(errors="replace")
        return ObjectInfo(key, int(self.index.length[row]), self._modified_at_us)

    @property
    def _modified_at_us(self) -> int:
        return self._status.st_mtime_ns // 1000

    def _read(self, offset: int, length: int) -> bytes:
        with self.path.open("rb") as file:
            if _version(os.fstat(file.fileno())) != _version(self._status):
                raise StorageError(f"{self.path} was replaced since it was opened: open it again")
            file.seek(offset)
            return file.read(length)

    def _refuse(self, action: str, target: str) -> NoReturn:
        raise ReadOnlyError(
            f"cannot {action} {target}: an archive is read-only", kind="read-only-storage"
        )


def _version(status: os.stat_result) -> tuple[int, ...]:
    """Differs between two files, and between two contents of one."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


# Writing: objects are appended to a partial file, which gets its name when it is complete


class ArchiveWriter(ObjectStore):
    """A store that a copy can be made to, once: each object is put, none is replaced.

    Use as a context manager; if the block ends by an error there is no archive.
    """

    def __init__(self, path: str | os.PathLike[str], about: Mapping[str, Any]) -> None:
        self.path = Path(path).absolute()
        self._partial = self.path.with_name(f".{self.path.name}.partial")
        self._about = dict(about)
        self._lock = threading.Lock()
        self._keys = KeyTable()
        self._offset, self._length, self._crc32 = array("Q"), array("Q"), array("L")
        self._file = self._partial.open("w+b")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        del error, tb
        try:
            if kind is None:
                self._finish()
        finally:
            self._file.close()
            self._partial.unlink(missing_ok=True)

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        require_key(key)
        content = memoryview(data).cast("B")
        crc32 = zlib.crc32(content)
        with self._lock:
            if self._keys.find(key.encode()) >= 0:
                if isinstance(when, Always):
                    raise StorageError(f"{key!r} is in the archive already")
                raise PreconditionFailedError(key, "no such object")
            self._append(key, content, crc32)
        return content_version(content)

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        row = self._find(key)
        part = resolve(byte_range, self._length[row])
        with self._lock:
            self._file.seek(self._offset[row] + part.start)
            data = self._file.read(len(part))
            self._file.seek(0, os.SEEK_END)
        return Blob(data, None if byte_range is None else "")

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        return [self.get(key, one).data for one in ranges]

    def head(self, key: str) -> ObjectInfo:
        return ObjectInfo(key, self._length[self._find(key)], 0)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        for row in range(len(self._keys)):
            raw = self._keys.key(row)
            if raw.startswith(prefix.encode()):
                yield ObjectInfo(raw.decode(), self._length[row], 0)

    def delete(self, keys: Iterable[str]) -> int:
        """Nothing leaves an archive; that there is nothing to delete is fine."""
        wanted = [key for key in keys if self._keys.find(key.encode()) >= 0]
        if wanted:
            raise StorageError(f"cannot delete {', '.join(wanted)} from an archive")
        return 0

    def sync(self) -> None:
        """The file is durable when it gets its name."""

    def _find(self, key: str) -> int:
        row = self._keys.find(key.encode())
        if row < 0:
            raise ObjectNotFoundError(key)
        return row

    def _append(self, key: str, content: memoryview, crc32: int) -> None:
        member = tarfile.TarInfo(key)
        member.size, member.mode = len(content), 0o644
        self._file.write(member.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict"))
        self._keys.add(key.encode())
        self._offset.append(self._file.tell())
        self._length.append(len(content))
        self._crc32.append(crc32)
        self._file.write(content)
        self._file.write(bytes(-len(content) % BLOCK))

    def _finish(self) -> None:
        self._member(ABOUT, json.dumps(self._about, indent=2, sort_keys=True).encode())
        index = encode_index(self._index())
        self._member(INDEX, index)
        footer = FOOTER.pack(MAGIC, VERSION, self._offset[-1], len(index))
        self._member(END, footer.ljust(BLOCK, b"\0"))
        self._file.write(bytes(2 * BLOCK))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._partial.replace(self.path)
        sync_directory(str(self.path.parent))  # or a power failure could take the name back

    def _member(self, key: str, data: bytes) -> None:
        self._append(key, memoryview(data), zlib.crc32(data))

    def _index(self) -> ArchiveIndex:
        rows = self._keys.order()
        columns = (
            np.array(column, dtype=dtype)[rows]
            for column, dtype in (
                (self._offset, "<u8"),
                (self._length, "<u8"),
                (self._crc32, "<u4"),
            )
        )
        heap, ends = bytearray(), array("Q")
        for row in rows.tolist():
            heap += self._keys.key(row)
            ends.append(len(heap))
        return ArchiveIndex(memoryview(heap), np.array(ends, dtype=np.uint64), *columns)


# Keys in insertion order, each once, without a Python object per key: there may be millions
#
# A key takes its own bytes, eight for its end, and about eight in a hash table.


_WIDTH = 40  # bytes; keys of files are shorter, and are put in order as numpy puts strings


class KeyTable:
    """Not to be used by several threads at once."""

    def __init__(self) -> None:
        self._heap = bytearray()
        self._ends = array("Q")
        self._slots = array("I", bytes(4 * 64))  # rows from 1 on, 0 where there is none

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[bytes]:
        return map(self.key, range(len(self)))

    def key(self, row: int) -> bytes:
        start = self._ends[row - 1] if row else 0
        return bytes(self._heap[start : self._ends[row]])

    def find(self, key: bytes) -> int:
        """Its row, -1 if it is not there."""
        return self._slots[self._slot(key)] - 1

    def add(self, key: bytes) -> int:
        """The row of a key that is not there yet."""
        if 2 * len(self) >= len(self._slots):
            self._grow()
        self._heap += key
        self._ends.append(len(self._heap))
        self._slots[self._slot(key)] = len(self)
        return len(self) - 1

    def order(self) -> npt.NDArray[np.int64]:
        """Rows in ascending order of the bytes of their keys."""
        edges = np.zeros(len(self) + 1, np.int64)
        edges[1:] = self._ends
        starts, lengths = edges[:-1], np.diff(edges)
        short = self._beginnings(starts, lengths)
        order = np.argsort(short, kind="stable").astype(np.int64)
        if len(lengths) and int(lengths.max()) > _WIDTH:
            self._settle(order, short)
        return order

    def _beginnings(
        self, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bytes_]:
        """The first bytes of each key."""
        cells = np.zeros((len(starts), _WIDTH), np.uint8)
        heap = np.frombuffer(bytes(self._heap), np.uint8)
        for at in range(_WIDTH):
            has = np.flatnonzero(lengths > at)
            cells[has, at] = heap[starts[has] + at]
        return cells.reshape(-1).view(f"S{_WIDTH}")

    def _settle(self, order: npt.NDArray[np.int64], short: npt.NDArray[np.bytes_]) -> None:
        """Puts right, in place, the order of keys that begin alike."""
        ordered = short[order]
        alike = np.flatnonzero(ordered[1:] == ordered[:-1])
        start = 0
        while start < len(alike):
            stop = start + 1
            while stop < len(alike) and alike[stop] == alike[stop - 1] + 1:
                stop += 1
            rows = slice(int(alike[start]), int(alike[stop - 1]) + 2)
            order[rows] = sorted(order[rows].tolist(), key=self.key)
            start = stop

    def _slot(self, key: bytes) -> int:
        """The slot of the key, or the one that it would get."""
        mask = len(self._slots) - 1
        at = hash(key) & mask
        while (row := self._slots[at]) and self.key(row - 1) != key:
            at = (at + 1) & mask
        return at

    def _grow(self) -> None:
        self._slots = array("I", bytes(8 * len(self._slots)))
        for row in range(len(self)):
            self._slots[self._slot(self.key(row))] = row + 1
