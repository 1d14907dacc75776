"""Chunk references that lead nowhere, or to more than anybody wants to be sent."""

from frazil.errors import StorageError
from frazil.format.limits import Limits

_NOWHERE = 1 << 62  # so that sums of offsets and lengths are numbers that systems know


def require_length(length: int, limits: Limits) -> None:
    """Raises StorageError; of many references the largest length will do."""
    if length > limits.chunk_bytes:
        raise StorageError(
            f"a chunk reference is to {length} bytes, at most {limits.chunk_bytes} are read at"
            " once: Limits(chunk_bytes=...) allows more",
            kind="invalid-object-size",
        )


def require_moderate(offset: int, length: int, limits: Limits) -> None:
    """The same, and for an offset that no file has."""
    require_length(length, limits)
    if offset >= _NOWHERE:
        raise StorageError(
            f"a chunk reference begins at byte {offset}, where no file has any",
            kind="invalid-object-size",
        )
