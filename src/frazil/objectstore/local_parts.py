"""Parts of many files, with as few system calls and as little Python as it takes.

a file        openat below the directory, which is opened once; pread; close
parts of one  one preadv for those that lie end to end and are wanted in places of their own,
              one pread for others that are near to each other
"""

import os

from frazil.objectstore.local_errors import read_error
from frazil.objectstore.local_files import read_at
from frazil.objectstore.parts import Parts
from frazil.objectstore.protocol import Data, DataList

_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_GAP_BYTES = 16 * 1024  # reading it costs about as much as another system call
_MERGED_BYTES = 64 * 1024 * 1024
_VECTOR = 1024  # buffers that the kernel fills at once


def read_local_parts(directory: str, parts: Parts) -> DataList:
    """Of files in one directory."""
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
