"""The main pages on a phone, a desk and a wall, in light and dark, as the documentation has them.

Each picture is taken again: nothing is wider than its window, no error is logged, nobody else is
asked, and it looks like the one in docs/images/explorer.
"""

from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser

from frazil.web.server import Server
from scripts.explorer_images import IMAGES, SIZES, THEMES, VIEWS, look, name_of, served
from tests.spark.conftest import FOREIGN_WARNINGS

pytestmark = [pytest.mark.filterwarnings(each) for each in FOREIGN_WARNINGS]
SMALL = 150_000  # bytes
ALIKE = 5  # mean difference of the colours of coarse pixels, of 255; fonts and ids differ


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("screens")) as found:
        yield found


def difference(one: Image.Image, other: Image.Image) -> float:
    coarse = [
        np.asarray(each.convert("RGB").resize((96, 72), Image.Resampling.BOX), float)
        for each in (one, other)
    ]
    return float(np.abs(coarse[0] - coarse[1]).mean())


def marks(view: str, width: int, theme: str) -> list[pytest.MarkDecorator]:
    """Every page is seen in CI at one width in each theme, and at each width in one of them."""
    number = list(VIEWS).index(view) + list(SIZES).index(width)
    is_in_ci = view != "sql" and list(THEMES)[number % len(THEMES)] == theme
    is_in_ci |= (view, width, theme) == ("sql", 1440, "light")
    spark = [pytest.mark.spark] if view == "sql" else []
    return [*spark, *([] if is_in_ci else [pytest.mark.long])]


@pytest.mark.parametrize(
    ("view", "width", "theme"),
    [
        pytest.param(view, width, theme, marks=marks(view, width, theme))
        for view in VIEWS
        for width in SIZES
        for theme in THEMES
    ],
)
def test_pages_fit_and_look_as_documented(
    browser: Browser, running: Server, view: str, width: int, theme: str
) -> None:
    shot = look(browser, running.url, view, width, theme)
    kept = IMAGES / name_of(view, width, theme)
    with Image.open(kept) as documented:
        assert documented.size == shot.size == (width, SIZES[width])
        assert difference(shot, documented) < ALIKE
    assert kept.stat().st_size < SMALL


def test_pictures_of_other_pages_and_themes_differ() -> None:
    """So the comparison above can fail."""
    for width in SIZES:
        light = [Image.open(IMAGES / name_of(view, width, "light")) for view in VIEWS]
        dark = Image.open(IMAGES / name_of("overview", width, "dark"))
        assert difference(light[0], dark) > 5 * ALIKE
        for number, one in enumerate(light):
            for other in light[:number]:
                assert difference(one, other) > ALIKE, width


def test_there_are_no_other_pictures() -> None:
    wanted = {name_of(*each) for each in ((v, w, t) for v in VIEWS for w in SIZES for t in THEMES)}
    assert {path.name for path in IMAGES.iterdir()} == wanted
