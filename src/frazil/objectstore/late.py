"""A store whose place is found out when it is first used."""

from abc import ABC, abstractmethod
from collections.abc import Buffer, Iterable, Iterator, Sequence
from threading import Lock
from typing import Self

from frazil.objectstore.protocol import ALWAYS, Blob, DataList, ObjectInfo, Precondition
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote_place import Place
from frazil.objectstore.remote_settings import RemoteSettings
from frazil.ranges import ByteRange, Range


class LateStore(ABC):
    """Finds its place once in each process; a failure to do so is not remembered."""

    def __init__(self, settings: RemoteSettings | None = None) -> None:
        self._settings = settings or RemoteSettings()
        self._lock = Lock()
        self._found: RemoteStore | None = None

    @abstractmethod
    def find_place(self) -> Place:
        """Raises StorageError."""

    @abstractmethod
    def with_settings(self, settings: RemoteSettings) -> Self: ...

    @property
    @abstractmethod
    def writable(self) -> bool: ...

    @property
    def far(self) -> bool:
        return True

    @property
    def settings(self) -> RemoteSettings:
        return self._settings

    @property
    def target(self) -> RemoteStore:
        with self._lock:
            if self._found is None:
                self._found = RemoteStore(self.find_place(), self._settings)
            return self._found

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        return self.target.get(key, byte_range)

    def reread(self, key: str, known: Blob | None) -> Blob:
        return self.target.reread(key, known)

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        return self.target.get_ranges(key, ranges)

    def head(self, key: str) -> ObjectInfo:
        return self.target.head(key)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return self.target.list(prefix)

    @property
    def lists_ranges(self) -> bool:
        return self.target.lists_ranges

    def list_range(self, start: str, stop: str | None) -> Iterator[ObjectInfo]:
        return self.target.list_range(start, stop)

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        return self.target.put(key, data, when=when)

    def delete(self, keys: Iterable[str]) -> int:
        return self.target.delete(keys)

    def refresh(self, key: str) -> ObjectInfo:
        return self.target.refresh(key)

    def copy(self, source: str, target: str) -> None:
        self.target.copy(source, target)

    def sync(self) -> None:
        self.target.sync()
