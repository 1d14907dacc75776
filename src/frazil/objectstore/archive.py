"""Objects in one file: a tar archive with an index, so that any of them is found at once.

    member                 a tar header and the object, under its key; as many as there are
    frazil-bundle/about    JSON, for people and programs: what the archive is
    frazil-bundle/index    columns, below
    frazil-bundle/end      512 bytes: magic "FRAZILBUNDLE", version u32, offset and length of the
                           index u64, the rest 0; right before the two empty blocks that end a tar

    index, little endian, sorted by the bytes of the keys:
    count u64 | where keys end u64[n] | offset u64[n] | length u64[n] | crc32 u32[n] | keys, UTF-8

`tar -x` makes a folder of it that is the same as the one it was made from. Read-only here; made by
archive_writer.py. Whole objects are checked against their sums.
"""

import json
import os
import struct
import zlib
from bisect import bisect_left
from collections.abc import Buffer, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError, ObjectNotFoundError, ReadOnlyError, StorageError
from frazil.objectstore.keys import require_key, require_prefix
from frazil.objectstore.protocol import ALWAYS, Blob, DataList, ObjectInfo, Precondition
from frazil.ranges import ByteRange, Range, resolve

MAGIC = b"FRAZILBUNDLE"
VERSION = 1
BLOCK = 512
ABOUT, INDEX, END = (f"frazil-bundle/{name}" for name in ("about", "index", "end"))
FOOTER = struct.Struct("<12sIQQ")
_COUNT = struct.Struct("<Q")


@dataclass(frozen=True, slots=True, eq=False)
class ArchiveIndex:
    """Where each object is; rows ascend by the bytes of the key."""

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


class ArchiveStore:
    """The objects of an archive. May be pickled: the file must be there where it is used.

    Its index is read once. If another file is put at the path, every read raises StorageError.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()

    def __reduce__(self) -> tuple[object, ...]:
        return ArchiveStore, (self.path,)

    def __repr__(self) -> str:
        return f"ArchiveStore({str(self.path)!r})"

    @property
    def writable(self) -> bool:
        return False

    @property
    def far(self) -> bool:
        return False

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

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        del data, when
        self._refuse(key)

    def delete(self, keys: Iterable[str]) -> int:
        self._refuse(", ".join(keys))

    def copy(self, source: str, target: str) -> None:
        del source
        self._refuse(target)

    def sync(self) -> None:
        """Nothing is ever written here."""

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

    def _refuse(self, what: str) -> NoReturn:
        raise ReadOnlyError(
            f"cannot change {what}: an archive is read-only", kind="read-only-storage"
        )


def _version(status: os.stat_result) -> tuple[int, ...]:
    """Differs between two files, and between two contents of one."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
