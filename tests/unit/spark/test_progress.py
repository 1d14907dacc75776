import io
import sys

import pytest

from frazil.spark.runtime.progress import JobProgress, NoCounter, progress_callback, watch_progress


def test_a_job_is_told_from_its_beginning_to_its_end() -> None:
    told: list[JobProgress] = []

    with watch_progress(NoCounter(), "Writing", 10, told.append):
        assert told == [JobProgress("Writing", 0, 10)]

    assert told[-1] == JobProgress("Writing", 10, 10)
    assert told[-1].finished


def test_a_job_that_failed_is_not_told_as_finished() -> None:
    told: list[JobProgress] = []

    with (
        pytest.raises(OSError, match="full"),
        watch_progress(NoCounter(), "Writing", 10, told.append),
    ):
        raise OSError("full")

    assert not told[-1].finished


def test_what_has_no_known_size_is_never_finished() -> None:
    assert not JobProgress("Looking", 0, 0).finished


@pytest.mark.parametrize("option", [None, False])
def test_without_a_terminal_there_is_no_bar(
    monkeypatch: pytest.MonkeyPatch, *, option: bool | None
) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)

    with progress_callback(option) as tell:
        tell(JobProgress("Writing", 1, 2))

    assert out.getvalue() == ""


def test_a_bar_shows_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)

    with progress_callback(True) as tell:
        tell(JobProgress("Looking", 0, 0))
        tell(JobProgress("Writing 3 chunks", 2_000_000, 4_000_000))

    assert "Writing 3 chunks" in out.getvalue()
    assert "1.9 MiB of 3.8 MiB" in out.getvalue()
