"""Objects in the memory of this process."""

import itertools
import os
import threading
from collections.abc import Buffer, Iterable, Iterator, Sequence
from weakref import WeakValueDictionary

from frazil.clock import Clock, system_clock
from frazil.errors import ObjectNotFoundError, PreconditionFailedError, StorageError
from frazil.objectstore.keys import require_key, require_prefix
from frazil.objectstore.protocol import (
    ALWAYS,
    Absent,
    Always,
    Blob,
    Capabilities,
    DataList,
    Matches,
    ObjectInfo,
    ObjectStore,
    Precondition,
    is_older,
)
from frazil.ranges import ByteRange, Range, resolve

_CAPABILITIES = Capabilities(checks_age=True)


class MemoryStore(ObjectStore):
    """A store that lives as long as the process.

    A pickle of it is a reference: loaded in the same process it is the same store, loaded
    anywhere else (a forked child included) it raises StorageError.
    """

    def __init__(self, *, clock: Clock = system_clock) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._objects: dict[str, tuple[bytes, str, int]] = {}  # content, version, modified at us
        self._versions = itertools.count(1)
        self._home = (os.getpid(), next(_SERIAL))
        _LIVING[self._home] = self

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        data, version, _ = self._find(key)
        if byte_range is None:
            return Blob(data, version)
        part = resolve(byte_range, len(data))
        return Blob(memoryview(data)[part.start : part.stop], "")

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        view = memoryview(self._find(key)[0])
        return [view[one.start : one.stop] for one in ranges]

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        require_key(key)
        content = data if isinstance(data, bytes) else memoryview(data).tobytes()
        with self._lock:
            found = self._objects.get(key)
            match when:
                case Absent() if found is not None:
                    raise PreconditionFailedError(key, "no such object")
                case Matches(version) if found is None or found[1] != version:
                    raise PreconditionFailedError(key, f"version {version}")
                case Absent() | Matches() | Always():
                    version = str(next(self._versions))
                    self._objects[key] = (content, version, self._clock())
                    return version

    def head(self, key: str) -> ObjectInfo:
        data, _, modified_at_us = self._find(key)
        return ObjectInfo(key, len(data), modified_at_us)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        require_prefix(prefix)
        with self._lock:
            found = [
                ObjectInfo(key, len(data), modified_at_us)
                for key, (data, _, modified_at_us) in self._objects.items()
                if key.startswith(prefix)
            ]
        yield from sorted(found, key=lambda info: info.key)

    def delete(self, keys: Iterable[str]) -> int:
        removed = 0
        for key in keys:
            require_key(key)
            with self._lock:
                removed += self._objects.pop(key, None) is not None
        return removed

    def delete_older(self, keys: Sequence[str], before_us: int) -> tuple[str, ...]:
        with self._lock:
            found = {key: self._objects[key][2] for key in keys if key in self._objects}
            kept = {key for key, at_us in found.items() if not is_older(at_us, before_us)}
            self.delete(key for key in keys if key not in kept)
        return tuple(key for key in keys if key in kept)

    def refresh(self, key: str) -> ObjectInfo:
        with self._lock:
            data, version, _ = self._find(key)
            self._objects[key] = (data, version, self._clock())
            return self.head(key)

    def _find(self, key: str) -> tuple[bytes, str, int]:
        require_key(key)
        try:
            return self._objects[key]
        except KeyError:
            raise ObjectNotFoundError(key) from None

    def __repr__(self) -> str:
        return f"MemoryStore({len(self._objects)} objects)"

    def __reduce__(self) -> tuple[object, ...]:
        return _revive, (self._home,)


# Where pickles find the stores of this process.
_SERIAL = itertools.count(1)
_LIVING: "WeakValueDictionary[tuple[int, int], MemoryStore]" = WeakValueDictionary()


def _revive(home: tuple[int, int]) -> MemoryStore:
    store = _LIVING.get(home)
    if store is None or home[0] != os.getpid():
        raise StorageError(
            f"an in-memory store cannot leave its process: it was made in process {home[0]},"
            f" this is process {os.getpid()}; use a store that both can reach"
        )
    return store
