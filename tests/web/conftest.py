from collections.abc import Iterator

import pytest

from frazil.web.server import Server
from tests.web.made import Client, Made, make


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Not to be changed."""
    return make(tmp_path_factory.mktemp("explored") / "repo")


@pytest.fixture(scope="session")
def server(made: Made) -> Iterator[Server]:
    with Server(made.open(), name="made up") as running:
        yield running


@pytest.fixture(scope="session")
def client(server: Server) -> Client:
    return Client.of(server)
