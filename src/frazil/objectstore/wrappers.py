"""Stores around stores: each adds one behaviour and passes the rest on."""

from collections.abc import Buffer, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NoReturn

from frazil.errors import ObjectNotFoundError, ReadOnlyError
from frazil.objectstore.keys import require_key, require_prefix
from frazil.objectstore.protocol import (
    ALWAYS,
    Blob,
    DataList,
    ObjectInfo,
    ObjectStore,
    Precondition,
    delete_older,
    refresh,
    reread,
)
from frazil.ranges import ByteRange, Range

type Verb = Literal["get", "get_ranges", "put", "head", "list", "delete", "copy", "sync", "refresh"]


@dataclass(frozen=True, slots=True)
class Request:
    """One call that reached the store. `size_bytes`: what it read, or had to write.

    Reading an object again is a "get", of 0 bytes if it was still the same.
    """

    verb: Verb
    key: str
    ranges: tuple[ByteRange, ...] = ()
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Counting:
    """A store that remembers the requests that passed through it, failed ones included."""

    inner: ObjectStore
    requests: list[Request] = field(default_factory=list)

    @property
    def writable(self) -> bool:
        return self.inner.writable

    @property
    def far(self) -> bool:
        return self.inner.far

    @property
    def reads(self) -> tuple[Request, ...]:
        return tuple(one for one in self.requests if one.verb in ("get", "get_ranges"))

    def count(self, verb: Verb, prefix: str = "") -> int:
        """How many requests of that kind went to keys that start with `prefix`."""
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

    def reread(self, key: str, known: Blob | None) -> Blob:
        size_bytes = 0
        try:
            blob = reread(self.inner, key, known)
            size_bytes = 0 if blob is known else len(blob.data)
        finally:
            self.requests.append(Request("get", key, (), size_bytes))
        return blob

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        size_bytes = 0
        try:
            parts = self.inner.get_ranges(key, ranges)
            size_bytes = sum(map(len, parts))
        finally:
            self.requests.append(Request("get_ranges", key, tuple(ranges), size_bytes))
        return parts

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        self.requests.append(Request("put", key, (), memoryview(data).nbytes))
        return self.inner.put(key, data, when=when)

    def head(self, key: str) -> ObjectInfo:
        self.requests.append(Request("head", key))
        return self.inner.head(key)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        self.requests.append(Request("list", prefix))
        return self.inner.list(prefix)

    def delete(self, keys: Iterable[str]) -> int:
        wanted = tuple(keys)
        self.requests.extend(Request("delete", key) for key in wanted)
        return self.inner.delete(wanted)

    def delete_older(self, keys: Sequence[str], before_us: int) -> tuple[str, ...]:
        self.requests.extend(Request("delete", key) for key in keys)
        return delete_older(self.inner, keys, before_us)

    def refresh(self, key: str) -> ObjectInfo:
        self.requests.append(Request("refresh", key))
        return refresh(self.inner, key)

    def copy(self, source: str, target: str) -> None:
        self.requests.append(Request("copy", source))
        self.inner.copy(source, target)

    def sync(self) -> None:
        self.requests.append(Request("sync", ""))
        self.inner.sync()


@dataclass(frozen=True, slots=True)
class Prefixed:
    """The part of a store below `prefix`, as a store of its own."""

    inner: ObjectStore
    prefix: str  # without a slash at its end

    def __post_init__(self) -> None:
        require_key(self.prefix)

    @property
    def writable(self) -> bool:
        return self.inner.writable

    @property
    def far(self) -> bool:
        return self.inner.far

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        return self.inner.get(self._below(key), byte_range)

    def reread(self, key: str, known: Blob | None) -> Blob:
        return reread(self.inner, self._below(key), known)

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        return self.inner.get_ranges(self._below(key), ranges)

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        return self.inner.put(self._below(key), data, when=when)

    def head(self, key: str) -> ObjectInfo:
        return self._above(self.inner.head(self._below(key)))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        require_prefix(prefix)
        return map(self._above, self.inner.list(f"{self.prefix}/{prefix}"))

    def delete(self, keys: Iterable[str]) -> int:
        return self.inner.delete(map(self._below, keys))

    def delete_older(self, keys: Sequence[str], before_us: int) -> tuple[str, ...]:
        spared = delete_older(self.inner, [self._below(key) for key in keys], before_us)
        return tuple(key[len(self.prefix) + 1 :] for key in spared)

    def refresh(self, key: str) -> ObjectInfo:
        return self._above(refresh(self.inner, self._below(key)))

    def copy(self, source: str, target: str) -> None:
        self.inner.copy(self._below(source), self._below(target))

    def sync(self) -> None:
        self.inner.sync()

    def _below(self, key: str) -> str:
        return f"{self.prefix}/{key}"

    def _above(self, info: ObjectInfo) -> ObjectInfo:
        key = info.key[len(self.prefix) + 1 :]
        return ObjectInfo(key, info.size_bytes, info.modified_at_us)


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """A store that refuses every change with ReadOnlyError."""

    inner: ObjectStore

    @property
    def writable(self) -> bool:
        return False

    @property
    def far(self) -> bool:
        return self.inner.far

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        return self.inner.get(key, byte_range)

    def reread(self, key: str, known: Blob | None) -> Blob:
        return reread(self.inner, key, known)

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        return self.inner.get_ranges(key, ranges)

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        del data, when
        self._refuse("write", key)

    def head(self, key: str) -> ObjectInfo:
        return self.inner.head(key)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return self.inner.list(prefix)

    def delete(self, keys: Iterable[str]) -> int:
        self._refuse("delete", ", ".join(keys))

    def delete_older(self, keys: Sequence[str], before_us: int) -> tuple[str, ...]:
        del before_us
        self._refuse("delete", ", ".join(keys))

    def refresh(self, key: str) -> ObjectInfo:
        self._refuse("refresh", key)

    def copy(self, source: str, target: str) -> None:
        self._refuse("copy", f"{source} to {target}")

    def sync(self) -> None:
        """Nothing is ever written here."""

    def _refuse(self, doing: str, what: str) -> NoReturn:
        raise ReadOnlyError(
            f"cannot {doing} {what}: the store is read-only", kind="read-only-storage"
        )


# Two stores as one


@dataclass(frozen=True, slots=True)
class Overlay(ReadOnly):
    """`inner` over `below`; read-only."""

    below: ObjectStore

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        try:
            return self.inner.get(key, byte_range)
        except ObjectNotFoundError:
            return self.below.get(key, byte_range)

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        try:
            return self.inner.get_ranges(key, ranges)
        except ObjectNotFoundError:
            return self.below.get_ranges(key, ranges)

    def head(self, key: str) -> ObjectInfo:
        try:
            return self.inner.head(key)
        except ObjectNotFoundError:
            return self.below.head(key)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        seen = set[str]()
        for info in self.inner.list(prefix):
            seen.add(info.key)
            yield info
        yield from (info for info in self.below.list(prefix) if info.key not in seen)
