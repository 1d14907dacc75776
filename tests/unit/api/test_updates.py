"""Entries of the ops log, made from columns."""

import pytest

from frazil.api.updates import entries
from frazil.clock import to_datetime
from frazil.format.update_log import ConfigChanged, Update, UpdateLog

LAST_US = 253_402_300_799_999_999  # of the year 9999


def log(*times_us: int) -> UpdateLog:
    return UpdateLog.of([Update(ConfigChanged(), time_us, None) for time_us in times_us])


def test_times_are_what_they_are_one_by_one() -> None:
    times_us = [LAST_US, 1_763_240_000_123_456, 1_000_000, 1, 0]
    assert [entry.updated_at for entry in entries(log(*times_us))] == list(
        map(to_datetime, times_us)
    )


def test_a_time_that_is_none_fails_where_it_comes_up() -> None:
    found = entries(log(5, LAST_US + 1))
    assert next(found).updated_at == to_datetime(5)
    with pytest.raises(OverflowError):
        next(found)


def test_an_empty_log_has_no_entries() -> None:
    assert list(entries(log())) == []
