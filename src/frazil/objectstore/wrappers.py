"""Stores around stores: each changes one behaviour and forwards everything else."""

from abc import abstractmethod
from collections.abc import Buffer, Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any, Literal, Self, cast

from frazil.dataclass import dataclass
from frazil.errors import ObjectNotFoundError
from frazil.objectstore.keys import encode_key, require_key, require_prefix
from frazil.objectstore.protocol import (
    ALWAYS,
    Blob,
    Capabilities,
    DataList,
    ObjectInfo,
    ObjectStore,
    Place,
    Precondition,
    ReadOnlyStore,
    RemoteSettings,
)
from frazil.objectstore.reads import Parts
from frazil.ranges import ByteRange, Range

type Verb = Literal["get", "get_ranges", "put", "head", "list", "delete", "copy", "sync", "refresh"]


class WrappedStore(ObjectStore):
    """Forwards everything to `inner`: a wrapped store runs the same code as a bare one."""

    __slots__ = ()

    inner: ObjectStore

    @abstractmethod
    def with_inner(self, inner: ObjectStore) -> Self:
        """The same wrapper around another store."""

    @property
    def writable(self) -> bool:
        return self.inner.writable

    @property
    def far(self) -> bool:
        return self.inner.far

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    @property
    def directory(self) -> str | None:
        return self.inner.directory

    @property
    def place(self) -> Place | None:
        return self.inner.place

    def with_settings(self, change: Callable[[RemoteSettings], RemoteSettings]) -> ObjectStore:
        inner = self.inner.with_settings(change)
        return self if inner is self.inner else self.with_inner(inner)

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        return self.inner.get(key, byte_range)

    def head(self, key: str) -> ObjectInfo:
        return self.inner.head(key)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return self.inner.list(prefix)

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        return self.inner.get_ranges(key, ranges)

    def reread(self, key: str, cached: Blob | None) -> Blob:
        return self.inner.reread(key, cached)

    def read_parts(self, parts: Parts) -> DataList:
        return self.inner.read_parts(parts)

    def list_range(self, start: str, stop: str | None) -> Iterator[ObjectInfo]:
        return self.inner.list_range(start, stop)

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        return self.inner.put(key, data, when=when)

    def delete(self, keys: Iterable[str]) -> int:
        return self.inner.delete(keys)

    def put_pieces(self, key: str, pieces: Iterable[Buffer]) -> None:
        self.inner.put_pieces(key, pieces)

    def copy(self, source: str, target: str) -> None:
        self.inner.copy(source, target)

    def link(self, source: str, target: str) -> bool:
        return self.inner.link(source, target)

    def refresh(self, key: str) -> ObjectInfo:
        return self.inner.refresh(key)

    def delete_older(self, keys: Sequence[str], before_us: int) -> tuple[str, ...]:
        return self.inner.delete_older(keys, before_us)

    def sync(self) -> None:
        self.inner.sync()

    def collect_leftovers(self, older_than_s: float) -> int:
        return self.inner.collect_leftovers(older_than_s)


@dataclass(frozen=True, slots=True)
class Request:
    """One call that reached the store. `size_bytes`: the bytes that it read, or had to write.

    `reread` is a "get", of 0 bytes if the object was still the same. `link` is a "put" of 0 bytes.
    `read_parts` is a "get" or, for several parts, a "get_ranges" of each object.
    """

    verb: Verb
    key: str
    ranges: tuple[ByteRange, ...] = ()
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Counting(WrappedStore):
    """Records the requests that pass through it, failed ones included."""

    inner: ObjectStore
    requests: list[Request] = field(default_factory=list)

    def with_inner(self, inner: ObjectStore) -> Self:
        return replace(self, inner=inner)

    @property
    def reads(self) -> tuple[Request, ...]:
        return tuple(one for one in self.requests if one.verb in ("get", "get_ranges"))

    def count(self, verb: Verb, prefix: str = "") -> int:
        """The number of requests of that kind for keys that start with `prefix`."""
        return sum(one.verb == verb and one.key.startswith(prefix) for one in self.requests)

    def clear(self) -> None:
        self.requests.clear()

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        size_bytes = 0
        try:
            blob = self.inner.get(key, byte_range)
            size_bytes = len(blob.data)
        finally:
            ranges = () if byte_range is None else (byte_range,)
            self.requests.append(Request("get", key, ranges, size_bytes))
        return blob

    def head(self, key: str) -> ObjectInfo:
        self.requests.append(Request("head", key))
        return self.inner.head(key)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        self.requests.append(Request("list", prefix))
        return self.inner.list(prefix)

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        size_bytes = 0
        try:
            parts = self.inner.get_ranges(key, ranges)
            size_bytes = sum(map(len, parts))
        finally:
            self.requests.append(Request("get_ranges", key, tuple(ranges), size_bytes))
        return parts

    def reread(self, key: str, cached: Blob | None) -> Blob:
        size_bytes = 0
        try:
            blob = self.inner.reread(key, cached)
            size_bytes = 0 if blob is cached else len(blob.data)
        finally:
            self.requests.append(Request("get", key, (), size_bytes))
        return blob

    def read_parts(self, parts: Parts) -> DataList:
        data: DataList = []
        try:
            data = self.inner.read_parts(parts)
        finally:
            self.requests.extend(_requests(parts, data))
        return data

    def list_range(self, start: str, stop: str | None) -> Iterator[ObjectInfo]:
        self.requests.append(Request("list", start))
        return self.inner.list_range(start, stop)

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        self.requests.append(Request("put", key, (), memoryview(data).nbytes))
        return self.inner.put(key, data, when=when)

    def delete(self, keys: Iterable[str]) -> int:
        wanted = tuple(keys)
        self.requests.extend(Request("delete", key) for key in wanted)
        return self.inner.delete(wanted)

    def put_pieces(self, key: str, pieces: Iterable[Buffer]) -> None:
        data = [*pieces]
        size_bytes = sum(memoryview(piece).nbytes for piece in data)
        self.requests.append(Request("put", key, (), size_bytes))
        self.inner.put_pieces(key, data)

    def copy(self, source: str, target: str) -> None:
        self.requests.append(Request("copy", source))
        self.inner.copy(source, target)

    def link(self, source: str, target: str) -> bool:
        is_linked = self.inner.link(source, target)
        if is_linked:
            self.requests.append(Request("put", target))
        return is_linked

    def refresh(self, key: str) -> ObjectInfo:
        self.requests.append(Request("refresh", key))
        return self.inner.refresh(key)

    def delete_older(self, keys: Sequence[str], before_us: int) -> tuple[str, ...]:
        self.requests.extend(Request("delete", key) for key in keys)
        return self.inner.delete_older(keys, before_us)

    def sync(self) -> None:
        self.requests.append(Request("sync", ""))
        self.inner.sync()


def _requests(parts: Parts, data: DataList) -> Iterator[Request]:
    """One request per object; `data` is empty if they failed."""
    for number, name in enumerate(parts.names):
        rows = range(parts.edges[number], parts.edges[number + 1])
        ranges = tuple(
            Range(parts.start[row], parts.start[row] + parts.length[row]) for row in rows
        )
        size_bytes = sum(len(data[row]) for row in rows) if data else 0
        verb: Verb = "get" if len(rows) == 1 else "get_ranges"
        yield Request(verb, parts.folder + name, ranges, size_bytes)


@dataclass(frozen=True, slots=True)
class Prefixed(WrappedStore):
    """The part of a store below `prefix`, as a store of its own."""

    inner: ObjectStore
    prefix: str  # without a trailing slash

    def __post_init__(self) -> None:
        require_key(self.prefix)

    def with_inner(self, inner: ObjectStore) -> Self:
        return replace(self, inner=inner)

    @property
    def directory(self) -> str | None:
        root = self.inner.directory
        return None if root is None else f"{root}/{encode_key(self.prefix)}"

    @property
    def place(self) -> Place | None:
        place = self.inner.place
        if place is None:
            return None
        prefix = f"{place.prefix}/{self.prefix}" if place.prefix else self.prefix
        return cast("Place", replace(cast("Any", place), prefix=prefix))  # places are dataclasses

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        return self.inner.get(self._below(key), byte_range)

    def head(self, key: str) -> ObjectInfo:
        return self._above(self.inner.head(self._below(key)))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        require_prefix(prefix)
        return map(self._above, self.inner.list(f"{self.prefix}/{prefix}"))

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        return self.inner.get_ranges(self._below(key), ranges)

    def reread(self, key: str, cached: Blob | None) -> Blob:
        return self.inner.reread(self._below(key), cached)

    def read_parts(self, parts: Parts) -> DataList:
        return self.inner.read_parts(replace(parts, folder=self._below(parts.folder)))

    def list_range(self, start: str, stop: str | None) -> Iterator[ObjectInfo]:
        end = f"{self.prefix}0" if stop is None else self._below(stop)  # "0" follows "/"
        return map(self._above, self.inner.list_range(self._below(start), end))

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        return self.inner.put(self._below(key), data, when=when)

    def delete(self, keys: Iterable[str]) -> int:
        return self.inner.delete(map(self._below, keys))

    def put_pieces(self, key: str, pieces: Iterable[Buffer]) -> None:
        self.inner.put_pieces(self._below(key), pieces)

    def copy(self, source: str, target: str) -> None:
        self.inner.copy(self._below(source), self._below(target))

    def link(self, source: str, target: str) -> bool:
        return self.inner.link(self._below(source), self._below(target))

    def refresh(self, key: str) -> ObjectInfo:
        return self._above(self.inner.refresh(self._below(key)))

    def delete_older(self, keys: Sequence[str], before_us: int) -> tuple[str, ...]:
        kept = self.inner.delete_older([self._below(key) for key in keys], before_us)
        return tuple(key[len(self.prefix) + 1 :] for key in kept)

    def _below(self, key: str) -> str:
        return f"{self.prefix}/{key}"

    def _above(self, info: ObjectInfo) -> ObjectInfo:
        key = info.key[len(self.prefix) + 1 :]
        return ObjectInfo(key, info.size_bytes, info.modified_at_us)


@dataclass(frozen=True, slots=True)
class ReadOnly(ReadOnlyStore, WrappedStore):
    """Refuses every change with ReadOnlyError."""

    inner: ObjectStore

    def with_inner(self, inner: ObjectStore) -> Self:
        return replace(self, inner=inner)


@dataclass(frozen=True, slots=True)
class Overlay(ReadOnlyStore):
    """Two stores as one, read-only: objects that `inner` does not have are read from `below`."""

    inner: ObjectStore
    below: ObjectStore

    @property
    def far(self) -> bool:
        return self.inner.far or self.below.far

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        return self._first(lambda store: store.get(key, byte_range))

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        return self._first(lambda store: store.get_ranges(key, ranges))

    def reread(self, key: str, cached: Blob | None) -> Blob:
        return self._first(lambda store: store.reread(key, cached))

    def head(self, key: str) -> ObjectInfo:
        return self._first(lambda store: store.head(key))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        seen = set[str]()
        for info in self.inner.list(prefix):
            seen.add(info.key)
            yield info
        yield from (info for info in self.below.list(prefix) if info.key not in seen)

    def _first[T](self, read: Callable[[ObjectStore], T]) -> T:
        try:
            return read(self.inner)
        except ObjectNotFoundError:
            return read(self.below)
