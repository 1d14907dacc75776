"""System calls that change what is below a directory, watched and interfered with.

    with watched_disk(root, before=fail_at(3, errno.ENOSPC)) as calls:
        ...                            # the third call says that the disk is full
    print([str(call) for call in calls])

Functions of `os` and `fcntl` are replaced while it lasts, for all threads of the process. Files
that something else opens (a library in another language) are not seen.
"""

import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from unittest.mock import patch

type CallName = Literal[
    "create", "write", "fsync", "link", "rename", "unlink", "mkdir", "rmdir", "lock", "unlock"
]
type Hook = Callable[["DiskCall"], None]


@dataclass(frozen=True, slots=True)
class DiskCall:
    """A call, with paths below the root; `target` is the new name of a link or a rename."""

    name: CallName
    path: str
    target: str = ""
    data: bytes = b""  # of a write

    def __str__(self) -> str:
        return " ".join(filter(None, [self.name, self.path or ".", self.target]))


def nothing(_: DiskCall) -> None: ...


def fail_at(number: int, code: int, *, times: int = 1) -> Hook:
    """A hook that fails the call with this number, from 0, and `times - 1` more, with an errno.

    What ends the life of a file or of a lock is let through: cleaning up needs no room.
    """
    lock, seen = threading.Lock(), [0]

    def fail(call: DiskCall) -> None:
        with lock:
            if call.name in ("unlink", "unlock"):
                return
            seen[0] += 1
            if number < seen[0] <= number + times:
                raise OSError(code, os.strerror(code), call.path)

    return fail


def full_disk(after: int) -> Hook:
    """A disk on which nothing can be written any more after so many calls."""
    lock, seen = threading.Lock(), [0]

    def fail(call: DiskCall) -> None:
        with lock:
            seen[0] += 1
            if seen[0] > after and call.name in ("create", "write", "mkdir", "link"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), call.path)

    return fail


@contextmanager
def watched_disk(
    root: str | os.PathLike[str],
    *,
    before: Hook = nothing,
    after: Hook = nothing,
    fsync: bool = True,
    keep_data: bool = False,
) -> Iterator[list[DiskCall]]:
    """Calls below `root`, in the order in which they ended; failed ones are not among them.

    `before` may raise OSError instead of the call. Without `fsync` nothing is really synced, which
    is faster and, as long as the power does not fail, the same. `keep_data` remembers what is
    written.
    """
    watch = _Watch(os.path.abspath(root), before, after, fsync=fsync, keep_data=keep_data)  # noqa: PTH100 - as in LocalStore
    names = ["open", "close", "write", "writev", "fsync", "fdatasync", "link", "rename", "replace"]
    names += ["unlink", "remove", "mkdir", "rmdir"]
    replaced = {name: getattr(watch, name) for name in names}
    with patch.multiple(os, **replaced), patch.object(fcntl, "flock", watch.flock):
        yield watch.calls


def _one_at_a_time(hook: Hook) -> Hook:
    """Files are synced by several threads; a simulated disk has one."""
    lock = threading.RLock()

    def locked(call: DiskCall) -> None:
        with lock:
            hook(call)

    return locked


class _Watch:
    """Replacements; `_real_...` is what they stand for."""

    def __init__(
        self, root: str, before: Hook, after: Hook, *, fsync: bool, keep_data: bool
    ) -> None:
        self.calls: list[DiskCall] = []
        self._root = root
        self._before = before
        self._after = _one_at_a_time(after)
        self._fsync = fsync
        self._keep_data = keep_data
        self._open: dict[int, str] = {}  # descriptors below the root
        self._real_open, self._real_close = os.open, os.close
        self._real_write, self._real_writev = os.write, os.writev
        self._real_fsync, self._real_link, self._real_replace = os.fsync, os.link, os.replace
        self._real_unlink, self._real_mkdir, self._real_rmdir = os.unlink, os.mkdir, os.rmdir
        self._real_flock = fcntl.flock

    def _below(self, path: Any) -> str | None:
        """The path below the root; None if it is not below it, or no path."""
        if not isinstance(path, str | os.PathLike):
            return None
        full = os.path.abspath(path)  # noqa: PTH100 - as in LocalStore
        if full == self._root:
            return ""
        return full[len(self._root) + 1 :] if full.startswith(self._root + "/") else None

    def _watched[T](self, call: DiskCall, act: Callable[[], T]) -> T:
        self._before(call)
        result = act()
        self.calls.append(call)
        self._after(call)
        return result

    def open(self, path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
        def act() -> int:
            return self._real_open(path, flags, mode, **options)

        below = self._below(path)
        creates = flags & os.O_CREAT and below is not None and not os.path.lexists(path)
        if creates and below is not None:
            descriptor = self._watched(DiskCall("create", below), act)
        else:
            descriptor = act()
        if below is None:
            self._open.pop(descriptor, None)
        else:
            self._open[descriptor] = below
        return descriptor

    def close(self, descriptor: int) -> None:
        self._open.pop(descriptor, None)
        self._real_close(descriptor)

    def write(self, descriptor: int, data: Any) -> int:
        return self._written(descriptor, [data], lambda: self._real_write(descriptor, data))

    def writev(self, descriptor: int, pieces: Any) -> int:
        return self._written(descriptor, pieces, lambda: self._real_writev(descriptor, pieces))

    def _written(self, descriptor: int, pieces: Any, act: Callable[[], int]) -> int:
        path = self._open.get(descriptor)
        if path is None:
            return act()
        if not self._keep_data:
            return self._watched(DiskCall("write", path), act)
        data = b"".join(bytes(memoryview(piece).cast("B")) for piece in pieces)
        self._before(DiskCall("write", path, data=data))
        done = act()
        call = DiskCall("write", path, data=data[:done])  # it may be less than was asked for
        self.calls.append(call)
        self._after(call)
        return done

    def fsync(self, descriptor: int) -> None:
        path = self._open.get(descriptor)
        if path is None:
            self._real_fsync(descriptor)
            return
        act = self._real_fsync if self._fsync else lambda _: None
        self._watched(DiskCall("fsync", path), lambda: act(descriptor))

    fdatasync = fsync

    def link(self, source: Any, target: Any, **options: Any) -> None:
        self._two("link", source, target, lambda: self._real_link(source, target, **options))

    def replace(self, source: Any, target: Any, **options: Any) -> None:
        self._two("rename", source, target, lambda: self._real_replace(source, target, **options))

    rename = replace

    def unlink(self, path: Any, **options: Any) -> None:
        self._one("unlink", path, lambda: self._real_unlink(path, **options))

    remove = unlink

    def mkdir(self, path: Any, mode: int = 0o777, **options: Any) -> None:
        self._one("mkdir", path, lambda: self._real_mkdir(path, mode, **options))

    def rmdir(self, path: Any, **options: Any) -> None:
        self._one("rmdir", path, lambda: self._real_rmdir(path, **options))

    def flock(self, file: Any, operation: int) -> None:
        descriptor = file if isinstance(file, int) else file.fileno()
        path = self._open.get(descriptor)
        if path is None:
            self._real_flock(file, operation)
            return
        name: CallName = "unlock" if operation == fcntl.LOCK_UN else "lock"
        self._watched(DiskCall(name, path), lambda: self._real_flock(file, operation))

    def _one(self, name: CallName, path: Any, act: Callable[[], None]) -> None:
        below = self._below(path)
        if below is None:
            act()
        else:
            self._watched(DiskCall(name, below), act)

    def _two(self, name: CallName, source: Any, target: Any, act: Callable[[], None]) -> None:
        below, to = self._below(source), self._below(target)
        if below is None or to is None:
            act()
        else:
            self._watched(DiskCall(name, below, to), act)
