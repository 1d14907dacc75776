"""Objects by key, with preconditions: the base class of every store, and the values it works with.

    ObjectStore      five abstract methods; every other one has a default that is correct anywhere
    ReadOnlyStore    an object store that refuses every change
    SourceStore      files that other programs write: read only if they are the expected version

A key is a relative path of non-empty segments (`snapshots/1CECHNKREP0F1RSTCMT0`); see keys.py.
Objects are replaced as a whole and atomically: a reader sees an old object or a new one, never
a mixture. A backend may refuse a key that is also the parent of other keys (`a` and `a/b`); a
filesystem does, with StorageError.
"""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Buffer, Callable, Iterable, Iterator, Sequence
from typing import NoReturn, Protocol

from frazil.dataclass import dataclass
from frazil.errors import ReadOnlyError
from frazil.objectstore.reads import Parts
from frazil.ranges import ByteRange, Range

# Request settings of remote stores: how many, how large, how often retried, how long to wait.

_MIB = 1024 * 1024
_SMALLEST_PART_BYTES = 5 * _MIB  # of a multipart upload, except for the last one
_MOST_PARTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSettings:
    max_requests: int = 64  # at a time, of one store
    max_requests_for_object: int = 18
    request_bytes: int = 12 * _MIB  # a larger read becomes several requests
    multipart_bytes: int = 100 * _MIB  # a larger put becomes several requests
    max_tries: int = 10
    initial_backoff_ms: int = 100
    max_backoff_ms: int = 180_000
    connect_timeout_ms: int | None = None
    read_timeout_ms: int | None = None  # silence of the server
    attempt_timeout_ms: int | None = None
    operation_timeout_ms: int | None = None  # all attempts together
    conditional_create: bool = True
    conditional_update: bool = True
    metadata: bool = True
    storage_classes: tuple[tuple[str, str], ...] = ()  # key prefix, class; the first match counts
    user_agent: str | None = None

    def storage_class_of(self, key: str) -> str | None:
        fitting = (name for start, name in self.storage_classes if key.startswith(start))
        return next(fitting, None)

    def part_bytes(self, size_bytes: int) -> int:
        """The size of each part in a multipart upload of an object of `size_bytes`."""
        return max(self.request_bytes, _SMALLEST_PART_BYTES, -(-size_bytes // _MOST_PARTS))


type Data = bytes | memoryview
type DataList = list[Data]  # `list` is a method below, and would hide the type

_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    key: str
    size_bytes: int
    modified_at_us: int


class Blob:
    """Bytes of an object as they were at one moment.

    `version` is opaque: it changes whenever the content does, and is "" for a part of an object.
    `mark` is private to the store that returned the blob: `reread` uses it to detect a change.
    """

    # Not a dataclass: where the version is a hash of the content, it is computed on demand.
    # Hashing a chunk takes longer than reading it, and chunks are never written back.
    __slots__ = ("_version", "data", "mark")

    def __init__(self, data: Data, version: str | None = None, mark: object = None) -> None:
        self.data = data
        self.mark = mark
        self._version = version

    @property
    def version(self) -> str:
        if self._version is None:
            self._version = content_version(self.data)
        return self._version

    def equals(self, other: "Blob") -> bool:
        """True if the content is the same. Then a hash of it is not computed twice."""
        if self.data != other.data:
            return False
        if self._version is None:
            self._version = other._version  # noqa: SLF001 -- of this very class
        return True

    def __repr__(self) -> str:
        return f"Blob({len(self.data)} bytes)"


def content_version(data: Buffer) -> str:
    """A version for stores that have none of their own: equal content has equal versions."""
    return hashlib.sha256(data, usedforsecurity=False).hexdigest()[:40]


def flat_bytes(data: Buffer) -> memoryview:
    """The bytes of any array in C order; copied only if they are not contiguous."""
    view = memoryview(data)
    if not view.nbytes or not view.c_contiguous:
        return memoryview(view.tobytes())
    return view.cast("B")


@dataclass(frozen=True, slots=True)
class Always:
    """Writes unconditionally."""


@dataclass(frozen=True, slots=True)
class Absent:
    """Writes only if there is no such object."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Writes only over the object that has this version.

    Some stores give equal content equal versions, so a change and its reversal go unnoticed.
    Where that matters, objects contain something that is never repeated.
    `content` is the content of that version, if the caller has it: where the version is a hash,
    comparing is faster than hashing.
    """

    version: str
    content: Data | None = None


type Precondition = Always | Absent | Matches

ALWAYS = Always()
ABSENT = Absent()


class Place(Protocol):
    """The bucket or web server of a remote store, as a frozen value whose repr shows no secret.

    Its kinds, such as S3Place, are in remote/.
    """

    def __hash__(self) -> int: ...

    @property
    def location(self) -> str:
        """A URL for people: `s3://bucket/prefix`."""
        ...

    @property
    def prefix(self) -> str:
        """The prefix of all keys in the bucket, without slashes at its ends; empty: none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Features beyond the defaults of `ObjectStore`, for callers that must choose."""

    # `list` returns keys in ascending order, and `list_range` costs no more than what it returns.
    lists_in_order: bool = False
    # `read_parts` is faster than one `get_ranges` per object by several threads.
    reads_parts: bool = False
    # `link` can give an object a second name.
    links_objects: bool = False
    # `delete_older` compares the age and deletes in one step.
    checks_age: bool = False
    # A put that replaces an object makes everything put before it durable first, as `sync` does.
    syncs_before_replacing: bool = False


class ObjectStore(ABC):
    """A place for objects. Safe to use from several threads.

    A store implements `get`, `put`, `head`, `list` and `delete`. All other methods have defaults
    that are built on these five and correct for any store; a store overrides those that it can do
    faster, and names what callers should know in `capabilities`.

    A key that no store could hold raises InvalidInputError; a failure of the place itself
    (disk full, no permission, ...) raises StorageError.
    """

    __slots__ = ()

    # What kind of store this is

    @property
    def writable(self) -> bool:
        """False if put, copy and delete always raise ReadOnlyError."""
        return True

    @property
    def far(self) -> bool:
        """True if a request takes so long that concurrent requests deserve a thread each."""
        return False

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    @property
    def directory(self) -> str | None:
        """The local directory that holds the objects as files; None for any other store."""
        return None

    @property
    def place(self) -> Place | None:
        """The bucket or web server and how to connect to it; None for any other store."""
        return None

    def with_settings(self, change: Callable[[RemoteSettings], RemoteSettings]) -> "ObjectStore":
        """The same store with changed request settings; itself if it makes no requests."""
        del change
        return self

    # Reading

    @abstractmethod
    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        """The object, or the part that the range covers: cut off at the ends, possibly empty.

        Raises ObjectNotFoundError.
        """

    @abstractmethod
    def head(self, key: str) -> ObjectInfo:
        """Raises ObjectNotFoundError."""

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """All objects whose key starts with `prefix`, which may end inside a segment. Any order.

        Objects written or deleted during the listing may or may not be included; all others are
        included exactly once.
        """

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        """Parts of one object, in the order of `ranges`, each cut off at the object's end.

        All parts are of the same version of the object. Nearby ranges are fetched as one.
        Raises ObjectNotFoundError, also for no ranges if the backend notices.
        """
        view = memoryview(self.get(key).data)
        return [view[wanted.start : wanted.stop] for wanted in ranges]

    def reread(self, key: str, cached: Blob | None) -> Blob:
        """The object as `get` returns it, or `cached` itself if the object is still the same.

        If the store cannot tell, it reads the object: a write before the call is never missed.
        Raises ObjectNotFoundError.
        """
        del cached
        return self.get(key)

    def read_parts(self, parts: Parts) -> DataList:
        """The bytes of each part, shorter only at the end of its object.

        A part that has a target and was read into it is returned as that very target.
        """
        data: DataList = []
        for number, name in enumerate(parts.names):
            rows = range(parts.edges[number], parts.edges[number + 1])
            ranges = [Range(parts.start[row], parts.start[row] + parts.length[row]) for row in rows]
            data += self.get_ranges(parts.folder + name, ranges)
        return data

    def list_range(self, start: str, stop: str | None) -> Iterator[ObjectInfo]:
        """All objects with keys from `start` up to but without `stop`; None: to the end."""
        return (
            info for info in self.list() if start <= info.key and (stop is None or info.key < stop)
        )

    # Writing

    @abstractmethod
    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        """Writes the object and returns its version.

        A conditional put is durable when it returns, and of several at once exactly one wins;
        the others raise PreconditionFailedError. An unconditional put is durable after `sync`,
        and returns "" where the version would cost a pass over the data.
        """

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> int:
        """Deletes the objects and returns how many were removed; missing ones are no error.

        Where the place does not tell, missing ones are counted too.
        """

    def put_pieces(self, key: str, pieces: Iterable[Buffer]) -> None:
        """Writes the concatenated pieces unconditionally; directories take them one by one."""
        self.put(key, b"".join(pieces))

    def copy(self, source: str, target: str) -> None:
        """Like an unconditional put of the content of `source`. Raises ObjectNotFoundError."""
        self.put(target, self.get(source).data)

    def link(self, source: str, target: str) -> bool:
        """Gives an object a second name without writing it again; False if that is not possible.

        `target` must be new. It keeps the content when `source` is replaced. Otherwise like an
        unconditional put: durable after `sync`, and its age starts with the call.
        """
        del source, target
        return False

    def refresh(self, key: str) -> ObjectInfo:
        """Sets the object's modification time to now. Raises ObjectNotFoundError.

        Garbage collection goes by the age of objects, so a writer refreshes an object that it uses
        again. See docs/design/029-reused-work.md.
        """
        self.put(key, self.get(key).data)
        return self.head(key)

    def delete_older(self, keys: Sequence[str], before_us: int) -> tuple[str, ...]:
        """Deletes the objects older than `before_us`; returns the keys of those that it kept.

        With `capabilities.checks_age`, a concurrent `refresh` comes either before the step, and
        the object stays, or after it, and raises. A store that cannot tell deletes all of them.
        """
        del before_us
        self.delete(keys)
        return ()

    def sync(self) -> None:  # noqa: B027 -- a default, correct as it is
        """Makes everything put through this instance so far survive a power failure.

        The default does nothing: correct for a store whose writes are durable when they return.
        """

    def collect_leftovers(self, older_than_s: float) -> int:
        """Removes what writers that died left behind; returns the number of files removed."""
        del older_than_s
        return 0


class ReadOnlyStore(ObjectStore):
    """A store that refuses every change with ReadOnlyError."""

    __slots__ = ()

    @property
    def writable(self) -> bool:
        return False

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        del data, when
        self._refuse("write", key)

    def put_pieces(self, key: str, pieces: Iterable[Buffer]) -> None:
        del pieces
        self._refuse("write", key)

    def delete(self, keys: Iterable[str]) -> int:
        self._refuse("delete", ", ".join(keys))

    def delete_older(self, keys: Sequence[str], before_us: int) -> tuple[str, ...]:
        del before_us
        self._refuse("delete", ", ".join(keys))

    def refresh(self, key: str) -> ObjectInfo:
        self._refuse("refresh", key)

    def copy(self, source: str, target: str) -> None:
        self._refuse("copy", f"{source} to {target}")

    def link(self, source: str, target: str) -> bool:
        self._refuse("link", f"{source} to {target}")

    def sync(self) -> None:
        """Does nothing: there are no writes."""

    def collect_leftovers(self, older_than_s: float) -> int:
        del older_than_s
        return 0

    def _refuse(self, action: str, target: str) -> NoReturn:
        raise ReadOnlyError(
            f"cannot {action} {target}: the store is read-only", kind="read-only-storage"
        )


def is_older(modified_at_us: int, before_us: int) -> bool:
    """Compares with the latest possible time: a whole second may have lost its fraction."""
    is_whole = modified_at_us % _SECOND_US == 0
    return modified_at_us + (_SECOND_US - 1 if is_whole else 0) < before_us


# Files that other programs write, read only if they are the expected version

_ANY = "*"
_WEAK = "W/"
_LISTED = r'(?:W/)?"[^"]*"|[^\s,"]+'  # a comma between quotes is part of an ETag


@dataclass(frozen=True, slots=True)
class SameETag:
    """Accepts an object with this ETag, or one of a list of them, as in HTTP's If-Match.

    With quotes or without; `*` is any. A weak ETag is only equal to itself.
    """

    etag: str

    def matches(self, current: str) -> bool:
        """Compares with an object's ETag, which is empty if it has none."""
        if self.etag.strip() == _ANY or _strip_quotes(self.etag) == _strip_quotes(current):
            return True  # by itself it may also hold a comma without quotes
        return current != "" and _strip_quotes(current) in map(
            _strip_quotes, re.findall(_LISTED, self.etag)
        )


def _strip_quotes(etag: str) -> str:
    """The ETag without quotes; the mark of a weak one remains."""
    text = etag.strip()
    return _WEAK + text[2:].strip('"') if text.startswith(_WEAK) else text.strip('"')


@dataclass(frozen=True, slots=True)
class NotModifiedAfter:
    """Accepts an object last modified in this second or before."""

    seconds: int  # since 1970


type Expectation = SameETag | NotModifiedAfter


class SourceStore(Protocol):
    """Files that other programs write. Safe to use from several threads."""

    def read(
        self, key: str, ranges: Sequence[Range], *, expected: Expectation | None = None
    ) -> DataList:
        """Parts of one version of an object, in the order of `ranges`, each cut off at its end.

        One request per range: the caller merges them. Raises ObjectNotFoundError, and
        ObjectChangedError if the object is not the expected one.
        """
        ...

    def size_bytes(self, key: str) -> int:
        """The size of a whole object. Raises ObjectNotFoundError."""
        ...
