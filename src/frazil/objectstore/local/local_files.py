"""Files of a local store: system calls, and errors of the operating system as frazil's."""

# ruff: noqa: PTH108 - system calls by path string: pathlib costs more than the calls

import errno
import os
import stat
from collections.abc import Buffer, Iterable, Iterator, Sequence

from frazil.errors import ObjectNotFoundError, StorageError
from frazil.objectstore.local.local_directories import LostWriteError
from frazil.objectstore.pool import Pool
from frazil.objectstore.protocol import Data, DataList, is_older
from frazil.objectstore.reads import Parts
from frazil.ranges import ByteRange, Range, resolve

_ADVICE = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the filesystem does not take files that large",
    errno.EACCES: "permission denied",
    errno.EPERM: "operation not permitted",
    errno.EROFS: "the filesystem is read-only",
    errno.ENAMETOOLONG: "the name is too long for the filesystem",
    errno.EMFILE: "this process has too many open files",
    errno.ENFILE: "the system has too many open files",
    errno.ELOOP: "a part of its path is a symbolic link, which is not followed",
    errno.ENOTDIR: "a part of its path is an object, not a directory",
    errno.EISDIR: "it is a directory that holds other objects",
    errno.EIO: "the device reports an input/output error",
    errno.ESTALE: "the network filesystem lost the file",
}
_NOTHING_THERE = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ESPIPE}  # ESPIPE: a named pipe


def storage_error(doing: str, key: str, error: OSError) -> StorageError:
    reason = _ADVICE.get(error.errno or 0) or error.strerror or str(error)
    lost = ", what was put since the last sync may be lost" * isinstance(error, LostWriteError)
    return StorageError(f"cannot {doing} {key!r}: {reason}{lost}")


def read_error(key: str, error: OSError) -> StorageError:
    """Like `storage_error`, but ObjectNotFoundError for a path that does not exist."""
    if error.errno in _NOTHING_THERE:
        return ObjectNotFoundError(key)
    return storage_error("read", key, error)


# Reading and writing single files, close to the system calls


# Not blocking: a named pipe in the place of an object must not hold us up.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_PIECE_BYTES = 8 * 1024 * 1024
# Written at once. More is not faster, and where pages of the cache come in the sizes of the writes,
# as on ext4, large ones may be slower to come by: five times in a virtual machine.
_WRITTEN_BYTES = 1024 * 1024
_VECTOR = 1024  # buffers that the kernel takes at once
# A range up to this long is read without asking for the size of the file first.
_UNASKED_BYTES = 1024 * 1024
_LARGE_BYTES = 1 << 30
_TICK_NS = 100_000_000  # of clocks of filesystems: longer than any is
_COARSE_TICK_NS = 2_000_000_000  # of those that count no fractions
_MOST_HOLES = 1000  # times as large as what is stored of it
_NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def open_to_read(path: str) -> int:
    return os.open(path, _READ)


def read_at(descriptor: int, start: int, length: int) -> bytes:
    """`length` bytes from `start` on, fewer only at the end of the file."""
    data = os.pread(descriptor, length, start)
    if len(data) == length:
        return data
    pieces = [data]  # the kernel reads at most 2 GiB at once
    while pieces[-1] and (length := length - len(pieces[-1])):
        start += len(pieces[-1])
        pieces.append(os.pread(descriptor, length, start))
    return b"".join(pieces)


def solid_size(status: os.stat_result) -> int:
    """The size of a file. Raises OSError if it is large and hardly anything but holes.

    Holes take no room on the disk or in an archive, and as much as they say in memory.
    """
    size = status.st_size
    if size > _LARGE_BYTES and status.st_blocks * 512 * _MOST_HOLES < size:
        raise OSError(errno.EOVERFLOW, f"{size} bytes, nearly all of them holes")
    return size


def file_mark(status: os.stat_result, *, now_us: int) -> tuple[int, ...] | None:
    """A value that no other file has had at this path; None for a file so new that another may.

    The number of a file that is gone may be given to the next one, which differs in its times:
    but only after the filesystem's clock has moved on. Some count seconds, and have no fractions.
    """
    settling_ns = _TICK_NS if status.st_ctime_ns % 1_000_000 else _COARSE_TICK_NS
    if now_us * 1000 - status.st_ctime_ns < settling_ns:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_range(descriptor: int, wanted: ByteRange) -> bytes:
    if not isinstance(wanted, Range) or len(wanted) > _UNASKED_BYTES:
        wanted = resolve(wanted, os.fstat(descriptor).st_size)
    return read_at(descriptor, wanted.start, len(wanted))


def read_pieces(descriptor: int) -> Iterator[bytes]:
    """The whole file, never all at once in memory."""
    start = 0
    while piece := os.pread(descriptor, _PIECE_BYTES, start):
        yield piece
        start += len(piece)


def create_file(path: str) -> int:
    """Returns the descriptor of a new file. Raises FileExistsError."""
    return os.open(path, _CREATE, 0o666)


def fill_file(descriptor: int, path: str, pieces: Iterable[Buffer], *, fsync: bool) -> None:
    """Writes a new file and closes it; nothing is left of it if that fails."""
    try:
        try:
            _write_pieces(descriptor, pieces)
            if fsync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        os.unlink(path)
        raise


def _write_pieces(descriptor: int, pieces: Iterable[Buffer]) -> None:
    """End to end, small ones several at a time."""
    several: list[memoryview] = []
    size = 0
    for piece in pieces:
        view = memoryview(piece)
        if several and (size + len(view) > _WRITTEN_BYTES or len(several) == _VECTOR):
            _write_several(descriptor, several, size)
            several, size = [], 0
        several.append(view)
        size += len(view)
    _write_several(descriptor, several, size)


def _write_several(descriptor: int, pieces: list[memoryview], size: int) -> None:
    if len(pieces) == 1:
        _write_all(descriptor, pieces[0])
    elif pieces and (written := os.writev(descriptor, pieces)) < size:
        _write_all(descriptor, memoryview(b"".join(pieces))[written:])


def _write_all(descriptor: int, data: memoryview) -> None:
    written = 0
    while written < len(data):
        written += os.write(descriptor, data[written : written + _WRITTEN_BYTES])


def has_hard_links(error: OSError) -> bool:
    """False if link(2) failed because the filesystem has no hard links."""
    return error.errno not in _NO_HARD_LINKS


def is_directory(path: str) -> bool:
    """Without following a symbolic link."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


# Parts of many files, with as few system calls and as little Python as possible
#
# a file        openat below the directory, which is opened once; pread; close
# parts of one  one preadv for adjacent parts that each have a target,
#               one pread for other parts that are close together


_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
_GAP_BYTES = 16 * 1024  # reading it costs about as much as another system call
_MERGED_BYTES = 64 * 1024 * 1024


def read_local_parts(directory: str, parts: Parts) -> DataList:
    """The parts of files in one directory."""
    found: DataList = []
    key = parts.folder
    try:
        folder = os.open(directory, _FOLDER)
        try:
            for number, name in enumerate(parts.names):
                key = name
                descriptor = os.open(name, _READ, dir_fd=folder)
                try:
                    first, stop = parts.edges[number], parts.edges[number + 1]
                    if stop - first == 1:
                        found.append(_read_one(descriptor, parts, first))
                    else:
                        found += _read_several(descriptor, parts, first, stop)
                finally:
                    os.close(descriptor)
        finally:
            os.close(folder)
    except OSError as error:
        raise read_error(key if key == parts.folder else parts.folder + key, error) from error
    return found


def _read_one(descriptor: int, parts: Parts, row: int) -> Data:
    start, length, target = parts.start[row], parts.length[row], parts.into[row]
    if target is None:
        return _read(descriptor, start, length)
    if os.preadv(descriptor, [target], start) == length:
        return target
    # The kernel reads at most 2 GiB at once, and stops at the end of the file.
    return _read(descriptor, start, length)


def _read(descriptor: int, start: int, length: int) -> bytes:
    if length > _MERGED_BYTES:  # a damaged reference must not make us ask for all the memory
        length = max(0, min(length, os.fstat(descriptor).st_size - start))
    return read_at(descriptor, start, length)


def _read_several(descriptor: int, parts: Parts, first: int, stop: int) -> DataList:
    found: DataList = []
    row = first
    while row < stop:
        end = _run_end(parts, row, stop)
        if parts.into[row] is None:
            found += _read_near(descriptor, parts, row, end)
        else:
            found += _read_vector(descriptor, parts, row, end)
        row = end
    return found


def _run_end(parts: Parts, row: int, stop: int) -> int:
    """The row after those that can be read with this one by one call."""
    start, length, into = parts.start, parts.length, parts.into
    is_placed = into[row] is not None
    begin, end, first = start[row], start[row] + length[row], row
    row += 1
    while row < stop:
        if (into[row] is not None) != is_placed:
            break
        gap = start[row] - end
        if is_placed:
            if gap != 0 or row - first == _VECTOR:
                break
            end += length[row]
        else:
            longer = max(end, start[row] + length[row])
            if gap > _GAP_BYTES or (gap >= 0 and longer - begin > _MERGED_BYTES):
                break
            end = longer
        row += 1
    return row


def _read_vector(descriptor: int, parts: Parts, first: int, stop: int) -> DataList:
    targets = [each for each in parts.into[first:stop] if each is not None]
    end = parts.start[stop - 1] + parts.length[stop - 1]
    if os.preadv(descriptor, targets, parts.start[first]) == end - parts.start[first]:
        return [*targets]
    return [_read(descriptor, parts.start[row], parts.length[row]) for row in range(first, stop)]


def _read_near(descriptor: int, parts: Parts, first: int, stop: int) -> DataList:
    start, length = parts.start, parts.length
    begin = start[first]
    end = max(start[row] + length[row] for row in range(first, stop))
    whole = memoryview(_read(descriptor, begin, end - begin))
    if stop - first == 1:
        return [whole]
    return [
        whole[start[row] - begin : start[row] - begin + length[row]] for row in range(first, stop)
    ]


# Deleting many files


_MANY = 100  # from here on a second thread is worth it: it frees blocks while the other unlinks
_unlinks = Pool(2)
_NO_FILE = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


def unlink_all(paths: Sequence[str]) -> int:
    """Removes files, returns how many existed. Raises OSError; others may be gone by then."""
    if len(paths) < _MANY:
        return _unlink(paths)
    middle = len(paths) // 2
    return sum(_unlinks.map(_unlink, [paths[:middle], paths[middle:]]))


def is_younger(path: str, before_us: int) -> bool:
    """True if there is such a file and it is not older."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return not is_older(found.st_mtime_ns // 1000, before_us)


def _unlink(paths: Sequence[str]) -> int:
    removed = 0
    for path in paths:
        try:
            os.unlink(path)
        except _NO_FILE:
            continue
        removed += 1
    return removed
