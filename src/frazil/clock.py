"""Time as the format counts it: microseconds since 1970 in UTC."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from frazil.errors import require_type

type Clock = Callable[[], int]  # microseconds since the epoch

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def system_clock() -> int:
    return time.time_ns() // 1000


def to_datetime(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def from_datetime(when: datetime) -> int:
    require_type(when, datetime)
    if when.tzinfo is None:
        raise TypeError("expected a datetime with non-None tzinfo")
    return (when - _EPOCH) // timedelta(microseconds=1)
