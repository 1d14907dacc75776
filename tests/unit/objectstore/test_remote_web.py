"""Web servers, and objects that others write."""

import pytest

import frazil
from frazil.errors import (
    InvalidInputError,
    ObjectChangedError,
    ObjectNotFoundError,
    ReadOnlyError,
)
from frazil.objectstore.protocol import NotModifiedAfter, RemoteSettings, SameETag
from frazil.objectstore.remote.place import HttpPlace
from frazil.objectstore.remote.remote_store import RemoteSource
from frazil.ranges import Range
from tests.unit.objectstore.recording_server import DATA, SECRET, RecordingServer


def test_a_web_server_is_read_only(server: RecordingServer) -> None:
    storage = frazil.http_storage(f"{server.url}/data", headers={"authorization": SECRET})
    server.objects["/data/key"] = b"here"
    assert bytes(storage.store.get("key").data) == b"here"
    assert server.last("GET").headers["authorization"] == SECRET
    for write in (
        lambda: storage.store.put("key", b"x"),
        lambda: storage.store.delete(["key"]),
        lambda: storage.store.copy("key", "other"),
        lambda: frazil.Repository.create(storage),
    ):
        with pytest.raises(ReadOnlyError) as caught:
            write()
        assert caught.value.kind == "read-only-storage"
    assert SECRET not in repr(storage)


def test_sources_are_read_only_if_they_are_what_is_expected(server: RecordingServer) -> None:
    server.objects["/a b/c%25"] = DATA
    source = RemoteSource(HttpPlace(base_url=server.url), RemoteSettings())
    assert list(map(bytes, source.read("a b/c%25", [Range(0, 3), Range(25_599, 30_000)]))) == [
        DATA[:3],
        DATA[-1:],
    ]
    assert server.count("GET") == 2
    etag = "d2ff0cd8e3bd6e28b4ae2c0f7a2eb6d0"
    for good in (NotModifiedAfter(10**9), SameETag("*"), SameETag(_etag_of(source, server))):
        source.read("a b/c%25", [Range(0, 3)], expected=good)
    for bad in (NotModifiedAfter(10**9 - 1), SameETag(etag), SameETag("")):
        with pytest.raises(ObjectChangedError) as caught:
            source.read("a b/c%25", [Range(0, 3)], expected=bad)
        assert caught.value.kind == "virtual-chunk-modified"
        with pytest.raises(ObjectChangedError):
            source.read("a b/c%25", [Range(10**9, 10**9 + 1)], expected=bad)
    with pytest.raises(ObjectNotFoundError):
        source.read("missing", [Range(0, 3)])
    for odd in ("", "a//b", "a/../b", "/a", "a/"):
        with pytest.raises(InvalidInputError) as refused:
            source.read(odd, [Range(0, 3)])
        assert refused.value.kind == "invalid-virtual-ref"


def test_a_server_that_tells_no_time_cannot_pass_a_check_of_it(server: RecordingServer) -> None:
    server.objects["/key"] = DATA
    source = RemoteSource(HttpPlace(base_url=server.url), RemoteSettings())
    wanted = [Range(0, 3)]
    etag = SameETag(source._store.reader().head("key", key="").etag)
    for expected in (None, etag, NotModifiedAfter(2**32 - 1)):
        assert bytes(source.read("key", wanted, expected=expected)[0]) == DATA[:3]
    server.tells_times = False
    for expected in (None, etag):
        assert bytes(source.read("key", wanted, expected=expected)[0]) == DATA[:3]
    for seconds in (0, 10**9, 2**32 - 1):
        with pytest.raises(ObjectChangedError, match="the server does not tell it"):
            source.read("key", wanted, expected=NotModifiedAfter(seconds))


def _etag_of(source: RemoteSource, server: RecordingServer) -> str:
    del server
    return source._store.reader().head("a b/c%25", key="").etag


def test_etags_of_web_servers_are_not_relied_on(server: RecordingServer) -> None:
    """Many are made of times in whole seconds."""
    store = frazil.http_storage(f"{server.url}/data").store
    server.objects["/data/repo"] = b"first"
    known = store.reread("repo", None)
    assert bytes(store.reread("repo", known).data) == b"first"
    assert server.count("GET") == 2
    assert "if-none-match" not in server.last("GET").headers
