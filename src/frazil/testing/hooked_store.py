"""An object store that calls hooks around each request to another one.

    store = HookedStore(MemoryStore(), before=lambda verb, key: print(verb, key))
    repo = Repository.open(Storage(store))

It forwards everything, so a repository on it runs the same code as on the bare store.
"""

from collections.abc import Buffer, Callable, Iterable, Iterator, Sequence
from typing import Self

from frazil.objectstore.protocol import (
    ALWAYS,
    Blob,
    DataList,
    ObjectInfo,
    ObjectStore,
    Precondition,
)
from frazil.objectstore.reads import Parts
from frazil.objectstore.wrappers import Verb, WrappedStore
from frazil.ranges import ByteRange, Range

type Hook = Callable[[Verb, str], object]


def no_hook(verb: Verb, key: str) -> None:
    del verb, key


class HookedStore[S: ObjectStore](WrappedStore):
    """Calls `before` and `after` each request with its verb and key; both may be replaced.

    Several keys are joined by spaces. `reread` is a "get", `read_parts` a "get_ranges" of the
    objects, `put_pieces` and `link` are a "put", `list_range` is a "list", `delete_older` a
    "delete". An error that `before` raises is that of the request, which is not made.
    """

    inner: S

    def __init__(self, inner: S, *, before: Hook = no_hook, after: Hook = no_hook) -> None:
        self.inner = inner
        self.before = before
        self.after = after

    def with_inner(self, inner: ObjectStore) -> Self:
        self.inner = inner  # type: ignore[assignment]  # a store of the same kind
        return self  # not a copy: tests keep changing the hooks of this one

    def request[T](self, verb: Verb, key: str, act: Callable[[], T]) -> T:
        """Makes one request. Subclasses may override it."""
        self.before(verb, key)
        result = act()
        self.after(verb, key)
        return result

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        return self.request("get", key, lambda: self.inner.get(key, byte_range))

    def head(self, key: str) -> ObjectInfo:
        return self.request("head", key, lambda: self.inner.head(key))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return self.request("list", prefix, lambda: self.inner.list(prefix))

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        return self.request("get_ranges", key, lambda: self.inner.get_ranges(key, ranges))

    def reread(self, key: str, cached: Blob | None) -> Blob:
        return self.request("get", key, lambda: self.inner.reread(key, cached))

    def read_parts(self, parts: Parts) -> DataList:
        keys = " ".join(parts.folder + name for name in parts.names)
        return self.request("get_ranges", keys, lambda: self.inner.read_parts(parts))

    def list_range(self, start: str, stop: str | None) -> Iterator[ObjectInfo]:
        return self.request("list", start, lambda: self.inner.list_range(start, stop))

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        return self.request("put", key, lambda: self.inner.put(key, data, when=when))

    def delete(self, keys: Iterable[str]) -> int:
        wanted = tuple(keys)
        return self.request("delete", " ".join(wanted), lambda: self.inner.delete(wanted))

    def put_pieces(self, key: str, pieces: Iterable[Buffer]) -> None:
        self.request("put", key, lambda: self.inner.put_pieces(key, pieces))

    def copy(self, source: str, target: str) -> None:
        self.request("copy", source, lambda: self.inner.copy(source, target))

    def link(self, source: str, target: str) -> bool:
        if not self.inner.capabilities.links_objects:
            return False  # no request: the caller will put the object
        return self.request("put", target, lambda: self.inner.link(source, target))

    def refresh(self, key: str) -> ObjectInfo:
        return self.request("refresh", key, lambda: self.inner.refresh(key))

    def delete_older(self, keys: Sequence[str], before_us: int) -> tuple[str, ...]:
        return self.request(
            "delete", " ".join(keys), lambda: self.inner.delete_older(keys, before_us)
        )

    def sync(self) -> None:
        self.request("sync", "", self.inner.sync)
