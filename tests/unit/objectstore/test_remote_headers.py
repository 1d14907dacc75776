"""What requests of remote stores carry: who asks, conditions, signatures."""

import pytest

import frazil
from frazil import Attribution, StorageSettings
from frazil.api.attribution import format_user_agent, with_user_agent
from frazil.engine.files.object_stores import remote_settings
from frazil.errors import (
    PreconditionFailedError,
)
from frazil.objectstore import Absent, Blob, Matches
from frazil.objectstore.credentials import (
    GcsAnonymousCredentials,
    S3AnonymousCredentials,
)
from frazil.objectstore.protocol import RemoteSettings
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote.gcs import GcsPlace
from frazil.objectstore.remote.s3 import S3Place
from tests.unit.objectstore.recording_server import SECRET, STATIC, RecordingServer, s3


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
    store = with_user_agent(storage.store, who)
    store.put("key", b"data")
    store.get("key")
    wrote, read = server.last("PUT").headers, server.last("GET").headers
    assert wrote["user-agent"] == read["user-agent"] == format_user_agent(who)
    assert format_user_agent(who).startswith("me/1 frazil/")
    assert format_user_agent(who).endswith(" (workload=night; principal=anna)")
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


def test_google_is_told_the_storage_class_by_its_own_name(server: RecordingServer) -> None:
    place = GcsPlace(
        bucket="bucket",
        prefix="p",
        credentials=GcsAnonymousCredentials(),
        config=(("google_base_url", server.url),),
    )
    server.counts_generations = True
    store = RemoteStore(place, remote_settings(StorageSettings(chunks_storage_class="NEARLINE")))
    for key, expected in (("chunks/X", "NEARLINE"), ("repo", None)):
        store.put(key, b"x")
        assert server.last("PUT").headers.get("x-goog-storage-class") == expected


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


def test_google_is_asked_again_by_etag_and_not_by_generation(server: RecordingServer) -> None:
    place = GcsPlace(
        bucket="bucket",
        prefix="p",
        credentials=GcsAnonymousCredentials(),
        config=(("google_base_url", server.url),),
    )
    store = RemoteStore(place, RemoteSettings(max_tries=1))
    server.counts_generations = True
    written = Blob(b"one", store.put("key", b"one", when=Absent()))
    read = store.reread("key", written)  # whose ETag nobody knows yet
    assert "if-none-match" not in server.last("GET").headers
    assert (bytes(read.data), read.version) == (b"one", written.version)
    assert store.reread("key", read) is read
    assert server.last("GET").headers["if-none-match"].strip('"') != read.version
    store.put("key", b"two", when=Matches(read.version))
    assert bytes(store.reread("key", read).data) == b"two"


def _google() -> frazil.GcsBearerCredential:
    return frazil.GcsBearerCredential("from a function")


@pytest.mark.parametrize(
    ("credentials", "expected"),
    [
        (frazil.gcs_credentials(bearer_token="given"), "Bearer given"),  # noqa: S106 - of nobody
        (frazil.gcs_credentials(get_credentials=_google), "Bearer from a function"),
    ],
    ids=["given", "function"],
)
def test_google_is_told_the_token_that_was_given(
    server: RecordingServer, credentials: frazil.GcsCredentials, expected: str
) -> None:
    storage = frazil.Storage.new_gcs(
        "bucket", "p", credentials, config={"google_base_url": server.url}, headers={"x-a": "1"}
    )
    storage.store.put("key", b"x")
    storage.store.get("key")
    for asked in server.asked:
        assert asked.headers["authorization"] == expected
        assert asked.headers["x-a"] == "1"
    assert {asked.method for asked in server.asked} == {"PUT", "GET"}


def test_etags_are_sent_as_each_server_wants_them(server: RecordingServer) -> None:
    """Ceph knows them without quotes only."""
    store = RemoteStore(s3(server))
    version = store.put("key", b"one", when=Absent())
    store.put("key", b"two", when=Matches(version))
    assert server.last("PUT").headers["if-match"] == version
    assert '"' not in version
