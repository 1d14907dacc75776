"""When credentials that expire are got again."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from frazil.objectstore.credentials import S3StaticCredentials
from frazil.objectstore.remote.place import RefreshedCredentials
from frazil.objectstore.remote.s3 import _as_obstore


def given(lives: timedelta | None, current: S3StaticCredentials | None = None) -> dict[str, Any]:
    until = None if lives is None else datetime.now(UTC) + lives
    return RefreshedCredentials(
        lambda: S3StaticCredentials("new", "k", None, until), current, _as_obstore
    )()


@pytest.mark.parametrize(
    ("lives", "used"),
    [
        (timedelta(hours=1), timedelta(minutes=58)),
        (timedelta(minutes=5), timedelta(minutes=3)),
        (timedelta(minutes=2), timedelta(minutes=1)),
        (timedelta(seconds=-5), timedelta(seconds=-5)),
    ],
)
def test_they_are_used_until_shortly_before_they_expire(lives: timedelta, used: timedelta) -> None:
    difference = given(lives)["expires_at"] - datetime.now(UTC) - used
    assert abs(difference) < timedelta(seconds=2)


def test_those_that_never_expire_are_used_for_ever() -> None:
    assert given(None)["expires_at"] is None


def test_a_time_without_a_zone_is_in_utc() -> None:
    naive = S3StaticCredentials("old", "k", None, datetime(2040, 1, 1))  # noqa: DTZ001 - what is tested
    assert given(None, naive)["expires_at"] == datetime(2039, 12, 31, 23, 58, tzinfo=UTC)


def test_those_at_hand_are_used_first_unless_they_have_expired() -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    assert given(None, S3StaticCredentials("old", "k", None, later))["access_key_id"] == "old"
    gone = datetime.now(UTC) - timedelta(hours=1)
    assert given(None, S3StaticCredentials("old", "k", None, gone))["access_key_id"] == "new"
