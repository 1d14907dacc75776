from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from frazil.web.server import Server
from tests.web.browsing import Window, browser_of_the_system, window
from tests.web.made import Client, Made, make


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Not to be changed."""
    return make(tmp_path_factory.mktemp("explored") / "repo")


@pytest.fixture(scope="session")
def server(made: Made) -> Iterator[Server]:
    """Modules with a repository of their own have a server of their own."""
    with Server(made.open(), name="made up") as running:
        yield running


@pytest.fixture(scope="session")
def client(server: Server) -> Client:
    return Client.of(server)


# Of the module and no longer: while Playwright runs, no other event loop can in this thread.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browser_of_the_system() as found:
        yield found


@pytest.fixture
def seen(browser: Browser, server: Server) -> Iterator[Window]:
    """A window in which nothing may go wrong until the test has ended."""
    with window(browser, server.url) as found:
        yield found


@pytest.fixture(scope="module")
def axe() -> str:
    """The script of axe-core."""
    found = find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        pytest.skip("axe-playwright-python is not installed: it is part of the extra `test`")
    return Path(found.origin).with_name("axe.min.js").read_text()
