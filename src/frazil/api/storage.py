"""Where repositories are kept."""

import os

from frazil.objectstore.local import LocalStore
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ObjectStore


class Storage:
    """A place for one repository. Made by the functions below, or around any ObjectStore."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    def __repr__(self) -> str:
        match self.store:
            case MemoryStore():
                return "Storage.new_in_memory()"
            case LocalStore(root=root):
                return f"Storage.new_local_filesystem({root!r})"
            case store:
                return f"Storage({store!r})"

    @classmethod
    def new_in_memory(cls) -> "Storage":
        return cls(MemoryStore())

    @classmethod
    def new_local_filesystem(cls, path: str | os.PathLike[str]) -> "Storage":
        return cls(LocalStore(path))


def in_memory_storage() -> Storage:
    """A new, empty place in the memory of this process."""
    return Storage.new_in_memory()


def local_filesystem_storage(path: str | os.PathLike[str]) -> Storage:
    """The directory `path`, made when something is written to it.

    Any number of threads and processes may commit to it at once.
    """
    return Storage.new_local_filesystem(path)
