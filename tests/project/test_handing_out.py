"""Which tests are handed out together, and which first."""

from pathlib import Path

from tests.conftest import FIRST, LONG, TOGETHER

ROOT = Path(__file__).parents[2]


def test_what_is_handed_out_is_there() -> None:
    places = {*FIRST, *TOGETHER, *LONG}
    assert [place for place in sorted(places) if not [*ROOT.glob(f"{place}*")]] == []


def test_what_is_handed_out_first_is_a_file_or_a_folder_that_stays_together() -> None:
    assert [place for place in FIRST if not place.endswith(".py") and place not in TOGETHER] == []
