"""A store in which another client acts at a chosen moment, and which records what is written."""

import threading
from collections.abc import Buffer, Callable, Iterable, Sequence
from dataclasses import dataclass

from frazil.objectstore.protocol import ALWAYS, Blob, ObjectStore, Precondition
from frazil.objectstore.wrappers import Verb
from frazil.ranges import ByteRange
from frazil.testing.hooked_store import HookedStore


@dataclass(frozen=True, slots=True)
class Write:
    """A write that succeeded, or an object that was deleted (`data` is None).

    `read` is the version of the object that was read last, or written, through this store;
    `replaced` its content before, and `kept` the contents below `overwritten/` by then.
    """

    key: str
    data: bytes | None
    when: Precondition
    read: str | None
    replaced: bytes | None
    kept: frozenset[bytes]


class OvertakenStore[S: ObjectStore](HookedStore[S]):
    """Before its request number `moment`, counted from when it was armed, `act` happens, once.

    Requests that `act` makes through this store are neither counted nor recorded. Writes are
    recorded of keys in `recorded`.
    """

    def __init__(self, inner: S, *, recorded: Sequence[str] = ()) -> None:
        super().__init__(inner, before=self._count)
        self.requests = 0
        self.writes: list[Write] = []
        self._recorded = tuple(recorded)
        self._read: dict[str, str] = {}
        self._moment = -1
        self._act: Callable[[], object] | None = None
        self._acting = threading.local()

    def arm(self, moment: int, act: Callable[[], object]) -> None:
        self.requests, self._moment, self._act = 0, moment, act

    @property
    def was_overtaken(self) -> bool:
        return self._act is None

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        return self._remembered(key, super().get(key, byte_range))

    def reread(self, key: str, cached: Blob | None) -> Blob:
        return self._remembered(key, super().reread(key, cached))

    def _remembered(self, key: str, blob: Blob) -> Blob:
        if key.startswith(self._recorded) and not self._is_acting:
            self._read[key] = blob.version
        return blob

    def delete(self, keys: Iterable[str]) -> int:
        def act() -> int:
            for key in wanted:
                self._record(key, None, ALWAYS)
            return self.inner.delete(wanted)

        wanted = list[str](keys)
        return self.request("delete", " ".join(wanted), act)

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        def act() -> str:
            before = self._describe(key, bytes(data), when)
            version = self.inner.put(key, data, when=when)
            if before is not None:
                self.writes.append(before)
                self._read[key] = version
            return version

        return self.request("put", key, act)

    def copy(self, source: str, target: str) -> None:
        def act() -> None:
            self._record(target, bytes(self.inner.get(source).data), ALWAYS)
            self.inner.copy(source, target)

        self.request("copy", source, act)

    @property
    def _is_acting(self) -> bool:
        return getattr(self._acting, "now", False)

    def _record(self, key: str, data: bytes | None, when: Precondition) -> None:
        write = self._describe(key, data, when)
        self.writes += [] if write is None else [write]

    def _describe(self, key: str, data: bytes | None, when: Precondition) -> Write | None:
        if self._is_acting or not key.startswith(self._recorded or ("\0",)):
            return None
        contents = {info.key: bytes(self.inner.get(info.key).data) for info in self.inner.list(key)}
        kept = [bytes(self.inner.get(info.key).data) for info in self.inner.list("overwritten/")]
        return Write(
            key, data, when, self._read.get(key), contents.get(key), frozenset[bytes](kept)
        )

    def _count(self, verb: Verb, key: str) -> None:
        del key
        if self._is_acting or verb == "sync":
            return
        self.requests += 1
        if self._act is not None and self.requests > self._moment:
            act, self._act = self._act, None
            self._acting.now = True
            try:
                act()
            finally:
                self._acting.now = False
