"""Archives made: objects appended to a file, which gets its name when all are in it."""

import json
import os
import tarfile
import threading
import zlib
from array import array
from collections.abc import Buffer, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from frazil.errors import ObjectNotFoundError, PreconditionFailedError, StorageError
from frazil.objectstore.archive import (
    ABOUT,
    BLOCK,
    END,
    FOOTER,
    INDEX,
    MAGIC,
    VERSION,
    ArchiveIndex,
    encode_index,
)
from frazil.objectstore.durability import sync_directory
from frazil.objectstore.key_table import KeyTable
from frazil.objectstore.keys import require_key
from frazil.objectstore.protocol import (
    ALWAYS,
    Always,
    Blob,
    DataList,
    ObjectInfo,
    Precondition,
    content_version,
)
from frazil.ranges import ByteRange, Range, resolve


class ArchiveWriter:
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

    @property
    def writable(self) -> bool:
        return True

    @property
    def far(self) -> bool:
        return False

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

    def copy(self, source: str, target: str) -> None:
        self.put(target, self.get(source).data)

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
