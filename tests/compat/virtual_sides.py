"""Both implementations with virtual chunks, behind one face."""

import builtins
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import icechunk
import zarr

import frazil
from frazil.objectstore.credentials import HttpAccess, LocalFileSystemAccess

type Outcome = tuple[str, object]


@dataclass(frozen=True, slots=True)
class Side:
    """An implementation, and its ways to say that files and web servers may be read."""

    name: str
    module: Any
    local: Any
    web: Any

    def container(self, prefix: str, store: Any = None, name: str | None = None) -> Any:
        return self.module.VirtualChunkContainer(prefix, store or self.store(prefix), name)

    def store(self, prefix: str) -> Any:
        kinds = self.module.ObjectStoreConfig
        match prefix.partition(":")[0]:
            case "file":
                return kinds.LocalFileSystem("/")
            case "http" | "https":
                return kinds.Http({"allow_http": "true"}, {})
            case "gcs" | "gs":
                return kinds.Gcs({})
            case "az":
                return kinds.Azure({"account": "account"})
            case _:
                return kinds.S3(self.module.S3Options(region="us-east-1"))

    def config(self, containers: dict[str, str | None]) -> Any:
        """Of containers by their prefix, with the names they have."""
        config = self.module.RepositoryConfig()
        for prefix, name in containers.items():
            config.set_virtual_chunk_container(self.container(prefix, name=name))
        return config

    def access(self, *prefixes: str) -> dict[str, Any]:
        return {
            prefix: self.local if prefix.startswith("file") else self.web for prefix in prefixes
        }

    def create(self, storage: Any, containers: dict[str, str | None], *prefixes: str) -> Any:
        """A repository whose containers at `prefixes` may be read."""
        access = self.access(*prefixes)
        return self.module.Repository.create(storage, self.config(containers), access)


OURS = Side("frazil", frazil, LocalFileSystemAccess(), HttpAccess())
THEIRS = Side(
    "icechunk",
    icechunk,
    icechunk.credentials.LocalFileSystemAccess,
    icechunk.credentials.HttpAccess,
)


def outcome(work: Callable[[], object]) -> Outcome:
    """What came of it: a value, or the kind of an error and the class that both know."""
    try:
        return "value", work()
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is compared
        names = [each.__name__ for each in type(error).__mro__]
        shared = next(name for name in names if hasattr(icechunk, name) or hasattr(builtins, name))
        return shared, getattr(error, "kind", "")


def make_array(session: Any, *, chunks: int = 4) -> "zarr.Array[Any]":
    """Chunks of ten bytes."""
    return zarr.create_array(
        session.store, name="a", shape=(10 * chunks,), chunks=(10,), dtype="u1", filters=None,
        compressors=None, overwrite=True,
    )  # fmt: skip
