"""Virtual chunks in local files and on a web server, read by both alike, and refused alike."""

import os
import pickle
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import zarr
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

import frazil
from tests.compat.virtual_sides import OURS, THEIRS, Outcome, Side, make_array, outcome
from tests.servers.http_files import HttpServer

BOTH = (OURS, THEIRS)
CONTENT = bytes(range(200))
LONG_AGO = 1_000_000_000


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.bin").write_bytes(CONTENT)
    os.utime(folder / "a.bin", (LONG_AGO, LONG_AGO))
    return folder


@pytest.fixture(params=["file", "http"])
def prefix(
    request: pytest.FixtureRequest, files: Path, http_server: Callable[[Path], HttpServer]
) -> str:
    return f"file://{files}/" if request.param == "file" else f"{http_server(files).url}/"


def session_with(side: Side, storage: Any, prefix: str) -> Any:
    session = side.create(storage, {prefix: "here"}, prefix).writable_session("main")
    make_array(session)
    return session


def read(session: Any) -> list[int]:
    values = zarr.open_array(session.store, path="a", mode="r")[:]
    return [int(value) for value in values]  # type: ignore[union-attr]  # an array of u1


def read_of(way: Callable[[], Any]) -> list[int]:
    return read(way())


WHOLE = datetime.fromtimestamp(LONG_AGO, UTC)
REFERENCES: dict[str, dict[str, Any]] = {
    "plain": {},
    "star": {"checksum": "*"},
    "another etag": {"checksum": "nope"},
    "no etag": {"checksum": ""},
    "the same second": {"checksum": WHOLE},
    "later": {"checksum": datetime.now(UTC)},
    "a second before": {"checksum": WHOLE - timedelta(seconds=1)},
    "a little short": {"offset": 195},
    "far too short": {"offset": 500},
    "nothing": {"length": 0},
    "missing": {"key": "none.bin"},
    "a directory": {"key": "sub"},
}


@pytest.mark.parametrize("what", REFERENCES)
def test_a_reference_is_read_or_refused_by_both_alike(what: str, prefix: str) -> None:
    given = {"key": "a.bin", "offset": 0, "length": 10, **REFERENCES[what]}
    key = given.pop("key")

    def work(side: Side) -> object:
        session = session_with(side, side.module.in_memory_storage(), prefix)
        session.store.set_virtual_ref("a/c/0", prefix + key, **given)
        return read(session)[:10]

    ours, theirs = (outcome(partial(work, side)) for side in BOTH)
    assert ours == theirs


def test_the_etag_of_a_web_server_is_checked_by_both(
    files: Path, http_server: Callable[[Path], HttpServer]
) -> None:
    server = http_server(files)
    prefix = f"{server.url}/"
    status = (files / "a.bin").stat()
    etag = f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
    sessions = [session_with(side, side.module.in_memory_storage(), prefix) for side in BOTH]
    for session in sessions:
        session.store.set_virtual_ref("a/c/0", prefix + "a.bin", offset=5, length=10, checksum=etag)
    assert read(sessions[0])[:10] == list(range(5, 15))
    (files / "a.bin").write_bytes(CONTENT)  # the same again, later
    for session in sessions:
        found = outcome(partial(read, session))
        assert found == ("StorageError", "virtual-chunk-modified")


class Expected(NamedTuple):
    checksum: str  # where E is the file's ETag without quotes
    matches: bool
    alike: bool = True  # the reference sends what it was given, without quotes around all of it


ETAGS = {
    "list that ends with it": Expected('other, "E"', matches=True),
    "list that begins with it": Expected('"E", other', matches=True),
    "itself twice": Expected('E, "E"', matches=True),
    "list in quotes": Expected('"other", "E"', matches=True, alike=False),
    "itself": Expected('"E"', matches=True, alike=False),
    "without quotes": Expected("E", matches=True, alike=False),
    "any": Expected("*", matches=True),
    "list of others": Expected('other, "more"', matches=False),
    "comma inside": Expected('other, "x,E"', matches=False),
    "weak": Expected('W/"E"', matches=False),
}


@pytest.mark.parametrize("what", ETAGS)
def test_etags_are_compared_as_by_if_match(
    what: str, files: Path, http_server: Callable[[Path], HttpServer]
) -> None:
    prefix = f"{http_server(files).url}/"
    status = (files / "a.bin").stat()
    checksum, is_match, is_alike = ETAGS[what]
    checksum = checksum.replace("E", f"{status.st_mtime_ns:x}-{status.st_size:x}")

    def work(side: Side) -> object:
        session = session_with(side, side.module.in_memory_storage(), prefix)
        session.store.set_virtual_ref(
            "a/c/0", prefix + "a.bin", offset=0, length=10, checksum=checksum
        )
        return read(session)[:10]

    ours, theirs = (outcome(partial(work, side)) for side in BOTH)
    values = ("value", list(range(10)))
    refused = ("StorageError", "virtual-chunk-modified")
    assert ours == (values if is_match else refused)
    assert theirs == (ours if is_alike else refused)


@pytest.mark.parametrize(
    "request_", [None, RangeByteRequest(2, 5), OffsetByteRequest(3), SuffixByteRequest(4)]
)
def test_parts_of_a_chunk_are_the_same(request_: Any, prefix: str) -> None:
    parts = []
    for side in BOTH:
        session = session_with(side, side.module.in_memory_storage(), prefix)
        session.store.set_virtual_ref("a/c/1", "vcc://here/a.bin", offset=20, length=10)
        found = sync(session.store.get("a/c/1", default_buffer_prototype(), request_))
        parts.append(found.to_bytes())
    assert parts[0] == parts[1]


@pytest.mark.parametrize("writer", BOTH, ids=lambda side: side.name)
def test_what_one_writes_the_other_reads(writer: Side, prefix: str, tmp_path: Path) -> None:
    path = str(tmp_path / "repository")
    session = session_with(writer, writer.module.local_filesystem_storage(path), prefix)
    specs = [
        writer.module.VirtualChunkSpec([0], prefix + "a.bin", 0, 10),
        writer.module.VirtualChunkSpec([1], "vcc://here/a.bin", 40, 10),
        writer.module.VirtualChunkSpec([3], prefix + "a.bin", 7, 10, None, WHOLE),
    ]
    assert session.store.set_virtual_refs("a", specs) is None
    session.commit("virtual")
    expected = [*range(10), *range(40, 50), *[0] * 10, *range(7, 17)]
    for side in BOTH:
        storage = side.module.local_filesystem_storage(path)
        repository = side.module.Repository.open(storage, None, side.access(prefix))
        assert read(repository.readonly_session("main")) == expected
        assert sorted(repository.readonly_session("main").all_virtual_chunk_locations()) == (
            [prefix + "a.bin"] * 3
        )


def ways_to_open(side: Side, path: str, prefix: str) -> dict[str, Callable[[], Any]]:
    """Sessions of one repository, by how they came about."""
    repository = side.module.Repository
    storage = side.module.local_filesystem_storage(path)

    def opened(access: Any, config: Any = None) -> Any:
        return repository.open(storage, config, access)

    def again(value: Any) -> Any:
        return pickle.loads(pickle.dumps(value))

    allowed = side.access(prefix)
    return {
        "allowed": lambda: opened(allowed).readonly_session("main"),
        "without the slash": lambda: opened(side.access(prefix[:-1])).readonly_session("main"),
        "not allowed": lambda: opened(None).readonly_session("main"),
        "by name": lambda: opened({"here": side.local}).readonly_session("main"),
        "a shorter prefix": lambda: opened(side.access("file:///")).readonly_session("main"),
        "no container": lambda: opened(allowed, side.config({"s3://b/": None})).readonly_session(
            "main"
        ),
        "reopened": lambda: opened(allowed).reopen().readonly_session("main"),
        "reopened without": lambda: opened(allowed).reopen(None, {}).readonly_session("main"),
        "reopened with": lambda: opened(None).reopen(None, allowed).readonly_session("main"),
        "a pickled session": lambda: again(opened(allowed).readonly_session("main")),
        "a pickled store": lambda: again(opened(allowed).readonly_session("main").store).session,
        "a pickled repository": lambda: again(opened(allowed)).readonly_session("main"),
        "a pickled fork": lambda: again(opened(allowed).writable_session("main").fork()),
    }


def test_leave_to_read_goes_the_same_ways(files: Path, tmp_path: Path) -> None:
    prefix, path = f"file://{files}/", str(tmp_path / "repository")
    session = session_with(OURS, OURS.module.local_filesystem_storage(path), prefix)
    session.store.set_virtual_ref("a/c/0", prefix + "a.bin", offset=0, length=10)
    session.commit("virtual")
    found: list[dict[str, Outcome]] = []
    for side in BOTH:
        ways = ways_to_open(side, path, prefix)
        found.append({name: outcome(partial(read_of, way)) for name, way in ways.items()})
    assert found[0] == found[1]
    assert {one for one, _ in found[0].values()} == {"value", "InvalidInputError"}


def credentials(side: Side) -> dict[str, Any]:
    module = side.module
    if side is OURS:
        from frazil.objectstore import credentials as kinds  # noqa: PLC0415 -- of this side only

        anonymous: Any = kinds.S3AnonymousCredentials()
        return {
            "local": side.local, "web": side.web, "none": None,
            "s3": kinds.CredentialsForS3(anonymous),
            "azure": kinds.CredentialsForAzure(kinds.AzureFromEnvCredentials()),
            "bare": anonymous, "text": "x",
        }  # fmt: skip
    anonymous = module.s3_anonymous_credentials()
    return {
        "local": side.local, "web": side.web, "none": None, "s3": module.Credentials.S3(anonymous),
        "azure": module.Credentials.Azure(module.azure_from_env_credentials()),
        "bare": anonymous, "text": "x",
    }  # fmt: skip


@pytest.mark.parametrize("place", ["file:///x/", "s3://b/", "gcs://b/", "az://c/", "http://h/"])
@pytest.mark.parametrize("who", ["local", "web", "none", "s3", "azure", "bare", "text"])
def test_credentials_that_do_not_fit_are_refused_when_opening(place: str, who: str) -> None:
    found = []
    for side in BOTH:

        def work(side: Side = side) -> object:
            config = side.config({place: None})
            given = {place: credentials(side)[who]}
            repository = side.module.Repository
            made = repository.create(side.module.in_memory_storage(), config, given)
            return made.authorized_virtual_container_prefixes

        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            result = outcome(work)
        found.append((result, sorted({each.category.__name__ for each in warned})))
    assert found[0] == found[1]


def test_compressed_locations_and_one_too_long_to_compress_are_read_by_both(
    files: Path, tmp_path: Path
) -> None:
    deep = files.joinpath(*["d" * 200] * 6)
    deep.mkdir(parents=True)
    names = [f"a/rather/common/path/{number}" for number in range(30)]
    for number, name in enumerate(names):
        (files / name).parent.mkdir(parents=True, exist_ok=True)
        (files / name).write_bytes(bytes([number]) * 10)
    (deep / "x").write_bytes(b"x" * 10)
    prefix, path = f"file://{files}/", str(tmp_path / "repository")
    config = OURS.config({prefix: None})
    compression = frazil.ManifestVirtualChunkLocationCompressionConfig(10)
    config.manifest = frazil.ManifestConfig(virtual_chunk_location_compression=compression)
    storage = frazil.local_filesystem_storage(path)
    session = frazil.Repository.create(storage, config).writable_session("main")
    make_array(session, chunks=31)
    locations = [prefix + name for name in names] + [f"file://{deep}/x"]
    assert len(locations[-1]) > 1024
    numbers = [np.zeros(31, np.uint64), np.full(31, 10, np.uint64)]
    session.store.set_virtual_refs_arr("a", (31,), locations, *numbers)
    session.commit("compressed")
    (manifest,) = (tmp_path / "repository" / "manifests").iterdir()
    for side in BOTH:
        opened = side.module.Repository.open(
            side.module.local_filesystem_storage(path), None, side.access(prefix)
        )
        values = [each for number in range(30) for each in [number] * 10]
        assert read(opened.readonly_session("main")) == values + [ord("x")] * 10
        shown = opened.inspect_manifest(manifest.name)["compression"]
        assert shown["uses_location_compression"]
        assert shown["num_compressed_refs"] == 30
