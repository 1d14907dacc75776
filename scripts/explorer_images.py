"""Pictures of the explorer for the documentation: python -m scripts.explorer_images.

Makes a repository, serves it, and looks at it with the system's Chromium, in light and in dark.
"""

import io
import tempfile
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

IMAGES = Path(__file__).parents[1] / "docs" / "images"
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


def take(browser: Browser, url: str) -> None:
    array = {"path": "/" + ARRAY, "slice_at": "5,*,*"}
    views = {
        "explorer-light": (False, 1440, 1130, "browse", {**array, "points": "40,100;90,200"}),
        "explorer-dark": (True, 1440, 900, "compare", {"start": "tag:v1", "to": "branch:main"}),
        "explorer-overview": (False, 1440, 700, "", {}),
        "explorer-wide": (True, 2200, 1200, "browse", array),
        "explorer-commits": (False, 1440, 620, "commits", {}),
        "explorer-phone": (False, 390, 844, "browse", array),
    }
    for name, (dark, width, height, page, asked) in views.items():
        with window(browser, url, dark=dark) as seen:
            seen.page.set_viewport_size({"width": width, "height": height})
            seen.visit(page, **asked)
            seen.page.wait_for_timeout(1500)
            if width < 600:
                seen.page.evaluate("document.querySelector('.heading').scrollIntoView()")
            shot = Image.open(io.BytesIO(seen.page.screenshot()))
        # 256 colours are enough for both the text and the pictures in it.
        shot.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
            IMAGES / f"{name}.png", optimize=True
        )


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder) / "repo")
        repository = Repository.open(LocalStore(Path(folder) / "repo"))
        with Server(repository, name="weather") as running, browser_of_the_system() as browser:
            take(browser, running.url)


if __name__ == "__main__":
    main()
