"""Which files have been written but may still be lost with the power, and their rescue."""

# ruff: noqa: PTH120 - system calls by path string: pathlib costs more than the calls

import errno
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import batched

_WORKERS = 8  # fsyncs in flight: filesystems commit their journal once for several
_AT_ONCE = 4096  # files handed to the threads: each waits in an object of almost 2 KB
_FEW = 4  # what a small commit writes: starting threads would take longer than the syncs


class LostWriteError(OSError):
    """The kernel could not write something back, and may have forgotten it since."""


class _Pending:
    """Work of one process. After a `failure` no sync succeeds: it could not make good for it."""

    def __init__(self) -> None:
        self.paths: deque[str] = deque()  # its methods are atomic
        self.vacated: set[str] = set()  # directories in which names have gone
        self.syncing = threading.Lock()
        self.settled: set[str] = set()  # directories whose own entries above are durable
        self.failure: OSError | None = None


class Durability:
    """Files and directories below `root` that still have to be synced. Safe in threads.

    A forked child starts with nothing to do: what its parent wrote is its parent's to sync.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._by_process: dict[int, _Pending] = {}

    def add(self, path: str) -> None:
        """Remember a file that is in place, but not durable."""
        self._pending().paths.append(path)

    def add_vacated(self, directories: set[str]) -> None:
        """Remember that names in them are gone, but may come back."""
        self._pending().vacated |= directories

    def sync(self) -> None:
        """All added files are durable, names included, and removed names do not come back.

        Raises OSError, then keeps the work.

        What a concurrent call has taken on is waited for.
        """
        pending = self._pending()
        with pending.syncing:
            if pending.failure:
                raise LostWriteError(*pending.failure.args)
            paths = list(pending.paths.copy())  # copied at once; others may go on adding
            vacated = pending.vacated.copy()
            pending.vacated -= vacated  # first: a name that goes meanwhile is for the next sync
            try:
                _sync_all(sync_file, dict.fromkeys(paths))
                self._sync_names(pending, paths)
                _sync_all(sync_directory, vacated - {os.path.dirname(path) for path in paths})
            except BaseException as error:
                pending.vacated |= vacated
                if isinstance(error, LostWriteError):
                    pending.failure = error
                raise
            for _ in paths:  # only now: whatever interrupts a sync, the next one starts over
                pending.paths.popleft()

    def forget(self, directory: str) -> None:
        """The directory was made just now, perhaps again: its name has yet to be synced."""
        self._pending().settled -= {directory, *self._above(directory)}

    def sync_name(self, path: str) -> None:
        """The name of one file, whose content is durable already, is durable as well."""
        self._sync_names(self._pending(), [path])

    def _sync_names(self, pending: _Pending, paths: Iterable[str]) -> None:
        directories = {os.path.dirname(path) for path in paths}
        _sync_all(sync_directory, directories)
        unsettled = directories - pending.settled
        # Whoever created a directory, this process or another, may not have synced its name yet.
        above = {parent for one in unsettled for parent in self._above(one)} - directories
        _sync_all(sync_directory, above)
        pending.settled |= unsettled

    def _above(self, directory: str) -> Iterable[str]:
        """Directories that hold the names on the way from the root's own to `directory`."""
        while len(directory) >= len(self._root) and directory != "/":
            directory = os.path.dirname(directory)
            yield directory

    def _pending(self) -> _Pending:
        process = os.getpid()
        found = self._by_process.get(process)
        return found or self._by_process.setdefault(process, _Pending())


def sync_file(path: str) -> None:
    """A file or directory is durable; one that is gone again needs nothing."""
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            sync_descriptor(descriptor)
        finally:
            os.close(descriptor)


def sync_directory(path: str) -> None:
    """The names in a directory are durable, as far as the filesystem and its permissions allow:
    one may be allowed to write into a directory and not to open it, and not all can be synced.
    """
    try:
        sync_file(path)
    except PermissionError:
        return
    except LostWriteError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise


def sync_descriptor(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Trying again would succeed and mean nothing: the kernel reports a lost page once.
        raise LostWriteError(error.errno, error.strerror) from error


def _sync_all(sync: Callable[[str], None], paths: Iterable[str]) -> None:
    todo = list(paths)
    if len(todo) <= _FEW:
        for path in todo:
            sync(path)
        return
    with ThreadPoolExecutor(min(_WORKERS, len(todo)), "frazil-fsync") as pool:
        for some in batched(todo, _AT_ONCE):
            for _ in pool.map(sync, some):
                pass
