"""What remote stores ask for: how often, and how much at a time."""

import pickle
from dataclasses import replace

import pytest

from frazil.engine.files.object_stores import with_settings
from frazil.errors import (
    StorageError,
)
from frazil.objectstore.credentials import S3AnonymousCredentials, S3FromEnvCredentials
from frazil.objectstore.protocol import RemoteSettings
from frazil.objectstore.remote import RemoteStore
from frazil.ranges import ByteRange, From, Last, Range, Until
from tests.unit.objectstore.recording_server import DATA, SMALL, RecordingServer, s3


def test_a_small_object_is_one_request(server: RecordingServer) -> None:
    store = RemoteStore(s3(server), RemoteSettings())
    server.objects["/bucket/root/key"] = DATA
    assert bytes(store.get("key").data) == DATA
    assert len(server.asked) == 1


def test_a_large_object_is_read_in_parts_within_the_bounds(server: RecordingServer) -> None:
    server.pause_s = 0.01
    server.objects["/bucket/root/key"] = DATA
    store = RemoteStore(s3(server), SMALL)
    assert bytes(store.get("key").data) == DATA
    assert server.count("GET") == 26
    assert 1 < server.busiest <= 4
    assert store.get("key").version == store.get("key").version != ""


def test_all_parts_of_a_large_range_are_asked_for_at_once(server: RecordingServer) -> None:
    server.objects["/bucket/root/key"] = DATA
    settings = RemoteSettings(request_bytes=1000, max_requests_for_object=4)
    store = RemoteStore(s3(server), settings)
    assert bytes(store.get("key", Range(10, 1910)).data) == DATA[10:1910]
    # Of equal size: the first did not have to tell how large the object is.
    asked = sorted(one.headers["range"] for one in server.asked)
    assert asked == ["bytes=10-959", "bytes=960-1909"]
    past_the_end = Range(len(DATA) - 10, len(DATA) + 5000)
    assert bytes(store.get("key", past_the_end).data) == DATA[-10:]


def test_all_requests_of_a_store_share_one_bound(server: RecordingServer) -> None:
    server.pause_s = 0.01
    server.objects["/bucket/root/key"] = DATA
    settings = RemoteSettings(request_bytes=1000, max_requests_for_object=8, max_requests=3)
    store = RemoteStore(s3(server), settings)
    store.get_ranges("key", [Range(0, 20_000)])
    assert 1 < server.busiest <= 3


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_every_part_of_an_object_can_be_had(knows_ranges: bool) -> None:  # noqa: FBT001 - a case
    with RecordingServer(knows_ranges=knows_ranges) as server:
        server.objects["/bucket/root/key"] = DATA
        server.objects["/bucket/root/empty"] = b""
        store = RemoteStore(s3(server), SMALL)
        size = len(DATA)
        cases: list[tuple[ByteRange, bytes]] = [
            (Range(5, 9), DATA[5:9]),
            (Range(0, 5000), DATA[:5000]),
            (Range(25_000, 1 << 62), DATA[25_000:]),
            (Range(size, size + 1), b""),
            (Range(1 << 63, 1 << 64), b""),
            (Range(7, 7), b""),
            (From(20_000), DATA[20_000:]),
            (Last(10), DATA[-10:]),
            (Last(5000), DATA[-5000:]),
            (Last(0), b""),
            (Until(20_000), DATA[:-20_000]),
        ]
        for wanted, expected in cases:
            assert bytes(store.get("key", wanted).data) == expected, wanted
        assert bytes(store.get("key").data) == DATA
        assert bytes(store.get("empty").data) == b""
        ranges = [Range(25_000, 26_000), Range(3, 4), Range(8, 8), Range(1 << 63, 1 << 64)]
        assert list(map(bytes, store.get_ranges("key", ranges))) == [
            DATA[25_000:],
            DATA[3:4],
            b"",
            b"",
        ]


def test_ranges_near_each_other_are_one_request(server: RecordingServer) -> None:
    server.objects["/bucket/root/key"] = bytes(8_000_000)
    store = RemoteStore(s3(server), RemoteSettings())
    store.get_ranges("key", [Range(at, at + 10) for at in range(0, 4_000_000, 500_000)])
    assert server.count("GET") == 1
    store.get_ranges("key", [Range(0, 10), Range(7_000_000, 7_000_010)])
    assert server.count("GET") == 3


def test_an_object_that_is_replaced_meanwhile_is_read_again(server: RecordingServer) -> None:
    path = "/bucket/root/key"
    old, new = b"a" * 10_000, b"b" * 10_000
    server.objects[path] = old
    store = RemoteStore(s3(server), SMALL)
    enter = server.enter

    def replace_later(asked: object) -> None:
        enter(asked)  # type: ignore[arg-type]  # handed through
        if len(server.asked) == 3:
            server.objects[path] = new

    server.enter = replace_later  # type: ignore[method-assign]  # what the test is about
    assert bytes(store.get("key").data) == new
    assert len(server.asked) > 10


def test_an_object_that_is_always_replaced_is_given_up(server: RecordingServer) -> None:
    path = "/bucket/root/key"
    server.objects[path] = b"0" * 3000
    store = RemoteStore(s3(server), SMALL)
    enter = server.enter

    def replace_always(asked: object) -> None:
        enter(asked)  # type: ignore[arg-type]  # handed through
        server.objects[path] = b"%d" % (len(server.asked) % 10) * 3000

    server.enter = replace_always  # type: ignore[method-assign]  # what the test is about
    with pytest.raises(StorageError, match=r"s3://bucket/root/key: it is being replaced"):
        store.get("key")


def test_a_repository_makes_no_more_requests_than_it_may(server: RecordingServer) -> None:
    store = RemoteStore(s3(server))
    tuned = with_settings(store, None, max_requests=2)
    assert isinstance(tuned, RemoteStore)
    server.pause_s = 0.01
    server.objects["/bucket/root/key"] = DATA
    small = tuned.with_settings(lambda before: replace(before, request_bytes=1000))
    small.get("key")
    assert server.busiest == 2
    assert with_settings(store, None) is store


def test_stores_at_one_place_share_connections(server: RecordingServer) -> None:
    first = RemoteStore(s3(server), RemoteSettings())
    server.objects["/bucket/root/key"] = DATA
    assert bytes(first.get("key").data) == DATA
    for same in (RemoteStore(s3(server), RemoteSettings()), pickle.loads(pickle.dumps(first))):
        assert same.reader().client is first.reader().client
    others = [
        RemoteStore(s3(server), SMALL),
        RemoteStore(replace(s3(server), credentials=S3AnonymousCredentials()), RemoteSettings()),
    ]
    assert all(other.reader().client is not first.reader().client for other in others)


def test_what_the_environment_says_is_asked_of_it_each_time(
    server: RecordingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "first")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    place = replace(s3(server), credentials=S3FromEnvCredentials())
    server.objects["/bucket/root/key"] = DATA
    for name in ("first", "second"):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", name)
        RemoteStore(place, RemoteSettings()).get("key")
        assert f"Credential={name}/" in server.last("GET").headers["authorization"]
