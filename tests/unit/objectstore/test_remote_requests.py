"""What remote stores ask for: how often, how much at a time, and with which headers."""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import frazil
from frazil import Attribution, StorageConcurrencySettings, StorageSettings
from frazil.api.asking import attributed, product
from frazil.assets.object_stores import portable, remote_settings, with_settings
from frazil.errors import (
    InvalidInputError,
    ObjectChangedError,
    ObjectNotFoundError,
    PreconditionFailedError,
    ReadOnlyError,
    StorageError,
)
from frazil.objectstore import Absent, Counting, Matches, ObjectStore, Prefixed
from frazil.objectstore.credentials import (
    GcsAnonymousCredentials,
    S3AnonymousCredentials,
    S3FixedCredentials,
    S3StaticCredentials,
)
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote_gcs import GcsPlace
from frazil.objectstore.remote_http import HttpPlace
from frazil.objectstore.remote_s3 import S3Place
from frazil.objectstore.remote_settings import RemoteSettings, client_options, retry_options
from frazil.objectstore.remote_source import RemoteSource
from frazil.objectstore.source import NotModifiedAfter, SameETag
from frazil.ranges import ByteRange, From, Last, Range, Until
from tests.unit.objectstore.recording_server import RecordingServer

SMALL = RemoteSettings(request_bytes=1000, max_requests_for_object=4, max_tries=2)
DATA = bytes(range(256)) * 100  # 25,600 bytes
SECRET = "not-to-be-shown"  # noqa: S105 - of nobody
STATIC = S3FixedCredentials(S3StaticCredentials("id", SECRET))


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with RecordingServer() as running:
        yield running


def s3(server: RecordingServer, **options: object) -> S3Place:
    given = {
        "bucket": "bucket",
        "prefix": "root",
        "credentials": STATIC,
        "region": "eu-x-1",
        "endpoint_url": server.url,
    }
    return S3Place(**(given | options))  # type: ignore[arg-type]  # by their names


# How often, and how much


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


# With which headers


def test_requests_say_who_asks(server: RecordingServer) -> None:
    storage = frazil.s3_storage(
        bucket="bucket",
        prefix="root",
        endpoint_url=server.url,
        access_key_id="id",
        secret_access_key=SECRET,
        headers={"x-both": "1", "x-read": "overridden"},
        read_headers={"x-read": "2"},
        write_headers={"x-write": "3"},
        requester_pays=True,
    )
    who = Attribution(client="me/1", workload="night", principal="anna")
    store = attributed(storage.store, who)
    store.put("key", b"data")
    store.get("key")
    wrote, read = server.last("PUT").headers, server.last("GET").headers
    assert wrote["user-agent"] == read["user-agent"] == product(who)
    assert product(who).startswith("me/1 frazil/")
    assert product(who).endswith(" (workload=night; principal=anna)")
    assert (wrote["x-both"], wrote["x-write"], wrote["x-read"]) == ("1", "3", "overridden")
    assert (read["x-both"], read["x-read"]) == ("1", "2")
    assert "x-write" not in read
    assert wrote["x-amz-request-payer"] == read["x-amz-request-payer"] == "requester"


def test_a_conditional_write_carries_an_id_that_is_never_repeated(server: RecordingServer) -> None:
    store = RemoteStore(s3(server), RemoteSettings())
    for key in ("a", "b"):
        store.put(key, b"x", when=Absent())
    ids = {one.headers["x-amz-meta-icechunkwriteid"] for one in server.asked}
    assert len(ids) == 2
    store.put("c", b"x")
    assert "x-amz-meta-icechunkwriteid" not in server.last("PUT").headers
    assert server.asked[0].headers["if-none-match"] == "*"


def test_metadata_and_conditions_can_be_given_up(server: RecordingServer) -> None:
    settings = StorageSettings(
        unsafe_use_metadata=False,
        unsafe_use_conditional_create=False,
        unsafe_use_conditional_update=False,
    )
    RemoteStore(s3(server), remote_settings(settings)).put("key", b"x", when=Absent())
    assert not {"if-none-match", "x-amz-meta-icechunkwriteid"} & set(server.last("PUT").headers)


def test_chunks_and_the_rest_have_their_own_storage_classes(server: RecordingServer) -> None:
    def classes(settings: StorageSettings) -> list[str | None]:
        store = RemoteStore(s3(server), remote_settings(settings))
        for key in ("chunks/X", "manifests/X", "repo"):
            store.put(key, b"x")
        return [one.headers.get("x-amz-storage-class") for one in server.asked[-3:]]

    assert classes(StorageSettings()) == [None, None, None]
    assert classes(StorageSettings(storage_class="A")) == ["A", "A", "A"]
    assert classes(StorageSettings(chunks_storage_class="B")) == ["B", None, None]
    assert classes(StorageSettings(metadata_storage_class="C")) == [None, "C", "C"]
    assert classes(StorageSettings(storage_class="A", chunks_storage_class="B")) == ["B", "A", "A"]


def test_signing_is_by_what_was_given_and_nothing_else(
    server: RecordingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of another account")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    RemoteStore(s3(server)).put("key", b"x")
    signed = server.last("PUT").headers
    assert "Credential=id/" in signed["authorization"]
    assert "x-amz-security-token" not in signed
    RemoteStore(s3(server, credentials=S3AnonymousCredentials())).put("key", b"x")
    assert "authorization" not in server.last("PUT").headers


def test_the_bucket_is_part_of_the_host_where_the_host_has_a_name() -> None:
    def address(**options: object) -> tuple[str | None, bool]:
        given = {"bucket": "b", "prefix": "", "credentials": STATIC}
        return S3Place(**(given | options))._endpoint()  # type: ignore[arg-type]  # by their names

    assert address() == (None, True)
    assert address(force_path_style=True) == (None, False)
    assert address(bucket="with.dots") == (None, False)
    assert address(endpoint_url="http://127.0.0.1:9/") == ("http://127.0.0.1:9", False)
    assert address(endpoint_url="http://localhost:9") == ("http://localhost:9", False)
    assert address(endpoint_url="https://x.org:9") == ("https://b.x.org:9", True)
    assert address(endpoint_url="https://x.org", force_path_style=True) == ("https://x.org", False)


def test_google_is_never_asked_for_a_token_that_nobody_wanted(server: RecordingServer) -> None:
    """obstore would turn to the metadata address, which is not answered here, and fail."""
    place = GcsPlace(
        bucket="bucket",
        prefix="a b",
        credentials=GcsAnonymousCredentials(),
        config=(("google_base_url", server.url),),
    )
    RemoteStore(place, RemoteSettings(max_tries=1)).put("t%g", b"x", when=Absent())
    asked = server.last("PUT")
    assert asked.path == "/bucket/a b/t%25g"  # encoded as in a local directory, then for the URL
    assert asked.headers["x-goog-if-generation-match"] == "0"
    assert "metadata-flavor" not in asked.headers


# Web servers


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


def _etag_of(source: RemoteSource, server: RecordingServer) -> str:
    del server
    return source._store.reader().head("a b/c%25", key="").etag


# Settings


def test_settings_reach_the_client() -> None:
    said = StorageSettings(
        concurrency=StorageConcurrencySettings(3, 77),
        retries=frazil.StorageRetriesSettings(5, 10, 20),
        timeouts=frazil.StorageTimeoutSettings(1, 2, 3, 4),
        minimum_size_for_multipart_upload=99,
    )
    settings = remote_settings(said)
    assert (settings.max_requests_for_object, settings.request_bytes) == (3, 77)
    assert settings.multipart_bytes == 99
    retries = retry_options(settings)
    assert retries["max_retries"] == 4
    assert retries["retry_timeout"] == timedelta(milliseconds=3)
    assert retries["backoff"]["max_backoff"] == timedelta(milliseconds=20)
    options = client_options(settings, "read", allow_http=False, headers=())
    assert options["connect_timeout"] == timedelta(milliseconds=1)
    assert options["read_timeout"] == timedelta(milliseconds=2)
    assert options["timeout"] == timedelta(milliseconds=4)


def test_silence_is_waited_for_as_long_as_was_said() -> None:
    def silence(role: str, seconds: int) -> object:
        options = client_options(
            RemoteSettings(),
            role,  # type: ignore[arg-type]  # one of two words
            allow_http=False,
            headers=(),
            stream_timeout_s=seconds,
        )
        return options.get("read_timeout")

    assert silence("read", 60) == timedelta(seconds=60)
    assert silence("write", 60) == timedelta(minutes=5)  # an upload counts as silence
    assert silence("read", 0) is silence("write", 0) is None


def test_settings_reach_a_store_inside_of_others(server: RecordingServer) -> None:
    counting = Counting(Prefixed(RemoteStore(s3(server)), "below"))
    tuned = with_settings(counting, StorageSettings(minimum_size_for_multipart_upload=5))
    assert isinstance(tuned, Counting)
    assert isinstance(tuned.inner, Prefixed)
    assert isinstance(tuned.inner.inner, RemoteStore)
    assert tuned.inner.inner.settings.multipart_bytes == 5
    assert with_settings(counting, None) is counting
    memory: ObjectStore = frazil.in_memory_storage().store
    assert with_settings(memory, StorageSettings(storage_class="A")) is memory


def test_what_a_repository_has_saved_about_another_store_is_not_believed() -> None:
    of_a_directory = StorageSettings(
        concurrency=StorageConcurrencySettings(5, 4096),
        retries=frazil.StorageRetriesSettings(1, 0, 0),
        unsafe_use_conditional_update=False,
        unsafe_use_metadata=False,
        storage_class="A",
    )
    assert portable(of_a_directory) == StorageSettings(storage_class="A")
    ours = StorageSettings(concurrency=StorageConcurrencySettings(7, 1000))
    assert portable(ours) == ours
    assert portable(None) is None


# Processes


def test_a_pickled_store_works_elsewhere(server: RecordingServer) -> None:
    store = RemoteStore(s3(server), SMALL)
    store.put("key", DATA)
    again = pickle.loads(pickle.dumps(store))
    assert bytes(again.get("key").data) == DATA
    assert again.settings == SMALL
    code = (
        "import pickle, sys; store = pickle.loads(sys.stdin.buffer.read());"
        "print(len(store.get('key').data))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(store), capture_output=True, check=True
    )
    assert int(done.stdout) == len(DATA)


FORKS = """
import os, sys, warnings
from frazil.errors import StorageError
from frazil.objectstore.credentials import S3AnonymousCredentials
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote_s3 import S3Place
warnings.simplefilter("ignore")
place = S3Place(
    bucket="bucket", prefix="root", credentials=S3AnonymousCredentials(), endpoint_url=sys.argv[1]
)
store = RemoteStore(place)
if sys.argv[2] == "used":
    store.get("key")
if (child := os.fork()) == 0:
    code = 1
    try:
        store.get("key")
        code = 0
    except StorageError as error:
        code = 42 if "forkserver" in str(error) else 2
    finally:
        os._exit(code)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(store.get("key").data))
"""


@pytest.mark.parametrize(("before", "expected"), [("used", 42), ("unused", 0)])
def test_a_forked_process_is_told_what_to_do(
    server: RecordingServer, before: str, expected: int
) -> None:
    """obstore alone would wait for ever."""
    server.objects["/bucket/root/key"] = DATA
    done = subprocess.run(
        [sys.executable, "-c", FORKS, server.url, before],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == [str(expected), str(len(DATA))], done.stderr


def _expiring() -> S3StaticCredentials:
    """A new key each time it is called, counted in a file."""
    count = Path(os.environ["FRAZIL_TEST_COUNT"])
    count.write_text(count.read_text() + "x")
    until = datetime.now(UTC) + timedelta(hours=1)
    return S3StaticCredentials(f"id{len(count.read_text())}", SECRET, None, until)


def test_credentials_are_got_when_needed_and_travel_if_asked_to(
    server: RecordingServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    count.write_text("")
    monkeypatch.setenv("FRAZIL_TEST_COUNT", str(count))

    def key_used(credentials: frazil.S3Credentials) -> str:
        store = pickle.loads(pickle.dumps(RemoteStore(s3(server, credentials=credentials))))
        store.put("key", b"x")
        store.put("key", b"x")
        return server.last("PUT").headers["authorization"].split("Credential=")[1].split("/")[0]

    assert key_used(frazil.s3_refreshable_credentials(_expiring)) == "id1"
    scattered = frazil.s3_refreshable_credentials(_expiring, scatter_initial_credentials=True)
    assert count.read_text() == "xx"
    assert key_used(scattered) == key_used(scattered) == "id2"
    assert count.read_text() == "xx"


def test_a_repository_makes_no_more_requests_than_it_may(server: RecordingServer) -> None:
    store = RemoteStore(s3(server))
    tuned = with_settings(store, None, max_requests=2)
    assert isinstance(tuned, RemoteStore)
    server.pause_s = 0.01
    server.objects["/bucket/root/key"] = DATA
    small = tuned.with_settings(replace(tuned.settings, request_bytes=1000))
    small.get("key")
    assert server.busiest == 2
    assert with_settings(store, None) is store


def test_versions_of_google_are_generations(server: RecordingServer) -> None:
    place = GcsPlace(
        bucket="bucket",
        prefix="p",
        credentials=GcsAnonymousCredentials(),
        config=(("google_base_url", server.url),),
    )
    store = RemoteStore(place, RemoteSettings(max_tries=1))
    server.counts_generations = True
    first = store.put("key", b"one", when=Absent())
    assert store.get("key").version == first != ""
    second = store.put("key", b"two", when=Matches(first))
    assert server.last("PUT").headers["x-goog-if-generation-match"] == first
    assert store.get("key").version == second != first
    for when in (Absent(), Matches(first), Matches("")):
        with pytest.raises(PreconditionFailedError):
            store.put("key", b"three", when=when)
    assert bytes(store.get("key").data) == b"two"
    assert server.last("PUT").headers["x-goog-meta-icechunkwriteid"]
