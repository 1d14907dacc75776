"""Names of files that go, many at a time."""

# ruff: noqa: PTH108 - system calls by path string: pathlib costs more than the calls

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from frazil.objectstore.refreshing import is_older

_MANY = 100  # from here on a second thread is worth it: it frees blocks while the other unlinks
_NO_FILE = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


def unlink_all(paths: Sequence[str]) -> int:
    """How many were there. Raises OSError, whose `filename` tells which; others may be gone."""
    if len(paths) < _MANY:
        return _unlink(paths)
    middle = len(paths) // 2
    with ThreadPoolExecutor(1, thread_name_prefix="frazil-unlink") as aside:
        first = aside.submit(_unlink, paths[:middle])
        second = _unlink(paths[middle:])
    return first.result() + second


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
