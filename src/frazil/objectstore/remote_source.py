"""Objects in buckets and on web servers that others write."""

from collections.abc import Sequence

from frazil.errors import InvalidInputError, ObjectChangedError
from frazil.objectstore.protocol import DataList
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote_place import Place
from frazil.objectstore.remote_reads import Mark
from frazil.objectstore.remote_settings import RemoteSettings
from frazil.objectstore.source import Expectation, NotModifiedAfter, SameETag
from frazil.ranges import Range

_NO_GAP = -1  # only ranges that overlap share a request


class RemoteSource:
    """The objects at a place, by their whole names. Names are used as they are."""

    def __init__(self, place: Place, settings: RemoteSettings) -> None:
        self._store = RemoteStore(place, settings)

    def read(
        self, key: str, ranges: Sequence[Range], *, expected: Expectation | None = None
    ) -> DataList:
        """As SourceStore says; a range larger than a request should be takes several."""
        _require_addressable(key, self._store.location)
        reader = self._store.reader()
        parts, mark = reader.read_ranges(key, ranges, key=key, gap_bytes=_NO_GAP)
        if expected is not None:
            _require_expected(key, mark or reader.head(key, key=key), expected)
        return parts

    def size_bytes(self, key: str) -> int:
        _require_addressable(key, self._store.location)
        return self._store.reader().head(key, key=key).size_bytes

    def __repr__(self) -> str:
        return f"RemoteSource({self._store.location!r})"


def _require_addressable(key: str, location: str) -> None:
    """Obstore cannot ask for other names, though S3 may have them."""
    if not key or {"", ".", ".."}.intersection(key.split("/")):
        raise InvalidInputError(
            f"cannot address {key!r} in {location}: it is empty, or contains empty (//), '.' or"
            " '..' path segments",
            kind="invalid-virtual-ref",
        )


def _require_expected(key: str, mark: Mark, expected: Expectation) -> None:
    """Times are compared in whole seconds."""
    match expected:
        case SameETag(etag):
            if not expected.matches(mark.etag):
                raise ObjectChangedError(key, f"ETag {etag}", f"ETag {mark.etag or 'none'}")
        case NotModifiedAfter(seconds):
            modified = mark.modified_at_us // 1_000_000
            if modified <= 0:  # as obstore has it where a web server sends no Last-Modified
                raise ObjectChangedError(
                    key,
                    f"no modification after {seconds}",
                    "no time of modification: the server does not tell it, so nothing can be"
                    " checked (give references an ETag, or no time)",
                )
            if modified > seconds:
                raise ObjectChangedError(
                    key, f"no modification after {seconds}", f"one at {modified}, in Unix seconds"
                )
