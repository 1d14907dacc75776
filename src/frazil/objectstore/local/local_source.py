"""Files of this machine that others write.

A file's ETag is made as the Rust `object_store` makes it, so that those found by obstore or another
tool of that family hold here: inode, time of modification in microseconds and size, in hex.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from frazil.dataclass import dataclass
from frazil.errors import InvalidInputError, ObjectChangedError, ObjectNotFoundError
from frazil.objectstore.local.local_files import read_error
from frazil.objectstore.protocol import DataList, Expectation, NotModifiedAfter, SameETag
from frazil.ranges import Range, resolve


@dataclass(frozen=True, slots=True)
class LocalSource:
    """The files below `roots`; a key is an absolute path without its first slash.

    A link that points outside is refused, a link to another of the roots is not.
    """

    roots: tuple[str, ...]

    def read(
        self, key: str, ranges: Sequence[Range], *, expected: Expectation | None = None
    ) -> DataList:
        """Reads the file as it was when it was opened, even if it is replaced during the read.


        A write in place during the read is detected only if a version is expected.
        """
        with self._opened(key) as file:
            status = os.fstat(file)
            require_expected(key, status, expected)
            within = [resolve(wanted, status.st_size) for wanted in ranges]
            try:
                parts: DataList = [_part(file, wanted) for wanted in within]
            except OSError as error:
                raise read_error(key, error) from error
            if expected is not None:
                require_expected(key, os.fstat(file), expected)
            return parts

    def size_bytes(self, key: str) -> int:
        with self._opened(key) as file:
            return os.fstat(file).st_size

    @contextmanager
    def _opened(self, key: str) -> Iterator[int]:
        path = self._real_path(key)
        try:
            # A named pipe would otherwise wait for a writer.
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise read_error(key, error) from error
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise ObjectNotFoundError(key)
            yield file
        finally:
            os.close(file)

    def _real_path(self, key: str) -> str:
        try:
            path = os.path.realpath("/" + key, strict=True)
        except OSError as error:
            raise read_error(key, error) from error
        except ValueError as error:  # a zero in it
            raise ObjectNotFoundError(key) from error
        roots = map(os.path.realpath, self.roots)
        if any(os.path.commonpath((root, path)) == root for root in roots):
            return path
        raise InvalidInputError(
            f"the file {'/' + key!r} is a link that points out of {' and '.join(self.roots)}:"
            " authorize a virtual chunk container for its target",
            kind="unauthorized-virtual-chunk-container",
        )


def etag_of(status: os.stat_result) -> str:
    """Without quotes."""
    return f"{status.st_ino:x}-{status.st_mtime_ns // 1000:x}-{status.st_size:x}"


def require_expected(key: str, status: os.stat_result, expected: Expectation | None) -> None:
    """Times are compared in whole seconds, which is what an expectation is stored in."""
    match expected:
        case SameETag(etag):
            found = etag_of(status)
            if not expected.matches(found):
                raise ObjectChangedError(key, f"ETag {etag}", f"ETag {found}")
        case NotModifiedAfter(seconds):
            modified = status.st_mtime_ns // 1_000_000_000
            if modified > seconds:
                raise ObjectChangedError(
                    key, f"no modification after {seconds}", f"one at {modified}, in Unix seconds"
                )
        case None:
            pass


def _part(file: int, wanted: Range) -> bytes:
    """Read at once, or piece by piece where one read gives less than was asked for."""
    data = os.pread(file, len(wanted), wanted.start)
    if len(data) in {len(wanted), 0}:
        return data
    parts = [data]
    got = len(data)
    while got < len(wanted) and (more := os.pread(file, len(wanted) - got, wanted.start + got)):
        parts.append(more)
        got += len(more)
    return b"".join(parts)
