"""The engine's own tests, on real servers: the same functions, with these places under them."""

from collections.abc import Callable
from itertools import compress
from pathlib import Path

import pytest

from frazil import Storage
from frazil.engine.repository import Repository
from frazil.objectstore.protocol import ObjectStore
from tests.servers.azure import AzureServer
from tests.servers.s3 import S3Server
from tests.unit.engine.conftest import array_metadata

type Server = S3Server | AzureServer


# The rest of the engine sees no difference between the two.
ON_AZURE = {"test_repository", "test_rebase"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" in metafunc.fixturenames:
        azure = ["azure_server"] if metafunc.definition.path.stem in ON_AZURE else []
        metafunc.parametrize("server", ["s3_server", *azure], indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that need no place have passed elsewhere."""
    here = Path(__file__).parent
    needed = [
        not item.path.is_relative_to(here) or "server" in getattr(item, "fixturenames", ())
        for item in items
    ]
    config.hook.pytest_deselected(items=list(compress(items, [not each for each in needed])))
    items[:] = compress(items, needed)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


@pytest.fixture
def store(server: Server) -> ObjectStore:
    return server.store(server.new_prefix())


@pytest.fixture
def storage(store: ObjectStore) -> Storage:
    return Storage(store)


@pytest.fixture
def repository(store: ObjectStore) -> Repository:
    return Repository.create(store)


@pytest.fixture
def make_array() -> Callable[..., bytes]:
    return array_metadata
