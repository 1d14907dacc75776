"""Reading and writing single files, close to the system calls: pathlib costs more than the read."""

# ruff: noqa: PTH108 - system calls by path string: pathlib costs more than the calls

import errno
import os
import stat
from collections.abc import Buffer, Iterable, Iterator

from frazil.ranges import ByteRange, Range, resolve

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
    """What no other file has had at this path; None for a file so new that another may yet.

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


def flat_bytes(data: Buffer) -> memoryview:
    """The bytes of any array in C order; copied only if they are not contiguous."""
    view = memoryview(data)
    if not view.nbytes or not view.c_contiguous:
        return memoryview(view.tobytes())
    return view.cast("B")


def write_new(path: str, pieces: Iterable[Buffer], *, fsync: bool) -> None:
    """A new file; nothing is left of it if that fails. Raises FileExistsError."""
    descriptor = os.open(path, _CREATE, 0o666)
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
    """Whether link(2) failed for another reason than that the filesystem has no such thing."""
    return error.errno not in _NO_HARD_LINKS


def is_directory(path: str) -> bool:
    """Without following a symbolic link."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False
