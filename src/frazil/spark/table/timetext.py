"""Times written as text: ISO 8601, as people and SQL write them; and the zones of Spark's sessions.

Microseconds are Python's integers here, not datetimes: the year 9999 in New York ends in the year
10000 of UTC, which a datetime cannot say and Spark can. Years outside of 0000 to 9999 are written
with a sign and six digits, as ISO 8601 has it.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # arithmetic on naive times; the zone is applied apart
_SECOND_US = 1_000_000
DAY_US = 86_400 * _SECOND_US
_CYCLE_US = 146_097 * DAY_US  # 400 years, after which the calendar repeats itself
_MAX_YEAR = 292_000  # what 64 bits of microseconds hold
_MAX_LOCAL_US = 9 * 10**18  # with any offset, too
_MAX_OFFSET_S = 18 * 3600  # Java's
_OFFSET_TEXT = r"[-+](?:\d{1,2}(?::\d{1,2}(?::\d{2})?)?|\d{4}|\d{6})"
_OFFSET = re.compile(rf"(?:UTC|GMT|UT)?(?P<offset>{_OFFSET_TEXT})?|Z")
_TEXT = re.compile(
    r"(?P<year>\d{4}|[-+]\d{6})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
    r"(?:[T ](?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})"
    r"(?:\.(?P<fraction>\d{1,9}))?)?)?)?)?)?"
    rf"\s*(?P<zone>Z|(?:UTC|GMT|UT)?{_OFFSET_TEXT}|UTC|GMT)?"
)
# To Spark they are Java's short names, whose rules depend on the version of Java.
_OTHERWISE_IN_JAVA = frozenset({"EST", "MST", "HST"})


@dataclass(frozen=True, slots=True)
class Period:
    """Microseconds since 1970 in UTC; `stop` is excluded. An instant is one microsecond long."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Instants:
    """Instants of a local time: `earliest` and `latest` differ when clocks are turned back."""

    earliest: int
    latest: int


def find_period(text: str) -> Period | None:
    """The period that `text` names, in UTC unless it has an offset: a year, a day, an instant."""
    match = _TEXT.fullmatch(text.strip())
    start = None if match is None else _local_us(match)
    shift = None if match is None else find_offset_us(match["zone"] or "Z")
    if match is None or start is None or shift is None:
        return None
    return Period(start - shift, _end_us(match, start) - shift)


def find_instants(text: str, zone: str) -> Instants | None:
    """Parses `text` as Spark casts it to TIMESTAMP; local to `zone` unless it names an offset.

    None also for a zone that is unknown here: Spark knows some more.
    """
    match = _TEXT.fullmatch(text.strip())
    local = None if match is None else _local_us(match)
    if match is None or local is None:
        return None
    return local_instants(local, match["zone"] or zone)


def find_days(year: int, month: int = 1, day: int = 1) -> int | None:
    """Days since 1970 of a date, None if there is no such."""
    if not (1 <= month <= 12 and abs(year) <= _MAX_YEAR):
        return None
    months = (year - 1970) * 12 + month - 1
    first, after = _days_of_month(months), _days_of_month(months + 1)
    return first + day - 1 if 1 <= day <= after - first else None


def local_instants(local_us: int, zone: str) -> Instants | None:
    """Returns the instants at which clocks of `zone`, a name of Spark's, show a time; None for an
    unknown zone.
    """
    if abs(local_us) > _MAX_LOCAL_US:
        return None
    offset = find_offset_us(zone)
    if offset is not None:
        return Instants(local_us - offset, local_us - offset)
    info = _find_zone(zone)
    if info is None:
        return None
    # Rules repeat themselves with the calendar, before the first of them and after the last.
    within = local_us
    while within >= (8 * _CYCLE_US - DAY_US):  # some centuries before a datetime ends
        within -= _CYCLE_US
    while within <= -(4 * _CYCLE_US + 300 * 365 * DAY_US):  # and after it begins
        within += _CYCLE_US
    clock = _EPOCH + timedelta(microseconds=within)
    offsets = [info.utcoffset(clock.replace(fold=fold)) for fold in (0, 1)]
    micros = [local_us - (each or timedelta(0)) // timedelta(microseconds=1) for each in offsets]
    return Instants(min(micros), max(micros))


def find_offset_us(zone: str) -> int | None:
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


@lru_cache(maxsize=256)
def _find_zone(name: str) -> ZoneInfo | None:
    if name in _OTHERWISE_IN_JAVA:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # no such name, or none that could be one
        return None


def _local_us(match: re.Match[str]) -> int | None:
    """Microseconds from 1970 to what the clock shows, None for 31 February."""
    days = find_days(int(match["year"]), int(match["month"] or 1), int(match["day"] or 1))
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    fraction = int(f"{match['fraction'] or '0':0<6}"[:6])
    clock_s = 3600 * hour + 60 * minute + second
    return days * DAY_US + clock_s * _SECOND_US + fraction


def _end_us(match: re.Match[str], start: int) -> int:
    """Start of the next year, month, day, ..."""
    if match["second"]:
        return start + 1
    if match["minute"]:
        return start + 60 * _SECOND_US
    if match["hour"]:
        return start + 3600 * _SECOND_US
    if match["day"]:
        return start + DAY_US
    year, month = int(match["year"]), int(match["month"] or 12)
    return _days_of_month((year - 1970) * 12 + month) * DAY_US


def _days_of_month(months: int) -> int:
    """Days since 1970 of the first day of a month that is counted so."""
    return int(np.datetime64(months, "M").astype("M8[D]").astype(np.int64))
