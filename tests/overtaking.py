"""A store in memory in which another client acts at a chosen moment, and what is written to it."""

import threading
from collections.abc import Buffer, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import override

from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ALWAYS, Blob, ObjectInfo, ObjectStore, Precondition
from frazil.ranges import ByteRange


@dataclass(frozen=True, slots=True)
class Write:
    """A write that succeeded. `replaced` is what was there, `kept` which backups were by then."""

    key: str
    data: bytes
    when: Precondition
    replaced: bytes | None
    read: str | None  # version of the object that was read last, by anyone
    kept: frozenset[bytes]


class OvertakenStore(MemoryStore):
    """Before its request number `moment`, counted from `arm`, `act` happens, once.

    Requests that `act` makes are not counted, and their writes not recorded.
    """

    def __init__(self, source: ObjectStore | None = None) -> None:
        super().__init__()
        self.requests = 0
        self.writes: list[Write] = []
        self._read: dict[str, str] = {}
        self._moment = -1
        self._act: Callable[[], object] | None = None
        self._acting = threading.local()
        for info in () if source is None else source.list():
            super().put(info.key, bytes(source.get(info.key).data))  # type: ignore[union-attr]  # there are keys
        self.arm(-1, None)

    def arm(self, moment: int, act: Callable[[], object] | None) -> None:
        self.requests, self._moment, self._act = 0, moment, act

    @property
    def was_overtaken(self) -> bool:
        return self._act is None

    @override
    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        self._count()
        blob = super().get(key, byte_range)
        if not self._is_acting:
            self._read[key] = blob.version
        return blob

    @override
    def head(self, key: str) -> ObjectInfo:
        self._count()
        return super().head(key)

    @override
    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        self._count()
        return super().list(prefix)

    @override
    def delete(self, keys: Iterable[str]) -> int:
        self._count()
        return super().delete(keys)

    @override
    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        self._count()
        old = self._objects.get(key)
        kept = frozenset(
            content for name, (content, *_) in self._objects.items() if name.startswith("overwri")
        )
        version = super().put(key, data, when=when)
        if not self._is_acting:
            write = Write(
                key, bytes(data), when, None if old is None else old[0], self._read.get(key), kept
            )
            self.writes.append(write)
            self._read[key] = version
        return version

    @property
    def _is_acting(self) -> bool:
        return getattr(self._acting, "now", False)

    def _count(self) -> None:
        if self._is_acting:
            return
        self.requests += 1
        if self._act is not None and self.requests > self._moment >= 0:
            act, self._act = self._act, None
            self._acting.now = True
            try:
                act()
            finally:
                self._acting.now = False
