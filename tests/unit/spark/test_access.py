"""Leave to read virtual chunks, as options."""

import pytest

from frazil.engine.files.virtual_access import NO_AUTHORIZATION, VirtualChunkAccess, VirtualReads
from frazil.errors import InvalidInputError
from frazil.objectstore.credentials import (
    AnyCredential,
    AzureFromEnvCredentials,
    CredentialsForAzure,
    CredentialsForGcs,
    CredentialsForS3,
    GcsAnonymousCredentials,
    HttpAccess,
    LocalFileSystemAccess,
    S3FixedCredentials,
    S3FromEnvCredentials,
    S3StaticCredentials,
)
from frazil.spark.runtime.access import AccessText, format_access, parse_access

WITHOUT_SECRETS: dict[str, AnyCredential | None] = {
    "file:///data/": LocalFileSystemAccess(),
    "https://host": HttpAccess(),
    "s3://b/": CredentialsForS3(S3FromEnvCredentials()),
    "gcs://b/": CredentialsForGcs(GcsAnonymousCredentials()),
    "az://c/": CredentialsForAzure(AzureFromEnvCredentials()),
}
SECRET = CredentialsForS3(S3FixedCredentials(S3StaticCredentials("key id", "a secret")))


def test_what_has_no_secret_is_readable() -> None:
    text = format_access(VirtualChunkAccess(WITHOUT_SECRETS))
    assert '"file:///data/": "local"' in text.plain
    assert '"s3://b/": "environment"' in text.plain
    assert not text.secret
    assert parse_access(text) == VirtualChunkAccess(WITHOUT_SECRETS)


def test_no_leave_is_no_option() -> None:
    assert format_access(NO_AUTHORIZATION) == AccessText()
    assert parse_access(AccessText()) == NO_AUTHORIZATION


@pytest.mark.parametrize(
    "access",
    [
        VirtualChunkAccess({"file:///data/": LocalFileSystemAccess(), "s3://b/": SECRET}),
        VirtualChunkAccess(default_containers=True),
        VirtualChunkAccess(WITHOUT_SECRETS, reads=VirtualReads(max_gap_bytes=1)),
    ],
    ids=["secret", "defaults", "reads"],
)
def test_what_words_cannot_say_is_kept_too_and_not_shown(access: VirtualChunkAccess) -> None:
    text = format_access(access)
    assert not text.plain
    assert parse_access(text) == access
    assert text.secret not in repr(text)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("local", "expected a JSON object"),
        ('["file:///data/"]', "expected a JSON object"),
        ('{"file:///data/": "anonymous"}', "expected 'local'"),
        ('{"s3://b/": "secret"}', "expected 'anonymous' or 'environment'"),
        ('{"nowhere": "local"}', "another url prefix"),
    ],
)
def test_mistakes_are_named(wrong: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        parse_access(AccessText(wrong))
