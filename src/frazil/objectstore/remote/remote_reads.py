"""Reading from a remote store: several requests for one object, and all of one version.

    a large object      the first part tells the size; then the rest, several parts at a time
    a large range       several parts at a time, as who asks for one knows how large it is
    many ranges         nearby ones as one request, all at a time
    no ranges there     some web servers only send whole objects: those are cut up here

Parts are asked for without a condition and compared afterwards: an object that was replaced in
between gives parts that do not belong together, and is read again. Objects that are replaced
are small and rare, and a condition would cost a round trip each time.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from frazil.dataclass import dataclass
from frazil.errors import StorageError
from frazil.objectstore.protocol import Data, DataList, RemoteSettings
from frazil.objectstore.reads import merge_reads
from frazil.objectstore.remote.remote_errors import failure_of, foreign_errors, translate_errors
from frazil.objectstore.remote.remote_requests import Requests
from frazil.ranges import ByteRange, From, Last, Range, Until

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore as Client

GAP_BYTES = 1024 * 1024  # reading that much more costs about as much as another request
_ROUNDS = 5
_MOST_PIECES = 100  # requests for a range before it is asked whether there is as much
_ENDLESS = 1 << 62


@dataclass(frozen=True, slots=True)
class Mark:
    """Values by which two versions of an object differ."""

    etag: str
    generation: str | None
    modified_at_us: int
    size_bytes: int

    @property
    def identity(self) -> tuple[object, ...]:
        """A key of the version; the time is part of it only if there is no ETag."""
        return self.etag or self.modified_at_us, self.generation, self.size_bytes


@dataclass(frozen=True, slots=True)
class Part:
    """Some bytes of an object; `mark` is None if the range began beyond its end."""

    data: Data
    mark: Mark | None


class _ReplacedError(Exception):
    """The object was replaced while it was being read."""


class _UnchangedError(Exception):
    """The object is the one that is known."""


class _NoRangesError(Exception):
    """The server sends objects as a whole only."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads objects by their names in the bucket."""

    client: "Client" = field(repr=False)  # shows the whole of a URL
    requests: Requests
    settings: RemoteSettings
    location: str
    suffix_ranges: bool = True

    def read(self, path: str, byte_range: ByteRange | None, *, key: str) -> Part:
        """The object or a part of it, cut off at its ends. Raises ObjectNotFoundError."""
        with self._naming(key):
            return _until_stable(lambda: self._read(path, byte_range), self.location, key)

    def read_unless(self, path: str, etag: str, *, key: str) -> Part | None:
        """The object, or None if it is still the one that had this ETag."""
        with self._naming(key):
            try:
                return _until_stable(
                    lambda: self._read_from(path, Range(0, _ENDLESS), whole=True, unless=etag),
                    self.location,
                    key,
                )
            except _UnchangedError:
                return None

    def read_ranges(
        self, path: str, ranges: Sequence[Range], *, key: str, gap_bytes: int = GAP_BYTES
    ) -> tuple[DataList, Mark | None]:
        """Parts in the order asked for, and what they are parts of, if any is not empty."""
        with self._naming(key):
            return _until_stable(
                lambda: self._read_ranges(path, ranges, gap_bytes), self.location, key
            )

    def head(self, path: str, *, key: str) -> Mark:
        with self._naming(key):
            return self._head(path)

    def _naming(self, key: str) -> Any:
        return translate_errors("read", self.location, key)

    # One object or range

    def _read(self, path: str, byte_range: ByteRange | None) -> Part:
        match byte_range:
            case None:
                return self._read_from(path, Range(0, _ENDLESS), whole=True)
            case Range():
                return self._read_range(path, byte_range)
            case From(start):
                return self._read_from(path, Range(start, _ENDLESS))
            case Last(count) if self.suffix_ranges and 0 < count <= self.settings.request_bytes:
                with suppress(_NoRangesError):
                    return self._fetch(path, {"suffix": count})
                complete = self._fetch(path, None)
                return Part(complete.data[-count:], complete.mark)
            case Last() | Until():
                mark = self._head(path)
                size = mark.size_bytes
                cut = max(0, size - byte_range.count)
                wanted = Range(cut, size) if isinstance(byte_range, Last) else Range(0, cut)
                part = self._read_from(path, wanted)
                _require_same([mark, part.mark])
                return Part(part.data, mark)

    def _read_range(self, path: str, wanted: Range) -> Part:
        """All of its parts at once, unless there are so many that it must be a mistake."""
        limit = self.settings.request_bytes
        if len_of(wanted) <= limit or len_of(wanted) > _MOST_PIECES * limit:
            return self._read_from(path, wanted)
        (data,), mark = self._read_ranges(path, [wanted], gap_bytes=0)
        return Part(data, mark)

    def _read_from(
        self, path: str, wanted: Range, *, whole: bool = False, unless: str = ""
    ) -> Part:
        """Reads in one request if it is small. Need not know the size before."""
        limit = self.settings.request_bytes
        if not len_of(wanted) or wanted.start >= _ENDLESS:
            return Part(b"", self._head(path))
        try:
            span = wanted.start, min(wanted.stop, wanted.start + limit)
            first = self._fetch(path, span, unless)
        except _NoRangesError:
            complete = self._fetch(path, None)
            return Part(complete.data[wanted.start : wanted.stop], complete.mark)
        if first.mark is None:
            # Nothing at `start`: an empty object, if the whole of it was wanted.
            return self._fetch(path, None) if whole else first
        stop = min(wanted.stop, first.mark.size_bytes)
        rest = split(Range(wanted.start + len(first.data), max(wanted.start, stop)), limit)
        if not rest:
            return first
        parts = [first, *self._fetch_all(path, rest)]
        _require_same([part.mark for part in parts])
        return Part(memoryview(b"".join(part.data for part in parts)), first.mark)

    # Many ranges

    def _read_ranges(
        self, path: str, ranges: Sequence[Range], gap_bytes: int
    ) -> tuple[DataList, Mark | None]:
        limit = self.settings.request_bytes
        wanted = [at for at, one in enumerate(ranges) if len_of(one) and one.start < _ENDLESS]
        if not wanted:
            return [b""] * len(ranges), self._head(path) if ranges else None
        clipped = [Range(ranges[at].start, min(ranges[at].stop, _ENDLESS)) for at in wanted]
        if max(map(len_of, clipped)) > _MOST_PIECES * limit:  # the caller may be wrong
            size = self._head(path).size_bytes
            clipped = [Range(min(one.start, size), min(one.stop, size)) for one in clipped]
        reads = merge_reads(clipped, gap_bytes=gap_bytes, limit_bytes=limit)
        pieces = [split(read.span, limit) for read in reads]
        try:
            parts = iter(self._fetch_all(path, [one for each in pieces for one in each]))
        except _NoRangesError:
            complete = self._fetch(path, None)
            return [complete.data[one.start : one.stop] for one in ranges], complete.mark
        found: DataList = [b""] * len(ranges)
        marks = []
        for read, spans in zip(reads, pieces, strict=True):
            own = [next(parts) for _ in spans]
            marks += [part.mark for part in own]
            whole = own[0].data if len(own) == 1 else b"".join(part.data for part in own)
            view = memoryview(whole)
            for served in read.serves:
                at = wanted[served]
                start = ranges[at].start - read.span.start
                found[at] = view[start : start + len_of(ranges[at])]
        return found, _require_same(marks)

    def _fetch_all(self, path: str, spans: Sequence[Range]) -> list[Part]:
        return self.requests.map(lambda one: self._fetch(path, (one.start, one.stop)), spans)

    # One request

    def _fetch(
        self, path: str, wanted: tuple[int, int] | dict[str, int] | None, unless: str = ""
    ) -> Part:
        from obstore import get  # noqa: PLC0415 - `import frazil` stays light

        options: Any = {} if wanted is None else {"range": wanted}
        if unless:
            options["if_none_match"] = f'"{unless}"'
        try:
            with self.requests.one():
                found = get(self.client, path, options=options)
                return Part(memoryview(found.bytes()), mark_of(found.meta))
        except foreign_errors() as error:
            failure = failure_of(error)
            if failure.unchanged:
                raise _UnchangedError from error
            if wanted is not None and failure.beyond_end:
                return Part(b"", None)
            if wanted is not None and failure.without_ranges:
                raise _NoRangesError from error
            raise

    def _head(self, path: str) -> Mark:
        from obstore import head  # noqa: PLC0415 - `import frazil` stays light

        with self.requests.one():
            return mark_of(head(self.client, path))


def mark_of(meta: "ObjectMeta") -> Mark:
    moment = meta["last_modified"]
    modified_at_us = int(moment.timestamp()) * 1_000_000 + moment.microsecond
    return Mark(bare_etag(meta["e_tag"]), meta["version"], modified_at_us, meta["size"])


def bare_etag(etag: str | None) -> str:
    """Without the quotes, which not all servers send at all times."""
    return (etag or "").strip('"')


def split(span: Range, limit_bytes: int) -> list[Range]:
    """Pieces of about equal size, none larger than `limit_bytes`."""
    length = len_of(span)
    count = -(-length // limit_bytes)
    edges = [span.start + length * at // count for at in range(count + 1)] if count else []
    return [Range(start, stop) for start, stop in pairwise(edges)]


def len_of(span: Range) -> int:
    return span.stop - span.start  # `len` refuses what is too long to exist


def _until_stable[T](read: Callable[[], T], location: str, key: str) -> T:
    """The result of `read`, repeated while the object is being replaced."""
    for _ in range(_ROUNDS):
        try:
            return read()
        except _ReplacedError:
            continue
    raise StorageError(f"cannot read {location}/{key}: it is being replaced all the time")


def _require_same(marks: Sequence[Mark | None]) -> Mark | None:
    """Marks of one version; None if all ranges began beyond the end."""
    known = {mark.identity: mark for mark in marks if mark is not None}
    if len(known) > 1:
        raise _ReplacedError
    return next(iter(known.values()), None)
