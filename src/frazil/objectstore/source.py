"""Files that others write and we only read: parts of them, of the version that is expected."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from frazil.objectstore.protocol import DataList
from frazil.ranges import Range


@dataclass(frozen=True, slots=True)
class SameETag:
    """Only the object that has this ETag, quoted or not."""

    etag: str


@dataclass(frozen=True, slots=True)
class NotModifiedAfter:
    """Only an object last modified in this second or before."""

    seconds: int  # since 1970


type Expectation = SameETag | NotModifiedAfter


class SourceStore(Protocol):
    """Files that others write. Safe to use from several threads."""

    def read(
        self, key: str, ranges: Sequence[Range], *, expected: Expectation | None = None
    ) -> DataList:
        """Parts of one version of an object, in the order asked for, each cut off at its end.

        One request a range: the caller coalesces. Raises ObjectNotFoundError, and
        ObjectChangedError if the object is not the one that is expected.
        """
        ...

    def size_bytes(self, key: str) -> int:
        """Of a whole object. Raises ObjectNotFoundError."""
        ...
