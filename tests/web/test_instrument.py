"""An array in a real browser: north up, the right colours, numbers that are those of the array."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5netcdf
import icechunk
import numpy as np
import numpy.typing as npt
import pytest
import zarr
from PIL import Image
from playwright.sync_api import Browser, Page

import frazil
from frazil.engine.repository import Repository
from frazil.objectstore.local import LocalStore
from frazil.web.server import Server, open_folder
from tests.web.browsing import Window, window

TIMES, SOUTH_UP, EAST = 5, np.arange(-88.0, 89, 4), np.arange(0.0, 360, 3)
PATH = "/ocean/anomaly"
READY = "#preview[data-state=ready]"


def anomaly() -> npt.NDArray[np.float32]:
    """Cold in the south, warm in the north, zero at the equator; a mark of its own in each cell."""
    field = SOUTH_UP[:, np.newaxis] / 22 + np.zeros(len(EAST))
    ripple = np.random.default_rng(5).uniform(-0.01, 0.01, (TIMES, *field.shape))
    found: npt.NDArray[np.float64] = field * (1 + np.arange(TIMES)[:, None, None] / 10) + ripple
    return found.astype(np.float32)


def write(session: Any) -> None:
    """By frazil or by the reference."""
    group = zarr.group(session.store).create_group("ocean", attributes={"title": "Warm north"})
    coordinates: tuple[tuple[str, npt.NDArray[Any], dict[str, Any]], ...] = (
        ("time", np.arange(TIMES) * 31, {"units": "days since 2001-01-01", "calendar": "noleap"}),
        ("lat", SOUTH_UP, {"units": "degrees_north"}),
        ("lon", EAST, {"units": "degrees_east"}),
    )
    for name, values, attributes in coordinates:
        group.create_array(name, data=values, dimension_names=[name], attributes=attributes)
    group.create_array(
        "anomaly",
        data=anomaly(),
        chunks=(1, 20, 40),
        dimension_names=["time", "lat", "lon"],
        attributes={"units": "degC", "long_name": "Sea surface anomaly"},
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written by the reference; its second version is warmer by 0.5 south of the equator."""
    path = tmp_path_factory.mktemp("instrument") / "ocean"
    repo = icechunk.Repository.create(icechunk.local_filesystem_storage(str(path)))
    session = repo.writable_session("main")
    write(session)
    repo.create_tag("v1", session.commit("By the reference"))
    session = repo.writable_session("main")
    array = zarr.open_array(session.store, path=PATH)
    array[2, :22] = anomaly()[2, :22] + np.float32(0.5)
    array.update_attributes({"comment": "warmer"})
    session.commit("Warmer in the south")
    return path


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[Server]:
    with Server(Repository.open(LocalStore(place)), name="ocean") as running:
        yield running


def box_of(page: Page) -> dict[str, float]:
    found: dict[str, float] = json.loads(page.get_attribute(".plot", "data-box") or "{}")
    return found


def point(
    page: Page, row: int, column: int, rows: int = 45, columns: int = 120
) -> dict[str, float]:
    """A place on the canvas: the middle of a cell, counted from the upper left."""
    box = box_of(page)
    return {
        "x": box["left"] + (column + 0.5) / columns * box["across"],
        "y": box["top"] + (row + 0.5) / rows * box["down"],
    }


def colours_at(page: Page, *cells: tuple[int, int]) -> list[list[int]]:
    """Colours on the screen in the middle of some cells."""
    shot = Image.open(io.BytesIO(page.locator(".plot").screenshot())).convert("RGB")
    places = [point(page, *cell) for cell in cells]
    return [list(shot.getpixel((int(at["x"]), int(at["y"])))) for at in places]  # type: ignore[arg-type]  # three numbers


def settle(page: Page) -> None:
    page.wait_for_selector(READY)


def test_the_north_is_up_and_warm(seen: Window) -> None:
    seen.visit("browse", path=PATH, at="tag:v1", coast="no")
    settle(seen.page)
    north, equator, south = colours_at(seen.page, (8, 60), (22, 60), (36, 60))
    assert north[0] > north[2] + 60, "the north is not red"
    assert south[2] > south[0] + 60, "the south is not blue"
    assert min(equator) > 225, "zero is not white"
    ticks = json.loads(seen.page.get_attribute(".plot", "data-ticks") or "")
    down = [text for _, text in ticks["rows"]]
    assert (down[0][-1], down[-1][-1]) == ("S", "N")
    assert [place for place, _ in ticks["rows"]] == sorted(
        [place for place, _ in ticks["rows"]], reverse=True
    )
    assert "60°W" in [text for _, text in ticks["columns"]]
    bar = json.loads(seen.page.get_attribute(".plot", "data-bar") or "")
    assert "0" in bar
    assert "−4" in bar
    label = seen.page.get_attribute(".plot", "aria-label") or ""
    assert "Sea surface anomaly [degC]" in label
    assert "2001-01-01" in label
    assert box_of(seen.page)["across"] > 0.55 * 1280  # the largest thing on the page
    meridian = [(row, 7) for row in range(5, 40)]  # 21 degrees east
    plain = colours_at(seen.page, *meridian)
    seen.page.click("#coast")
    seen.page.wait_for_function("() => !location.search.includes('coast')")
    settle(seen.page)
    assert colours_at(seen.page, *meridian) != plain


def test_values_and_series_are_those_of_the_array(seen: Window) -> None:
    seen.visit("browse", path=PATH, at="tag:v1")
    settle(seen.page)
    values = anomaly()[:, ::-1]  # as it is shown
    plot = seen.page.locator(".plot")
    for row, column in ((0, 0), (44, 119), (10, 77)):
        plot.hover(position=point(seen.page, row, column))  # type: ignore[arg-type]  # a Position
        shown = seen.page.inner_text("#readout strong").removesuffix(" degC")
        assert float(shown) == pytest.approx(values[0, row, column], rel=1e-6)
        assert f"lat {SOUTH_UP[::-1][row]:g}°" in seen.page.inner_text("#readout")
    for row, column in ((10, 77), (40, 12)):
        plot.click(position=point(seen.page, row, column))  # type: ignore[arg-type]  # a Position
    settle(seen.page)
    assert seen.parameters()["points"] == "34,77;4,12"
    chart = seen.page.locator(".charts canvas")
    chart.scroll_into_view_if_needed()
    size = chart.bounding_box()
    assert size is not None
    third = 64 + (size["width"] - 78) * 2.5 / 5
    chart.hover(position={"x": third, "y": 40})
    text = seen.page.inner_text(".charts .readout")
    assert "2001-03-04" in text  # 62 days of a calendar without leap days
    apart = float(text.rpartition("A ")[2].replace("−", "-"))
    assert apart == pytest.approx(values[2, 40, 12] - values[2, 10, 77], abs=1e-3)
    chart.click(position={"x": third, "y": 40})
    seen.page.wait_for_function("() => location.search.includes('slice_at=2')")
    settle(seen.page)
    assert seen.texts("#preview .coordinate") == ["2001-03-04"]


def test_a_part_is_looked_at_closely_and_turned(seen: Window) -> None:
    seen.visit("browse", path=PATH, at="tag:v1")
    settle(seen.page)
    frame = seen.page.locator(".plot").bounding_box()
    assert frame is not None
    start, end = point(seen.page, 5, 10), point(seen.page, 14, 39)
    seen.page.mouse.move(frame["x"] + start["x"], frame["y"] + start["y"])
    seen.page.mouse.down()
    seen.page.mouse.move(frame["x"] + end["x"], frame["y"] + end["y"], steps=4)
    seen.page.mouse.up()
    seen.page.wait_for_selector("#whole")
    settle(seen.page)
    assert seen.parameters()["region"] == "30,40,10,40"
    part = anomaly()[0, 30:40, 10:40]
    assert seen.texts("[data-key=values] dd") == [str(part.size)]
    assert float(seen.texts("[data-key=max] dd")[0]) == pytest.approx(part.max(), rel=1e-5)
    assert "Statistics of the whole region" in seen.texts("#preview-read")[0]
    seen.page.click("#whole")
    seen.page.wait_for_function("() => !location.search.includes('region')")
    settle(seen.page)
    (north,) = colours_at(seen.page, (8, 60))
    seen.page.click("#flip-rows")
    seen.page.wait_for_function("() => location.search.includes('flip=none')")
    settle(seen.page)
    assert colours_at(seen.page, (36, 60)) == [north]
    seen.page.click("#swap")
    seen.page.wait_for_function("() => location.search.includes('axes=2%2C1')")
    settle(seen.page)
    box = box_of(seen.page)
    assert box["down"] > box["across"]


def test_an_animation_keeps_its_colours_and_stops(seen: Window) -> None:
    seen.visit("browse", path=PATH, at="tag:v1")
    settle(seen.page)
    bar = seen.page.get_attribute(".plot", "data-bar")
    seen.page.click(".play")
    for time in (2, 4, 1):
        seen.page.wait_for_function(f"() => location.search.includes('slice_at={time}%2C')")
    assert seen.page.get_attribute(".plot", "data-bar") == bar
    seen.page.click(".play")
    settle(seen.page)
    assert seen.texts(".play") == ["▶"]
    seen.page.click("#full")
    seen.page.wait_for_function("() => document.fullscreenElement?.id === 'preview'")
    seen.page.click("#full")
    seen.page.wait_for_function("() => !document.fullscreenElement")


def test_what_is_shown_is_saved_and_copied(seen: Window, place: Path) -> None:
    seen.visit("browse", path=PATH, at="tag:v1", slice_at="1,*,*", region="30,40,10,40")
    settle(seen.page)
    part = anomaly()[1, 30:40, 10:40]
    files = {}
    for kind in ("png", "csv", "nc"):
        seen.page.evaluate("document.querySelector('.menu').open = true")
        with seen.page.expect_download() as waiting:
            seen.page.click(f"#save-{kind}")
        assert waiting.value.suggested_filename == f"ocean-anomaly.{kind}"
        files[kind] = Path(waiting.value.path()).read_bytes()
    assert Image.open(io.BytesIO(files["png"])).size[0] > 500
    lines = files["csv"].decode().splitlines()
    assert lines[0] == "lat,lon,anomaly"
    table = np.array([line.split(",") for line in lines[1:]], float)
    assert np.array_equal(table[:, 2].astype("f4").reshape(10, 30), part)
    assert table[0, :2].tolist() == [SOUTH_UP[30], EAST[10]]
    with h5netcdf.File(io.BytesIO(files["nc"]), "r") as file:
        assert np.array_equal(file["anomaly"][...], part)
        assert np.array_equal(file["lat"][...], SOUTH_UP[30:40])
        assert file["anomaly"].attrs["units"] == "degC"
    seen.page.evaluate("document.querySelector('.menu').open = true")
    seen.page.click("#copy-python")
    names: dict[str, Any] = {}
    program = seen.page.inner_text("#snippet")
    assert f"frazil.local_filesystem_storage({str(place)!r})" in program
    exec(compile(program, "copied", "exec"), names)  # noqa: S102 -- what a user would paste
    np.testing.assert_array_equal(names["values"].values, part)
    seen.page.click("dialog.code >> text=Close")
    seen.page.evaluate("document.querySelector('.menu').open = true")
    seen.page.click("#copy-sql")
    query = seen.page.inner_text("#snippet")
    assert "time = 31" in query  # a calendar that no TIMESTAMP has
    assert "lat BETWEEN 32 AND 68" in query
    assert "FROM repo.`ocean`" in query
    assert f'-- frazil sql {place} "..." --tag v1\n' in query


def test_the_difference_of_two_versions_is_a_map(seen: Window) -> None:
    seen.visit("compare", start="tag:v1", to="branch:main")
    seen.page.wait_for_selector(".difference-map[data-state=ready]")
    seen.page.wait_for_selector(".array-change .line-diff")
    assert seen.texts(".array-change .line-diff .added")[-1].strip().endswith('"warmer"')
    assert seen.texts(".difference-map [data-key=changed] dd") == [f"{22 * 120:,}"]
    assert float(seen.texts(".difference-map [data-key=max] dd")[0]) == pytest.approx(0.5, abs=1e-5)
    warmer, same = colours_at(seen.page, (40, 60), (15, 60))
    assert warmer[0] > warmer[2]
    assert min(same) > 225
    seen.visit("browse", path=PATH, slice_at="2,*,*")
    settle(seen.page)
    seen.page.select_option("#compared", "tag:v1")
    seen.page.wait_for_selector("[data-key=changed]")
    settle(seen.page)
    assert seen.parameters()["from"] == "tag:v1"
    assert seen.texts("[data-key=changed] dd") == [f"{22 * 120:,}"]


def test_the_first_page_says_what_there_is(seen: Window) -> None:
    seen.visit("")
    assert seen.texts("h1") == ["Warm north"]
    assert seen.texts("#gallery strong .name") == ["Sea surface anomaly", "degC"]
    assert "Warmer in the south" in seen.texts("#last-change")[0]
    wait = "() => document.querySelector('.thumbnail')?.naturalWidth > 50"
    seen.page.wait_for_function(wait)
    seen.page.keyboard.press("/")
    seen.page.keyboard.type("surface ANOM")
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_selector("#results")
    assert seen.texts("#results a .name") == [PATH]
    assert seen.texts("#results li > bdi") == ["Sea surface anomaly [degC]"]


def test_every_page_fits_phones_and_walls(seen: Window) -> None:
    pages: dict[str, dict[str, str]] = {
        "": {}, "commits": {}, "operations": {}, "storage": {}, "browse": {"path": PATH},
        "compare": {"start": "tag:v1", "to": "main"},
    }  # fmt: skip
    for page, asked in pages.items():
        seen.visit(page, **asked)
        for width in (2200, 1440, 390):
            seen.page.set_viewport_size({"width": width, "height": 844})
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= width, page
            top = seen.page.locator("#top").bounding_box()
            assert top is not None
            assert top["height"] < 105


def test_several_repositories_are_in_one_place(
    browser: Browser, place: Path, tmp_path: Path
) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    for name in ("second one", hostile):
        repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / name)))
        with repo.transaction("main", message=f"in {name}") as store:
            zarr.create_array(store, name="v", data=np.eye(3))
    (tmp_path / "no repository").mkdir()
    (tmp_path / "ocean").symlink_to(place)
    with (
        Server(open_folder(tmp_path), name="all of them") as running,
        window(browser, running.url) as seen,
    ):
        seen.visit("")
        assert set(seen.texts("#repositories a .name")) == {"Warm north", "second one", hostile}
        for name in ("second one", hostile):
            seen.page.locator("#repositories a", has_text=name).click()
            seen.page.wait_for_selector("#last-change")
            assert f"in {name}" in seen.texts("#last-change")[0]
            seen.page.click("nav >> text=Browse")
            seen.page.click(".tree >> text=v")
            settle(seen.page)
            assert seen.texts("[data-key=max] dd") == ["1"]
            seen.page.click(".all")
            seen.page.wait_for_selector("#repositories")


def test_a_page_that_is_not_there_is_a_page(browser: Browser, server: Server) -> None:
    page = browser.new_context().new_page()  # browsers complain of every 404
    page.goto(f"{server.url}nowhere")
    assert "there is nothing at /nowhere" in page.inner_text("main")
    page.context.close()
