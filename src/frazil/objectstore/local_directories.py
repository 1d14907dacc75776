"""The directories below a root: made when needed, never symbolic links, and what is in them."""

# ruff: noqa: PTH102, PTH112, PTH120 - system calls by path string: pathlib costs more than the calls

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from frazil.objectstore.durability import sync_directory
from frazil.objectstore.local_names import decode_name, is_temporary
from frazil.objectstore.protocol import ObjectInfo


class Directories:
    """What is known about the directories below `root`; paths have no trailing slash.

    The root may be reached through symbolic links: it is the user's word. Anything below it may
    have come from a stranger, so a link there could lead a read or a write astray.
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
    meanwhile is empty.
    """
    for name, entry in _scan(directory):
        if not name.startswith(stem):
            continue
        if name.endswith("/"):
            yield from walk_objects(entry.path, inside + name)
            continue
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        yield ObjectInfo(inside + name, found.st_size, found.st_mtime_ns // 1000)


def _scan(directory: str) -> "list[tuple[str, os.DirEntry[str]]]":
    """Entries that are objects or directories of objects, by segment; those of directories end in
    a slash, which makes the order of entries the order of keys.

    Read as a whole, so that deleting what has been listed cannot disturb the listing.
    """
    found = []
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
        for entry in entries:
            segment = decode_name(entry.name)
            if segment is None:
                continue
            if entry.is_file(follow_symlinks=False):
                found.append((segment, entry))
            elif entry.is_dir(follow_symlinks=False):
                found.append((segment + "/", entry))
    return sorted(found, key=lambda pair: pair[0])


def walk_temporary(directory: str) -> "Iterator[os.DirEntry[str]]":
    """Temporary files of ours below `directory`."""
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from walk_temporary(entry.path)
            elif is_temporary(entry.name):
                yield entry
