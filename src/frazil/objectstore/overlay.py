"""Two stores read as one: what the first does not have is looked for in the second."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from frazil.errors import ObjectNotFoundError
from frazil.objectstore.protocol import Blob, DataList, ObjectInfo, ObjectStore
from frazil.objectstore.wrappers import ReadOnly
from frazil.ranges import ByteRange, Range


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
