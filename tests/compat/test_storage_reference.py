"""Storages, stores and credentials: what each function makes or refuses, beside the reference."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import icechunk
import pytest

import frazil
import frazil.credentials
import frazil.storage

pytestmark = pytest.mark.compat

LATER = datetime(2040, 1, 1, tzinfo=UTC)


def s3_token() -> Any:
    return frazil.S3StaticCredentials("id", "key")


def token() -> Any:
    return frazil.GcsBearerCredential("token")


def outcome(call: Callable[[], Any]) -> tuple[str, str | None]:
    """The kind of thing that was made, or the class and kind of the error."""
    try:
        made = call()
    except Exception as error:  # noqa: BLE001 - whatever either side raises is compared
        return type(error).__name__, getattr(error, "kind", None)
    return "made", _kind(made)


def _kind(made: Any) -> str | None:
    """`Static`, `FromEnv`, ...: what our classes are called where they hang."""
    for base in (frazil.S3Credentials, frazil.GcsCredentials, frazil.AzureCredentials):
        for name in ("FromEnv", "Anonymous", "Static", "Refreshable"):
            if isinstance(made, getattr(base, name)):
                return name
    named = type(made).__name__
    return named if named in {"FromEnv", "Anonymous", "Static", "Refreshable"} else None


S3_ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"from_env": True},
    {"from_env": False},
    {"anonymous": True},
    {"anonymous": False},
    {"anonymous": True, "from_env": False},
    {"anonymous": True, "from_env": True},
    {"access_key_id": "a", "secret_access_key": "b"},
    {"access_key_id": "a", "secret_access_key": "b", "session_token": "c", "expires_after": LATER},
    {"access_key_id": "a", "secret_access_key": "b", "from_env": True},
    {"access_key_id": "a", "secret_access_key": "b", "anonymous": True},
    {"access_key_id": "a", "secret_access_key": ""},
    {"access_key_id": "a"},
    {"session_token": "c"},
    {"expires_after": LATER},
    {"get_credentials": s3_token},
    {"get_credentials": s3_token, "from_env": False},
    {"get_credentials": s3_token, "anonymous": True},
    {"get_credentials": s3_token, "access_key_id": "a", "secret_access_key": "b"},
]
GCS_ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"from_env": True},
    {"from_env": False},
    {"anonymous": True},
    {"anonymous": True, "bearer_token": "t"},
    {"bearer_token": "t"},
    {"bearer_token": "t", "from_env": True},
    {"bearer_token": "t", "from_env": False},
    {"service_account_file": "f", "bearer_token": "t"},
    {"service_account_key": "{}"},
    {"application_credentials": "f"},
    {"get_credentials": token, "from_env": False},
]
AZURE_ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"from_env": True},
    {"from_env": False},
    {"anonymous": True},
    {"anonymous": True, "access_key": "k"},
    {"access_key": "k"},
    {"access_key": "k", "sas_token": "s"},
    {"access_key": "k", "from_env": True},
    {"sas_token": "s"},
    {"bearer_token": "b"},
    {"get_credentials": token},
    {"get_credentials": token, "access_key": "k"},
]


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        *(("s3_credentials", one) for one in S3_ARGUMENTS),
        *(("gcs_credentials", one) for one in GCS_ARGUMENTS),
        *(("azure_credentials", one) for one in AZURE_ARGUMENTS),
        *(("gcs_static_credentials", one) for one in ({}, {"bearer_token": "t"})),
        *(("azure_static_credentials", one) for one in ({}, {"access_key": "k"})),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(sorted(value)) or "nothing",
)
def test_credentials_are_made_and_refused_as_there(
    function: str, arguments: dict[str, Any]
) -> None:
    ours = outcome(lambda: getattr(frazil, function)(**arguments))
    theirs = outcome(lambda: getattr(icechunk, function)(**arguments))
    assert ours == theirs


def test_a_function_that_gets_credentials_for_google_is_not_forgotten() -> None:
    """The reference takes those of the environment instead; see docs/differences.md."""
    assert outcome(lambda: icechunk.gcs_credentials(get_credentials=token)) == ("made", "FromEnv")
    made = frazil.gcs_credentials(get_credentials=token)
    assert isinstance(made, frazil.GcsCredentials.Refreshable)
    assert made.fetch() == frazil.GcsBearerCredential("token")


STORAGES: list[tuple[str, dict[str, Any]]] = [
    ("s3_storage", {"bucket": "b", "prefix": "p"}),
    ("s3_storage", {"bucket": "b", "prefix": None, "anonymous": True}),
    ("s3_storage", {"bucket": "b", "prefix": "p", "endpoint_url": "https://t3.storage.dev"}),
    (
        "s3_storage",
        {"bucket": "b", "prefix": "p", "endpoint_url": "https://fly.storage.tigris.dev"},
    ),
    ("s3_storage", {"bucket": "b", "prefix": "p", "legacy_rooted_keys": True}),
    ("s3_storage", {"bucket": "b", "prefix": "p", "legacy_rooted_keys": False}),
    ("s3_storage", {"bucket": "b", "prefix": "p", "headers": {"a b": "c"}}),
    ("s3_storage", {"bucket": "b", "prefix": "p", "read_headers": {"ab": "c\n"}}),
    ("s3_storage", {"bucket": "b", "prefix": "p", "write_headers": {"x-amz-acl": "private"}}),
    ("s3_storage", {"bucket": "b", "prefix": "p", "access_key_id": "a"}),
    ("r2_storage", {"prefix": "b/p"}),
    ("r2_storage", {"account_id": "a"}),
    ("r2_storage", {"prefix": "b/p", "account_id": "a"}),
    ("r2_storage", {"bucket": "b", "prefix": "p", "endpoint_url": "https://x.example"}),
    ("tigris_storage", {"bucket": "b", "prefix": "p"}),
    ("tigris_storage", {"bucket": "b", "prefix": "p", "region": "iad"}),
    ("tigris_storage", {"bucket": "b", "prefix": "p", "use_weak_consistency": True}),
    ("hf_storage", {"bucket": "b", "prefix": "p", "namespace": "n"}),
    ("gcs_storage", {"bucket": "b", "prefix": "p", "bearer_token": "t"}),
    ("gcs_storage", {"bucket": "b", "prefix": None, "anonymous": True}),
    ("gcs_storage", {"bucket": "b", "prefix": "p", "headers": {"a b": "c"}}),
    ("azure_storage", {"account": "a", "container": "c", "prefix": "p", "access_key": "a2V5"}),
    ("http_storage", {"base_url": "http://127.0.0.1:1/x/"}),
    ("http_storage", {"base_url": "nonsense"}),
    ("redirect_storage", {"base_url": "http://127.0.0.1:1/x"}),
    ("redirect_storage", {"base_url": "nonsense"}),
]


@pytest.mark.parametrize(
    ("function", "arguments"),
    STORAGES,
    ids=[f"{function}-{number}" for number, (function, _) in enumerate(STORAGES)],
)
def test_storages_are_made_and_refused_as_there(function: str, arguments: dict[str, Any]) -> None:
    ours = outcome(lambda: getattr(frazil, function)(**arguments))
    theirs = outcome(lambda: getattr(icechunk, function)(**arguments))
    assert ours == theirs


@pytest.mark.parametrize(
    "make",
    [
        lambda engine: engine.s3_storage(bucket="b", prefix="", anonymous=True),
        lambda engine: engine.s3_storage(bucket="b", prefix=None, anonymous=True),
        lambda engine: engine.s3_storage(bucket="b", prefix="/", anonymous=True),
        lambda engine: engine.gcs_storage(bucket="b", prefix="", bearer_token="t"),  # noqa: S106 - of nobody
        lambda engine: engine.azure_storage(
            account="a", container="ccc", prefix="", access_key="a2V5"
        ),
        lambda engine: engine.http_storage("http://127.0.0.1:1/"),
    ],
    ids=["s3", "s3-none", "s3-slashes", "gcs", "azure", "http"],
)
def test_no_repository_is_created_in_the_root_of_a_bucket(make: Callable[[Any], Any]) -> None:
    ours = outcome(lambda: frazil.Repository.create(make(frazil)))
    assert ours == outcome(lambda: icechunk.Repository.create(make(icechunk)))
    assert ours[1] in {"empty-prefix-creation", "read-only-storage"}


@pytest.mark.parametrize(
    "make",
    [
        lambda engine: engine.storage.s3_store(region="r", s3_compatible=True),
        lambda engine: engine.storage.s3_store(anonymous=True),
        lambda engine: engine.storage.gcs_store({"k": "v"}),
        lambda engine: engine.storage.azure_store(account="a", config={"k": "v"}),
        lambda engine: engine.storage.http_store({"k": "v"}),
        lambda engine: engine.storage.local_filesystem_store("/x"),
    ],
    ids=["compatible", "s3", "gcs", "azure", "http", "local"],
)
def test_a_container_of_each_store_is_taken_by_a_configuration(make: Callable[[Any], Any]) -> None:
    names = [type(make(engine)).__name__ for engine in (frazil, icechunk)]
    assert names[0].removesuffix("StoreConfig") in {names[1], "Local"}


def test_keys_are_listed_as_there(tmp_path: Any) -> None:
    path = str(tmp_path)
    frazil.Repository.create(frazil.local_filesystem_storage(path))
    ours, theirs = frazil.local_filesystem_storage(path), icechunk.local_filesystem_storage(path)
    for prefix in (None, "", "snapshots", "snapshots/", "transactions"):
        expected = sorted(key for key, _ in theirs.list_objects(prefix=prefix) if key[0] != ".")
        assert sorted(key for key, _ in ours.list_objects(prefix=prefix)) == expected
        found = {info.key: info.size_bytes for info in ours.list_objects_metadata(prefix=prefix)}
        assert found == dict(ours.list_objects(prefix=prefix))


def test_access_without_credentials_is_a_value_there_and_here() -> None:
    for engine in (frazil, icechunk):
        access = engine.credentials.LocalFileSystemAccess
        assert isinstance(access, engine.Credentials.LocalFileSystemAccess)
        assert engine.containers_credentials({"file:///x/": access}) == {"file:///x/": access}
        with pytest.raises(ValueError, match="Unknown credential type"):
            engine.containers_credentials({"file:///x/": 3})
