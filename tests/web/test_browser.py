"""The explorer in a real browser: what is shown is what the API says, and no more."""

from pathlib import Path

import icechunk
import pytest
from playwright.sync_api import Browser

from frazil.engine.repository import Repository
from frazil.objectstore.local import LocalStore
from frazil.web.server import Server
from tests.web.browsing import Window, window
from tests.web.made import (
    HOSTILE,
    KINDS,
    SCRIPT,
    TEMPERATURE,
    Client,
    Made,
    make_climate,
    make_moved,
)


def facts_of(seen: Window, selector: str) -> dict[str, str]:
    """A list of terms and descriptions."""
    names = seen.texts(f"{selector} > dt")
    return dict(zip(names, seen.texts(f"{selector} > dd"), strict=True))


def statistics_of(seen: Window) -> dict[str, str]:
    names, values = seen.texts("#statistics dt"), seen.texts("#statistics dd")
    return dict(zip(names, values, strict=True))


def as_number(text: str) -> float:
    return float(text.replace(",", ""))


def legend_of(seen: Window, selector: str = "#chunks .legend li") -> dict[str, int]:
    script = "items => items.map(each => [each.dataset.label, Number(each.dataset.chunks)])"
    return dict(seen.page.locator(selector).evaluate_all(script))


def test_commits_are_listed_as_the_api_has_them(seen: Window, client: Client) -> None:
    seen.visit("commits")
    page = client.json("commits")
    assert seen.texts(".row .message > bdi") == [text.split("\n")[0] for text in page["message"]]
    assert seen.texts(".row .id") == [each[:8] for each in page["id"]]
    badges = seen.texts(".row .badge")
    assert badges == [
        label
        for branches, tags, alone in zip(
            page["branches"], page["tags"], page["detached"], strict=True
        )
        for label in [*branches, *tags, *(["detached"] if alone else [])]
    ]
    assert seen.page.locator(".row .dot").count() == page["total"]


def test_a_commit_is_chosen_with_the_keyboard(seen: Window, client: Client) -> None:
    seen.visit("commits")
    page = client.json("commits")
    for place in (1, 2):
        seen.page.keyboard.press("ArrowDown")
        wanted = page["id"][place]
        seen.page.wait_for_function(
            "id => document.getElementById('commit-id')?.textContent === id", arg=wanted
        )
        assert seen.parameters() == {"commit": wanted}
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_selector(".tree [data-path='/climate']")
    seen.settle()
    assert seen.parameters()["at"] == page["id"][2]


def test_a_commit_has_an_address(seen: Window, client: Client, made: Made) -> None:
    seen.visit("commits", commit=made.second)
    wanted = client.json("commit", at=str(made.second))
    assert seen.texts("#commit h2") == ["Time 3 again"]
    assert "It was wrong before." in seen.texts("#commit pre")[0]
    facts = facts_of(seen, "#commit dl.facts")
    assert (facts["Snapshot"], facts["Parent"]) == (wanted["id"], wanted["parent"])
    assert seen.texts("#commit ul.facts li") == ["4 written chunks"]
    seen.page.click("text=Compare with parent")
    seen.page.wait_for_selector("[data-list=updated_chunks]")
    assert seen.parameters() == {"from": wanted["parent"], "to": wanted["id"]}


def test_the_tree_opens_where_it_is_asked_to(seen: Window, client: Client) -> None:
    seen.visit("browse")
    assert seen.texts("#node h1") == ["/"]
    assert seen.page.locator(f".tree [data-path='{TEMPERATURE}']").count() == 0
    seen.page.focus(".tree [role=treeitem][tabindex='0']")
    seen.page.keyboard.press("ArrowDown")
    seen.page.keyboard.press("ArrowRight")
    seen.page.wait_for_selector(f".tree [data-path='{TEMPERATURE}']")
    seen.page.keyboard.press("ArrowDown")
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_selector("#preview[data-state=ready]")
    seen.settle()
    assert seen.parameters()["path"] == TEMPERATURE
    names = client.json("children", path="/")["name"]
    assert seen.texts(".tree [aria-level='2'] > .node .name") == names
    seen.page.focus(".tree [data-path='/climate']")
    seen.page.keyboard.press("ArrowLeft")
    assert seen.page.locator(f".tree [data-path='{TEMPERATURE}']").count() == 0


def test_an_array_is_shown_as_the_api_has_it(seen: Window, client: Client) -> None:
    seen.visit("browse", path=TEMPERATURE)
    facts = facts_of(seen, "#node-facts")
    node = client.json("node", path=TEMPERATURE)
    assert facts["Shape"] == " × ".join(map(str, node["shape"]))
    assert facts["Dimensions"] == ", ".join(node["dimension_names"])
    assert facts["Data type"] == node["data_type"]
    shown = facts_of(seen, ".values")
    assert shown == {"units": "K", "valid_range": "[180,340]", "big": str(2**60)}
    sums = client.json("chunks", path=TEMPERATURE)
    for kind in ("packed", "missing"):
        cells = seen.texts(f"#chunk-counts tr[data-kind={kind}] .number")
        assert as_number(cells[0]) == sums["counts"][kind]
    found = client.json("preview", path=TEMPERATURE)
    statistics = statistics_of(seen)
    for key in ("min", "max", "mean"):
        assert as_number(statistics[key]) == pytest.approx(found[key], rel=1e-6)


def test_a_slider_moves_through_the_other_dimension(seen: Window, client: Client) -> None:
    seen.visit("browse", path=TEMPERATURE)
    seen.page.focus("#preview input[type=range]")
    for _ in range(3):
        seen.page.keyboard.press("ArrowRight")
    wanted = client.json("preview", path=TEMPERATURE, slice_at="3,*,*")
    seen.page.wait_for_function(
        "mean => Math.abs(Number(document.querySelector('[data-key=mean] dd')"
        ".textContent.replace(',', '')) - mean) < 1e-3",
        arg=wanted["mean"],
    )
    assert seen.parameters()["slice_at"] == "3,*,*"
    before = statistics_of(seen)
    seen.page.reload()
    seen.settle()
    assert statistics_of(seen) == before
    assert seen.page.input_value("#preview input[type=range]") == "3"
    assert seen.texts("#preview .coordinate") == ["2024-01-01 18:00"]


def test_chunks_are_mapped_by_kind_and_by_commit(seen: Window, client: Client, made: Made) -> None:
    seen.visit("browse", path=TEMPERATURE)
    legend = client.json("chunk-map", path=TEMPERATURE)["legend"]
    assert legend_of(seen) == {
        each["label"]: each["chunks"]
        for each in legend
        if each["chunks"] or each["label"] == "missing"
    }
    seen.page.select_option("#by", "commit")
    seen.page.wait_for_selector("#chunks .legend a")
    legend = client.json("chunk-map", path=TEMPERATURE, by="commit")["legend"]
    assert legend_of(seen) == {each["label"]: each["chunks"] for each in legend}
    assert seen.parameters()["by"] == "commit"
    seen.page.focus("#chunks .map")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
        seen.page.keyboard.press(key)
    seen.page.wait_for_selector("#chunk-facts")
    index = seen.parameters()["chunk"]
    assert index == "3,0,0"
    assert facts_of(seen, "#chunk-facts")["Written by"] == str(made.second)


def test_chunks_of_all_kinds_are_told_apart(seen: Window, client: Client) -> None:
    seen.visit("browse", path=KINDS)
    assert "s3://elsewhere/file.nc" in seen.texts("#preview-problem")[0]
    assert legend_of(seen) == client.json("chunks", path=KINDS)["counts"]
    box = seen.page.locator("#chunks .map").bounding_box()
    assert box is not None
    found = client.json("chunk-map", path=KINDS)
    for place, kind in ((0, "inline"), (1, "native"), (2, "packed"), (4, "virtual")):
        row, column = divmod(place, found["columns"])
        across = box["width"] * (column + 0.5) / found["width"]
        down = box["height"] * (row + 0.5) / found["height"]
        seen.page.locator("#chunks .map").click(position={"x": across, "y": down})
        seen.page.wait_for_function(
            "kind => document.querySelector('#chunk-facts dd')?.textContent === kind", arg=kind
        )
    assert facts_of(seen, "#chunk-facts")["Object"] == "s3://elsewhere/file.nc"


def test_a_wrapped_map_shows_no_chunks_where_there_are_none(seen: Window, client: Client) -> None:
    seen.visit("browse", path=KINDS)
    found = client.json("chunk-map", path=KINDS)
    cover, frame = (
        seen.page.locator(f"#chunks {each}").bounding_box() for each in (".padding", ".map")
    )
    assert cover is not None
    assert frame is not None
    share = cover["width"] * cover["height"] / (frame["width"] * frame["height"])
    wanted = found["padding"] / (found["rows"] * found["columns"])
    assert share == pytest.approx(wanted, rel=0.1)
    assert seen.texts("#chunks .status") == ["3 rows × 3 columns"]
    seen.visit("browse", path=KINDS, window="0,2,1,3")
    assert seen.texts("#chunks .status") == ["rows 0–1 of 3 × columns 1–2 of 3"]
    assert not seen.page.locator("#chunks .padding").is_visible()


def test_two_versions_are_compared_down_to_chunks(seen: Window, client: Client, made: Made) -> None:
    seen.visit("compare")
    seen.page.fill("input[name=from]", "tag:v1")
    seen.page.fill("input[name=to]", "branch:main")
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_selector("[data-list=updated_chunks]")
    (side,) = client.json("diff", start="tag:v1", to="branch:main")["sides"]
    assert seen.texts("[data-list=new_arrays] li") == side["new_arrays"]
    assert seen.texts("[data-list=updated_chunks] summary .name") == side["updated_chunks"]["path"]
    seen.page.click(f"[data-list=updated_chunks] summary:has-text('{TEMPERATURE}')")
    seen.page.wait_for_selector(".change-map[data-state=ready]")
    seen.page.wait_for_selector(".difference-map[data-state=ready]")
    changed = seen.texts(".difference-map [data-key=changed] dd")
    assert changed == ["7,200"]  # begins at the slice that changed
    assert seen.page.input_value(".difference-map input[type=range]") == "3"
    assert legend_of(seen, ".change-map .legend li") == {"changed": 4}
    seen.visit("compare", start="branch:side", to="branch:main")
    assert seen.page.locator(".difference").count() == 2
    assert seen.texts("#between .paths > li > details > summary") == [TEMPERATURE]
    assert str(made.first)[:8] in seen.texts(".notice")[0]


def test_what_was_moved_and_edited_shows_the_lines_that_changed(browser: Browser) -> None:
    repository, before, after = make_moved(edit_first=False)
    with Server(repository, name="moved") as server, window(browser, server.url) as seen:
        seen.visit("compare", start=before, to=after)
        seen.page.wait_for_selector(".line-diff")
        lines = [
            [text.strip() for text in seen.texts(f".line-diff .{kind}")]
            for kind in ("removed", "added")
        ]
        assert lines == [["-     12"], ["+     13"]]
        assert seen.texts("[data-list=updated_arrays] .quiet .name") == ["/a"]
        assert len(seen.texts(".line-diff .same")) <= 4  # the lines around it


def test_operations_and_storage_are_shown(seen: Window, client: Client) -> None:
    seen.visit("operations")
    page = client.json("operations")
    assert seen.texts("#operations td:nth-child(2)") == page["operation"]
    seen.visit("storage")
    seen.page.click("#count")
    seen.page.wait_for_selector("#storage-totals")
    counted = client.json("storage", count="all")["counted"]
    assert seen.texts("[data-key='In files of others'] dd") == [
        f"{counted['total']['virtual_bytes']} B"
    ]
    assert {"main", "side", "v1"} <= set(seen.texts("#counted td .name"))


def test_search_is_a_key_away(seen: Window, client: Client) -> None:
    seen.visit("commits")
    seen.page.keyboard.press("/")
    seen.page.keyboard.type("time")
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_selector("#results")
    found = client.json("search", q="time")
    assert seen.parameters() == {"q": "time"}
    assert seen.texts("#results a .name") == [
        *found["paths"],
        *(each["message"].split("\n")[0] for each in found["commits"]),
    ]


def test_names_that_are_up_to_no_good_are_text(seen: Window) -> None:
    seen.visit("browse", path="/hostile")
    assert set(seen.texts(".children .name")) == set(HOSTILE)
    assert set(seen.texts(".tree [aria-level='3'] .name")) >= set()
    for name in HOSTILE:
        seen.visit("browse", path=f"/hostile/{name}")
        assert seen.texts("#node h1") == [name]
        assert name in seen.texts(".values dd")[0]
        wide = "document.documentElement.scrollWidth <= innerWidth"
        assert seen.page.evaluate(wide), name[:20]
    seen.visit("browse", path="/climate")
    assert facts_of(seen, ".values")["<b>"] == SCRIPT
    seen.visit("commits")
    assert f"All kinds {SCRIPT}" in seen.texts(".row .message > bdi")
    seen.visit("")
    assert {f"/hostile/{name}" for name in HOSTILE} <= set(seen.texts("td .name"))
    seen.page.wait_for_selector("[data-path='/kinds'] .none")  # a chunk that may not be read
    seen.visit("search", q=HOSTILE[0])
    assert seen.texts("#results a .name") == [f"/hostile/{HOSTILE[0]}"]
    assert seen.page.locator("main img[src=x], main svg[onload], main script").count() == 0


def test_a_name_from_right_to_left_does_not_turn_its_surroundings(seen: Window) -> None:
    seen.visit("browse", path=f"/hostile/{HOSTILE[2]}")
    script = "name => [name.tagName, getComputedStyle(name).unicodeBidi]"
    assert seen.page.eval_on_selector("#node h1 .name", script) == ["BDI", "isolate"]


def test_light_and_dark_are_followed_and_switched(browser: Browser, server: Server) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    shown = {}
    for dark in (False, True):
        with window(browser, server.url, dark=dark) as seen:
            seen.visit("commits")
            shown[dark] = seen.page.evaluate(ground)
            seen.page.click("#theme")
            switched = seen.page.evaluate(ground)
            assert switched != shown[dark]
            seen.page.reload()
            seen.settle()
            assert seen.page.evaluate(ground) == switched
    assert shown[False] != shown[True]


def test_the_keyboard_reaches_everything(seen: Window) -> None:
    seen.visit("storage")
    seen.page.evaluate("document.activeElement.blur()")
    reached = []
    for _ in range(14):
        seen.page.keyboard.press("Tab")
        script = "document.activeElement.id || document.activeElement.textContent"
        reached.append(seen.page.evaluate(script))
    assert reached[0] == "Skip to content"
    assert reached[2:8] == ["Overview", "Commits", "Browse", "Compare", "SQL", "Operations"]
    assert reached[8:14] == ["Storage", "version", "search", "theme", "help", "count"]
    seen.page.keyboard.press("?")
    assert seen.page.locator("dialog[open]").count() == 1
    seen.page.keyboard.press("Escape")
    assert seen.page.locator("dialog[open]").count() == 0
    for _ in range(20):  # the second key counts for a moment only: too short on a busy machine
        seen.page.keyboard.press("g")
        seen.page.keyboard.press("o")
        seen.settle()
        if seen.page.locator("#operations").count():
            break
    seen.page.wait_for_selector("#operations")


def test_back_returns_to_where_one_was(seen: Window) -> None:
    seen.visit("browse", path="/climate")
    seen.page.click(".children a >> nth=0")
    seen.page.wait_for_selector("#preview[data-state=ready]")
    seen.page.go_back()
    seen.page.wait_for_selector(".children")
    assert seen.parameters() == {"path": "/climate"}


def test_another_version_is_chosen(seen: Window, client: Client) -> None:
    seen.visit("browse", path="/")
    assert "kinds" in seen.texts(".tree .name")
    seen.page.select_option("#version", "tag:v1")
    seen.page.wait_for_function("!document.querySelector(\".tree [data-path='/kinds']\")")
    seen.settle()
    assert (
        seen.texts(".tree [aria-level='2'] > .node .name")
        == client.json("children", at="tag:v1", path="/")["name"]
    )


def test_what_is_not_there_is_said(browser: Browser, server: Server) -> None:
    page = browser.new_context().new_page()  # browsers complain of every 404
    page.goto(f"{server.url}browse?path=/nowhere")
    page.wait_for_selector("[role=alert]")
    assert "/nowhere" in page.inner_text("[role=alert]")
    page.context.close()


def test_text_cannot_become_code_even_by_mistake(browser: Browser, server: Server) -> None:
    page = browser.new_context().new_page()
    page.goto(f"{server.url}operations")
    page.wait_for_selector("#operations")
    script = (
        "() => { try { document.body.innerHTML = '<b>x</b>'; return 'ok' } catch { return 'no' } }"
    )
    assert page.evaluate(script) == "no"
    load = "() => fetch('http://127.0.0.1:9/').then(() => 'ok', () => 'no')"
    assert page.evaluate(load) == "no"
    page.context.close()


@pytest.mark.parametrize(
    "deed", ["console.error('no')", "setTimeout(() => { throw Error('no') })", "alert('no')"]
)
def test_whoever_watches_notices(browser: Browser, server: Server, deed: str) -> None:
    watched = window(browser, server.url)
    seen = watched.__enter__()
    seen.visit("operations")
    seen.page.evaluate(f"setTimeout(() => {{ {deed} }})")
    seen.page.wait_for_timeout(200)
    with pytest.raises(AssertionError, match="no"):
        watched.__exit__(None, None, None)


def test_a_repository_of_the_reference_is_shown_alike(browser: Browser, tmp_path: Path) -> None:
    repo = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path)))
    session = repo.writable_session("main")
    make_climate(session)
    first = session.commit("By the reference")
    repo.create_tag("there", first)
    with (
        Server(Repository.open(LocalStore(tmp_path)), name="reference") as running,
        window(browser, running.url) as seen,
    ):
        client = Client.of(running)
        seen.visit("commits")
        wanted = [each.message for each in repo.ancestry(branch="main")]
        assert seen.texts(".row .message > bdi") == wanted
        assert seen.texts(".row .badge") == ["main", "there"]
        seen.visit("browse", path=TEMPERATURE, by="commit")
        assert legend_of(seen) == {"By the reference": 40}
        found = client.json("preview", path=TEMPERATURE)
        assert as_number(statistics_of(seen)["mean"]) == pytest.approx(found["mean"], rel=1e-6)
        seen.visit("operations")
        assert len(seen.texts("#operations tbody tr")) == len(list(repo.ops_log()))
