"""Times written as text: ISO 8601, as people and SQL write them."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # arithmetic on naive times; the zone is applied apart
_US = timedelta(microseconds=1)
_TEXT = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
    r"(?:[T ](?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})"
    r"(?:\.(?P<fraction>\d{1,9}))?)?)?)?)?)?"
    r"\s*(?P<zone>Z|UTC|GMT|[-+]\d{1,2}(?::?\d{2})?)?"
)


@dataclass(frozen=True, slots=True)
class Period:
    """Microseconds since 1970 in UTC; `stop` is excluded. An instant is one microsecond long."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Instants:
    """What local text can mean: `earliest` and `latest` differ when clocks are turned back."""

    earliest: int
    latest: int


def find_period(text: str) -> Period | None:
    """The period that `text` names, in UTC unless it says otherwise: a year, a day, an instant."""
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        return None
    start = _local(match)
    if start is None:
        return None
    shift = timedelta(microseconds=_zone_us(match["zone"] or "Z"))
    try:
        return Period(_micros(start - shift), _micros(_end(match, start) - shift))
    except (OverflowError, ValueError):  # year 9999 ends beyond what datetime can say
        return None


def find_instants(text: str, zone: str) -> Instants | None:
    """When `text` is, as Spark casts it to TIMESTAMP; local to `zone` unless it names an offset."""
    match = _TEXT.fullmatch(text.strip())
    local = None if match is None else _local(match)
    if match is None or local is None:
        return None
    if match["zone"]:
        exact = _micros(local) - _zone_us(match["zone"])
        return Instants(exact, exact)
    info = ZoneInfo(zone)
    folds = [local.replace(tzinfo=info, fold=fold).astimezone(UTC) for fold in (0, 1)]
    micros = [_micros(moment.replace(tzinfo=None)) for moment in folds]
    return Instants(min(micros), max(micros))


def format_micros(micros: int) -> str:
    """ISO text with microseconds, without a zone: UTC."""
    return (_EPOCH + micros * _US).isoformat(timespec="microseconds")


def _micros(local: datetime) -> int:
    return (local - _EPOCH) // _US


def _local(match: re.Match[str]) -> datetime | None:
    names = ("year", "month", "day", "hour", "minute", "second")
    defaults = (1, 1, 1, 0, 0, 0)
    parts = [int(match[n] or d) for n, d in zip(names, defaults, strict=True)]
    fraction = int(f"{match['fraction'] or '0':0<6}"[:6])
    try:
        year, month, day, hour, minute, second = parts
        return datetime(year, month, day, hour, minute, second, fraction)  # noqa: DTZ001  # zone applied apart
    except ValueError:  # 31 February
        return None


def _end(match: re.Match[str], start: datetime) -> datetime:
    if match["second"]:
        return start + _US
    if match["minute"]:
        return start + timedelta(minutes=1)
    if match["hour"]:
        return start + timedelta(hours=1)
    if match["day"]:
        return start + timedelta(days=1)
    if match["month"]:
        return (start + timedelta(days=31)).replace(day=1)
    return start.replace(year=start.year + 1)


def _zone_us(zone: str) -> int:
    if zone in {"Z", "UTC", "GMT"}:
        return 0
    hours, minutes = zone[1:3].rstrip(":"), re.sub(r"^.\d{1,2}:?", "", zone)
    seconds = 3600 * int(hours) + 60 * int(minutes or 0)
    return (-seconds if zone[0] == "-" else seconds) * 1_000_000
