"""A real browser without a window, and somebody who watches what it does."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
READY = "main[data-state=ready]"
PATIENCE_MS = 60_000  # machines that are busy with other tests


@dataclass(frozen=True, slots=True)
class Window:
    """A page of the explorer, and what happened in it that should not."""

    page: Page
    url: str
    wrong: list[str] = field(default_factory=list)

    def visit(self, page: str, **parameters: object) -> None:
        """`start` stands for `from`, which is a keyword."""
        given = {"from" if name == "start" else name: each for name, each in parameters.items()}
        self.page.goto(f"{self.url}{page}?{urlencode(given)}" if given else self.url + page)
        self.settle()

    def settle(self) -> None:
        """Until everything that the page asked for is there."""
        self.page.wait_for_selector(READY)

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_text_contents()

    def parameters(self) -> dict[str, str]:
        script = "Object.fromEntries(new URLSearchParams(location.search))"
        found: dict[str, str] = self.page.evaluate(script)
        return found


@contextmanager
def browser_of_the_system() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium on PATH: `make servers` installs it where apt-get can")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def window(browser: Browser, url: str, *, dark: bool = False) -> Iterator[Window]:
    """In which nothing may go wrong: no error, no dialog, no request to anybody else."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 820}, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    found = Window(page, url)

    def console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            found.wrong.append(f"console: {message.text}")

    def request(each: Request) -> None:
        if not each.url.startswith(url):
            found.wrong.append(f"request: {each.url}")

    def dialog(each: Dialog) -> None:
        found.wrong.append(f"dialog: {each.message}")
        each.dismiss()  # or the page would wait for ever

    page.on("console", console)
    page.on("request", request)
    page.on("pageerror", lambda error: found.wrong.append(f"error: {error}"))
    page.on("dialog", dialog)
    yield found
    context.close()
    assert found.wrong == [], found.wrong


def violations(page: Page, axe: str) -> list[str]:
    """The rules of axe-core that a page breaks, each with an element that does."""
    page.evaluate(axe)
    found: list[str] = page.evaluate(
        """axe.run(document, {resultTypes: ["violations"]}).then(found =>
  found.violations.map(each => `${each.id}: ${each.nodes[0].target}`))"""
    )
    return found
