"""The one door through which errors of the operating system become ours."""

import errno

from frazil.errors import ObjectNotFoundError, StorageError
from frazil.objectstore.durability import LostWriteError

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
    """As `storage_error`, but a path that leads nowhere means that there is no such object."""
    if error.errno in _NOTHING_THERE:
        return ObjectNotFoundError(key)
    return storage_error("read", key, error)
