"""Settings of remote stores: what reaches the client, and what is not believed."""

from datetime import timedelta

import frazil
from frazil import StorageConcurrencySettings, StorageSettings
from frazil.engine.files.object_stores import portable_settings, remote_settings, with_settings
from frazil.objectstore import Counting, ObjectStore, Prefixed
from frazil.objectstore.protocol import RemoteSettings
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote.remote_requests import client_options, retry_options
from tests.unit.objectstore.recording_server import RecordingServer, s3


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
    assert portable_settings(of_a_directory) == StorageSettings(storage_class="A")
    ours = StorageSettings(concurrency=StorageConcurrencySettings(7, 1000))
    assert portable_settings(ours) == ours
    assert portable_settings(None) is None
