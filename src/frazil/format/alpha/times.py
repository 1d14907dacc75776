"""Times as text, RFC 3339: `2024-10-11T23:23:33.504448054Z`.

Nanoseconds are dropped on reading; on writing there are as few digits as it takes, in threes.
"""

from datetime import datetime
from typing import Any

from frazil.clock import from_datetime, to_datetime
from frazil.errors import FormatError
from frazil.format.alpha.unpacking import shown, text


def parse_time(value: Any, what: str) -> int:
    """Microseconds since 1970."""
    try:
        moment = from_datetime(datetime.fromisoformat(text(value, what)))
    except (ValueError, TypeError, OverflowError) as error:
        raise FormatError(f"{what} is {shown(value)}, expected a time") from error
    if moment < 0:
        raise FormatError(f"{what} is {shown(value)}, before 1970")
    return moment


def format_time(moment_us: int) -> str:
    start = to_datetime(moment_us).strftime("%Y-%m-%dT%H:%M:%S")
    rest = moment_us % 1_000_000
    if not rest:
        return f"{start}Z"
    return f"{start}.{rest // 1000:03d}Z" if rest % 1000 == 0 else f"{start}.{rest:06d}Z"
