"""The repository that the tours are made in: written once, copied for every call."""

import importlib
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import zarr
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.sync import sync

GROUP = b'{"zarr_format": 3, "node_type": "group", "attributes": {}}'
RECTILINEAR = (
    b'{"zarr_format": 3, "node_type": "array", "shape": [6], "data_type": "int32",'
    b' "chunk_grid": {"name": "rectilinear", "configuration":'
    b' {"kind": "inline", "chunk_shapes": [[1, 2, 3]]}},'
    b' "chunk_key_encoding": {"name": "default"}, "fill_value": 0,'
    b' "codecs": [{"name": "bytes"}], "attributes": {}}'
)
INITIAL = "1CECHNKREP0F1RSTCMT0"
UNKNOWN = "AAAAAAAAAAAAAAAAAAA0"
CONTAINER = "s3://bucket/"


@dataclass(frozen=True)
class Template:
    """Repositories of both versions, and the ids of their commits, oldest first."""

    folder: Path
    ids: dict[int, list[str]] = field(default_factory=dict)


@dataclass
class Place:
    """A copy of the template, as one of the packages sees it."""

    m: ModuleType
    folder: Path
    ids: list[str]
    version: int = 2

    @property
    def storage(self) -> Any:
        return self.m.local_filesystem_storage(str(self.folder / f"v{self.version}"))

    @property
    def memory(self) -> Any:
        return self.m.in_memory_storage()

    @cached_property
    def repo(self) -> Any:
        return self.m.Repository.open(self.storage)

    @property
    def session(self) -> Any:
        return self.repo.writable_session("main")

    @property
    def store(self) -> Any:
        return self.session.store

    @property
    def reader(self) -> Any:
        """A read-only session."""
        return self.repo.readonly_session("main")

    @property
    def mover(self) -> Any:
        return self.repo.rearrange_session("main")

    @property
    def edited(self) -> Any:
        session = self.session
        zarr.open_array(session.store, path="a", mode="r+")[0] = 9
        return session

    @property
    def committed(self) -> Any:
        session = self.edited
        session.commit("edited")
        return session

    def module(self, name: str) -> Any:
        return importlib.import_module(f"{self.m.__name__}.{name}")

    def new_folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder


@contextmanager
def template(m: ModuleType) -> Iterator[Template]:
    """Both repositories, written by one of the packages: ids are then the same for both."""
    with TemporaryDirectory() as folder:
        made = Template(Path(folder))
        for version in (1, 2):
            storage = m.local_filesystem_storage(str(made.folder / f"v{version}"))
            made.ids[version] = _fill(m, m.Repository.create(storage, spec_version=version))
        yield made


def _fill(m: ModuleType, repo: Any) -> list[str]:
    """A group `g`, arrays `a`, `g/b` and `v`; tags v1 and gone, which is deleted; a branch dev."""
    ids = []
    session = repo.writable_session("main")
    root = zarr.create_group(session.store)
    root.create_group("g", attributes={"unit": "K"})
    root.create_array("a", shape=(4,), chunks=(2,), dtype="i4", compressors=None)[...] = 7
    ids.append(session.commit("first"))
    session = repo.writable_session("main")
    array = zarr.open_group(session.store)["g"].create_array(  # type: ignore[union-attr]  # a group
        "b", shape=(4, 4), chunks=(2, 2), dtype="i4"
    )
    array[:2] = 1
    zarr.create_array(session.store, name="v", shape=(4,), chunks=(2,), dtype="i4")
    session.store.set_virtual_ref(
        "v/c/0", f"{CONTAINER}k", offset=0, length=8, validate_container=False
    )
    ids.append(session.commit("second", metadata={"author": "tour"}))
    for tag in ("v1", "gone"):
        repo.create_tag(tag, ids[0])
    repo.delete_tag("gone")
    repo.create_branch("dev", ids[0])
    del m
    return ids


@contextmanager
def copy_of(made: Template, m: ModuleType, version: int = 2) -> Iterator[Place]:
    with TemporaryDirectory() as folder:
        name = f"v{version}"
        shutil.copytree(made.folder / name, Path(folder) / name)
        yield Place(m, Path(folder), made.ids[version], version)


# What calls are written with


def buffer(data: bytes) -> Buffer:
    return default_buffer_prototype().buffer.from_bytes(data)


def get(store: Any, key: Any, wanted: Any = None) -> bytes | None:
    found: Buffer | None = sync(store.get(key, default_buffer_prototype(), wanted))
    return None if found is None else found.to_bytes()


def put(store: Any, key: Any, data: bytes) -> None:
    sync(store.set(key, buffer(data)))


def collect(items: AsyncIterator[Any]) -> list[Any]:
    async def gather() -> list[Any]:
        return [item async for item in items]

    return sorted(sync(gather()), key=str)
