"""Files of sources, wherever they are: as paths, as open files, as what tells versions apart.

Libraries that want a path get one: of the file itself, or of a copy that is there for a while.
Others read a file in a bucket piece by piece (RemoteFile).
"""

import io
import tempfile
from collections import OrderedDict
from collections.abc import Buffer, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from threading import Lock

from frazil.errors import FormatError, ObjectNotFoundError
from frazil.objectstore.remote.reads import Mark
from frazil.ranges import Range
from frazil.spark.sources.errors import source_errors_as_ours
from frazil.spark.sources.source import Remote, Source, SourceKind

# Headers are read in small pieces that lie close together, values in large ones.
BLOCK_BYTES = 256 << 10
_BLOCKS = 64
_MOST_AHEAD = 16
_RECENT_FILES = 2  # of which blocks are kept
_COPIED_AT_ONCE = 32 << 20

type Readable = str | RemoteFile
"""What h5py, xarray and tifffile can open."""


@dataclass(frozen=True, slots=True)
class FileMark:
    """Changes when the file does."""

    size_bytes: int
    modified_at_us: int  # 0 where nobody says
    etag: str = ""

    @property
    def modified_s(self) -> int:
        """The file was not changed after that second; 0 if that is not known."""
        return ceil(self.modified_at_us / 1_000_000)


def mark_of(source: Source) -> FileMark:
    """Of a file that is there. Raises ObjectNotFoundError."""
    with source_errors_as_ours(source.path):
        if source.remote is None:
            status = Path(source.path).stat()
            return FileMark(status.st_size, status.st_mtime_ns // 1000)
        found = _head(source.path, source.remote)
        return FileMark(found.size_bytes, found.modified_at_us, found.etag)


@contextmanager
def readable(source: Source) -> Iterator[Readable]:
    """The path, or an open file that is closed in the end."""
    if source.remote is None:
        with source_errors_as_ours(source.path):
            Path(source.path).stat()
        yield source.path
    else:
        with RemoteFile(source.path, source.remote) as file:
            yield file


def open_readable(source: Source) -> Readable:
    """The same, left open: whoever opens it with a library closes it with that."""
    if source.remote is not None:
        return RemoteFile(source.path, source.remote)
    with source_errors_as_ours(source.path):
        Path(source.path).stat()
    return source.path


@contextmanager
def nearby(source: Source) -> Iterator[Source]:
    """The source, with a copy if it is of a kind that is read by path: for several who want one."""
    if source.remote is None or source.kind is not SourceKind.GRIB:
        yield source
        return
    with on_disk(source) as path:
        yield replace(source, copy=path)


@contextmanager
def on_disk(source: Source) -> Iterator[str]:
    """A path; of a remote source that of a copy, which goes away in the end."""
    if source.remote is None or source.copy is not None:
        yield source.copy or source.path
        return
    with tempfile.TemporaryDirectory(prefix="frazil-ingest-") as folder:
        copy = Path(folder, "source")
        with RemoteFile(source.path, source.remote) as file, copy.open("wb") as target:
            while piece := file.read(_COPIED_AT_ONCE):
                target.write(piece)
        yield str(copy)


class RemoteFile(io.RawIOBase):
    """A file in a bucket or on a web server, read in pieces that are all of one version."""

    def __init__(self, path: str, remote: Remote) -> None:
        """Raises ObjectNotFoundError, which names the path."""
        super().__init__()
        self._path = path
        self._remote = remote
        self._mark = _head(path, remote)
        self._at = 0
        self._kept = _kept_of(remote, self._mark)
        self._ahead = 1  # blocks fetched at once

    @property
    def size_bytes(self) -> int:
        return self._mark.size_bytes

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size_bytes}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: Buffer) -> int:
        target = memoryview(buffer).cast("B")
        wanted = Range(self._at, max(self._at, min(self._at + len(target), self.size_bytes)))
        data = self._large(wanted) if len(wanted) >= BLOCK_BYTES else self._small(wanted)
        target[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _large(self, wanted: Range) -> memoryview:
        (data,) = self._fetch([wanted])
        return data

    def _small(self, wanted: Range) -> memoryview:
        if not len(wanted):
            return memoryview(b"")
        numbers = range(wanted.start // BLOCK_BYTES, -(-wanted.stop // BLOCK_BYTES))
        with self._kept.lock:
            blocks = self._kept.blocks
            missing = self._with_more([number for number in numbers if number not in blocks])
            blocks.update(zip(missing, self._fetch([*map(_block, missing)]), strict=True))
            joined = b"".join(blocks[number] for number in numbers)
            for number in numbers:
                blocks.move_to_end(number)
            while len(blocks) > _BLOCKS:
                blocks.popitem(last=False)
        start = wanted.start - numbers[0] * BLOCK_BYTES
        return memoryview(joined)[start : start + len(wanted)]

    def _with_more(self, missing: list[int]) -> list[int]:
        """Who goes on reading where a block ends gets more and more of what follows."""
        if not missing:
            return []
        blocks = self._kept.blocks
        goes_on = missing[0] - 1 in blocks
        self._ahead = min(2 * self._ahead, _MOST_AHEAD) if goes_on else 1
        last = -(-self.size_bytes // BLOCK_BYTES)
        following = range(missing[-1] + 1, min(missing[-1] + self._ahead, last))
        return missing + [number for number in following if number not in blocks]

    def _fetch(self, ranges: list[Range]) -> list[memoryview]:
        if not ranges:
            return []
        key = self._remote.key
        with _naming(self._path):
            parts, mark = self._remote.store.reader().read_ranges(key, ranges, key=key)
        if mark is not None and mark.identity != self._mark.identity:
            raise FormatError("the file was replaced while it was read", where=self._path)
        return [memoryview(part) for part in parts]


@dataclass(frozen=True, slots=True)
class _Kept:
    """Blocks of one version of a file, for all who read it."""

    blocks: OrderedDict[int, memoryview] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)


_recent: OrderedDict[object, _Kept] = OrderedDict()
_recent_lock = Lock()


def _kept_of(remote: Remote, mark: Mark) -> _Kept:
    """Files are opened several times in a row: to describe them, and to refer to them.

    By place, key and version: a bucket of that name may be at another endpoint as well, and ETags
    only tell versions of one object apart.
    """
    if not mark.etag and mark.generation is None:
        return _Kept()  # another version might look the same
    with _recent_lock:
        name = (remote.store.place, remote.key, mark.identity)
        kept = _recent.pop(name, None) or _Kept()
        _recent[name] = kept
        while len(_recent) > _RECENT_FILES:
            _recent.popitem(last=False)
        return kept


def _block(number: int) -> Range:
    return Range(number * BLOCK_BYTES, (number + 1) * BLOCK_BYTES)


def _head(path: str, remote: Remote) -> Mark:
    with _naming(path):
        return remote.store.reader().head(remote.key, key=remote.key)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """What is not there is named as the user named it."""
    try:
        yield
    except ObjectNotFoundError as error:
        raise ObjectNotFoundError(path) from error
