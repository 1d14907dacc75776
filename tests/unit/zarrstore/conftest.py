"""Sessions to look at through the Zarr face."""

import pytest

from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.objectstore.memory import MemoryStore


@pytest.fixture
def repository() -> Repository:
    return Repository.create(MemoryStore())


@pytest.fixture
def session(repository: Repository) -> Session:
    return repository.writable_session("main")
