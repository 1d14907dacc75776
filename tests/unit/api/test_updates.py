"""Entries of the ops log, made from columns."""

import copy
import pickle

import pytest

from frazil.api import updates
from frazil.api.updates import UpdateType, entries
from frazil.clock import to_datetime
from frazil.format.update_log import ConfigChanged, TagCreated, Update, UpdateLog

LAST_US = 253_402_300_799_999_999  # of the year 9999


def log(*times_us: int) -> UpdateLog:
    return UpdateLog.of([Update(ConfigChanged(), time_us, None) for time_us in times_us])


def test_times_are_what_they_are_one_by_one() -> None:
    times_us = [LAST_US, 1_763_240_000_123_456, 1_000_000, 1, 0]
    assert [entry.updated_at for entry in entries(log(*times_us))] == list(
        map(to_datetime, times_us)
    )


def test_a_time_that_is_none_fails_where_it_comes_up() -> None:
    first, second = entries(log(5, LAST_US + 1))
    assert first.updated_at == to_datetime(5)
    with pytest.raises(OverflowError):
        _ = second.updated_at


def test_an_empty_log_has_no_entries() -> None:
    assert list(entries(log())) == []


def test_an_entry_is_a_value_of_its_own() -> None:
    rows = [Update(TagCreated("v1"), 7, "backup"), Update(ConfigChanged(), 5, None)]
    tag, config = entries(UpdateLog.of(rows))
    (again, _) = entries(UpdateLog.of(rows))
    assert tag == again
    assert hash(tag) == hash(again)
    assert tag != config
    assert tag != "tag"
    assert repr(tag) == (
        "Update(kind=UpdateType.TagCreated(name='v1'),"
        f" updated_at={to_datetime(7)!r}, backup_path='backup')"
    )
    match tag:
        case updates.Update(UpdateType.TagCreated(name), time, path):
            assert (name, time, path) == ("v1", to_datetime(7), "backup")
        case _:
            pytest.fail(f"{tag} does not match its own fields")
    assert str(tag).splitlines()[0] == "<frazil.Update>"


def test_an_entry_is_copied_without_its_neighbours() -> None:
    rows = [Update(TagCreated(f"tag-{number}"), 9_000 - number, None) for number in range(1_000)]
    for entry in [*entries(UpdateLog.of(rows))][::499]:
        data = pickle.dumps(entry)
        assert len(data) < 500
        for copied in (pickle.loads(data), copy.copy(entry), copy.deepcopy(entry)):
            assert copied == entry
            assert (copied.kind, copied.updated_at) == (entry.kind, entry.updated_at)


def test_an_entry_cannot_be_changed() -> None:
    (entry,) = entries(log(5))
    with pytest.raises(AttributeError):
        entry.updated_at = to_datetime(6)  # type: ignore[misc]  # what is tested
