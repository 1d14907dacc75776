"""axe-core finds nothing to complain about, in light and dark, on a phone and on a desk."""

import pytest
from playwright.sync_api import Browser

from frazil.web.server import Server
from tests.web.browsing import READY, violations
from tests.web.made import TEMPERATURE

PAGES = (
    "",
    "commits",
    "browse",
    f"browse?path={TEMPERATURE}&points=10,20;30,40",
    "compare?from=tag:v1&to=branch:main",
    "sql",
    "operations",
    "storage",
    "search?q=t",
)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 1440), ("light", 390)])
def test_axe_finds_nothing(
    browser: Browser, server: Server, axe: str, scheme: str, width: int
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
        bypass_csp=True,  # the pages allow no script but their own
    )
    page = context.new_page()
    problems = {}
    for each in PAGES:
        page.goto(server.url + each)
        page.wait_for_selector(READY)
        page.evaluate("document.querySelectorAll('.menu').forEach(menu => { menu.open = true })")
        if found := violations(page, axe):
            problems[each] = found
    context.close()
    assert problems == {}
