"""Who may read what."""

import pickle
from typing import Any

import pytest

from frazil.engine.files.virtual_access import (
    NO_AUTHORIZATION,
    Home,
    VirtualAccess,
    VirtualChunkAccess,
    VirtualReads,
)
from frazil.errors import InvalidInputError, StorageError
from frazil.format.storage_config import ObjectStoreConfig, S3Options, VirtualChunkContainer
from frazil.objectstore.credentials import (
    CredentialsForGcs,
    CredentialsForS3,
    GcsAnonymousCredentials,
    HttpAccess,
    LocalFileSystemAccess,
    S3AnonymousCredentials,
    S3FixedCredentials,
    S3FromEnvCredentials,
    S3StaticCredentials,
)

ANONYMOUS = CredentialsForS3(S3AnonymousCredentials())
OWN = CredentialsForS3(S3FixedCredentials(S3StaticCredentials("id", "hidden")))
HOME = Home(ObjectStoreConfig.S3(S3Options("eu-west-1", "http://127.0.0.1:1")), OWN)


def container(prefix: str, store: Any = None) -> dict[str, VirtualChunkContainer]:
    store = store or ObjectStoreConfig.S3(S3Options("us-east-1"))
    return {prefix: VirtualChunkContainer(prefix, store)}


def test_a_container_gives_nobody_leave() -> None:
    with pytest.raises(InvalidInputError, match="resolves to the url prefix s3://b/,") as caught:
        VirtualAccess.of(container("s3://b/")).grant_for("s3://b/x")
    assert caught.value.kind == "unauthorized-virtual-chunk-container"


@pytest.mark.parametrize("key", ["s3://b/", "s3://b"])
def test_leave_is_by_prefix_with_or_without_its_slash(key: str) -> None:
    access = VirtualAccess.of(container("s3://b/"), VirtualChunkAccess({key: ANONYMOUS}))
    assert access.grant_for("s3://b/x").credentials == ANONYMOUS


def test_the_more_special_container_is_not_covered_by_leave_for_the_other() -> None:
    both = container("s3://b/") | container("s3://b/private/")
    access = VirtualAccess.of(both, VirtualChunkAccess({"s3://b/": ANONYMOUS}))
    assert access.grant_for("s3://b/x").credentials == ANONYMOUS
    with pytest.raises(InvalidInputError):
        access.grant_for("s3://b/private/x")


@pytest.mark.parametrize(
    ("prefix", "store", "expected"),
    [
        ("s3://y/", ObjectStoreConfig.S3(S3Options()), CredentialsForS3(S3FromEnvCredentials())),
        ("s3://y/", ObjectStoreConfig.S3(S3Options(anonymous=True)), ANONYMOUS),
        ("gcs://y/", ObjectStoreConfig.Gcs(), CredentialsForGcs(GcsAnonymousCredentials())),
        ("http://y/", ObjectStoreConfig.Http(), HttpAccess()),
        ("file:///y/", ObjectStoreConfig.LocalFileSystem("/"), LocalFileSystemAccess()),
    ],
)
def test_none_means_the_least_that_could_work(prefix: str, store: Any, expected: object) -> None:
    access = VirtualAccess.of(container(prefix, store), VirtualChunkAccess({prefix: None}))
    assert access.grants[0].credentials == expected


def test_azure_is_never_read_as_nobody() -> None:
    with pytest.raises(StorageError, match="do not match store type"):
        VirtualAccess.of(
            container("az://c/", ObjectStoreConfig.Azure()), VirtualChunkAccess({"az://c/": None})
        )


def test_secrets_are_not_shown() -> None:
    given = VirtualChunkAccess({"gcs://b/": OWN}, home=HOME)
    access = VirtualAccess.of(container("s3://b/"), VirtualChunkAccess({"s3://b/": OWN}))
    with pytest.raises(StorageError) as caught:
        VirtualAccess.of(container("gcs://b/", ObjectStoreConfig.Gcs()), given)
    for text in (repr(given), repr(access), str(caught.value)):
        assert "hidden" not in text


# Default containers


def opted(*, home: Home | None = HOME, **credentials: Any) -> VirtualAccess:
    given = VirtualChunkAccess(credentials, default_containers=True, home=home)
    return VirtualAccess.of(container("s3://b/"), given)


def test_default_containers_are_an_opt_in() -> None:
    with pytest.raises(InvalidInputError) as caught:
        VirtualAccess.of(container("s3://b/"), VirtualChunkAccess(home=HOME)).grant_for("s3://c/x")
    assert caught.value.kind == "no-container-for-virtual-chunk"


def test_on_the_platform_of_the_repository_they_are_read_as_it_is() -> None:
    grant = opted().grant_for("s3://any/thing")
    assert grant.credentials == OWN
    assert grant.container.store == HOME.store


@pytest.mark.parametrize("location", ["gcs://b/x", "gs://b/x", "az://c/x", "tigris://b/x"])
def test_on_another_platform_somebody_must_say_as_whom(location: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        opted().grant_for(location)
    assert caught.value.kind == "unauthorized-virtual-chunk-container"
    with pytest.raises(InvalidInputError):
        opted(home=None).grant_for("s3://any/thing")


def test_credentials_for_a_default_container_are_by_its_name() -> None:
    google = CredentialsForGcs(GcsAnonymousCredentials())
    access = opted(gcs=google, s3=ANONYMOUS)
    assert access.grant_for("gcs://b/x").credentials == google
    assert access.grant_for("s3://c/x").credentials == ANONYMOUS


def test_containers_of_the_repository_come_first_and_still_need_leave() -> None:
    with pytest.raises(InvalidInputError) as caught:
        opted().grant_for("s3://b/x")
    assert caught.value.kind == "unauthorized-virtual-chunk-container"


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://127.0.0.1/x", "x://y/z"])
def test_files_and_web_servers_have_no_default_container(location: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        opted().grant_for(location)
    assert caught.value.kind == "no-container-for-virtual-chunk"


# What callers give


@pytest.mark.parametrize("wrong", [[], "x", {1: None}, {"a": "b"}, {"a": S3AnonymousCredentials()}])
def test_what_is_no_leave_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        VirtualChunkAccess(wrong)


@pytest.mark.parametrize(
    "limits", [{"max_gap_bytes": -1}, {"max_request_bytes": -1}, {"max_clients": 0}]
)
def test_limits_are_checked(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a way to read"):
        VirtualReads(**limits)


def test_leave_can_be_pickled_and_not_changed() -> None:
    mine: dict[str, Any] = {"s3://b/": OWN}
    access = VirtualChunkAccess(mine, default_containers=True, home=HOME)
    mine["s3://c/"] = OWN
    assert set(access.credentials) == {"s3://b/"}
    assert pickle.loads(pickle.dumps(access)) == access
    assert VirtualChunkAccess() == NO_AUTHORIZATION
