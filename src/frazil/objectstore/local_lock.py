"""One writer at a time, across threads, processes and instances: flock(2) on a lock file.

The kernel drops the lock of a process that dies, however it dies. Two rules keep that sound:
the lock file is never removed (a waiter would end up with a lock on a dead inode), and each
holder has its own open file description (descriptors that share one do not exclude each other).
"""

# ruff: noqa: PTH116 - system calls by path string: pathlib costs more than the calls

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO


@contextmanager
def exclusive(path: str) -> Iterator[None]:
    """Holds the lock at `path`, whose directory must exist. Waits as long as it takes."""
    with _acquire(path) as file:
        try:
            yield
        finally:
            # Unlocking is not left to close: a child forked meanwhile has a copy of the
            # descriptor, and would keep the lock for as long as it lives.
            fcntl.flock(file, fcntl.LOCK_UN)


def _acquire(path: str) -> FileIO:
    # A file object, not a descriptor: wherever an interrupt strikes, it closes itself.
    while True:
        file = FileIO(path, opener=_open)
        fcntl.flock(file, fcntl.LOCK_EX)
        if _is_still_at(path, file):
            return file
        file.close()


def _open(path: str, _: int) -> int:
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o666)
    except PermissionError as refused:
        # Made by another user with a strict umask. Reading is enough to lock, except on NFS.
        try:
            return os.open(path, os.O_RDONLY | flags)
        except FileNotFoundError:
            raise refused from None


def _is_still_at(path: str, file: FileIO) -> bool:
    """Whether others would lock the same file: somebody may have replaced the whole directory."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
