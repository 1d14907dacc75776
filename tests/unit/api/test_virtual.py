"""Virtual chunks through the public classes."""

import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xarray as xr
import zarr

from frazil import (
    CachingConfig,
    InvalidInputError,
    ObjectStoreConfig,
    Repository,
    RepositoryConfig,
    S3Options,
    StorageError,
    VirtualChunkContainer,
    VirtualChunkSpec,
    in_memory_storage,
    local_filesystem_storage,
)
from frazil.engine import repository as engine
from frazil.errors import ObjectChangedError
from frazil.objectstore.credentials import LocalFileSystemAccess
from frazil.virtual import CodedLocations, VirtualChunkAccess

S3 = ObjectStoreConfig.S3(S3Options("us-east-1"))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for name in "abc":
        (folder / name).write_bytes(name.encode() * 100)
    return folder


def config(files: Path) -> RepositoryConfig:
    made = RepositoryConfig()
    local = ObjectStoreConfig.LocalFileSystem(str(files))
    made.set_virtual_chunk_container(VirtualChunkContainer(f"file://{files}/", local, "files"))
    made.set_virtual_chunk_container(VirtualChunkContainer("s3://b/", S3))
    return made


@pytest.fixture
def repository(files: Path) -> Repository:
    access = {f"file://{files}": LocalFileSystemAccess()}
    return Repository.create(in_memory_storage(), config(files), access)


def arrays(store: Any) -> None:
    for name, shape in {"one": (6,), "g/two": (2, 3)}.items():
        zarr.create_array(
            store, name=name, shape=tuple(10 * n for n in shape), chunks=(10,) * len(shape),
            dtype="u1", filters=None, compressors=None, fill_value=0,
        )  # fmt: skip


# Listing


@pytest.fixture
def filled(repository: Repository, files: Path) -> Repository:
    session = repository.writable_session("main")
    arrays(session.store)
    store, prefix = session.store, f"file://{files}/"
    store.set_virtual_ref("one/c/0", prefix + "a", offset=0, length=10, checksum="*")
    store.set_virtual_ref("one/c/5", "vcc://files/b", offset=1, length=10)
    store.set_virtual_refs(
        "g/two",
        [
            VirtualChunkSpec([1, 2], prefix + "b", 2, 100),
            VirtualChunkSpec([0, 1], "s3://b/x", 3, 100),
        ],
    )
    store.set_virtual_ref(
        "one/c/3", "vcc://nobody/x", offset=4, length=10, validate_container=False
    )
    session.commit("virtual")
    return repository


def test_virtual_chunks_are_listed_as_columns(filled: Repository, files: Path) -> None:
    table = filled.virtual_chunks("main")
    prefix = f"file://{files}/"
    columns = table.to_dict()
    rows = sorted(zip(*(list(column) for column in columns.values()), strict=True), key=str)
    assert rows == [
        ("/g/two", (0, 1), "s3://b/x", 3, 100, None, 0),
        ("/g/two", (1, 2), prefix + "b", 2, 100, None, 0),
        ("/one", (0,), prefix + "a", 0, 10, "*", 0),
        ("/one", (3,), "vcc://nobody/x", 4, 10, None, 0),
        ("/one", (5,), prefix + "b", 1, 10, None, 0),
    ]
    assert len(table) == 5
    assert repr(table) == "VirtualChunkTable(5 chunks in 4 files)"
    found = table.files()
    sizes = dict(zip(found["location"], found["bytes"].tolist(), strict=True))
    assert sizes[prefix + "b"] == 110
    assert dict(zip(found["location"], found["chunks"].tolist(), strict=True))[prefix + "b"] == 2


def test_a_listing_can_be_of_a_prefix_and_below_a_path(filled: Repository, files: Path) -> None:
    session = filled.readonly_session("main")
    assert session.virtual_chunks(prefix="s3://").arrays == ["/g/two"]
    assert len(session.virtual_chunks(prefix=f"file://{files}/b")) == 2
    assert session.virtual_chunks(path="/g").arrays == ["/g/two"]
    assert len(session.virtual_chunks(path="/g", prefix=f"file://{files}/a")) == 0
    assert session.virtual_chunks(prefix="x").to_dict()["location"] == []
    assert len(session.virtual_chunks(path="/none")) == 0


async def test_listings_can_be_awaited(filled: Repository) -> None:
    assert len(await filled.virtual_chunks_async("main", prefix="s3://")) == 1
    assert len(await filled.readonly_session("main").virtual_chunks_async(path="/g")) == 2


def test_containers_are_listed_with_what_may_be_read(repository: Repository, files: Path) -> None:
    found = {each.url_prefix: each for each in repository.virtual_containers()}
    assert found[f"file://{files}/"].authorized
    assert found[f"file://{files}/"].name == "files"
    assert not found["s3://b/"].authorized
    assert found["s3://b/"].store == S3
    more = repository.reopen(
        authorize_virtual_chunk_access=VirtualChunkAccess(default_containers=True)
    )
    defaults = [each.name for each in more.virtual_containers() if each.is_default]
    assert defaults == ["s3", "gcs", "gs", "azure", "az", "abfs", "tigris"]


# Writing


def test_references_outside_of_all_containers_are_left_out(
    repository: Repository, files: Path
) -> None:
    store = repository.writable_session("main").store
    arrays(store)
    prefix = f"file://{files}/"
    locations = [prefix + "a", "s3://other/x", "", prefix + "b", prefix + "x//y", "vcc://files/c"]
    numbers = np.arange(1, 7, dtype=np.uint64)
    refused = store.set_virtual_refs_arr("one", (6,), locations, numbers, numbers)
    assert refused == [(1,), (4,)]
    (batch,) = store.array_chunk_iterator("one")
    assert batch[0].tolist() == [[0], [3], [5]]
    specs = [VirtualChunkSpec([2], "s3://no/x", 0, 1), VirtualChunkSpec([1], "s3://b/x", 0, 1)]
    assert store.set_virtual_refs("one", specs) == [(2,)]
    assert store.set_virtual_refs("one", specs, validate_containers=False) is None


@pytest.mark.parametrize("way", ["list", "codes", "arrow", "arrow codes", "chunked"])
def test_locations_come_in_many_shapes(repository: Repository, files: Path, way: str) -> None:
    session = repository.writable_session("main")
    arrays(session.store)
    texts = [f"file://{files}/{name}" for name in "aabbcc"]
    shapes: dict[str, Any] = {
        "list": texts,
        "codes": CodedLocations([0, 0, 1, 1, 2, 2], texts[::2]),
        "arrow": pa.array(texts),
        "arrow codes": pa.array(texts).dictionary_encode(),
        "chunked": pa.chunked_array([texts[:2], texts[2:]]),
    }
    numbers = [np.array([0, 10] * 3, np.uint64), np.full(6, 10, np.uint64)]
    given: list[Any] = [pa.array(each) for each in numbers] if "arrow" in way else numbers
    assert session.store.set_virtual_refs_arr("one", (6,), shapes[way], *given) is None
    values = np.asarray(zarr.open_array(session.store, path="one")[:])
    assert values.tobytes() == b"".join(name.encode() * 20 for name in "abc")


def test_a_chunk_of_nothing_is_refused(repository: Repository) -> None:
    store = repository.writable_session("main").store
    arrays(store)
    with pytest.raises(InvalidInputError) as caught:
        store.set_virtual_ref("one/c/0", "s3://b/x", offset=0, length=0)
    assert caught.value.kind == "zero-length-chunk"
    zeros = np.zeros(1, np.uint64)
    with pytest.raises(InvalidInputError, match="zero-length"):
        store.set_virtual_refs_arr("one", (1,), ["s3://b/x"], zeros, zeros)


# Reading


def test_a_file_that_changed_is_refused_and_named(repository: Repository, files: Path) -> None:
    session = repository.writable_session("main")
    arrays(session.store)
    location = f"file://{files}/a"
    session.store.set_virtual_ref("one/c/0", location, offset=0, length=10, checksum="1-2-3")
    array = zarr.open_array(session.store, path="one")
    with pytest.raises(ObjectChangedError, match=r"expected ETag 1-2-3, found ETag \w+-") as caught:
        array[:10]
    assert location in str(caught.value)
    assert isinstance(caught.value, StorageError)


def test_a_link_out_of_the_container_is_refused(
    repository: Repository, files: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("0123456789")
    (files / "link").symlink_to(tmp_path / "secret")
    session = repository.writable_session("main")
    arrays(session.store)
    session.store.set_virtual_ref("one/c/0", f"file://{files}/link", offset=0, length=10)
    with pytest.raises(InvalidInputError, match="points out of"):
        zarr.open_array(session.store, path="one")[:10]


def test_virtual_bytes_are_not_kept(repository: Repository, files: Path) -> None:
    """They may change, and whoever changed them would not tell."""
    caching = RepositoryConfig(caching=CachingConfig(num_bytes_chunks=10**6))
    session = repository.reopen(caching).writable_session("main")
    arrays(session.store)
    session.store.set_virtual_ref("one/c/0", f"file://{files}/a", offset=0, length=10)
    array = zarr.open_array(session.store, path="one")
    assert bytes(np.asarray(array[:10])) == b"a" * 10
    (files / "a").write_bytes(b"z" * 100)
    assert bytes(np.asarray(array[:10])) == b"z" * 10


def test_xarray_reads_them_like_any_other_chunk(repository: Repository, files: Path) -> None:
    session = repository.writable_session("main")
    zarr.create_array(
        session.store, name="v", shape=(3, 10), chunks=(1, 10), dtype="u1", filters=None,
        compressors=None, dimension_names=("name", "byte"),
    )  # fmt: skip
    specs = [
        VirtualChunkSpec([row, 0], f"file://{files}/{name}", 5, 10)
        for row, name in enumerate("abc")
    ]
    session.store.set_virtual_refs("v", specs)
    with xr.open_zarr(session.store, consolidated=False) as dataset:
        assert dataset.v.max("byte").values.tobytes() == b"abc"


def test_leave_travels_in_pickles_and_is_never_stored(files: Path, tmp_path: Path) -> None:
    path = tmp_path / "repository"
    access = {f"file://{files}/": LocalFileSystemAccess()}
    repository = Repository.create(local_filesystem_storage(path), config(files), access)
    session = repository.writable_session("main")
    arrays(session.store)
    session.store.set_virtual_ref("one/c/0", "vcc://files/a", offset=0, length=10)
    fork = pickle.loads(pickle.dumps(session.fork()))
    assert bytes(np.asarray(zarr.open_array(fork.store, path="one")[:10])) == b"a" * 10
    session.commit("virtual")
    copy = pickle.loads(pickle.dumps(repository))
    assert copy.authorized_virtual_container_prefixes == set(access)
    repository.save_config()
    assert Repository.open(local_filesystem_storage(path)).virtual_containers()[0].authorized is (
        False
    )


def test_who_gives_no_credentials_is_warned(files: Path) -> None:
    with pytest.warns(DeprecationWarning, match="LocalFileSystemAccess") as caught:
        Repository.create(in_memory_storage(), config(files), {f"file://{files}/": None})
    assert caught[0].filename == __file__


# What is stored


def test_containers_that_could_not_be_read_are_left_out_when_opening(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an older version or another program may have stored them."""
    stored = RepositoryConfig(
        virtual_chunk_containers={
            "old": VirtualChunkContainer("s3://old", S3),
            "odd": VirtualChunkContainer("gcs://b/", S3),
            "fine": VirtualChunkContainer("s3://b/", S3),
        }
    )
    with pytest.raises(InvalidInputError, match="must end in a /"):
        Repository.create(in_memory_storage(), stored)
    monkeypatch.setattr(engine, "require_config", lambda config: config or RepositoryConfig())
    Repository.create(local_filesystem_storage(tmp_path), stored)
    monkeypatch.undo()
    with caplog.at_level(logging.WARNING, logger="frazil"):
        opened = Repository.open(local_filesystem_storage(tmp_path))
    assert {each.url_prefix for each in opened.virtual_containers()} == {"s3://old/", "s3://b/"}
    assert "gcs://b/ is left out" in caplog.text
    assert opened.config == stored  # and saving it again would lose nothing
