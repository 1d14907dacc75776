"""Times written as text: ISO 8601, as people and SQL write them.

Microseconds are Python's integers here, not datetimes: the year 9999 in New York ends in the year
10000 of UTC, which a datetime cannot say and Spark can. Years outside of 0000 to 9999 are written
with a sign and six digits, as ISO 8601 has it.
"""

import re
from dataclasses import dataclass

import numpy as np

_SECOND_US = 1_000_000
_DAY_US = 86_400 * _SECOND_US
_MAX_YEAR = 292_000  # what 64 bits of microseconds hold
_MAX_OFFSET_S = 18 * 3600  # Java's
_OFFSET_TEXT = r"[-+](?:\d{1,2}(?::\d{1,2}(?::\d{2})?)?|\d{4}|\d{6})"
_OFFSET = re.compile(rf"(?:UTC|GMT|UT)?(?P<offset>{_OFFSET_TEXT})?|Z")
_TEXT = re.compile(
    r"(?P<year>\d{4}|[-+]\d{6})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
    r"(?:[T ](?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})"
    r"(?:\.(?P<fraction>\d{1,9}))?)?)?)?)?)?"
    rf"\s*(?P<zone>Z|(?:UTC|GMT|UT)?{_OFFSET_TEXT}|UTC|GMT)?"
)


@dataclass(frozen=True, slots=True)
class Period:
    """Microseconds since 1970 in UTC; `stop` is excluded. An instant is one microsecond long."""

    start: int
    stop: int


def find_period(text: str) -> Period | None:
    """The period that `text` names, in UTC unless it has an offset: a year, a day, an instant."""
    match = _TEXT.fullmatch(text.strip())
    start = None if match is None else _local_us(match)
    shift = None if match is None else _find_offset_us(match["zone"] or "Z")
    if match is None or start is None or shift is None:
        return None
    return Period(start - shift, _end_us(match, start) - shift)


def find_instant(text: str) -> int | None:
    """Microseconds since 1970 of the time, or of the beginning of the period, that `text` names."""
    period = find_period(text)
    return None if period is None else period.start


def _find_days(year: int, month: int = 1, day: int = 1) -> int | None:
    """Days since 1970 of a date, None if there is no such."""
    if not (1 <= month <= 12 and abs(year) <= _MAX_YEAR):
        return None
    months = (year - 1970) * 12 + month - 1
    first, after = _days_of_month(months), _days_of_month(months + 1)
    return first + day - 1 if 1 <= day <= after - first else None


def _find_offset_us(zone: str) -> int | None:
    """Offset of a zone that is one (Z, UTC, +02:00, GMT+2, +5:30), None for other zones."""
    match = _OFFSET.fullmatch(zone)
    if match is None or not zone:
        return None
    text = match["offset"] or "+0"
    parts = text[1:].split(":")
    if len(parts) == 1 and len(text) > 3:  # +0530, +053000
        parts = [text[k : k + 2] for k in range(1, len(text), 2)]
    hours, minutes, seconds = (int(each) for each in (*parts, "0", "0")[:3])
    total = 3600 * hours + 60 * minutes + seconds
    if minutes > 59 or seconds > 59 or total > _MAX_OFFSET_S:
        return None
    return (-total if text[0] == "-" else total) * _SECOND_US


def format_micros(micros: int) -> str:
    """ISO text with microseconds, without a zone: UTC."""
    year, month, rest = str(np.datetime64(micros, "us")).rsplit("-", 2)
    if not 0 <= int(year) <= 9999:
        year = f"{int(year):+07d}"
    return f"{year}-{month}-{rest}"


def _local_us(match: re.Match[str]) -> int | None:
    """Microseconds from 1970 to what the clock shows, None for 31 February."""
    days = _find_days(int(match["year"]), int(match["month"] or 1), int(match["day"] or 1))
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    fraction = int(f"{match['fraction'] or '0':0<6}"[:6])
    clock_s = 3600 * hour + 60 * minute + second
    return days * _DAY_US + clock_s * _SECOND_US + fraction


def _end_us(match: re.Match[str], start: int) -> int:
    """Start of the next year, month, day, ..."""
    if match["second"]:
        return start + 1
    if match["minute"]:
        return start + 60 * _SECOND_US
    if match["hour"]:
        return start + 3600 * _SECOND_US
    if match["day"]:
        return start + _DAY_US
    year, month = int(match["year"]), int(match["month"] or 12)
    return _days_of_month((year - 1970) * 12 + month) * _DAY_US


def _days_of_month(months: int) -> int:
    """Days since 1970 of the first day of a month that is counted so."""
    return int(np.datetime64(months, "M").astype("M8[D]").astype(np.int64))
