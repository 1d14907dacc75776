"""How options say where a repository is and how to get there."""

import pickle
import re
from pathlib import Path

import pytest

from frazil.errors import InvalidInputError
from frazil.objectstore.local import LocalStore
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote.azure import AzurePlace
from frazil.objectstore.remote.s3 import S3Place
from frazil.spark.runtime.storage_options import (
    PREFIX,
    is_storage_option,
    storage_of,
    storage_options_in,
    with_prefix,
)

SECRET = "Ex4mple-Of-A-Secret"  # noqa: S105 -- an example


def remote(**options: str) -> RemoteStore:
    store = storage_of({name.replace("__", "."): text for name, text in options.items()}).store
    assert isinstance(store, RemoteStore)
    return store


def test_a_folder_needs_nothing(tmp_path: Path) -> None:
    for path in (str(tmp_path), tmp_path.as_uri()):
        store = storage_of({"path": path, "group": "/a"}).store
        assert isinstance(store, LocalStore)
        assert store.root == str(tmp_path)


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_bucket_of_s3_by_its_location_and_options(scheme: str) -> None:
    store = remote(
        path=f"{scheme}://bucket/a/b",
        storage__endpoint_url="http://127.0.0.1:1",
        storage__allowHttp="true",
        STORAGE__Region="eu-1",
        storage__access_key_id="who",
        storage__secretAccessKey=SECRET,
    )
    place = store.place
    assert isinstance(place, S3Place)
    assert (place.bucket, place.prefix, place.region) == ("bucket", "a/b", "eu-1")
    assert place.endpoint_url == "http://127.0.0.1:1"
    assert SECRET not in repr(store) + repr(place) + str(store.location)
    assert pickle.loads(pickle.dumps(store)).place == place


def test_buckets_of_others() -> None:
    assert remote(path="gs://bucket/a", storage__anonymous="true").location == "gs://bucket/a"
    azure = remote(path="az://box/a", storage__account="me", storage__accessKey="c2VjcmV0").place
    assert isinstance(azure, AzurePlace)
    assert (azure.account, azure.container, azure.prefix) == ("me", "box", "a")
    other = remote(path="abfss://box@me.dfs.core.windows.net/a", storage__anonymous="true").place
    assert isinstance(other, AzurePlace)
    assert (other.account, other.container, other.prefix) == ("me", "box", "a")
    web = remote(path="https://example.org/a", storage__secretHeaders='{"x": "y"}')
    assert web.location == "https://example.org/a"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": ""}, "option 'path' is missing"),
        ({"path": "ftp://host/a"}, "no storage for ftp://"),
        ({"path": "/a", "storage.region": "x"}, "those for a folder are none"),
        ({"path": "s3://b/a", "storage.regoin": "x"}, "did you mean 'storage.region'"),
        ({"path": "s3://b/a", "storage.allowHttp": "yes"}, "'storage.allowHttp': expected true or"),
        ({"path": "s3://b/a", "storage.headers": SECRET}, "call it 'storage.secretHeaders'"),
        ({"path": "s3://b/a", "storage.secretHeaders": SECRET}, "it is no JSON"),
        ({"path": "s3://b/a", "storage.region": "x", "storage.Region": "y"}, "given twice"),
        ({"path": "az://b/a", "storage.access_key": SECRET}, "call it 'storage.accessKey'"),
        ({"path": "az://b/a", "storage.anonymous": "true"}, "option 'storage.account'"),
        ({"path": "s3://b/a", "storage.networkStreamTimeoutSeconds": "1s"}, "expected a number"),
    ],
)
def test_mistakes_are_told_and_secrets_are_not(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)) as caught:
        storage_of(options)
    assert SECRET not in str(caught.value)


def test_python_values_become_options_that_spark_hides() -> None:
    given = {
        "region": "eu-1",
        "allow_http": True,
        "secret_access_key": SECRET,
        "headers": {"x": "y"},
    }
    options = with_prefix(given)
    assert options == {
        "storage.region": "eu-1",
        "storage.allowHttp": "true",
        "storage.secretAccessKey": SECRET,
        "storage.secretHeaders": '{"x": "y"}',
    }
    assert storage_options_in({"path": "s3://b/a", **options}) == options
    assert all(is_storage_option(name) and name.startswith(PREFIX) for name in options)
    assert (
        storage_of({"path": "s3://b/a", **options, "storage.accessKeyId": "me"}).store is not None
    )
