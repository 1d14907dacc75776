"""Objects in a bucket or on a web server, through obstore.

place      where it is and how servers differ: s3, gcs, azure
requests   options of the client, and a limit on concurrent requests
reads      parts of one object that belong to one version
writes     conditional writes whose response may get lost
errors     obstore's errors as frazil's
"""

from abc import abstractmethod
from collections.abc import Buffer, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import batched
from threading import Lock
from typing import TYPE_CHECKING, Self

from frazil.errors import (
    InvalidInputError,
    ObjectChangedError,
    ObjectNotFoundError,
    ReadOnlyError,
    StorageError,
)
from frazil.objectstore.keys import require_prefix
from frazil.objectstore.protocol import (
    ALWAYS,
    Blob,
    Capabilities,
    DataList,
    Expectation,
    NotModifiedAfter,
    ObjectInfo,
    ObjectStore,
    Place,
    Precondition,
    RemoteSettings,
    SameETag,
    flat_bytes,
)
from frazil.objectstore.remote.place import RemotePlace, key_after, path_of, start_of_paths
from frazil.objectstore.remote.remote_errors import translate_errors
from frazil.objectstore.remote.remote_reads import Mark, Part, Reader, mark_of
from frazil.objectstore.remote.remote_requests import Requests, Role
from frazil.objectstore.remote.remote_writes import Writer
from frazil.objectstore.wrappers import WrappedStore
from frazil.ranges import ByteRange, Range

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore as Client

_DELETED_AT_ONCE = 1000


class RemoteStore(ObjectStore):
    """The objects at a place, below its prefix.

    Connects when first used. A pickle holds the place, credentials included, and connects again.
    In a process forked after the first use, every request raises StorageError.
    """

    def __init__(self, place: RemotePlace, settings: RemoteSettings | None = None) -> None:
        self._place = place
        self._settings = settings or RemoteSettings()
        self._requests = Requests(
            at_once=self._settings.max_requests, per_object=self._settings.max_requests_for_object
        )
        self._lock = Lock()
        self._clients: dict[Role, Client] = {}

    @property
    def place(self) -> RemotePlace:
        return self._place

    @property
    def settings(self) -> RemoteSettings:
        return self._settings

    @property
    def location(self) -> str:
        return self._place.location

    @property
    def writable(self) -> bool:
        return self._place.features.writable

    @property
    def far(self) -> bool:
        return True

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(lists_in_order=self._place.features.lists_in_order)

    def with_settings(self, change: Callable[[RemoteSettings], RemoteSettings]) -> "RemoteStore":
        settings = change(self._settings)
        return self if settings == self._settings else RemoteStore(self._place, settings)

    # Reading

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        part = self.reader().read(path_of(self._place, key), byte_range, key=key)
        return self._blob(part) if byte_range is None else Blob(part.data, "")

    def reread(self, key: str, cached: Blob | None) -> Blob:
        etag = "" if cached is None else self._etag(cached)
        if cached is None or not etag:
            return self.get(key)
        part = self.reader().read_unless(path_of(self._place, key), etag, key=key)
        return cached if part is None else self._blob(part)

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        return self.reader().read_ranges(path_of(self._place, key), ranges, key=key)[0]

    def head(self, key: str) -> ObjectInfo:
        mark = self.reader().head(path_of(self._place, key), key=key)
        return ObjectInfo(key, mark.size_bytes, mark.modified_at_us)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        require_prefix(prefix)
        return self._list(prefix)

    def _list(self, prefix: str) -> Iterator[ObjectInfo]:
        features, start = self._place.features, start_of_paths(self._place)
        after = _just_before(prefix) if features.lists_in_order else None
        for meta in self._walk(prefix.rpartition("/")[0], after):
            key = key_after(start, features, meta["path"])
            if key is not None and key.startswith(prefix):
                mark = mark_of(meta)
                yield ObjectInfo(key, mark.size_bytes, mark.modified_at_us)
            elif key is not None and after is not None and key > prefix:
                return

    def list_range(self, start: str, stop: str | None) -> Iterator[ObjectInfo]:
        features, root = self._place.features, start_of_paths(self._place)
        after = _before_range(start) if features.lists_in_order else None
        for meta in self._walk("", after):
            key = key_after(root, features, meta["path"])
            if key is None or key < start:
                continue
            if stop is None or key < stop:
                mark = mark_of(meta)
                yield ObjectInfo(key, mark.size_bytes, mark.modified_at_us)
            elif features.lists_in_order:
                return

    def list_folders(self) -> tuple[str, ...]:
        """Names of the first segments of keys that have more than one, without walking them."""
        from obstore import list_with_delimiter  # noqa: PLC0415 - `import frazil` stays light

        features, start = self._place.features, start_of_paths(self._place)
        client = self._client("read")
        with translate_errors("list", self.location, ""), self._requests.one():
            found = list_with_delimiter(client, start.rstrip("/") or None)
        keys = (key_after(start, features, path.rstrip("/")) for path in found["common_prefixes"])
        return tuple(sorted(key for key in keys if key))

    def _walk(self, directory: str, after: str | None = None) -> "Iterator[ObjectMeta]":
        """All objects below it, from a key on. obstore knows only whole segments as a prefix."""
        from obstore import list as list_objects  # noqa: PLC0415 - `import frazil` stays light

        root = path_of(self._place, directory) if directory else start_of_paths(self._place)
        if not self._place.features.lists_by_prefix:
            root = ""
        client = self._client("read")
        with translate_errors("list", self.location, directory), self._requests.one():
            offset = None if after is None else path_of(self._place, after)
            pages = iter(
                list_objects(client, root.rstrip("/") or None, offset=offset, chunk_size=1000)
            )
        while True:
            with translate_errors("list", self.location, directory), self._requests.one():
                page = next(pages, None)
            if page is None:
                return
            yield from page

    # Writing

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        path = path_of(self._place, key)
        self._require_writable("write", key)
        writer = Writer(
            client=self._client("write"),
            reader=self.reader(),
            requests=self._requests,
            settings=self._settings,
            features=self._place.features,
            location=self.location,
        )
        return writer.put(path, flat_bytes(data), when, key=key)

    def delete(self, keys: Iterable[str]) -> int:
        """Deletes objects. On S3, missing ones are counted too: the server does not tell."""
        removed = 0
        for batch in batched(keys, _DELETED_AT_ONCE):
            paths = {path_of(self._place, key): key for key in batch}
            self._require_writable("delete", batch[0])
            if self._place.features.bulk_deletes:
                removed += self._delete_at_once(paths)
            else:
                removed += sum(self._requests.map(self._delete_one, list(paths.items())))
        return removed

    def copy(self, source: str, target: str) -> None:
        from obstore import copy  # noqa: PLC0415 - `import frazil` stays light

        here, there = path_of(self._place, source), path_of(self._place, target)
        self._require_writable("copy", f"{source} to {target}")
        client = self._client("write")
        with translate_errors("copy", self.location, source), self._requests.one():
            copy(client, here, there)

    def refresh(self, key: str) -> ObjectInfo:
        """Copies the object onto itself, which S3 refuses, or writes it back."""
        if self._place.features.copies_onto_itself:
            before = self.head(key)
            with suppress(StorageError):  # if the object is gone, the read below says so
                self.copy(key, key)
                after = self.head(key)
                if after.modified_at_us > before.modified_at_us:
                    return after
        return super().refresh(key)

    def _delete_at_once(self, paths: dict[str, str]) -> int:
        from obstore import delete  # noqa: PLC0415 - `import frazil` stays light

        client = self._client("write")
        with translate_errors("delete", self.location, ""), self._requests.one():
            delete(client, list(paths))
        return len(paths)

    def _delete_one(self, named: tuple[str, str]) -> bool:
        from obstore import delete  # noqa: PLC0415 - `import frazil` stays light

        path, key = named
        client = self._client("write")
        try:
            with translate_errors("delete", self.location, key), self._requests.one():
                delete(client, path)
        except ObjectNotFoundError:
            return False
        return True

    def _require_writable(self, doing: str, what: str) -> None:
        if not self.writable:
            raise ReadOnlyError(
                f"cannot {doing} {what}: {self.location} can only be read",
                kind="read-only-storage",
            )

    # Connections

    def reader(self) -> Reader:
        """A reader of objects by their names in the bucket."""
        return Reader(
            client=self._client("read"),
            requests=self._requests,
            settings=self._settings,
            location=self.location,
            suffix_ranges=self._place.features.suffix_ranges,
        )

    def _client(self, role: Role) -> "Client":
        with self._lock:
            if role not in self._clients:
                connect = _shared_client if self._place.is_self_contained else _new_client
                with translate_errors("connect to", self.location, ""):
                    self._clients[role] = connect(self._place, role, self._settings)
            return self._clients[role]

    def _blob(self, part: Part) -> Blob:
        mark = part.mark
        return Blob(part.data, "") if mark is None else Blob(part.data, self._version(mark), mark)

    def _etag(self, known: Blob) -> str:
        """The ETag by which a change is detected; "" if there is none."""
        features = self._place.features
        if not features.exact_etags:
            return ""
        if isinstance(known.mark, Mark):
            return known.mark.etag
        return "" if features.counts_generations else known.version  # as a put returned it

    def _version(self, mark: Mark) -> str:
        if self._place.features.counts_generations:
            return mark.generation or ""
        return mark.etag

    def __repr__(self) -> str:
        return f"RemoteStore({self.location!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return RemoteStore, (self._place, self._settings)


def _new_client(place: RemotePlace, role: Role, settings: RemoteSettings) -> "Client":
    return place.connect(role, settings)


# A client takes as long to make as ten requests, and keeps connections open: a
# repository that is opened again, or a session unpickled for each task, reuses them. Some are kept,
# with credentials.
_shared_client = lru_cache(maxsize=32)(_new_client)


def _before_range(start: str) -> str | None:
    """A key before which no key of the range is; None if there is none to be named."""
    return f"{start[:-1]}.zz" if start.endswith("/") else _just_before(start)  # "." < "/"


def _just_before(prefix: str) -> str | None:
    """A key after which all keys with the prefix come; None if it ends a segment, or in doubt."""
    if not prefix or not prefix[-1].isascii() or not prefix[-1].isalnum():
        return None
    last = chr(ord(prefix[-1]) - 1)
    # Names of files are digits and capitals, so hardly any is between this and the prefix.
    return f"{prefix[:-1]}{last}zz" if last.isalnum() else None


# Objects that other programs write


_NO_GAP = -1  # only ranges that overlap share a request


class RemoteSource:
    """The objects at a place, by their whole names. Names are used as they are."""

    def __init__(self, place: RemotePlace, settings: RemoteSettings) -> None:
        self._store = RemoteStore(place, settings)

    def read(
        self, key: str, ranges: Sequence[Range], *, expected: Expectation | None = None
    ) -> DataList:
        """Reads each range in one request, or in several if it is large."""
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


# Stores whose place is looked up on first use


class LazyStore(WrappedStore):
    """Looks up its place on first use, once per process; a failure is not remembered."""

    def __init__(self, settings: RemoteSettings | None = None) -> None:
        self._settings = settings or RemoteSettings()
        self._lock = Lock()
        self._target: RemoteStore | None = None

    @abstractmethod
    def find_place(self) -> RemotePlace:
        """Raises StorageError."""

    @property
    @abstractmethod
    def writable(self) -> bool: ...

    @property
    def far(self) -> bool:
        return True

    @property
    def place(self) -> Place | None:
        """None: it is not known before it was looked up."""
        return None

    @property
    def settings(self) -> RemoteSettings:
        return self._settings

    @property
    def target(self) -> RemoteStore:
        with self._lock:
            if self._target is None:
                self._target = RemoteStore(self.find_place(), self._settings)
            return self._target

    @property
    def inner(self) -> ObjectStore:  # type: ignore[override]  # an attribute that is looked up
        return self.target

    def with_inner(self, inner: ObjectStore) -> Self:
        raise NotImplementedError("the place is looked up: use with_settings")

    @abstractmethod
    def with_settings(self, change: Callable[[RemoteSettings], RemoteSettings]) -> Self: ...
