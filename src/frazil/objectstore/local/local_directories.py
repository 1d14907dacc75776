"""Durability of files, the lock of a directory, and directories below a root."""

# ruff: noqa: PTH120 - system calls by path string: pathlib costs more than the calls
# ruff: noqa: PTH116 - system calls by path string: pathlib costs more than the calls
# ruff: noqa: PTH102, PTH112, PTH120 - system calls by path string: pathlib costs more than the calls

import errno
import fcntl
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import FileIO

from frazil.objectstore.keys import decode_name, is_plain_key, is_temporary
from frazil.objectstore.pool import Pool
from frazil.objectstore.protocol import ObjectInfo

_LARGE_BYTES = 1 << 20  # files that are synced while others are still being written
_MOST_BEGUN = 4096  # of them: each that was begun takes some memory until all are synced
_syncs = Pool(9)  # fsyncs in flight: filesystems commit their journal once for several


class LostWriteError(OSError):
    """The kernel could not write something back, and may have forgotten it since."""


class _Pending:
    """Work of one process. After a `failure` no sync succeeds: the data may be lost."""

    def __init__(self) -> None:
        self.paths: deque[str] = deque()  # its methods are atomic
        self.begun: dict[str, Callable[[], None]] = {}  # of paths: syncs that were begun early
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

    def add(self, path: str, *, size_bytes: int = 0) -> None:
        """Remember a file that is in place, but not durable; a large one is on its way then."""
        pending = self._pending()
        if size_bytes >= _LARGE_BYTES and len(pending.begun) < _MOST_BEGUN:
            pending.begun[path] = _syncs.start(partial(sync_file, path))
        pending.paths.append(path)

    def add_vacated(self, directories: set[str]) -> None:
        """Remember that names in them are gone, but may come back."""
        self._pending().vacated |= directories

    def sync(self, unnamed: Sequence[str] = ()) -> None:
        """All added files are durable, names included, and removed names do not come back.

        So are the contents of `unnamed` files, which will get their names later. Everything is
        synced at once: until this returns nothing may rely on any of it.
        Raises OSError, then keeps the work. Waits for the work that a concurrent call has begun.
        """
        pending = self._pending()
        with pending.syncing:
            if pending.failure:
                raise LostWriteError(*pending.failure.args)
            paths = list(pending.paths.copy())  # copied at once; others may go on adding
            vacated = pending.vacated.copy()
            pending.vacated -= vacated  # first: a name removed during this sync is for the next one
            try:
                unsettled, directories = self._directories_of(pending, paths)
                begun = {path: pending.begun.pop(path) for path in paths if path in pending.begun}
                later = dict.fromkeys(path for path in paths if path not in begun)
                _sync_all([*later, *unnamed], directories | vacated, begun.values())
                pending.settled |= unsettled
            except BaseException as error:
                pending.vacated |= vacated
                if isinstance(error, LostWriteError):
                    pending.failure = error
                raise
            for _ in paths:  # only now: after an interrupted sync the next one starts over
                pending.paths.popleft()

    def forget(self, directory: str) -> None:
        """The directory was made just now, perhaps again: its name has yet to be synced."""
        self._pending().settled -= {directory, *self._above(directory)}

    def sync_name(self, path: str) -> None:
        """The name of one file, whose content is durable already, is durable as well."""
        pending = self._pending()
        unsettled, directories = self._directories_of(pending, [path])
        _sync_all((), directories)
        pending.settled |= unsettled

    def _directories_of(self, pending: _Pending, paths: Iterable[str]) -> tuple[set[str], set[str]]:
        """Directories of files whose own names may not be durable, and all that have to be synced.

        The creator of a directory, this process or another, may not have synced its name yet.
        """
        directories = {os.path.dirname(path) for path in paths}
        unsettled = directories - pending.settled
        return unsettled, directories.union(*map(self._above, unsettled))

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


def _sync_all(
    files: Iterable[str],
    directories: Iterable[str],
    begun: Iterable[Callable[[], None]] = (),
) -> None:
    """Syncs all of them at once: filesystems commit their journal once or twice for that.

    `begun` are functions that wait for syncs which are under way. A lost write is raised first:
    nothing after it can be relied on.
    """
    todo = [partial(sync_file, path) for path in files]
    todo += [partial(sync_directory, path) for path in directories]
    failures = [error for error in _syncs.map(_failure, todo) if error is not None]
    failures += [error for error in map(_failure, begun) if error is not None]
    if failures:
        raise next((each for each in failures if isinstance(each, LostWriteError)), failures[0])


def _failure(sync: Callable[[], None]) -> OSError | None:
    try:
        sync()
    except OSError as error:
        return error
    return None


# One writer at a time, across threads, processes and instances: flock(2) on a lock file
#
# The kernel drops the lock of a process that dies. Two rules keep that sound: the lock file is
# never removed (a waiter would end up with a lock on a dead inode), and each holder has its own
# open file description (descriptors that share one do not exclude each other).


@contextmanager
def exclusive(path: str) -> Iterator[None]:
    """Holds the lock at `path`, whose directory must exist. Waits as long as it takes."""
    with _acquire(path) as file:
        try:
            yield
        finally:
            # Unlocking is not left to close: a child forked in between has a copy of the
            # descriptor, and would keep the lock for as long as it lives.
            fcntl.flock(file, fcntl.LOCK_UN)


def _acquire(path: str) -> FileIO:
    # A file object, not a descriptor: it closes itself at any interrupt.
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
    """True if others would lock the same file: the whole directory may have been replaced."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


# Directories below a root: created on demand, never symbolic links


class Directories:
    """Creates and checks directories below `root`; paths have no trailing slash.

    The root may be reached through symbolic links: the user chose it. Anything below it may come
    from a stranger, and a link there could redirect a read or a write.
    """

    def __init__(self, root: str, *, fsync: bool) -> None:
        self._root = root
        self._fsync = fsync
        self._known: set[str] = set()  # seen not to be links

    def require_real(self, directory: str) -> None:
        """Raises OSError(ELOOP) if a link is on the way from the root; missing is fine."""
        if directory in self._known or directory == self._root:
            return
        self.require_real(os.path.dirname(directory))
        try:
            mode = os.lstat(directory).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return
        if stat.S_ISLNK(mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), directory)
        if stat.S_ISDIR(mode):
            self._known.add(directory)

    def create(self, directory: str) -> None:
        """Make the directory and those above it, as far as they are missing."""
        self._known.discard(directory)
        if directory == self._root:
            self._create_root()
            return
        with suppress(FileExistsError):
            try:
                os.mkdir(directory)
            except FileNotFoundError:
                self.create(os.path.dirname(directory))
                os.mkdir(directory)
        self.require_real(directory)

    def _create_root(self) -> None:
        missing = [self._root]
        while not os.path.isdir(above := os.path.dirname(missing[-1])):
            missing.append(above)
        for one in reversed(missing):
            with suppress(FileExistsError):
                os.mkdir(one)
            if self._fsync:
                sync_directory(os.path.dirname(one))


def walk_objects(directory: str, inside: str, stem: str = "") -> Iterator[ObjectInfo]:
    """Objects below `directory`, in ascending order of keys, which all begin with `inside`.

    `stem` is the beginning of the names wanted at this level. A directory that vanishes
    during the walk is empty.
    """
    segments, names = _scan(directory, stem)
    segments.reverse()
    while segments:  # what was listed is forgotten: a folder may hold millions
        segment = segments.pop()
        path = f"{directory.rstrip('/')}/{names.get(segment, segment.rstrip('/'))}"
        if segment.endswith("/"):
            yield from walk_objects(path, inside + segment)
            continue
        try:
            found = os.stat(path, follow_symlinks=False)
        except FileNotFoundError:
            continue
        yield ObjectInfo(inside + segment, found.st_size, found.st_mtime_ns // 1000)


def _scan(directory: str, stem: str) -> tuple[list[str], dict[str, str]]:
    """Objects and directories of objects, by segments that begin with `stem`; those of directories
    end in a slash, which makes the order of segments the order of keys. With the names of files
    that differ from these.

    Read as a whole, so that deleting what has been listed cannot disturb the listing.
    """
    found, names = list[str](), dict[str, str]()
    plain = stem if is_plain_key(stem) else ""  # is in file names as it is
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
        for entry in entries:
            if not entry.name.startswith(plain):  # most of millions, if tasks list by first letters
                continue
            segment = decode_name(entry.name)
            if segment is None or not segment.startswith(stem):
                continue
            if entry.is_dir(follow_symlinks=False):
                segment += "/"
            elif not entry.is_file(follow_symlinks=False):
                continue
            found.append(segment)
            if segment.rstrip("/") != entry.name:
                names[segment] = entry.name
    found.sort()
    return found, names


def walk_temporary(directory: str) -> "Iterator[os.DirEntry[str]]":
    """Temporary files of ours below `directory`."""
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from walk_temporary(entry.path)
            elif is_temporary(entry.name):
                yield entry
