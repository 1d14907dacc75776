"""Blobs by key, with preconditions: what every backend offers, and the values it speaks in.

A key is a relative path of non-empty segments (`snapshots/1CECHNKREP0F1RSTCMT0`); see keys.py.
Objects are replaced as a whole and atomically: a reader sees an old object or a new one, never
a mixture. Whether a key may also be the parent of other keys (`a` and `a/b`) is up to the
backend; a filesystem refuses it with StorageError.
"""

import hashlib
import re
from collections.abc import Buffer, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from frazil.ranges import ByteRange, Range

type Data = bytes | memoryview
type DataList = list[Data]  # `list` is a method below, and would hide the type


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    key: str
    size_bytes: int
    modified_at_us: int


class Blob:
    """Bytes of an object as they were at one moment.

    `version` is opaque: it changes whenever the content does, and is "" for a part of an object.
    `mark` is for the store that it came from: how to tell whether the object is still the same.
    """

    # Not a dataclass: where the version is a hash of the content, it is computed when somebody
    # asks. Hashing a chunk takes longer than reading it, and nobody writes a chunk back.
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
        """Whether the content is the same. If so, a hash of it need not be computed again."""
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
    """Write, whatever is there."""


@dataclass(frozen=True, slots=True)
class Absent:
    """Write only if there is no such object."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Write only over the object that has this version.

    Some stores give equal content equal versions, so a change and its undoing go unnoticed.
    Where that matters, objects carry something that is never repeated.
    `content` is what has that version, if it is at hand: where the version is a hash, comparing is
    faster than hashing.
    """

    version: str
    content: Data | None = None


type Precondition = Always | Absent | Matches

ALWAYS = Always()
ABSENT = Absent()


class ObjectStore(Protocol):
    """A place for objects. Safe to use from several threads.

    A key that no store could hold raises InvalidInputError; a failure of the place itself
    (disk full, no permission, ...) raises StorageError.
    """

    @property
    def writable(self) -> bool:
        """Whether put, copy and delete may be tried; otherwise they raise ReadOnlyError."""
        ...

    @property
    def far(self) -> bool:
        """Whether a request takes so long that several at once are worth a thread each."""
        ...

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        """The object, or the part of it that the range covers: cut off at the ends, maybe empty.

        Raises ObjectNotFoundError.
        """
        ...

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        """Parts of one object, in the order asked for, each cut off at the object's end.

        All parts are of the same version of the object. Nearby ranges are fetched as one.
        Raises ObjectNotFoundError, also for no ranges if the backend notices.
        """
        ...

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        """The version of the object just written.

        A conditional put is durable when it returns, and of several at once exactly one wins;
        the others raise PreconditionFailedError. An unconditional put is durable after `sync`,
        and returns "" where the version would cost a pass over the data.
        """
        ...

    def head(self, key: str) -> ObjectInfo:
        """Raises ObjectNotFoundError."""
        ...

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """All objects whose key starts with `prefix`, which may end inside a segment. Any order.

        Objects written or deleted meanwhile may or may not be seen; all others are, once.
        """
        ...

    def delete(self, keys: Iterable[str]) -> int:
        """The number of objects removed; missing ones are fine.

        Where the place does not tell, missing ones are counted too.
        """
        ...

    def copy(self, source: str, target: str) -> None:
        """Like an unconditional put of what `source` holds. Raises ObjectNotFoundError."""
        ...

    def sync(self) -> None:
        """Everything put through this instance so far survives a power failure from now on."""
        ...


# Files that other programs write, read only if they are the expected version


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


# Reading an object again


@runtime_checkable
class RereadingStore(Protocol):
    """A store that can tell whether an object is still the same. For all others there is `get`."""

    def reread(self, key: str, known: Blob | None) -> Blob:
        """What `get` returns, or `known` itself, from an earlier look, if that is still there.

        In doubt the object is read: what was stored before the call is never missed.
        Raises ObjectNotFoundError.
        """
        ...


def reread(store: ObjectStore, key: str, known: Blob | None) -> Blob:
    """The object as it is now, from a store of any kind."""
    if isinstance(store, RereadingStore):
        return store.reread(key, known)
    return store.get(key)


# A second name for an object


@runtime_checkable
class KeepingStore(Protocol):
    """A store in which an object can have two names. For all others there is `put`."""

    def keep(self, source: str, target: str) -> bool:
        """Whether `target`, a new name, holds what `source` does: also after that is replaced.

        Like an unconditional put in all else: durable after `sync`, and as old as the call.
        """
        ...


# Ages of objects


_SECOND_US = 1_000_000


@runtime_checkable
class RefreshingStore(Protocol):
    """A store with a cheaper way than reading an object and writing it back."""

    def refresh(self, key: str) -> ObjectInfo:
        """Sets the object's time to now, and keeps its content. Raises ObjectNotFoundError."""
        ...


@runtime_checkable
class AgeCheckingStore(Protocol):
    """A store that compares an object's age and deletes it in one step."""

    def delete_older(self, keys: Sequence[str], before_us: int) -> tuple[str, ...]:
        """Deletes those that are older than `before_us`; returns the keys of the others.

        A `refresh` comes either before the step, and the object stays, or after it, and raises.
        """
        ...


def refresh(store: ObjectStore, key: str) -> ObjectInfo:
    """Makes the object as young as one that is written now. Raises ObjectNotFoundError."""
    if isinstance(store, RefreshingStore):
        return store.refresh(key)
    return rewrite(store, key)


def rewrite(store: ObjectStore, key: str) -> ObjectInfo:
    """Reads the object and writes it back: what every store can do."""
    store.put(key, store.get(key).data)
    return store.head(key)


def delete_older(store: ObjectStore, keys: Sequence[str], before_us: int) -> tuple[str, ...]:
    """Keys that were spared because they are younger; a store that cannot tell spares none."""
    if isinstance(store, AgeCheckingStore):
        return store.delete_older(keys, before_us)
    store.delete(keys)
    return ()


def is_older(modified_at_us: int, before_us: int) -> bool:
    """Compares with the latest time that is meant: a whole second may have lost its fraction."""
    is_whole = modified_at_us % _SECOND_US == 0
    return modified_at_us + (_SECOND_US - 1 if is_whole else 0) < before_us
