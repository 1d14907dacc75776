"""The files that a set of references is in: of this machine, or in a virtual chunk container."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from frazil.errors import ObjectNotFoundError, StorageError
from frazil.format.payloads import Virtual
from frazil.format.urls import regular
from frazil.ranges import Range
from frazil.repo.session import Session


class SetFiles(Protocol):
    """Files by name, below one place. Safe to use from several threads."""

    def place(self, name: str) -> str:
        """For messages; the empty name is the place itself."""
        ...

    def find(self, name: str) -> bytes | None:
        """What the file holds; None if there is none."""
        ...

    def map[R](self, function: Callable[[str], R], names: Iterable[str]) -> Iterator[R]:
        """Results in order, as many at once as is good for the place."""
        ...


@dataclass(frozen=True, slots=True)
class LocalFiles:
    root: Path

    def place(self, name: str) -> str:
        return str(self.root / name)

    def find(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise StorageError(f"cannot read {self.place(name)}: {error.strerror}") from error

    def map[R](self, function: Callable[[str], R], names: Iterable[str]) -> Iterator[R]:
        return map(function, names)


@dataclass(frozen=True, slots=True, eq=False)
class ContainedFiles:
    """Below a URL that a virtual chunk container covers, read as virtual chunks are."""

    session: Session
    url: str

    def place(self, name: str) -> str:
        return f"{self.url.rstrip('/')}/{name}" if name else self.url

    def find(self, name: str) -> bytes | None:
        virtual, location = self.session.files.virtual, regular(self.place(name))
        try:
            size = virtual.size_bytes(location)
        except ObjectNotFoundError:
            return None
        return bytes(virtual.fetch(Virtual(location, 0, size, None), Range(0, size)))

    def map[R](self, function: Callable[[str], R], names: Iterable[str]) -> Iterator[R]:
        return iter(self.session.files.pool.map(function, list(names)))
