"""Caches: whatever was read before, a value is the one that a process without caches reads."""

import json
import pickle
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import zarr
from google_crc32c import value as crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.codecs import Crc32cCodec
from zarr.registry import register_codec

import frazil
from frazil import IcechunkError
from frazil.engine.files.caches import SharedDecoded
from frazil.engine.files.virtual_access import NO_AUTHORIZATION
from frazil.engine.refs.entry import initial_snapshot
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import FormatError, StorageError
from frazil.format.limits import Limits
from frazil.format.snapshot import Snapshot, decode_snapshot_lazily, encode_snapshot
from frazil.objectstore import LocalStore
from frazil.objectstore.archive import ArchiveStore, ArchiveWriter
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote.s3 import S3Place
from frazil.paths import NodePath
from frazil.ranges import Range
from frazil.spark.sources.source_files import RemoteFile
from frazil.spark.sources.source_types import Remote
from frazil.web.chunk_tables import chunk_writers
from frazil.web.explored import Explored
from frazil.zarrstore.array_codecs import chunk_problem
from tests.examples_count import scaled
from tests.unit.objectstore.recording_server import STATIC, RecordingServer

# Two repositories at one place

STEPS = st.lists(
    st.sampled_from(["commit", "tag", "branch", "read", "recreate", "recreate as 1"]),
    min_size=2,
    max_size=7,
)


def history(repository: frazil.Repository, version: dict[str, str]) -> list[object]:
    """All repositories have a first snapshot of one id: its time is left out."""
    return [
        (each.id, each.message, each.parent_id, each.parent_id and each.written_at)
        for each in repository.ancestry(**version)
    ]


def values(session: frazil.Session) -> object:
    try:
        return np.asarray(zarr.open_array(session.store, path="a", mode="r")[:]).tolist()
    except FileNotFoundError:
        return None


def seen_by(repository: frazil.Repository) -> dict[str, object]:
    """All that a reader gets: refs, history and values, also from a session that was pickled."""
    found = dict[str, object]()
    for kind, names in (("branch", repository.list_branches()), ("tag", repository.list_tags())):
        for name in sorted(names):
            version: dict[str, Any] = {kind: name}
            session = repository.readonly_session(**version)
            again = pickle.loads(pickle.dumps(session))
            found[f"{kind} {name}"] = (
                history(repository, {kind: name}),
                session.snapshot_id,
                values(session),
                values(again),
            )
    return found


def attempt(repository: frazil.Repository) -> dict[str, object] | str:
    try:
        return seen_by(repository)
    except IcechunkError as error:
        return type(error).__name__


class Place:
    """A folder in which one repository follows another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.storage = frazil.local_filesystem_storage(str(folder))
        self.number = 0
        self.create(2)

    def create(self, version: int) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.version = version
        self.repository = frazil.Repository.create(self.storage, spec_version=version)

    def do(self, step: str) -> None:
        self.number += 1
        match step:
            case "commit":
                session = self.repository.writable_session("main")
                zarr.create_array(
                    session.store, name="a", data=np.full(3, self.number), overwrite=True
                )
                session.commit(f"commit {self.number}")
            case "tag":
                if not self.repository.list_tags():
                    tip = self.repository.lookup_branch("main")
                    self.repository.create_tag("t", tip)
            case "branch":
                tip = self.repository.lookup_branch("main")
                self.repository.create_branch(f"b{self.number}", tip)
            case "recreate":
                self.create(self.version)
            case "recreate as 1":
                self.create(1)


@settings(max_examples=scaled(15))
@given(STEPS)
def test_an_open_repository_sees_what_a_new_process_sees(steps: list[str]) -> None:
    """Also after the repository was deleted and another one was created at the same place."""
    with TemporaryDirectory() as directory:
        place = Place(Path(directory, "repo"))
        opened = [(2, frazil.Repository.open(place.storage))]
        for step in steps:
            place.do(step)
            opened.append((place.version, frazil.Repository.open(place.storage)))
            fresh = seen_by(frazil.Repository.open(frazil.Storage(LocalStore(place.folder))))
            for version, repository in opened:
                if version == place.version:
                    assert seen_by(repository) == fresh
                else:  # it looks for files of the other version, and there are none
                    assert isinstance(attempt(repository), str)


# Two limits


@settings(max_examples=scaled(50))
@given(st.lists(st.integers(1, 2000), min_size=1, max_size=5))
def test_every_reader_of_a_shared_snapshot_has_its_own_limit(limits: list[int]) -> None:
    data = encode_snapshot(initial_snapshot(1))
    shared = SharedDecoded(decode_snapshot_lazily)

    def attempt(snapshots: SharedDecoded[Snapshot], limit: int) -> object:
        try:
            return snapshots.decode(data, max_size=limit)
        except FormatError as error:
            return str(error)

    held = [attempt(shared, limit) for limit in limits]  # alive, so that they stay shared
    for limit, found in zip(limits, held, strict=True):
        alone = attempt(SharedDecoded(decode_snapshot_lazily), limit)
        assert isinstance(found, str) == isinstance(alone, str)
        assert not isinstance(found, str) or found == alone
    generous = shared.decode(data, max_size=1 << 20)
    assert isinstance(attempt(shared, 10), str)
    assert shared.decode(data, max_size=1 << 20) is generous


def test_a_reopened_repository_obeys_its_own_limits() -> None:
    """A snapshot that the first object has in memory is refused by one with narrower limits."""
    store = frazil.in_memory_storage().store
    Repository.create(store)
    wide = Repository.open(store)
    wide.readonly_session(Branch("main"))
    narrow = replace(NO_AUTHORIZATION, limits=Limits(metadata_bytes=50))
    with pytest.raises(FormatError, match="50 bytes"):
        Repository.open(store, access=narrow)
    with pytest.raises(FormatError, match="50 bytes"):
        wide.reopened(access=narrow).readonly_session(Branch("main"))
    wide.reopened().readonly_session(Branch("main"))


# Two files at one path


@settings(max_examples=scaled(25))
@given(st.lists(st.binary(max_size=300), min_size=2, max_size=4), st.integers(0, 299))
def test_an_archive_that_was_replaced_is_not_read_by_the_index_of_another(
    contents: list[bytes], start: int
) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory, "archive")
        write_archive(path, contents[0])
        opened = ArchiveStore(path)
        assert bytes(opened.get("chunks/x").data) == contents[0]
        for content in contents[1:]:
            write_archive(path, content)
            for wanted in (None, Range(min(start, len(content)), len(content))):
                with pytest.raises(StorageError, match="was replaced"):
                    opened.get("chunks/x", wanted)
            whole = ArchiveStore(path).get("chunks/x")
            assert bytes(whole.data) == content


def write_archive(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    with ArchiveWriter(path, {"what": "a test"}) as archive:
        archive.put("chunks/a", bytes(len(content) % 7))
        archive.put("chunks/x", content)


def test_a_directory_that_was_deleted_and_made_again_is_durable_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[str]()
    monkeypatch.setattr("frazil.objectstore.local.local_directories.sync_file", synced.append)
    store = LocalStore(tmp_path / "repo")

    def written(key: str) -> set[str]:
        synced.clear()
        store.put(key, b"x")
        store.sync()
        return set(synced)

    folder = str(tmp_path / "repo")
    assert folder in written("chunks/a")
    assert folder not in written("chunks/b")  # its name is durable already
    shutil.rmtree(tmp_path / "repo" / "chunks")
    assert folder in written("chunks/c")
    assert folder not in written("chunks/d")
    shutil.rmtree(tmp_path / "repo")
    assert {folder, str(tmp_path)} <= written("chunks/e")


# Two stores


@pytest.fixture
def servers() -> Iterator[tuple[RecordingServer, RecordingServer]]:
    with RecordingServer() as one, RecordingServer() as other:
        yield one, other


def test_two_endpoints_do_not_share_the_blocks_of_a_file(
    servers: tuple[RecordingServer, RecordingServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some servers count versions, so that two of them give equal ETags to other contents."""
    monkeypatch.setattr("tests.unit.objectstore.recording_server._etag", lambda _: '"1"')
    found = []
    for content, server in zip((b"one", b"two"), servers, strict=True):
        server.objects["/bucket/key"] = content
        place = S3Place(
            bucket="bucket", prefix="", credentials=STATIC, region="r",
            endpoint_url=server.url, allow_http=True, force_path_style=True,
        )  # fmt: skip
        with RemoteFile("s3://bucket/key", Remote(RemoteStore(place), "key")) as file:
            found.append(file.read(3))
    assert found == [b"one", b"two"]


# Two states of one process


class Later(Crc32cCodec):
    """A codec that is not known at first."""

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Later":
        del data
        return cls()


def test_a_codec_that_is_registered_later_is_found() -> None:
    document = json.dumps(
        {
            "zarr_format": 3, "node_type": "array", "shape": [1], "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
            "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
            "codecs": [{"name": "bytes"}, {"name": "registered_later"}],
        }
    ).encode()  # fmt: skip
    sound = b"x" + crc32c(b"x").to_bytes(4, "little")
    assert "'registered_later' is not available" in str(chunk_problem(document, (0,), sound))
    register_codec("registered_later", Later)
    assert chunk_problem(document, (0,), sound) is None
    assert "checksum" in str(chunk_problem(document, (0,), sound[::-1]))


def test_the_explorer_names_writers_that_are_there() -> None:
    """Commits that were expired since the last request have no part in the next answer."""
    storage = frazil.in_memory_storage()
    repository = frazil.Repository.create(storage)
    for number in range(3):
        session = repository.writable_session("main")
        array = zarr.open_array(
            session.store, path="a", mode="a", shape=3, chunks=1, dtype="i4", fill_value=-1
        )
        array[number] = number
        session.commit(f"chunk {number}")

    def writers(explored: Explored) -> list[str]:
        return [
            *map(str, chunk_writers(explored, explored.snapshot("main"), NodePath("/a")).commits)
        ]

    explored = Explored(Repository.open(storage.store), "repo")
    assert len(writers(explored)) == 3
    repository.expire_snapshots(older_than=datetime.now(UTC))
    fresh = writers(Explored(Repository.open(storage.store), "repo"))
    assert writers(explored) == fresh
    assert len(fresh) == 1
