"""Objects as files below a directory of a POSIX filesystem.

    put, absent     temp, fsync, link(2) to the name          the filesystem picks one winner
    put, matches    temp, fsync, lock, compare, rename        the version is a hash of the content
    put, always     temp, link(2), or lock and rename over    durable after `sync`
    link            link(2)                                   the same
    refresh         lock, utime
    delete          lock, unlink; if only what is older: lock, stat, unlink

Files are never changed in place, so a reader needs no lock. Every removal of a name (rename
over it, unlink) happens under the lock, or a compare-and-swap could bring it back. A writer that
is killed leaves at most a temporary file, which `list` hides and `collect_leftovers` removes.
Names of files: keys.py.
"""

# ruff: noqa: PTH100, PTH105, PTH108 - system calls by path string: pathlib costs more than the calls

import errno
import os
import stat
from collections.abc import Buffer, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from itertools import batched, compress
from typing import assert_never

from frazil.clock import Clock, system_clock
from frazil.errors import (
    InvalidInputError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageError,
)
from frazil.objectstore.keys import (
    LOCK_NAME,
    encode_key,
    encode_prefix,
    require_prefix,
    temporary_name,
)
from frazil.objectstore.local.local_directories import (
    Directories,
    Durability,
    exclusive,
    sync_file,
    walk_objects,
    walk_temporary,
)
from frazil.objectstore.local.local_files import (
    create_file,
    file_mark,
    fill_file,
    has_hard_links,
    is_directory,
    is_younger,
    open_to_read,
    read_at,
    read_error,
    read_local_parts,
    read_pieces,
    read_range,
    solid_size,
    storage_error,
    unlink_all,
)
from frazil.objectstore.protocol import (
    ALWAYS,
    Absent,
    Always,
    Blob,
    Capabilities,
    DataList,
    Matches,
    ObjectInfo,
    ObjectStore,
    Precondition,
    content_version,
    flat_bytes,
)
from frazil.objectstore.reads import Parts, merge_reads
from frazil.ranges import ByteRange, Range

# Reading a gap of this size costs about as much as another system call.
_GAP_BYTES = 16 * 1024
_MERGED_BYTES = 64 * 1024 * 1024
_CAPABILITIES = Capabilities(
    reads_parts=True, links_objects=True, checks_age=True, syncs_before_replacing=True
)
_LOCKED_TOGETHER = 400  # objects deleted before others get their turn


class LocalStore(ObjectStore):
    """Objects below the directory `root`, which need not exist before the first put.

    Any number of instances, threads and processes may use one directory. With `fsync` off,
    nothing survives a power failure for certain, but kill -9 is still harmless.
    """

    def __init__(
        self, root: str | os.PathLike[str], *, fsync: bool = True, clock: Clock = system_clock
    ) -> None:
        self._root = os.path.abspath(root)
        if self._root.strip("/") == "":
            raise InvalidInputError("the root of the filesystem cannot be a store")
        self._base = self._root + "/"
        self._fsync = fsync
        self._clock = clock
        self._directories = Directories(self._root, fsync=fsync)
        self._durability = Durability(self._root)

    @property
    def root(self) -> str:
        return self._root

    @property
    def directory(self) -> str:
        return self._root

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        try:
            descriptor = open_to_read(self._path(key))
            try:
                if byte_range is None:
                    return Blob(read_at(descriptor, 0, solid_size(os.fstat(descriptor))))
                return Blob(read_range(descriptor, byte_range), "")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise read_error(key, error) from error

    def reread(self, key: str, cached: Blob | None) -> Blob:
        try:
            descriptor = open_to_read(self._path(key))  # on NFS this asks the server, stat may not
            try:
                status = os.fstat(descriptor)
                mark = file_mark(status, now_us=self._clock())
                if cached is not None and mark is not None and cached.mark == mark:
                    return cached
                return Blob(read_at(descriptor, 0, solid_size(status)), mark=mark)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise read_error(key, error) from error

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        parts: DataList = [b""] * len(ranges)
        try:
            descriptor = open_to_read(self._path(key))
            try:
                for read in merge_reads(ranges, gap_bytes=_GAP_BYTES, limit_bytes=_MERGED_BYTES):
                    view = memoryview(read_range(descriptor, read.span))
                    for at in read.serves:
                        start = ranges[at].start - read.span.start
                        parts[at] = view[start : start + len(ranges[at])]
            finally:
                os.close(descriptor)
        except OSError as error:
            raise read_error(key, error) from error
        return parts

    def read_parts(self, parts: Parts) -> DataList:
        """Names of parts must be plain: their files have the same names."""
        directory = self._base + encode_prefix(parts.folder)[:-1]
        try:
            self._directories.require_real(directory)
        except OSError as error:
            raise read_error(parts.folder, error) from error
        return read_local_parts(directory, parts)

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        content = flat_bytes(data)
        try:
            path = self._path(key)
            match when:
                case Always():
                    self._write(path, [content])
                    return ""
                case Absent():
                    self._create(key, path, content)
                case Matches():
                    self._replace(key, path, content, when)
                case _:
                    assert_never(when)
        except OSError as error:
            raise storage_error("write", key, error) from error
        return content_version(content)

    def put_pieces(self, key: str, pieces: Iterable[Buffer]) -> None:
        try:
            self._write(self._path(key), map(flat_bytes, pieces))
        except StorageError:  # of reading what the pieces are made of
            raise
        except OSError as error:
            raise storage_error("write", key, error) from error

    def head(self, key: str) -> ObjectInfo:
        try:
            found = os.lstat(self._path(key))
        except OSError as error:
            raise read_error(key, error) from error
        if not stat.S_ISREG(found.st_mode):
            raise ObjectNotFoundError(key)
        return ObjectInfo(key, found.st_size, found.st_mtime_ns // 1000)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """All objects with the prefix, in ascending order of keys."""
        require_prefix(prefix)
        inside = prefix[: prefix.rfind("/") + 1]
        directory = self._base + encode_prefix(inside)
        try:
            self._directories.require_real(directory[:-1])
            for info in walk_objects(directory, inside, prefix[len(inside) :]):
                if info.key != LOCK_NAME:
                    yield info
        except OSError as error:
            raise storage_error("list", prefix, error) from error

    def delete(self, keys: Iterable[str]) -> int:
        return sum(self._remove(some)[0] for some in batched(keys, _LOCKED_TOGETHER))

    def delete_older(self, keys: Sequence[str], before_us: int) -> tuple[str, ...]:
        parts = (self._remove(some, before_us) for some in batched(keys, _LOCKED_TOGETHER))
        return tuple(key for _, spared in parts for key in spared)

    def refresh(self, key: str) -> ObjectInfo:
        path = self._path(key)
        self.head(key)  # no lock file where there is no store
        try:
            with self._locked():
                os.utime(path, follow_symlinks=False)
        except PermissionError:  # the file is someone else's, the directory is ours
            return super().refresh(key)
        except OSError as error:
            raise read_error(key, error) from error
        return self.head(key)

    def copy(self, source: str, target: str) -> None:
        # Not a hard link: the copy is a new object, and its age says when it was made.
        self.head(source)  # a directory can be opened as well
        try:
            descriptor = open_to_read(self._path(source))
        except OSError as error:
            raise read_error(source, error) from error
        try:
            self._write(self._path(target), read_pieces(descriptor))
        except OSError as error:
            raise storage_error("copy", source, error) from error
        finally:
            os.close(descriptor)

    def link(self, source: str, target: str) -> bool:
        """Makes a hard link, if the filesystem has them and permits it."""
        try:
            path = self._path(target)
            try:
                os.link(self._path(source), path, follow_symlinks=False)
                os.utime(path, follow_symlinks=False)
            except (FileNotFoundError, PermissionError):
                return False
        except OSError as error:
            if has_hard_links(error):
                raise storage_error("write", target, error) from error
            return False
        if self._fsync:
            self._durability.add(path)
        return True

    def sync(self) -> None:
        try:
            self._make_durable()
        except OSError as error:
            raise storage_error("sync", self._root, error) from error

    def collect_leftovers(self, older_than_s: float) -> int:
        """The number of temporary files removed: those of writers that died that long ago."""
        before_ns = self._clock() * 1000 - int(older_than_s * 1e9)
        removed = 0
        try:
            for entry in walk_temporary(self._root):
                with suppress(FileNotFoundError):
                    if entry.stat(follow_symlinks=False).st_mtime_ns < before_ns:
                        os.unlink(entry.path)
                        removed += 1
        except OSError as error:
            raise storage_error("clean up", self._root, error) from error
        return removed

    def __repr__(self) -> str:
        return f"LocalStore({self._root!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), fsync=self._fsync, clock=self._clock), (self._root,)

    def _path(self, key: str) -> str:
        path = self._base + encode_key(key)
        self._directories.require_real(path[: path.rindex("/")])
        return path

    def _write(self, path: str, pieces: Iterable[Buffer]) -> None:
        """Unconditionally. An object that is there stays whole until the new one is durable."""
        temporary = self._write_temporary(path, pieces, fsync=False)
        try:
            try:
                self._link(temporary, path)
            except FileExistsError:
                if self._fsync:
                    sync_file(temporary)
                with self._locked():
                    os.replace(temporary, path)
        finally:
            _discard(temporary)
        if self._fsync:
            self._durability.add(path, size_bytes=_size_bytes(path))

    def _create(self, key: str, path: str, content: memoryview) -> None:
        if os.path.lexists(path):
            raise self._already_there(key, path)
        temporary = self._write_temporary(path, [content], fsync=self._fsync)
        try:
            self._link(temporary, path)
        except FileExistsError:
            raise self._already_there(key, path) from None
        finally:
            _discard(temporary)
        if self._fsync:
            self._durability.sync_name(path)

    def _replace(self, key: str, path: str, content: memoryview, old: Matches) -> None:
        if self._fsync:  # otherwise writing for nothing costs no more than finding out
            self._require_version(key, old)
        temporary = self._write_temporary(path, [content], fsync=False)
        try:
            if self._fsync:
                self._make_durable(temporary)
            with self._locked():
                self._require_version(key, old)
                os.replace(temporary, path)
        finally:
            _discard(temporary)
        if self._fsync:
            self._durability.sync_name(path)

    def _remove(
        self, keys: Sequence[str], before_us: int | None = None
    ) -> tuple[int, tuple[str, ...]]:
        """The number of files removed, and keys of those that are not older, if that matters."""
        paths: list[str] = []
        try:
            paths += map(self._path, keys)
            if not any(map(os.path.lexists, paths)):
                return 0, ()  # and no lock file where there is no store
            with self._locked():
                is_young = [before_us is not None and is_younger(path, before_us) for path in paths]
                doomed = [path for path, young in zip(paths, is_young, strict=True) if not young]
                try:
                    return unlink_all(doomed), tuple(compress(keys, is_young))
                finally:  # also when some are gone and another cannot be removed
                    if self._fsync:
                        self._durability.add_vacated({path[: path.rindex("/")] for path in paths})
        except OSError as error:
            key = dict(zip(paths, keys, strict=False)).get(error.filename, keys[0])
            raise storage_error("delete", key, error) from error

    def _make_durable(self, *temporary: str) -> None:
        """Syncs what was written before, and the contents of files that have no name yet."""
        self._durability.sync(temporary)

    def _write_temporary(self, path: str, pieces: Iterable[Buffer], *, fsync: bool) -> str:
        """The path of a new file beside `path`."""
        directory = path[: path.rindex("/")]
        temporary = f"{directory}/{temporary_name()}"
        try:
            descriptor = create_file(temporary)
        except FileNotFoundError:
            self._directories.create(directory)
            self._durability.forget(directory)
            descriptor = create_file(temporary)
        fill_file(descriptor, temporary, pieces, fsync=fsync)
        return temporary

    def _link(self, temporary: str, path: str) -> None:
        """`path` names the file `temporary` as well. Raises FileExistsError."""
        try:
            os.link(temporary, path, follow_symlinks=False)
        except OSError as error:
            if has_hard_links(error):
                raise
            with self._locked():
                if os.path.lexists(path):
                    raise FileExistsError(error.errno, "exists", path) from error
                os.replace(temporary, path)

    def _locked(self) -> AbstractContextManager[None]:
        return exclusive(self._base + LOCK_NAME)

    def _require_version(self, key: str, old: Matches) -> None:
        try:
            found = self.get(key)
        except ObjectNotFoundError:
            is_there = False
        else:
            is_there = found.data == old.content or found.version == old.version
        if not is_there:
            raise PreconditionFailedError(key, f"version {old.version}")

    def _already_there(self, key: str, path: str) -> OSError | PreconditionFailedError:
        if is_directory(path):
            return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return PreconditionFailedError(key, "no such object")


def _size_bytes(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:  # deleted already
        return 0


def _discard(temporary: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(temporary)
