"""Moments on the command line: how long ago, or when."""

import re
from datetime import UTC, datetime, timedelta

import typer

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[smhdw])")


def parse_duration(text: str) -> timedelta:
    """`7d`, `36h`, `90m`, `30s`, `2w`; `0` is no time at all."""
    found = _AGE.fullmatch(text.strip())
    if text.strip() == "0":
        return timedelta()
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a time span such as 7d, 36h, 90m, 30s or 2w")
    return timedelta(**{_UNITS[found["unit"]]: float(found["number"])})


def parse_moment(text: str, *, now: datetime | None = None) -> datetime:
    """So long ago, or a time as ISO 8601 has it; in UTC unless it says otherwise."""
    if _AGE.fullmatch(text.strip()):
        return (now or datetime.now(UTC)) - parse_duration(text)
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither a time span such as 7d nor a time such as 2026-01-31T12:00"
        ) from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)
