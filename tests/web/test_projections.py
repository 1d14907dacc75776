"""Map projections: formulas that agree with published values, and pictures that agree with them."""

import io
import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from PIL import Image
from playwright.sync_api import Browser, Page

import frazil
from frazil.web.server import Server
from tests.web.browsing import Window, violations

type Floats = npt.NDArray[np.float64]
type Forward = Callable[[float, float, float, float], tuple[float, float] | None]

NORTH_UP, EAST = np.arange(88.0, -89, -4), np.arange(0.0, 360, 3)
FIELD = np.arange(2 * 45 * 120, dtype="f4").reshape(2, 45, 120)  # each value is its position
PATH = "/earth/number"
READY = "#preview[data-state=ready]"
NAMES = ("equal-earth", "mollweide", "orthographic")
AUTHALIC_RADIUS = 6_371_007.1809  # of WGS 84, in metres

# The formulas again, in another way: angles in degrees, x and y on a sphere of radius 1.


def equal_earth(lon: float, lat: float, lon_0: float, lat_0: float) -> tuple[float, float]:
    assert lat_0 == 0
    powers, factors = np.array([1, 3, 7, 9]), np.array([1.340264, -0.081106, 0.000893, 0.003796])
    theta = np.arcsin(np.sqrt(3) / 2 * np.sin(np.radians(lat)))
    slope = (powers * factors * theta ** (powers - 1)).sum()
    x = 2 * np.sqrt(3) * np.radians(wrap(lon - lon_0)) * np.cos(theta) / (3 * slope)
    return float(x), float((factors * theta**powers).sum())


def mollweide(lon: float, lat: float, lon_0: float, lat_0: float) -> tuple[float, float]:
    assert lat_0 == 0
    low, high = (np.radians(lat),) * 2 if abs(lat) == 90 else (-np.pi / 2, np.pi / 2)
    for _ in range(60):
        theta = (low + high) / 2
        if 2 * theta + np.sin(2 * theta) < np.pi * np.sin(np.radians(lat)):
            low = theta
        else:
            high = theta
    x = 2 * np.sqrt(2) / np.pi * np.radians(wrap(lon - lon_0)) * np.cos(theta)
    return float(x), float(np.sqrt(2) * np.sin(theta))


def orthographic(lon: float, lat: float, lon_0: float, lat_0: float) -> tuple[float, float] | None:
    """By vectors: how far a place is to the east, to the north and towards the viewer."""
    centre, place = vector(lon_0, lat_0), vector(lon, lat)
    east = vector(lon_0 + 90, 0)
    north = np.cross(centre, east)
    return None if place @ centre < 0 else (float(place @ east), float(place @ north))


def vector(lon: float, lat: float) -> Floats:
    a, b = np.radians(lon), np.radians(lat)
    return np.array([np.cos(b) * np.cos(a), np.cos(b) * np.sin(a), np.sin(b)])


def wrap(degrees: float) -> float:
    return (degrees + 180) % 360 - 180


FORWARD: dict[str, Forward] = {
    "equal-earth": equal_earth,
    "mollweide": mollweide,
    "orthographic": orthographic,
}
EXTENT = {
    "equal-earth": (2.70663, 1.3173628),
    "mollweide": (8**0.5, 2**0.5),
    "orthographic": (1, 1),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = str(tmp_path_factory.mktemp("projections") / "earth")
    repo = frazil.Repository.create(frazil.local_filesystem_storage(path))
    session = repo.writable_session("main")
    group = zarr.group(session.store).create_group("earth")
    coordinates: tuple[tuple[str, npt.NDArray[Any], str], ...] = (
        ("lat", NORTH_UP, "degrees_north"),
        ("lon", EAST, "degrees_east"),
        ("broken", np.where(EAST > 180, EAST - 360, EAST), "degrees_east"),  # 180 to -177
    )
    for name, values, units in coordinates:
        group.create_array(name, data=values, dimension_names=[name], attributes={"units": units})
    for name, last in (("number", "lon"), ("other", "broken")):
        group.create_array(
            name, data=FIELD, chunks=(1, 20, 40), dimension_names=["time", "lat", last]
        )
    session.commit("numbers")
    with Server(repo, name="earth") as running:
        yield running


@pytest.fixture
def formulas(seen: Window) -> Callable[[str], Any]:
    """Evaluates an expression with the names that projections.js exports."""
    seen.visit("")

    def evaluate(expression: str) -> Any:
        loading = 'const all = await import("/static/projections.js");'
        names = "const {PROJECTIONS, toCentre, fromCentre, wrap} = all;"
        return seen.page.evaluate(f"async () => {{ {loading} {names} return {expression}; }}")

    return evaluate


def test_published_values(formulas: Callable[[str], Any]) -> None:
    # Equal Earth: the ends of EPSG:8857; its sphere has the same area as the ellipsoid.
    ends = "[all.PROJECTIONS['equal-earth'].extent, PROJECTIONS.mollweide.extent]"
    equal_earth_ends, mollweide_ends = formulas(ends)
    published = np.array([17_243_959.06, 8_392_927.60]) / AUTHALIC_RADIUS
    np.testing.assert_allclose(equal_earth_ends, published, rtol=1e-8)
    np.testing.assert_allclose(mollweide_ends, [8**0.5, 2**0.5], rtol=1e-12)
    # Snyder, Map Projections: A Working Manual (1987): numerical examples, pages 367 and 311
    for name, place, centre, wanted in (
        ("mollweide", [-75, -50], [-90, 0], [0.1788845, -0.9208758]),
        ("orthographic", [-110, 30], [-100, 40], [-0.1503837, -0.1651911]),
    ):
        call = f"PROJECTIONS.{name}.forward(...toCentre(...{place}, {centre}))"
        np.testing.assert_allclose(formulas(call), wanted, atol=5.1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_formulas_agree_with_others_and_are_inverses(
    formulas: Callable[[str], Any], name: str
) -> None:
    centres: list[tuple[float, float]] = [(0, 0), (179.5, 0), (-100, 0)]
    if name == "orthographic":
        centres += [(20, 45), (-60, -90), (0, 90), (130, -12.5)]
    places = list(product(range(-177, 180, 21), (-90, -89.9, -60, -33, 0, 1, 45, 75, 90)))
    found = formulas(
        f"{json.dumps(centres)}.map(centre => {json.dumps(places)}.map(place => {{"
        f" const to = PROJECTIONS['{name}'].forward(...toCentre(...place, centre));"
        f" const back = to && PROJECTIONS['{name}'].inverse(...to);"
        " return [to, back && fromCentre(...back, centre)]; }))"
    )
    for centre, row in zip(centres, found, strict=True):
        for place, (to, back) in zip(places, row, strict=True):
            wanted = FORWARD[name](*place, *centre)
            is_edge = name == "orthographic" and abs(vector(*place) @ vector(*centre)) < 1e-9
            if is_edge:
                continue  # either side of the edge
            assert (to is None) == (wanted is None), (centre, place)
            if wanted is None:
                continue
            np.testing.assert_allclose(to, wanted, atol=1e-9, err_msg=f"{centre} {place}")
            if back is not None:  # a pole may be beyond by rounding
                apart = np.linalg.norm(vector(*back) - vector(*place))
                assert apart < 1e-6, (centre, place, back)
            else:
                assert abs(place[1]) == 90


@pytest.mark.parametrize("name", ["equal-earth", "mollweide"])
def test_areas_are_equal(formulas: Callable[[str], Any], name: str) -> None:
    """The determinant of the derivatives is the cosine of the latitude, as on the sphere."""
    places = list(product((-3.0, -1.2, 0.0, 2.5), (-1.4, -0.7, 0.0, 0.3, 1.1)))
    steps = ((1e-5, 0), (-1e-5, 0), (0, 1e-5), (0, -1e-5))
    found = np.array(
        formulas(
            f"{json.dumps(places)}.map(([a, b]) => {json.dumps(steps)}.map(([c, d]) =>"
            f" PROJECTIONS['{name}'].forward(a + c, b + d)))"
        )
    )
    along, up = (found[:, 0] - found[:, 1]) / 2e-5, (found[:, 2] - found[:, 3]) / 2e-5
    area = along[:, 0] * up[:, 1] - along[:, 1] * up[:, 0]
    # The polynomial of Equal Earth approximates, but its x is made from the derivative of its y.
    np.testing.assert_allclose(area, np.cos([b for _, b in places]), rtol=1e-6)


def test_beyond_the_edge_there_is_nothing(formulas: Callable[[str], Any]) -> None:
    for name, (x, y) in EXTENT.items():
        for at in ((x * 1.001, 0), (0, y * 1.001), (-x, y), (x * 0.99, y * 0.9)):
            call = f"PROJECTIONS['{name}'].inverse({at[0]}, {at[1]})"
            assert formulas(call) is None, (name, at)
    assert formulas("PROJECTIONS.orthographic.forward(2, 0)") is None
    assert formulas("[wrap(190), wrap(-190), wrap(720), wrap(5)]") == [-170, 170, 0, 5]


# In the browser


def settle(page: Page) -> None:
    page.wait_for_selector(READY)


def show(seen: Window, name: str, centre: tuple[float, float], **more: object) -> None:
    seen.visit("browse", path=PATH, projection=name, centre=f"{centre[0]},{centre[1]}", **more)
    settle(seen.page)


def position(
    page: Page, name: str, centre: tuple[float, float], lon: float, lat: float
) -> dict[str, float] | None:
    """Where a place is on the canvas; None on the far side."""
    box = json.loads(page.get_attribute(".plot", "data-box") or "")
    at = FORWARD[name](lon, lat, *centre)
    if at is None:
        return None
    x, y = (each / (2 * most) for each, most in zip(at, EXTENT[name], strict=True))
    return {
        "x": box["left"] + (0.5 + x) * box["across"],
        "y": box["top"] + (0.5 - y) * box["down"],
    }


def value_at(page: Page, at: dict[str, float]) -> float | None:
    """The number that is shown when the pointer is there; None if there is none."""
    page.locator(".plot").hover(position=at)  # type: ignore[arg-type]  # a Position
    shown = page.locator("#readout strong")
    return float(shown.inner_text().replace(",", "")) if shown.count() else None


CELLS = ((22, 60), (10, 45), (35, 70), (3, 55))  # around 180 degrees east
VIEWS = [
    ("equal-earth", (180.0, 0.0)),
    ("mollweide", (150.0, 0.0)),
    ("orthographic", (170.0, 20.0)),
]


@pytest.mark.parametrize(("name", "centre"), VIEWS)
def test_values_and_series_are_those_at_the_place(
    seen: Window, name: str, centre: tuple[float, float]
) -> None:
    show(seen, name, centre)
    label = seen.page.get_attribute(".plot", "aria-label") or ""
    assert name.partition("-")[0] in label.lower()
    for row, column in CELLS:
        at = position(seen.page, name, centre, EAST[column], NORTH_UP[row])
        assert at is not None
        assert value_at(seen.page, at) == FIELD[0, row, column]
        text = seen.page.inner_text("#readout")
        assert f"lat {NORTH_UP[row]:g}°" in text
        assert f"lon {EAST[column]:g}°" in text
    box = json.loads(seen.page.get_attribute(".plot", "data-box") or "")
    corner = {"x": box["left"] + 3, "y": box["top"] + 3}
    assert value_at(seen.page, corner) is None
    for row, column in CELLS[1:3]:
        at = position(seen.page, name, centre, EAST[column], NORTH_UP[row])
        seen.page.locator(".plot").click(position=at)  # type: ignore[arg-type]  # a Position
    settle(seen.page)
    assert seen.parameters()["points"] == "10,45;35,70"
    assert "At A and B" in seen.texts(".charts h2")[0]
    assert "lat 48" in seen.texts(".charts .readout")[0]
    seen.page.locator(".plot").click(position={"x": corner["x"], "y": corner["y"]})
    assert seen.parameters()["points"] == "10,45;35,70"


def test_rows_and_columns_may_be_swapped_or_flipped(seen: Window) -> None:
    name, centre = VIEWS[0]
    for more in ({"axes": "2,1"}, {"flip": "both"}):
        show(seen, name, centre, **more)
        for row, column in CELLS:
            at = position(seen.page, name, centre, EAST[column], NORTH_UP[row])
            assert at is not None
            assert value_at(seen.page, at) == FIELD[0, row, column], more


def drag(page: Page, start: dict[str, float], end: dict[str, float]) -> None:
    frame = page.locator(".plot").bounding_box()
    assert frame is not None
    page.mouse.move(frame["x"] + start["x"], frame["y"] + start["y"])
    page.mouse.down()
    page.mouse.move(frame["x"] + end["x"], frame["y"] + end["y"], steps=5)
    page.mouse.up()


def test_a_globe_turns_by_dragging_and_by_numbers(seen: Window) -> None:
    show(seen, "orthographic", (0.0, 0.0))
    start = position(seen.page, "orthographic", (0, 0), 9, 8)
    end = position(seen.page, "orthographic", (0, 0), 39, -12)
    assert start is not None
    assert end is not None
    assert value_at(seen.page, start) == FIELD[0, 20, 3]
    drag(seen.page, start, end)
    seen.page.wait_for_function("() => !location.search.includes('centre=0.0')")
    lon, lat = map(float, seen.parameters()["centre"].split(","))
    assert lon == pytest.approx(-30, abs=3)
    assert lat == pytest.approx(20, abs=3)
    moved = position(seen.page, "orthographic", (lon, lat), 9, 8)
    assert moved is not None
    assert value_at(seen.page, moved) == FIELD[0, 20, 3]
    assert "points" not in seen.parameters()
    shown = [seen.page.input_value(f"[data-centre={each}]") for each in ("longitude", "latitude")]
    assert [float(each) for each in shown] == [lon, lat]
    for side, text in (("longitude", "100"), ("latitude", "-60")):
        seen.page.fill(f"[data-centre={side}]", text)
        seen.page.press(f"[data-centre={side}]", "Tab")
    assert seen.parameters()["centre"] == "100,-60"
    for place, row, column in (((99, -60), 37, 33), ((120, -44), 33, 40)):
        at = position(seen.page, "orthographic", (100, -60), *place)
        assert at is not None
        assert value_at(seen.page, at) == FIELD[0, row, column]
    seen.page.fill("[data-centre=latitude]", "91")
    seen.page.press("[data-centre=latitude]", "Tab")
    assert seen.parameters()["centre"] == "100,-60"


def test_the_projection_is_chosen_and_all_else_remains(seen: Window) -> None:
    seen.visit("browse", path=PATH)
    settle(seen.page)
    plain = [seen.texts("#statistics dd"), seen.page.get_attribute(".plot", "data-bar")]
    picture = seen.page.locator(".plot").screenshot()
    assert seen.page.get_by_label("Map projection").input_value() == ""
    for name in NAMES:
        seen.page.select_option("#projection", name)
        seen.page.wait_for_function(f"() => location.search.includes('projection={name}')")
        settle(seen.page)
        assert seen.texts("#statistics dd") == plain[0]
        assert seen.page.get_attribute(".plot", "data-bar") is not None
        assert seen.page.locator(".plot").screenshot() != picture
        tilts = seen.page.locator("[data-centre=latitude]").count()
        assert tilts == (name == "orthographic")
    seen.page.evaluate("document.querySelector('.menu').open = true")
    with seen.page.expect_download() as waiting:
        seen.page.click("#save-png")
    saved = Image.open(io.BytesIO(Path(waiting.value.path()).read_bytes()))
    box = json.loads(seen.page.get_attribute(".plot", "data-box") or "")
    assert saved.size[1] == box["height"]
    with seen.page.expect_download() as waiting:
        seen.page.click("#save-csv")
    assert len(Path(waiting.value.path()).read_text().splitlines()) == 1 + 45 * 120
    seen.page.select_option("#projection", "")
    seen.page.wait_for_function("() => !location.search.includes('projection')")
    settle(seen.page)
    assert seen.page.get_attribute(".plot", "data-bar") == plain[1]
    seen.visit("browse", path=PATH, projection="constructor", centre="here")
    settle(seen.page)
    assert seen.page.input_value("#projection") == ""
    seen.visit("browse", path="/earth/other", projection="mollweide")  # longitudes that jump
    settle(seen.page)
    assert seen.page.locator("#projection").count() == 0


def test_the_keyboard_moves_over_a_globe(seen: Window) -> None:
    show(seen, "orthographic", (90.0, 40.0))
    seen.page.focus(".plot")
    seen.page.keyboard.press("ArrowRight")
    text = seen.page.inner_text("#readout")
    assert "lat 40°" in text
    assert "lon 93°" in text
    seen.page.keyboard.press("Enter")
    settle(seen.page)
    assert seen.parameters()["points"] == "12,31"


@pytest.mark.parametrize(
    ("name", "centre"),
    [VIEWS[0], *(pytest.param(*view, marks=pytest.mark.long) for view in VIEWS[1:])],
)
def test_coastlines_follow_the_projection(
    seen: Window, name: str, centre: tuple[float, float]
) -> None:
    shots = []
    for coast in ("no", "yes"):
        show(seen, name, centre, coast=coast)
        seen.page.mouse.move(0, 0)
        shot = seen.page.locator(".plot").screenshot()
        shots.append(np.asarray(Image.open(io.BytesIO(shot)).convert("RGB"), int))
    changed = np.abs(shots[0] - shots[1]).sum(axis=2) > 60
    script = 'async () => (await (await import("/static/coast.js")).coastlines()).flat()'
    expected = np.zeros_like(changed)
    hits, count = 0, 0
    for lon, lat in seen.page.evaluate(script)[::3]:
        at = position(seen.page, name, centre, lon, lat)
        if at is None:
            continue
        x, y = round(at["x"]), round(at["y"])
        near = slice(max(0, y - 2), y + 3), slice(max(0, x - 2), x + 3)
        hits, count = hits + bool(changed[near].any()), count + 1
        expected[max(0, y - 25) : y + 26, max(0, x - 25) : x + 26] = True
    assert count > 300
    assert hits / count > 0.98
    assert not (changed & ~expected).any()


def test_a_region_fills_the_frame(seen: Window) -> None:
    show(seen, "equal-earth", (15.0, 0.0), region="5,15,0,10")
    box = json.loads(seen.page.get_attribute(".plot", "data-box") or "")
    low, high = equal_earth(-1.5, 30, 15, 0)[0], equal_earth(28.5, 30, 15, 0)[0]
    y = [equal_earth(0, lat, 15, 0)[1] for lat in (70, 30)]  # the edges of the cells
    place = equal_earth(EAST[4], NORTH_UP[8], 15, 0)
    at = {
        "x": box["left"] + (place[0] - low) / (high - low) * box["across"],
        "y": box["top"] + (y[0] - place[1]) / (y[0] - y[1]) * box["down"],
    }
    assert value_at(seen.page, at) == FIELD[0, 8, 4]


def test_axe_finds_nothing(browser: Browser, server: Server, axe: str) -> None:
    context = browser.new_context(bypass_csp=True)  # the pages allow no script but their own
    page = context.new_page()
    page.goto(f"{server.url}browse?path={PATH}&projection=orthographic")
    settle(page)
    assert page.locator("#projection, [data-centre]").count() == 3
    assert violations(page, axe) == []
    context.close()
