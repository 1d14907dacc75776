"""Folders of this machine and of buckets, for what is made of many files: Zarr stores."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from frazil.errors import ObjectNotFoundError
from frazil.spark.sources.source import Remote, Source


@dataclass(frozen=True, slots=True)
class Entry:
    key: str  # below the folder
    path: str  # as of a source
    size_bytes: int
    modified_at_us: int


@dataclass(frozen=True, slots=True)
class Folder:
    path: str  # or URL
    remote: Remote | None

    @classmethod
    def of(cls, source: Source) -> "Folder":
        return cls(source.path.rstrip("/"), source.remote)

    def below(self, *names: str) -> "Folder":
        """Raises nothing: it need not be there."""
        inner = "/".join(name.strip("/") for name in names if name.strip("/"))
        remote = self.remote
        if remote is not None:
            remote = Remote(remote.store, f"{remote.key}/{inner}" if inner else remote.key)
        return Folder(f"{self.path}/{inner}" if inner else self.path, remote)

    def find(self, name: str) -> bytes | None:
        """The content of a file in it."""
        try:
            if self.remote is None:
                return Path(self.path, name).read_bytes()
            return bytes(self.remote.store.get(f"{self.remote.key}/{name}").data)
        except (ObjectNotFoundError, FileNotFoundError, NotADirectoryError):
            return None

    def entries(self) -> Iterator[Entry]:
        """All files at any depth, in any order."""
        if self.remote is not None:
            start = f"{self.remote.key}/"
            for info in self.remote.store.list(start):
                key = info.key.removeprefix(start)
                yield Entry(key, f"{self.path}/{key}", info.size_bytes, info.modified_at_us)
            return
        root = Path(self.path)
        for entry in root.rglob("*"):
            if entry.is_file():
                status = entry.stat()
                key = entry.relative_to(root).as_posix()
                yield Entry(key, str(entry), status.st_size, status.st_mtime_ns // 1000)
