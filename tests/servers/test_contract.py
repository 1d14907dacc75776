"""Remote stores keep the whole contract, on servers that are not ours."""

import pytest

from frazil.errors import StorageError
from frazil.objectstore.conditional_writes import check_conditional_writes
from frazil.objectstore.protocol import ObjectStore
from frazil.ranges import Last
from frazil.testing.objectstore import ODD_KEYS, ObjectStoreContract
from tests.servers.azure import AzureServer
from tests.servers.s3 import S3Server

CONTROL_CHARACTERS = frozenset(key for key in ODD_KEYS if "\0" in key)


class TestSeaweedFS(ObjectStoreContract):
    REFUSED_KEYS = CONTROL_CHARACTERS
    TELLS_WHAT_WAS_MISSING = False
    WRITERS = 3  # of those who lose a race there, each waits for a second
    RACES = 4
    INCREMENTS = 5
    REPLACED = 20

    @pytest.fixture
    def store(self, s3_server: S3Server) -> ObjectStore:
        return s3_server.store(s3_server.new_prefix())

    # SeaweedFS takes a backslash for a slash.
    @pytest.mark.parametrize("key", [key for key in ODD_KEYS if "\\" not in key])
    def test_an_odd_key_is_a_key(self, store: ObjectStore, key: str) -> None:
        super().test_an_odd_key_is_a_key(store, key)


class TestMinistack(ObjectStoreContract):
    INCREMENTS = 10
    REFUSED_KEYS = CONTROL_CHARACTERS
    TELLS_WHAT_WAS_MISSING = False

    @pytest.fixture
    def store(self, hot_s3_server: S3Server) -> ObjectStore:
        return hot_s3_server.store(hot_s3_server.new_prefix())

    def test_an_empty_object_is_an_object(self, store: ObjectStore) -> None:
        store.put("empty", b"")
        assert store.head("empty").size_bytes == 0
        assert bytes(store.get("empty").data) == b""
        with pytest.raises(StorageError, match="bytes 0--1/0"):  # it says, which is no range
            store.get("empty", Last(3))

    def test_head_tells_size_and_time(self, store: ObjectStore) -> None:
        store.put("five", b"12345")
        (listed,) = store.list()
        asked = store.head("five")  # this one in whole seconds
        assert (asked.key, asked.size_bytes) == (listed.key, listed.size_bytes) == ("five", 5)
        assert abs(asked.modified_at_us - listed.modified_at_us) < 2_000_000


class TestAzurite(ObjectStoreContract):
    INCREMENTS = 10

    @pytest.fixture
    def store(self, azure_server: AzureServer) -> ObjectStore:
        return azure_server.store(azure_server.new_prefix())


def test_the_check_for_users_finds_nothing_wrong_with_real_servers(
    hot_s3_server: S3Server, azure_server: AzureServer
) -> None:
    for server in (hot_s3_server, azure_server):
        store = server.store(server.new_prefix())
        assert check_conditional_writes(store) == []
        assert list(store.list()) == []
