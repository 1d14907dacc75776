"""Pictures of the explorer for the documentation: `make explorer-images`.

Makes a repository, serves it, and looks at its main pages with the system's Chromium: on a phone,
on a desk and on a wall, in light and in dark. Arguments name some of the pages.
tests/web/test_screens.py takes the same pictures.
"""

import io
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import zarr
from PIL import Image
from playwright.sync_api import Browser

import frazil
from frazil.engine.repository import Repository
from frazil.objectstore.local import LocalStore
from frazil.web.server import Server
from tests.web.browsing import browser_of_the_system, window

IMAGES = Path(__file__).parents[1] / "docs" / "images" / "explorer"
ARRAY = "climate/temperature"
TIMES, DOWN, ACROSS = 36, 181, 360
MESSAGES = ("First twelve days", "Twelve more", "Up to the end of the month")


def field(time: int) -> npt.NDArray[np.float32]:
    """Warm in the middle, with waves that travel: (DOWN, ACROSS)."""
    latitude = np.deg2rad(np.linspace(90, -90, DOWN))[:, np.newaxis]
    longitude = np.deg2rad(np.arange(ACROSS))[np.newaxis, :]
    waves = sum(
        np.sin(k * longitude + k * time / 5 + 2 * np.sin(3 * latitude + k)) * np.cos(latitude) / k
        for k in (2, 3, 5, 8)
    )
    values: npt.NDArray[np.float64] = 248 + 52 * np.cos(latitude) ** 1.5 + 9 * waves
    return values.astype(np.float32)


def make(path: Path) -> None:
    """Three commits on main, a branch, a tag, and an unreachable snapshot."""
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(path)))
    session = repo.writable_session("main")
    about = {
        "title": "A made-up reanalysis",
        "institution": "frazil",
        "source": "sines and cosines",
    }
    group = zarr.group(session.store).create_group("climate", attributes=about)
    _more_arrays(group)
    array = group.create_array(
        "temperature",
        shape=(TIMES, DOWN, ACROSS),
        chunks=(2, 61, 90),
        dtype="f4",
        fill_value=np.nan,
        dimension_names=["time", "latitude", "longitude"],
        attributes={"units": "K", "long_name": "2 metre temperature", "_FillValue": -9999.0},
    )
    latitude = group.create_array(
        "latitude", shape=(DOWN,), dtype="f8", dimension_names=["latitude"]
    )
    latitude[:] = np.linspace(90, -90, DOWN)
    longitude = group.create_array(
        "longitude", shape=(ACROSS,), dtype="f8", dimension_names=["longitude"]
    )
    longitude[:] = np.arange(ACROSS)
    days = group.create_array(
        "time",
        shape=(TIMES,),
        dtype="i4",
        dimension_names=["time"],
        attributes={"units": "days since 2026-01-01"},
    )
    days[:] = np.arange(TIMES)
    made = []
    for number, message in enumerate(MESSAGES):
        if number:
            session = repo.writable_session("main")
            array = zarr.open_array(session.store, path=ARRAY)
        for time in range(12 * number, min(12 * number + 12, TIMES - 6)):
            array[time] = field(time)
        made.append(session.commit(message, metadata={"author": "A. Uthor"}))
    repo.create_tag("v1", made[1])
    _branch_off(repo, made[1])
    session = repo.writable_session("main")
    array = zarr.open_array(session.store, path=ARRAY)
    for time in (8, 9):
        array[time, 61:122] = field(40)[61:122]
    session.commit("Days 8 and 9 again, with the right orbit")


def _more_arrays(group: zarr.Group) -> None:
    """Wind of both signs, and rain, both of one time."""
    east, rain = field(3) - field(9), np.maximum(field(21) - 280, 0) / 4
    for name, values, long_name, units in (
        ("u10", east, "10 metre wind, eastward", "m s-1"),
        ("tp", rain.astype("f4"), "Total precipitation", "mm"),
    ):
        group.create_array(
            name,
            data=values,
            chunks=(61, 90),
            dimension_names=["latitude", "longitude"],
            attributes={"units": units, "long_name": long_name},
        )


def _branch_off(repo: frazil.Repository, start: str) -> None:
    repo.create_branch("bias-correction", start)
    session = repo.writable_session("bias-correction")
    zarr.open_array(session.store, path=ARRAY)[0] = field(0) - 1
    session.commit("Try a correction of one degree")
    session = repo.writable_session("main")
    zarr.open_array(session.store, path=ARRAY)[1] = 0
    session.flush("A try that no branch has")


ARRAY_VIEW = {"path": f"/{ARRAY}", "slice_at": "5,*,*"}
QUERY = """\
SELECT round(latitude / 30) * 30 AS band, avg(temperature) AS mean, max(temperature) AS warmest
FROM climate
WHERE time >= '2026-01-05'
GROUP BY band ORDER BY band DESC"""
# Page and parameters
VIEWS: dict[str, tuple[str, dict[str, str]]] = {
    "overview": ("", {}),
    "array": ("browse", {**ARRAY_VIEW, "points": "40,100;90,200"}),
    "compare": ("compare", {"start": "tag:v1", "to": "branch:main"}),
    "commits": ("commits", {}),
    "sql": ("sql", {"q": QUERY}),
}
SIZES = {390: 844, 1440: 1130, 2200: 1240}
THEMES = ("light", "dark")
PHONE = 600  # below it, pages are long


def look(browser: Browser, url: str, view: str, width: int, theme: str) -> Image.Image:
    """A picture of a page, which fits its window, logs no error and asks no other server."""
    page, asked = VIEWS[view]
    with window(browser, url, dark=theme == "dark") as seen:
        seen.page.set_viewport_size({"width": width, "height": SIZES[width]})
        seen.visit(page, **asked)
        if view == "sql":
            seen.page.press("#query", "Control+Enter")
            seen.page.wait_for_selector("#query-form[data-state=done]", timeout=300_000)
        seen.page.wait_for_load_state("networkidle")
        seen.page.wait_for_timeout(500)
        if width < PHONE and view == "array":
            seen.page.evaluate("document.querySelector('.heading').scrollIntoView()")
        wide: int = seen.page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            raise AssertionError(f"{view} is {wide} wide where {width} are seen")
        return Image.open(io.BytesIO(seen.page.screenshot())).convert("RGB")


def name_of(view: str, width: int, theme: str) -> str:
    return f"{view}-{width}-{theme}.webp"


@contextmanager
def served(folder: Path) -> Iterator[Server]:
    make(folder / "weather")
    with Server(Repository.open(LocalStore(folder / "weather")), name="weather") as running:
        yield running


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder)) as running,
        browser_of_the_system() as browser,
    ):
        for view, width, theme in product(sys.argv[1:] or VIEWS, SIZES, THEMES):
            shot = look(browser, running.url, view, width, theme)
            shot.save(IMAGES / name_of(view, width, theme), quality=78, method=6)


if __name__ == "__main__":
    main()
