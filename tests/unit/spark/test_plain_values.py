"""Stores and credentials as JSON: all of a value comes back, and a wrong value is refused."""

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.engine.files.virtual_access import Home, VirtualChunkAccess, VirtualReads
from frazil.errors import InvalidInputError
from frazil.format import storage_config as configs
from frazil.format.limits import Limits
from frazil.objectstore import credentials as creds
from frazil.objectstore.protocol import RemoteSettings
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote.azure import AzurePlace
from frazil.objectstore.remote.gcs import GcsPlace
from frazil.objectstore.remote.place import HttpPlace
from frazil.objectstore.remote.s3 import BucketRoot, S3Place
from frazil.spark.runtime.access import KINDS, AccessText, format_access, parse_access
from frazil.spark.runtime.storage_options import PlaceText, format_place, open_place

TEXT = st.text(max_size=8)
PAIRS = st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple)
WHEN = st.none() | st.datetimes(timezones=st.just(UTC))
S3 = st.one_of(
    st.just(creds.S3FromEnvCredentials()),
    st.just(creds.S3AnonymousCredentials()),
    st.builds(
        creds.S3FixedCredentials,
        st.builds(creds.S3StaticCredentials, TEXT, TEXT, st.none() | TEXT, WHEN),
    ),
)
GCS_STATIC = (
    creds.GcsServiceAccount, creds.GcsServiceAccountKey, creds.GcsApplicationCredentials,
    creds.GcsBearerToken,
)  # fmt: skip
GCS = st.one_of(
    st.just(creds.GcsFromEnvCredentials()),
    st.just(creds.GcsAnonymousCredentials()),
    *(st.builds(creds.GcsFixedCredentials, st.builds(kind, TEXT)) for kind in GCS_STATIC),
)
AZURE_STATIC = (creds.AzureAccessKey, creds.AzureSasToken, creds.AzureBearerToken)
AZURE = st.one_of(
    st.just(creds.AzureFromEnvCredentials()),
    st.just(creds.AzureAnonymousCredentials()),
    *(st.builds(creds.AzureFixedCredentials, st.builds(kind, TEXT)) for kind in AZURE_STATIC),
)
PLACES: st.SearchStrategy[Any] = st.one_of(
    st.builds(
        S3Place,
        bucket=TEXT,
        prefix=TEXT,
        credentials=S3,
        region=st.none() | TEXT,
        stream_timeout_s=st.integers(0, 99),
        rooted=st.booleans(),
        read_headers=PAIRS,
    ),
    st.builds(GcsPlace, bucket=TEXT, prefix=TEXT, credentials=GCS, config=PAIRS),
    st.builds(AzurePlace, account=TEXT, container=TEXT, prefix=TEXT, credentials=AZURE),
    st.builds(HttpPlace, base_url=TEXT.map("http://h/{}".format), headers=PAIRS, options=PAIRS),
)
SETTINGS = st.builds(
    RemoteSettings,
    max_requests=st.integers(1, 99),
    read_timeout_ms=st.none() | st.integers(0, 99),
    storage_classes=PAIRS,
    user_agent=st.none() | TEXT,
)
CREDENTIALS = st.one_of(
    st.none(),
    st.just(creds.LocalFileSystemAccess()),
    st.just(creds.HttpAccess()),
    st.builds(creds.CredentialsForS3, S3),
    st.builds(creds.CredentialsForGcs, GCS),
    st.builds(creds.CredentialsForAzure, AZURE),
)
OPTIONS = st.builds(
    configs.S3Options,
    region=st.none() | TEXT,
    checksum_algorithm=st.none() | st.sampled_from(configs.ChecksumAlgorithm),
)
CONFIGS = st.one_of(
    st.builds(configs.S3StoreConfig, OPTIONS),
    st.builds(configs.HttpStoreConfig, st.none() | st.dictionaries(TEXT, TEXT, max_size=2)),
    st.builds(configs.LocalStoreConfig, TEXT),
)
ACCESS = st.builds(
    VirtualChunkAccess,
    st.dictionaries(TEXT, CREDENTIALS, max_size=3),
    default_containers=st.booleans(),
    reads=st.builds(VirtualReads, max_gap_bytes=st.integers(0, 9), check_redirects=st.booleans()),
    home=st.none() | st.builds(Home, CONFIGS, CREDENTIALS),
    limits=st.builds(Limits, tries=st.integers(1, 9)),
    endpoints=st.lists(TEXT, max_size=2),
)


@given(PLACES, SETTINGS)
def test_a_store_comes_back_as_it_was(place: Any, settings: RemoteSettings) -> None:
    store = open_place(format_place(RemoteStore(place, settings)))
    assert isinstance(store, RemoteStore)
    assert (store.place, store.settings) == (place, settings)


def test_a_bucket_root_comes_back_as_it_was() -> None:
    place = S3Place(bucket="b", prefix="", credentials=creds.S3FromEnvCredentials())
    store = open_place(format_place(BucketRoot(place, ("repo", "other"))))
    assert isinstance(store, BucketRoot)
    assert (store.place, store.probes) == (place, ("repo", "other"))


@given(ACCESS)
def test_a_permission_comes_back_as_it_was(access: VirtualChunkAccess) -> None:
    text = format_access(access)
    assert parse_access(text) == access
    assert not text.secret or text.secret not in repr(text)


def paths_in(document: Any) -> Iterator[tuple[Any, Any]]:
    """Each container in a JSON document, with a key or position in it."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(items):
        yield document, key
        if isinstance(value, dict | list):
            yield from paths_in(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.sampled_from(list(KINDS)),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)


@given(st.data())
def test_a_changed_document_is_refused_or_means_exactly_what_it_says(data: st.DataObject) -> None:
    store = RemoteStore(data.draw(PLACES), data.draw(SETTINGS))
    document = json.loads(format_place(store).secret)
    container, key = data.draw(st.sampled_from(list(paths_in(document))))
    if isinstance(container, dict) and data.draw(st.booleans()):
        container[data.draw(TEXT)] = data.draw(JSON)
    else:
        container[key] = data.draw(JSON)
    try:
        opened = open_place(PlaceText("s3://b/p", json.dumps(document)))
    except InvalidInputError as error:
        message = str(error)
    else:
        message = "option 'secretStorage'"
        assert isinstance(opened, RemoteStore | BucketRoot)
        said = json.loads(format_place(opened).secret)
        assert json.dumps(said, sort_keys=True) == json.dumps(document, sort_keys=True)
    assert "option 'secretStorage'" in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_requests": 0}, "max_requests is out of range"),
        ({"max_tries": -1}, "max_tries is out of range"),
        ({"max_requests": True}, "settings.max_requests: expected a whole number"),
        ({"user_agent": 7}, "settings.user_agent: expected text"),
        ({"other": 7}, "settings: expected the fields max_requests"),
        ({"kind": "Path"}, "expected an object whose kind is RemoteSettings"),
        ({"kind": "S3RefreshableCredentials"}, "whose kind is RemoteSettings"),
    ],
)
def test_a_refusal_names_option_and_field(change: dict[str, Any], message: str) -> None:
    place = S3Place(bucket="b", prefix="p", credentials=creds.S3AnonymousCredentials())
    document = json.loads(format_place(RemoteStore(place)).secret)
    assert open_place(PlaceText("", json.dumps(document))).location == "s3://b/p"  # type: ignore[attr-defined]  # it is remote
    document["settings"] |= change
    with pytest.raises(InvalidInputError, match="secretStorage") as refusal:
        open_place(PlaceText("", json.dumps(document)))
    assert message in str(refusal.value)


def holds_bytes(kind: type[Any]) -> bool:
    return any(field.type in {bytes, "bytes"} for field in fields(kind))


def test_no_kind_holds_bytes() -> None:
    """Bytes could be a pickle that is loaded later."""
    assert holds_bytes(creds.S3RefreshableCredentials)
    for kind in KINDS.values():
        assert is_dataclass(kind)
        assert not holds_bytes(kind)


SOON = datetime.now(UTC) + timedelta(days=1)
STATIC = frazil.S3StaticCredentials("id", "secret", None, SOON)
CALLS: list[str] = []


def give_s3() -> frazil.S3StaticCredentials:
    CALLS.append("s3")
    return STATIC


def give_gcs() -> frazil.GcsBearerCredential:
    return frazil.GcsBearerCredential("bearer", expires_after=SOON)


def give_azure() -> frazil.AzureRefreshableCredential:
    return frazil.AzureRefreshableCredential.SasToken("token", SOON)


def give_wrong() -> object:
    return 7


def test_a_function_is_called_by_the_driver_and_only_its_credentials_are_sent() -> None:
    CALLS.clear()
    access = VirtualChunkAccess(
        {
            "s3://b/": creds.CredentialsForS3(frazil.s3_refreshable_credentials(give_s3)),
            "gs://b/": creds.CredentialsForGcs(frazil.gcs_refreshable_credentials(give_gcs)),
            "az://b/": creds.CredentialsForAzure(frazil.azure_refreshable_credentials(give_azure)),
        }
    )
    text = format_access(access)
    assert CALLS == ["s3"]
    given_back = parse_access(text).credentials
    assert CALLS == ["s3"]  # reading the option calls nothing
    assert given_back == {
        "s3://b/": creds.CredentialsForS3(creds.S3FixedCredentials(STATIC)),
        "gs://b/": creds.CredentialsForGcs(
            creds.GcsFixedCredentials(creds.GcsBearerToken("bearer"))
        ),
        "az://b/": creds.CredentialsForAzure(
            creds.AzureFixedCredentials(creds.AzureSasToken("token"))
        ),
    }
    assert "pickle" not in text.secret


def test_credentials_given_earlier_are_used_while_they_last() -> None:
    CALLS.clear()
    fresh = frazil.s3_refreshable_credentials(give_s3, scatter_initial_credentials=True)
    assert CALLS == ["s3"]
    format_access(VirtualChunkAccess({"s3://b/": creds.CredentialsForS3(fresh)}))
    assert CALLS == ["s3"]
    past = frazil.S3StaticCredentials("old", "old", None, datetime(2020, 1, 1, tzinfo=UTC))
    expired = creds.S3RefreshableCredentials(fresh.pickled_function, past)
    text = format_access(VirtualChunkAccess({"s3://b/": creds.CredentialsForS3(expired)}))
    assert CALLS == ["s3", "s3"]
    assert '"old"' not in text.secret


def test_a_function_that_gives_something_else_is_an_error_on_the_driver() -> None:
    wrong = creds.CredentialsForS3(frazil.s3_refreshable_credentials(give_wrong))  # type: ignore[arg-type]  # that is the point
    with pytest.raises(InvalidInputError, match="gave a int"):
        format_access(VirtualChunkAccess({"s3://b/": wrong}))


def test_text_that_is_no_json_is_not_repeated() -> None:
    for text in ("a secret", '"a secret"', '["a secret"]', "[" * 100_000, '{"access": 1e999}'):
        with pytest.raises(InvalidInputError, match="option 'secretAccess'") as refusal:
            parse_access(AccessText(secret=text))
        assert "a secret" not in str(refusal.value)
