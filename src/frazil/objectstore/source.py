"""Files that others write and we only read: parts of them, of the version that is expected."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from frazil.objectstore.protocol import DataList
from frazil.ranges import Range

_ANY = "*"
_WEAK = "W/"
_LISTED = re.compile(r'(?:W/)?"[^"]*"|[^\s,"]+')  # a comma between quotes is part of an ETag


@dataclass(frozen=True, slots=True)
class SameETag:
    """Only the object that has this ETag, or one of a list of them, as in HTTP's If-Match.

    With quotes or without; `*` is any. A weak ETag is only equal to itself.
    """

    etag: str

    def matches(self, found: str) -> bool:
        """`found` is an object's ETag, empty if it has none."""
        if self.etag.strip() == _ANY or _bare(self.etag) == _bare(found):
            return True  # by itself it may also hold a comma without quotes
        return found != "" and _bare(found) in map(_bare, _LISTED.findall(self.etag))


def _bare(etag: str) -> str:
    """Without quotes; that it is weak remains."""
    text = etag.strip()
    return _WEAK + text[2:].strip('"') if text.startswith(_WEAK) else text.strip('"')


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
