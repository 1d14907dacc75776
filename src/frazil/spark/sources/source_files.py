"""Files and folders of sources, local and remote: paths, open files, marks of their versions.

Libraries that need a path get one: of the file itself, or of a temporary local copy.
Others read a file in a bucket piece by piece (RemoteFile).
"""

import hashlib
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
from frazil.objectstore.remote.remote_reads import Mark
from frazil.ranges import Range
from frazil.spark.sources.source_errors import source_errors
from frazil.spark.sources.source_types import Remote, Source

# Headers are read in small pieces that are close together, values in large ones.
BLOCK_BYTES = 256 << 10
_CACHED_BLOCKS = 64  # of each file
_MAX_READAHEAD = 16
_CACHED_FILES = 2
_COPY_BYTES = 32 << 20

type Readable = str | RemoteFile
"""A file that h5py, xarray and tifffile can open."""


@dataclass(frozen=True, slots=True)
class FileMark:
    """Changes when the file does."""

    size_bytes: int
    modified_at_us: int  # 0 if unknown
    etag: str = ""

    @property
    def modified_s(self) -> int:
        """Time of the last change in seconds, rounded up; 0 if unknown."""
        return ceil(self.modified_at_us / 1_000_000)


def file_mark(source: Source) -> FileMark:
    """Version of the file. Raises ObjectNotFoundError."""
    with source_errors(source.path):
        if source.remote is None:
            status = Path(source.path).stat()
            return FileMark(status.st_size, status.st_mtime_ns // 1000)
        head = _head(source.path, source.remote)
        return FileMark(head.size_bytes, head.modified_at_us, head.etag)


@contextmanager
def readable(source: Source) -> Iterator[Readable]:
    """Yields the path of a local source, or an open file that is closed on exit."""
    if source.remote is None:
        with source_errors(source.path):
            Path(source.path).stat()
        yield source.path
    else:
        with RemoteFile(source.path, source.remote) as file:
            yield file


def open_readable(source: Source) -> Readable:
    """Returns the path of a local source, or an open file; the caller closes it."""
    if source.remote is not None:
        return RemoteFile(source.path, source.remote)
    with source_errors(source.path):
        Path(source.path).stat()
    return source.path


@contextmanager
def with_local_copy(source: Source) -> Iterator[Source]:
    """Yields the source, with one local copy for all readers if its format needs a path."""
    if source.remote is None or not source.format.needs_path:
        yield source
        return
    with local_path(source) as path:
        yield replace(source, copy=path)


@contextmanager
def local_path(source: Source) -> Iterator[str]:
    """Yields the path of the file, or of a copy of a remote file that is deleted on exit."""
    if source.remote is None or source.copy is not None:
        yield source.copy or source.path
        return
    with tempfile.TemporaryDirectory(prefix="frazil-ingest-") as folder:
        copy = Path(folder, "source")
        with RemoteFile(source.path, source.remote) as file, copy.open("wb") as target:
            while piece := file.read(_COPY_BYTES):
                target.write(piece)
        yield str(copy)


class RemoteFile(io.RawIOBase):
    """A file in a bucket or on a web server; all reads see the same version of it."""

    def __init__(self, path: str, remote: Remote) -> None:
        """Requests the head of the object. Raises ObjectNotFoundError, which names the path."""
        super().__init__()
        self._path = path
        self._remote = remote
        self._mark = _head(path, remote)
        self._at = 0
        self._cache = _block_cache(remote, self._mark)
        self._readahead = 1  # blocks per request

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
        with self._cache.lock:
            blocks = self._cache.blocks
            missing = self._add_readahead([number for number in numbers if number not in blocks])
            blocks.update(zip(missing, self._fetch([*map(_block, missing)]), strict=True))
            data = b"".join(blocks[number] for number in numbers)
            for number in numbers:
                blocks.move_to_end(number)
            while len(blocks) > _CACHED_BLOCKS:
                blocks.popitem(last=False)
        start = wanted.start - numbers[0] * BLOCK_BYTES
        return memoryview(data)[start : start + len(wanted)]

    def _add_readahead(self, missing: list[int]) -> list[int]:
        """Adds blocks that follow the missing ones, twice as many with each sequential read."""
        if not missing:
            return []
        blocks = self._cache.blocks
        is_sequential = missing[0] - 1 in blocks
        self._readahead = min(2 * self._readahead, _MAX_READAHEAD) if is_sequential else 1
        last = -(-self.size_bytes // BLOCK_BYTES)
        following = range(missing[-1] + 1, min(missing[-1] + self._readahead, last))
        return missing + [number for number in following if number not in blocks]

    def _fetch(self, ranges: list[Range]) -> list[memoryview]:
        if not ranges:
            return []
        key = self._remote.key
        with _naming_missing(self._path):
            parts, mark = self._remote.store.reader().read_ranges(key, ranges, key=key)
        if mark is not None and mark.identity != self._mark.identity:
            raise FormatError("the file was replaced while it was read", where=self._path)
        return [memoryview(part) for part in parts]


@dataclass(frozen=True, slots=True)
class _BlockCache:
    """Blocks of one version of a file, shared by its readers."""

    blocks: OrderedDict[int, memoryview] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)


_block_caches: OrderedDict[object, _BlockCache] = OrderedDict()
_block_caches_lock = Lock()


def _block_cache(remote: Remote, mark: Mark) -> _BlockCache:
    """Cache of this version of a file, which is opened several times in a row.

    Its key is place, key and version: a bucket of that name may exist at another endpoint, and
    ETags only distinguish versions of one object.
    """
    if not mark.etag and mark.generation is None:
        return _BlockCache()  # another version might have the same mark
    with _block_caches_lock:
        name = (remote.store.place, remote.key, mark.identity)
        cache = _block_caches.pop(name, None) or _BlockCache()
        _block_caches[name] = cache
        while len(_block_caches) > _CACHED_FILES:
            _block_caches.popitem(last=False)
        return cache


def _block(number: int) -> Range:
    return Range(number * BLOCK_BYTES, (number + 1) * BLOCK_BYTES)


def _head(path: str, remote: Remote) -> Mark:
    with _naming_missing(path):
        return remote.store.reader().head(remote.key, key=remote.key)


@contextmanager
def _naming_missing(path: str) -> Iterator[None]:
    """Names a missing file by the path that the user gave, not by its key."""
    try:
        yield
    except ObjectNotFoundError as error:
        raise ObjectNotFoundError(path) from error


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a folder."""

    key: str  # relative to the folder
    path: str  # or URL
    size_bytes: int
    modified_at_us: int


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of this machine or of a bucket: formats of many files, such as Zarr, are read so."""

    path: str  # or URL
    remote: Remote | None

    @classmethod
    def of(cls, source: Source) -> "Folder":
        return cls(source.path.rstrip("/"), source.remote)

    def below(self, *names: str) -> "Folder":
        """Returns a folder inside this one, which need not exist."""
        inner = "/".join(name.strip("/") for name in names if name.strip("/"))
        remote = self.remote
        if remote is not None:
            remote = Remote(remote.store, f"{remote.key}/{inner}" if inner else remote.key)
        return Folder(f"{self.path}/{inner}" if inner else self.path, remote)

    def find(self, name: str) -> bytes | None:
        """Returns the content of a file, or None if there is no such file."""
        try:
            if self.remote is None:
                return Path(self.path, name).read_bytes()
            return bytes(self.remote.store.get(f"{self.remote.key}/{name}").data)
        except (ObjectNotFoundError, FileNotFoundError, NotADirectoryError):
            return None

    def entries(self) -> Iterator[Entry]:
        """Yields all files at any depth, in any order."""
        if self.remote is not None:
            start = f"{self.remote.key}/"
            for info in self.remote.store.list(start):
                key = info.key.removeprefix(start)
                yield Entry(key, f"{self.path}/{key}", info.size_bytes, info.modified_at_us)
            return
        root = Path(self.path)
        for entry in root.rglob("*"):
            if entry.is_file():
                status = entry.stat()
                key = entry.relative_to(root).as_posix()
                yield Entry(key, str(entry), status.st_size, status.st_mtime_ns // 1000)


def source_mark(source: Source) -> str:
    """Version of the source: size, time and, in buckets, ETag of its file or files.

    Raises ObjectNotFoundError.
    """
    if not source.format.is_folder:
        mark = file_mark(source)
        return f"{mark.size_bytes} {mark.modified_at_us} {mark.etag}"
    with source_errors(source.path):
        entries = sorted(
            (entry.key, entry.size_bytes, entry.modified_at_us)
            for entry in Folder.of(source).entries()
        )
    return hashlib.sha256(repr(entries).encode(), usedforsecurity=False).hexdigest()
