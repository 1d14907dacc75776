"""Credentials from the files that `aws configure` writes."""

from pathlib import Path

import pytest

from frazil.errors import StorageError
from frazil.objectstore.credentials import S3StaticCredentials
from frazil.objectstore.remote.aws_environment import AwsProfile, find_profile

KEYS = """
[default]
aws_access_key_id = id
aws_secret_access_key = %secret%
[other]
aws_access_key_id = other
aws_secret_access_key = secret
aws_session_token = token
"""
CONFIG = """
[default]
region = eu-west-1
[profile other]
region = us-west-2
[profile keyless]
region = us-west-1
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(KEYS)
    (tmp_path / ".aws" / "config").write_text(CONFIG)
    return tmp_path


def found(home: Path, **variables: str) -> AwsProfile:
    return find_profile({"HOME": str(home), **variables})


def test_the_default_profile_is_used(home: Path) -> None:
    assert found(home) == AwsProfile(S3StaticCredentials("id", "%secret%"), "eu-west-1")


def test_another_profile_can_be_named(home: Path) -> None:
    expected = AwsProfile(S3StaticCredentials("other", "secret", "token"), "us-west-2")
    assert found(home, AWS_PROFILE="other") == expected


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"])
def test_variables_that_obstore_knows_take_precedence(home: Path, name: str) -> None:
    assert found(home, **{name: "x"}) == AwsProfile(region="eu-west-1")
    assert found(home, AWS_REGION="r").region is None


def test_the_files_may_be_elsewhere(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "keys"
    elsewhere.write_text("[default]\naws_access_key_id=a\naws_secret_access_key=b\n")
    profile = found(home, AWS_SHARED_CREDENTIALS_FILE=str(elsewhere))
    assert profile.credentials == S3StaticCredentials("a", "b")


def test_without_keys_the_machine_is_asked_unless_that_is_forbidden(home: Path) -> None:
    assert found(home, AWS_PROFILE="keyless") == AwsProfile(region="us-west-1")
    with pytest.raises(StorageError, match="AWS_EC2_METADATA_DISABLED"):
        found(home, AWS_PROFILE="keyless", AWS_EC2_METADATA_DISABLED="true")


def test_a_file_that_is_none_of_these_is_not_quoted(home: Path) -> None:
    (home / ".aws" / "credentials").write_text("secret\n[default")
    with pytest.raises(StorageError) as caught:
        found(home)
    assert "credentials" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
