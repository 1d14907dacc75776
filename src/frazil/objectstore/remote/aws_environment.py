"""Credentials of S3 that the environment of a process offers, as far as obstore does not look.

obstore finds keys in variables, tokens of web identities, and asks containers and machines of AWS.
It does not read the files that `aws configure` writes:

    ~/.aws/credentials     [profile]          aws_access_key_id, aws_secret_access_key, ...
    ~/.aws/config          [profile name]     the same, and region

Called only where the user wants credentials from the environment. Profiles that log in (SSO) or
assume a role are not understood: `get_credentials` with the SDK of AWS serves there.
"""

import os
from collections.abc import Mapping
from configparser import ConfigParser, Error
from pathlib import Path

from frazil.dataclass import dataclass
from frazil.errors import StorageError
from frazil.objectstore.credentials import S3StaticCredentials

# Any of these, and obstore knows what to do.
_ENOUGH = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_TRUE = {"true", "1", "yes"}


@dataclass(frozen=True, slots=True)
class AwsProfile:
    credentials: S3StaticCredentials | None = None
    region: str | None = None


def find_profile(environment: Mapping[str, str] = os.environ) -> AwsProfile:
    """The profile in the user's files. Raises StorageError if there are no credentials at all.

    Region and credentials are None where variables say it, or files do not.
    """
    section = _read_section(environment)
    knows_region = "AWS_REGION" in environment or "AWS_DEFAULT_REGION" in environment
    region = None if knows_region else section.get("region")
    if any(name in environment for name in _ENOUGH):
        return AwsProfile(region=region)
    key, secret = section.get("aws_access_key_id"), section.get("aws_secret_access_key")
    if key and secret:
        token = section.get("aws_session_token")
        return AwsProfile(S3StaticCredentials(key, secret, token), region)
    if environment.get("AWS_EC2_METADATA_DISABLED", "").lower() in _TRUE:
        raise StorageError(
            "there are no credentials for S3 in the environment: neither in its variables, nor in"
            " ~/.aws, and the machine may not be asked (AWS_EC2_METADATA_DISABLED)",
            kind="invalid-credentials",
        )
    return AwsProfile(region=region)


def _read_section(environment: Mapping[str, str]) -> dict[str, str]:
    """The section of the profile in use, from both files; credentials take precedence."""
    name = environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE") or "default"
    home = Path(environment.get("HOME") or "~").expanduser() / ".aws"
    config = Path(environment.get("AWS_CONFIG_FILE") or home / "config")
    keys = Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials")
    in_config = "default" if name == "default" else f"profile {name}"
    return _read(config, in_config) | _read(keys, name)


def _read(path: Path, section: str) -> dict[str, str]:
    parser = ConfigParser(interpolation=None, default_section="", strict=False)
    try:
        parser.read_string(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, Error) as error:
        # Not with the text of the error: it may quote a line of the file.
        raise StorageError(
            f"cannot read {path}: {type(error).__name__}", kind="invalid-credentials"
        ) from None
    return dict(parser[section]) if parser.has_section(section) else {}
